//! The daemon's configuration: `/etc/muster/rpcd.toml`, then `conf.d/*.toml` beside it by name; later values win.
//!
//! Every value has a recorded origin; an invalid value is an error with file, line and key. An unknown key is a warning. Paths are relative to the
//! file that contains them. Environment variables have no effect. The configuration contains paths to secrets, never secrets.

mod defaults;
mod error;
mod keys;
mod read;
mod report;
mod settings;
mod state_paths;
mod values;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use muster_api::{PluginError, PluginResult};
use muster_bus::{BrokerAddress, BrokerFollower, BrokerPlace};
use muster_files::read_limited_text;
use muster_host::external::ExternalOptions;
use muster_wire::identity::{Identity, SubjectName};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

pub use error::{ConfigError, ConfigFault, ConfigWarning};
pub use settings::SettingOrigin;
pub use state_paths::RENEWED_TOKEN_FILE;
pub use values::{
    AuditConfig, BrokerConfig, ConfigValues, DrainConfig, FactsConfig, LimitsConfig, LogConfig,
    LogFormat, MetricsConfig, PathsConfig, PluginSections, PolicyConfig, PolicyOptions,
    ProvisioningConfig, RegistrationConfig, RequestsConfig, TrustConfig,
};

use defaults::DetectedDefaults;
use read::ConfigReader;
use settings::{MergedSettings, SettingEntry};

use crate::ground::files;
use crate::machine::facts::{CloudCollector, FactSources};

/// The configuration file unless `--config` names another.
pub const DEFAULT_PATH: &str = "/etc/muster/rpcd.toml";

const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Dereferences to [`ConfigValues`]: `config.broker.urls`.
#[derive(Debug, Clone)]
pub struct Config {
    values: ConfigValues,
    settings: MergedSettings,
    warnings: Vec<ConfigWarning>,
    given_facts: BTreeMap<String, String>,
    files: Vec<PathBuf>,
    /// Later addresses of the broker, for connections of a running daemon.
    broker_addresses: Option<watch::Receiver<Vec<BrokerAddress>>>,
}

impl Deref for Config {
    type Target = ConfigValues;

    fn deref(&self) -> &ConfigValues {
        &self.values
    }
}

#[derive(Debug)]
pub struct EnrolledValues {
    pub identity: Identity,
    /// Its collectives; empty if none were set.
    pub collectives: Vec<SubjectName>,
    /// Facts from its bootstrap token.
    pub facts: BTreeMap<String, String>,
    pub credentials: PathBuf,
    pub account: PathBuf,
}

/// The options of a plugin in the section `[plugins.NAME]`, which may be absent.
pub fn parse_section<O: DeserializeOwned>(
    plugin: &'static str,
    sections: &PluginSections,
) -> PluginResult<O> {
    let section = sections.get(plugin).cloned().unwrap_or_default();
    serde_json::from_value(Value::Object(section))
        .map_err(|source| PluginError::Section { plugin, source })
}

impl Config {
    /// Whether the table of a plugin that is off by default has `enabled = true`.
    pub fn enables_plugin(&self, name: &str) -> bool {
        self.plugins.get(name).and_then(|table| table.get("enabled")) == Some(&true.into())
    }

    /// The options of external agents, `[plugins.external]`.
    pub fn external_options(&self) -> PluginResult<ExternalOptions> {
        parse_section("external", &self.plugins)
    }

