//! Cloud facts: provider, region, type, image and tags, from the metadata service that only the machine itself can reach.
//!
//! Only the listed paths are requested. User data and credentials of the machine's role are never requested: they contain secrets, possibly a
//! bootstrap token, and any authorised caller can read facts. The responder is untrusted: responses have size and time limits.

mod azure;
mod ec2;
mod gce;
mod http;
mod metadata;
mod openstack;

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::error::FactError;
pub use http::CloudError;
use http::MetadataService;
use metadata::{CloudMetadata, MAX_TAG_NAME_CHARS};

/// The name of this source in problem messages.
pub(super) const CLOUD_SOURCE: &str = "the cloud's metadata service";
/// The address that all known clouds use.
const LINK_LOCAL_URL: &str = "http://169.254.169.254";
const MAX_TEXT_CHARS: usize = 1024;
const MAX_TAGS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudProvider {
    Ec2,
    Gce,
    Azure,
    Openstack,
}

impl CloudProvider {
    /// Probe order: services that identify themselves reliably come first. `OpenStack` also replies to EC2 requests.
    const PROBE_ORDER: [Self; 4] = [Self::Gce, Self::Azure, Self::Openstack, Self::Ec2];

    /// The name in the configuration and in the fact `cloud.provider`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Gce => "gce",
            Self::Azure => "azure",
            Self::Openstack => "openstack",
        }
    }
}

#[derive(Debug, Clone)]
pub struct CloudCollector {
    /// The configured provider; `None` to detect it.
    provider: Option<CloudProvider>,
    service: MetadataService,
    /// Whether to use an EC2 service that issues no session token (IMDS version 1).
    imds_v1: bool,
    /// The detected provider. Once detected, a service that does not respond counts as a failure.
    detected: Arc<OnceLock<CloudProvider>>,
}

impl CloudCollector {
    /// The metadata service with this configured name; `auto` detects it. `None` for `off` and for unknown names.
    pub fn new(name: &str, url: Option<&str>, imds_v1: bool) -> Option<Self> {
        let configured =
            CloudProvider::PROBE_ORDER.into_iter().find(|provider| provider.as_str() == name);
        (name == "auto" || configured.is_some()).then(|| Self {
            provider: configured,
            service: MetadataService::new(url.unwrap_or(LINK_LOCAL_URL)),
            imds_v1,
            detected: Arc::default(),
        })
    }

    /// In detection mode, no response means no facts, and is not an error. Blocks.
    pub fn collect_facts(&self) -> Result<Map<String, Value>, FactError> {
        if let Some(provider) = self.provider.or_else(|| self.detected.get().copied()) {
            let metadata = self.fetch_metadata(provider)?;
            let metadata = metadata.ok_or(CloudError::NoResponse(provider.as_str()))?;
            return Ok(metadata_facts(provider, metadata));
        }
        if !self.service.is_reachable() {
            return Ok(Map::new());
        }
        for provider in CloudProvider::PROBE_ORDER {
            if let Ok(Some(metadata)) = self.fetch_metadata(provider) {
                let _ = self.detected.set(provider);
                return Ok(metadata_facts(provider, metadata));
            }
        }
        Ok(Map::new())
    }

    /// The metadata of this provider's service; `None` if the responder is another service.
    fn fetch_metadata(&self, provider: CloudProvider) -> Result<Option<CloudMetadata>, CloudError> {
        let session = self.service.start_session();
        match provider {
            CloudProvider::Ec2 => ec2::fetch_metadata(&session, self.imds_v1),
            CloudProvider::Gce => gce::fetch_metadata(&session),
            CloudProvider::Azure => Ok(azure::fetch_metadata(&session)),
            CloudProvider::Openstack => Ok(openstack::fetch_metadata(&session)),
        }
    }
}

/// One map for all clouds, plus the conventional facts of the provider.
fn metadata_facts(provider: CloudProvider, metadata: CloudMetadata) -> Map<String, Value> {
    let text = |value: String| Value::from(sanitise_text(&value, MAX_TEXT_CHARS));
    let mut cloud = Map::new();
    cloud.insert("provider".to_owned(), Value::from(provider.as_str()));
    for (name, value) in [
        ("instance_id", metadata.instance_id),
        ("hostname", metadata.hostname),
        ("region", metadata.region),
        ("zone", metadata.zone),
        ("type", metadata.kind),
        ("image", metadata.image),
        ("account", metadata.account),
        ("local_ip", metadata.local_ip),
        ("public_ip", metadata.public_ip),
    ] {
        cloud.extend(value.map(|value| (name.to_owned(), text(value))));
    }
    let tags = metadata.tags.into_iter().take(MAX_TAGS);
    let tag =
        |(name, value): (String, String)| (sanitise_text(&name, MAX_TAG_NAME_CHARS), text(value));
    let tags: Map<String, Value> = tags.map(tag).collect();
    if !tags.is_empty() {
        cloud.insert("tags".to_owned(), Value::Object(tags));
    }
    let flat = metadata.flat.into_iter().map(|(name, value)| (name, text(value)));
    flat.chain([("cloud".to_owned(), Value::Object(cloud))]).collect()
}

/// Removes control characters, which could control a terminal, and truncates.
fn sanitise_text(text: &str, max_chars: usize) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(max_chars).collect()
}

#[cfg(test)]
mod tests;
