//! Defaults of the configuration, and the keys without a default. Muster's own files are searched beside the configuration, the classes file at the
//! paths of Puppet's packages.

use std::path::Path;

use muster_wire::identity::Identity;
use serde_json::{Value, json};

use super::error::ConfigFault;
use super::read::absolute_path;
use super::settings::{MergedSettings, SettingEntry, SettingOrigin};
use crate::facts::hostname;

/// The paths of Puppet's classes file: Puppet's own packages, Debian's packages, and versions before 4. The first that exists is used.
const CLASSES_FILE_PATHS: [&str; 3] = [
    "/opt/puppetlabs/puppet/cache/state/classes.txt",
    "/var/cache/puppet/state/classes.txt",
    "/var/lib/puppet/state/classes.txt",
];

/// The values that defaults depend on.
#[derive(Debug)]
pub(super) struct DetectedDefaults {
    /// The machine's full name, if it is a valid identity.
    pub(super) identity: Option<Identity>,
    /// The path of the classes file.
    pub(super) classes: &'static str,
}

impl DetectedDefaults {
    /// Detects the values of this machine.
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

/// Sets every default; `main` is the configuration file.
pub(super) fn set_defaults(
    settings: &mut MergedSettings,
    main: &Path,
    detected: &DetectedDefaults,
) {
    let beside = |name: &str| Value::String(absolute_path(main, name));
    let identity = detected.identity.clone().map(|name| ("identity", Value::String(name.into())));
    let fixed = [
        ("collectives", json!(["muster"])),
        ("broker.ca", Value::Null),
        ("broker.credentials", beside("node.creds")),
        ("broker.plaintext_on_loopback", json!(false)),
        ("trust.account", beside("account.jwt")),
        ("trust.max_age_seconds", json!(0)),
        ("paths.state", json!("/var/lib/muster")),
        ("paths.facts_d", beside("facts.d")),
        ("paths.classes", json!(detected.classes)),
        ("paths.policies", beside("policies")),
        ("paths.ddls", beside("ddl")),
        ("paths.audit", json!("/var/log/muster/audit.log")),
        ("paths.root", json!("/")),
        ("facts.refresh_seconds", json!(300)),
        ("facts.facter", Value::Null),
        ("facts.cloud", json!("off")),
        ("facts.cloud_url", Value::Null),
        ("facts.cloud_imds_v1", json!(false)),
        ("limits.concurrency", json!(10)),
        ("limits.queue", json!(100)),
        ("limits.output_bytes", json!(512 * 1024)),
        ("requests.skew_seconds", json!(30)),
        ("requests.plain_secrets", json!(false)),
        ("policy.default", json!("deny")),
        ("policy.tell_rules", json!(true)),
        ("policy.approve_dangerous", json!(false)),
        ("audit.fail_closed", json!(false)),
        ("audit.max_bytes", json!(100 * 1024 * 1024)),
        ("audit.keep", json!(10)),
        ("audit.mode", json!("0640")),
        ("audit.group", Value::Null),
        ("audit.checkpoint_lines", json!(1000)),
        ("audit.checkpoint_seconds", json!(60)),
        ("log.level", json!("info")),
        ("log.format", json!("text")),
        ("metrics.listen", Value::Null),
        ("drain.seconds", json!(30)),
        ("provisioning.credentials", Value::Null),
        ("provisioning.account", beside("newcomers.jwt")),
    ];
    for (key, value) in fixed.into_iter().chain(identity) {
        let path = key.split('.').map(str::to_owned).collect();
        settings.set(path, SettingEntry { value, origin: SettingOrigin::Default });
    }
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