    /// Reads the file and those in `conf.d` beside it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_replacing(path, &BTreeMap::new())
    }

    /// Like [`Self::load`], with different contents of the files in `conf.d` that have these names; the content `None` leaves a file out.
    pub fn load_replacing(
        path: &Path,
        replaced: &BTreeMap<String, Option<String>>,
    ) -> Result<Self, ConfigError> {
        let read_error = |source| ConfigError::Read { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(read_error)?;
        let directory = path.with_file_name("conf.d");
        let mut extras: BTreeMap<PathBuf, Option<String>> =
            extra_files(&directory)?.into_iter().map(|path| (path, None)).collect();
        for (name, text) in replaced {
            extras.remove(&directory.join(name));
            extras.extend(text.clone().map(|text| (directory.join(name), Some(text))));
        }
        let mut files = vec![(path.clone(), read_file(&path)?)];
        for (extra, text) in extras {
            let text = text.map_or_else(|| read_file(&extra), Ok)?;
            files.push((extra, text));
        }
        Self::merge_files(&path, &DetectedDefaults::detect(), &files)
    }

    /// The state directory, also if other settings are missing or invalid: those of a later version are, for an earlier one.
    pub fn find_state_directory(path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        let mut reader = ConfigReader::default();
        defaults::set_defaults(&mut reader, &path, &DetectedDefaults::detect()).ok()?;
        let extras = extra_files(&path.with_file_name("conf.d")).unwrap_or_default();
        for file in [path].into_iter().chain(extras) {
            if let Ok(text) = read_file(&file) {
                // What was read before the error counts, as in a file without one.
                let _ = reader.add_file(&file, &text);
            }
        }
        Some(PathBuf::from(reader.settings.get("paths.state")?.value.as_str()?))
    }

    /// Merges files, given as path and text, over the defaults.
    fn merge_files(
        main: &Path,
        detected: &DetectedDefaults,
        files: &[(PathBuf, String)],
    ) -> Result<Self, ConfigError> {
        let mut reader = ConfigReader::default();
        defaults::set_defaults(&mut reader, main, detected)?;
        for (path, text) in files {
            reader.add_file(path, text)?;
        }
        let ConfigReader { settings, mut faults, warnings } = reader;
        faults.extend(defaults::missing_keys(&settings, &faults));
        if !faults.is_empty() {
            return Err(ConfigError::Invalid(faults));
        }
        let tree = settings.to_tree(|_, value| value.clone());
        let values = serde_json::from_value(tree)
            .map_err(|error| ConfigError::Invalid(vec![ConfigFault::Merged(error)]))?;
        Ok(Self {
            values,
            settings,
            warnings,
            given_facts: BTreeMap::new(),
            broker_addresses: None,
            files: files
                .iter()
                .map(|(path, _)| path.clone())
                .chain([main.with_file_name("conf.d")])
                .collect(),
        })
    }

    /// The configuration of an enrolled machine: enrolment values replace defaults but not configured values, and credentials and account are those
    /// of the enrolment.
    #[must_use]
    pub fn with_enrolled(&self, enrolled: EnrolledValues) -> Self {
        let mut config = self.clone();
        let path = |path: &Path| Value::String(path.to_string_lossy().into_owned());
        config.set_enrolled("broker.credentials", path(&enrolled.credentials));
        config.values.broker.credentials = enrolled.credentials;
        config.set_enrolled("trust.account", path(&enrolled.account));
        config.values.trust.account = enrolled.account;
        if self.is_default("identity") {
            config.set_enrolled("identity", Value::from(enrolled.identity.as_str()));
            config.values.identity = enrolled.identity;
        }
        if self.is_default("collectives") && !enrolled.collectives.is_empty() {
            let names = enrolled.collectives.iter().map(SubjectName::as_str);
            config.set_enrolled("collectives", names.collect());
            config.values.collectives = enrolled.collectives;
        }
        config.given_facts = enrolled.facts;
        config
    }

    pub fn fact_sources(&self) -> FactSources {
        let facts = &self.facts;
        FactSources {
            identity: self.identity.clone(),
            facts_d: self.paths.facts_d.clone(),
            facter: facts.facter.clone(),
            cloud: CloudCollector::new(
                &facts.cloud,
                facts.cloud_url.as_deref(),
                facts.cloud_imds_v1,
            ),
            given: self.given_facts.clone(),
        }
    }

    /// What differs from the files comes from the account token.
    #[must_use]
    pub fn with_broker(&self, place: BrokerPlace) -> Self {
        let mut config = self.clone();
        if place.urls != config.broker.urls {
            config.set("broker.urls", place.urls.iter().cloned().collect(), SettingOrigin::Account);
            config.values.broker.urls = place.urls;
        }
        if let Some(authority) =
            place.authority.filter(|path| Some(path) != config.broker.ca.as_ref())
        {
            let text = authority.to_string_lossy().into_owned();
            config.set("broker.ca", Value::String(text), SettingOrigin::Account);
            config.values.broker.ca = Some(authority);
        }
        config
    }

    /// Follows the broker from where this configuration says that it is, with files in the state directory. `None` if the node does not follow it.
    pub fn broker_follower(&self) -> Option<BrokerFollower> {
        let broker = &self.broker;
        let place = BrokerPlace { urls: broker.urls.clone(), authority: broker.ca.clone() };
        let directory = self.paths.state.clone();
        broker.follow.then(|| BrokerFollower::new(directory, place, broker.plaintext_on_loopback))
    }

    /// Gives connections the addresses that are found while the daemon runs.
    pub fn follow_addresses(&mut self, addresses: watch::Receiver<Vec<BrokerAddress>>) {
        self.broker_addresses = Some(addresses);
    }

    /// Later addresses of the broker; `None` if the daemon does not follow it.
    pub fn broker_addresses(&self) -> Option<watch::Receiver<Vec<BrokerAddress>>> {
        self.broker_addresses.clone()
    }

    fn set_enrolled(&mut self, key: &str, value: Value) {
        self.set(key, value, SettingOrigin::Enrolled);
    }

    fn set(&mut self, key: &str, value: Value, origin: SettingOrigin) {
        let path = key.split('.').map(str::to_owned).collect();
        self.settings.set(path, SettingEntry { value, origin });
    }

    /// Whether no file sets this key.
    pub fn is_default(&self, key: &str) -> bool {
        self.origin(key).is_none_or(|origin| *origin == SettingOrigin::Default)
    }

    /// Facts from the enrolment of the node.
    pub fn given_facts(&self) -> &BTreeMap<String, String> {
        &self.given_facts
    }

    /// The files that were read, and the directory of further ones.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The dotted keys to which files give another value in the other configuration.
    pub fn changed_settings(&self, other: &Self) -> Vec<String> {
        self.settings.changed_keys(&other.settings)
    }

    /// Ignored keys, to be logged once at start.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// The origin of the value of a dotted key; `None` if it is not set.
    pub fn origin(&self, key: &str) -> Option<&SettingOrigin> {
        self.settings.get(key).map(|setting| &setting.origin)
    }

    /// The value or table at a dotted key (`broker.urls`, `plugins.x.y`); values in a plugin's table that look like secrets are redacted. For
    /// display only.
    pub fn redacted_item(&self, key: &str) -> Option<Value> {
        let tree = self.settings.to_tree(report::redact_setting);
        let found = key.split('.').try_fold(&tree, |value, segment| value.get(segment))?;
        Some(found.clone())
    }

    /// All values with their origins, for `rpcd --check`.
    pub fn check_report(&self) -> String {
        report::render_report(&self.settings, &self.warnings)
    }
}

/// The files of `conf.d`.
fn extra_files(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    files::list_files(directory, "toml")
        .map_err(|source| ConfigError::Read { path: directory.to_owned(), source })
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    let read = File::open(path).and_then(|file| read_limited_text(file, MAX_FILE_BYTES));
    read.map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => {
            ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES }
        }
        _ => ConfigError::Read { path: path.to_owned(), source },
    })
}

#[cfg(test)]
mod tests;
