//! What the cloud says of this machine: provider, region, type, image, tags; from the metadata service that only the machine itself
//! can ask.
//!
//! Only what is named here is asked for. User data and credentials of the machine's role are never: they hold secrets, a bootstrap
//! token perhaps, and facts are told to whoever may ask. Who answers is not believed more than needed: answers are short, and come in
//! time, or there are none.

mod azure;
mod ec2;
mod gce;
mod http;
mod openstack;

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::error::FactError;
use http::MetadataService;

/// The name of this source, as in problems.
pub(super) const CLOUD_SOURCE: &str = "the cloud's metadata service";
/// Where all of the known clouds have it.
const LINK_LOCAL_URL: &str = "http://169.254.169.254";
/// Longest text of a fact, in characters.
const MAX_TEXT_CHARS: usize = 1024;
/// Longest name of a tag, in characters.
const MAX_TAG_NAME_CHARS: usize = 128;
/// Most tags.
const MAX_TAGS: usize = 64;

/// Who runs the machine that this machine is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudProvider {
    /// Amazon's.
    Ec2,
    /// Google's.
    Gce,
    /// Microsoft's.
    Azure,
    /// Somebody's own.
    Openstack,
}

impl CloudProvider {
    /// In the order in which they are tried: those first that say for certain who they are. `OpenStack` answers Amazon's questions too.
    const PROBE_ORDER: [Self; 4] = [Self::Gce, Self::Azure, Self::Openstack, Self::Ec2];

    /// The word in the configuration, and in the fact `cloud.provider`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Gce => "gce",
            Self::Azure => "azure",
            Self::Openstack => "openstack",
        }
    }
}

/// The metadata service to ask.
#[derive(Debug, Clone)]
pub struct CloudCollector {
    /// Whose it is; nothing to find out.
    provider: Option<CloudProvider>,
    service: MetadataService,
    /// Whether a service of Amazon's is asked that gives no session token.
    imds_v1: bool,
    /// Whose it was found to be. What was there once is missing when it does not answer.
    found: Arc<OnceLock<CloudProvider>>,
}

/// What a service says, before it becomes facts.
#[derive(Debug, Default, PartialEq, Eq)]
struct CloudMetadata {
    instance_id: Option<String>,
    hostname: Option<String>,
    region: Option<String>,
    zone: Option<String>,
    kind: Option<String>,
    image: Option<String>,
    account: Option<String>,
    local_ip: Option<String>,
    public_ip: Option<String>,
    tags: Vec<(String, String)>,
    /// Facts by names that the field uses, beside `cloud`.
    flat: Vec<(String, String)>,
}

impl CloudCollector {
    /// The service of the cloud that this word names; `auto` finds out which. Nothing for `off`, and for a word that is none.
    pub fn new(word: &str, url: Option<&str>, imds_v1: bool) -> Option<Self> {
        let named = CloudProvider::PROBE_ORDER
            .into_iter()
            .find(|provider| provider.as_str() == word);
        (word == "auto" || named.is_some()).then(|| Self {
            provider: named,
            service: MetadataService::new(url.unwrap_or(LINK_LOCAL_URL)),
            imds_v1,
            found: Arc::default(),
        })
    }

    /// Asks. Where it has to find out and nobody is there, there are no facts, and that is no problem. Blocks.
    pub(super) fn collect_facts(&self) -> Result<Map<String, Value>, FactError> {
        let missing = |problem: String| FactError::Cloud { problem };
        if let Some(provider) = self.provider.or_else(|| self.found.get().copied()) {
            let told = self.fetch_metadata(provider).map_err(missing)?;
            let nobody = || missing(format!("nobody answers as {} does", provider.as_str()));
            return Ok(metadata_facts(provider, told.ok_or_else(nobody)?));
        }
        if !self.service.is_reachable() {
            return Ok(Map::new());
        }
        for provider in CloudProvider::PROBE_ORDER {
            if let Ok(Some(told)) = self.fetch_metadata(provider) {
                let _ = self.found.set(provider);
                return Ok(metadata_facts(provider, told));
            }
        }
        Ok(Map::new())
    }

    /// What this provider's service says; nothing if whoever is there is not it.
    fn fetch_metadata(&self, provider: CloudProvider) -> Result<Option<CloudMetadata>, String> {
        let session = self.service.start_session();
        match provider {
            CloudProvider::Ec2 => ec2::fetch_metadata(&session, self.imds_v1),
            CloudProvider::Gce => gce::fetch_metadata(&session),
            CloudProvider::Azure => Ok(azure::fetch_metadata(&session)),
            CloudProvider::Openstack => Ok(openstack::fetch_metadata(&session)),
        }
    }
}

/// One map for all clouds, and beside it what the field knows under its own names.
fn metadata_facts(provider: CloudProvider, told: CloudMetadata) -> Map<String, Value> {
    let mut cloud = Map::new();
    cloud.insert("provider".to_owned(), Value::from(provider.as_str()));
    for (name, value) in [
        ("instance_id", told.instance_id),
        ("hostname", told.hostname),
        ("region", told.region),
        ("zone", told.zone),
        ("type", told.kind),
        ("image", told.image),
        ("account", told.account),
        ("local_ip", told.local_ip),
        ("public_ip", told.public_ip),
    ] {
        cloud.extend(value.map(|value| {
            (
                name.to_owned(),
                Value::from(sanitise_text(&value, MAX_TEXT_CHARS)),
            )
        }));
    }
    let tags = told.tags.into_iter().take(MAX_TAGS);
    let tags: Map<String, Value> = tags
        .map(|(name, value)| {
            (
                sanitise_text(&name, MAX_TAG_NAME_CHARS),
                Value::from(sanitise_text(&value, MAX_TEXT_CHARS)),
            )
        })
        .collect();
    if !tags.is_empty() {
        cloud.insert("tags".to_owned(), Value::Object(tags));
    }
    let flat = told.flat.into_iter();
    let mut facts: Map<String, Value> = flat
        .map(|(name, value)| (name, Value::from(sanitise_text(&value, MAX_TEXT_CHARS))))
        .collect();
    facts.insert("cloud".to_owned(), Value::Object(cloud));
    facts
}

/// Without what could steer a terminal, and not endless.
fn sanitise_text(text: &str, most: usize) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(most).collect()
}

/// A zone without the letter at its end, as Amazon and others name the region.
fn region_of_zone(zone: &str) -> Option<String> {
    let letter = |c: char| c.is_ascii_lowercase();
    let region = zone.strip_suffix(letter)?;
    region
        .ends_with(|c: char| c.is_ascii_digit())
        .then(|| region.to_owned())
}

#[cfg(test)]
mod tests;
