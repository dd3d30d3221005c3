//! Defaults of the configuration, and the keys without a default. `defaults.toml` has the fixed ones; the identity and the classes file depend on
//! the machine.

use std::path::Path;

use muster_wire::identity::Identity;
use serde_json::Value;

use super::error::{ConfigError, ConfigFault};
use super::read::ConfigReader;
use super::settings::{MergedSettings, SettingEntry, SettingOrigin};
use crate::machine::facts::hostname;

/// The paths of Puppet's classes file: Puppet's own packages, Debian's packages, and versions before 4. The first that exists is used.
const CLASSES_FILE_PATHS: [&str; 3] = [
    "/opt/puppetlabs/puppet/cache/state/classes.txt",
    "/var/cache/puppet/state/classes.txt",
    "/var/lib/puppet/state/classes.txt",
];

/// The defaults that are the same on every machine.
const DEFAULTS: &str = include_str!("defaults.toml");

/// The values that defaults depend on.
#[derive(Debug)]
pub(super) struct DetectedDefaults {
    /// The machine's full name, if it is a valid identity.
    pub(super) identity: Option<Identity>,
    pub(super) classes: &'static str,
}

impl DetectedDefaults {
    pub(super) fn detect() -> Self {
        let [.., last] = CLASSES_FILE_PATHS;
        Self {
            identity: Identity::parse(&hostname::read_host_name().fqdn()).ok(),
            classes: CLASSES_FILE_PATHS
                .into_iter()
                .find(|path| Path::new(path).exists())
                .unwrap_or(last),
        }
    }
}

/// `main` is the configuration file.
pub(super) fn set_defaults(
    reader: &mut ConfigReader,
    main: &Path,
    detected: &DetectedDefaults,
) -> Result<(), ConfigError> {
    reader.add_source(main, DEFAULTS, Some(&SettingOrigin::Default))?;
    let identity = detected.identity.clone().map(|name| ("identity", name.into()));
    for (key, value) in identity.into_iter().chain([("paths.classes", detected.classes.to_owned())])
    {
        let path = key.split('.').map(str::to_owned).collect();
        let entry = SettingEntry { value: Value::String(value), origin: SettingOrigin::Default };
        reader.settings.set(path, entry);
    }
    Ok(())
}

/// A fault for every required key that is not set, except keys whose value was already reported as invalid.
pub(super) fn missing_keys(settings: &MergedSettings, faults: &[ConfigFault]) -> Vec<ConfigFault> {
    let required = [
        ("identity", "the machine's host name is not a valid identity; set the name of the node"),
        (
            "broker.urls",
            "list the broker URLs, for example urls = [\"tls://broker.example.net:4222\"]",
        ),
        ("trust.operator", "set it to the operator's public key, which begins with `O`"),
    ];
    let is_reported = |key: &str| faults.iter().any(|fault| fault.key() == Some(key));
    required
        .into_iter()
        .filter(|(key, _)| settings.get(key).is_none() && !is_reported(key))
        .map(|(key, hint)| ConfigFault::Missing { key, hint })
        .collect()
}
