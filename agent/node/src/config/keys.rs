//! The table of all configuration keys and the kinds of their values. Contains no values.

use muster_base::nearest_name;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigValueKind {
    Identity,
    /// At least one collective name.
    Names,
    /// At least one broker URL, without user name or password in it.
    Urls,
    /// The public key of an operator.
    Operator,
    /// A path, relative to the file that contains it.
    Path,
    /// A path, or empty for none.
    OptionalPath,
    Flag,
    /// An integer in this inclusive range.
    Number(u64, u64),
    /// A list of dotted paths of facts, in which `*` stands for any one segment.
    FactPatterns,
    /// Permission bits of a file in octal digits, such as `0640`: the owner can write, others can at most read.
    Mode,
    /// A name, or empty for none.
    OptionalName,
    /// An address and port to listen on, or only a port for loopback; empty for none.
    OptionalAddress,
    /// An HTTP URL with a loopback, link-local or IPv6 unique local address; empty for none.
    OptionalLinkUrl,
    Choice(&'static [&'static str]),
}

/// What a dotted path matches in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMatch {
    Value(ConfigValueKind),
    /// A table that contains known keys.
    Table,
    /// Below `plugins.<name>`: the plugin validates it.
    Free,
    Unknown,
}

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The keys in display order. A `*` matches any one name.
pub(super) const CONFIG_KEYS: &[(&str, ConfigValueKind)] = &[
    ("identity", ConfigValueKind::Identity),
    ("collectives", ConfigValueKind::Names),
    ("broker.urls", ConfigValueKind::Urls),
    ("broker.ca", ConfigValueKind::OptionalPath),
    ("broker.credentials", ConfigValueKind::Path),
    ("broker.plaintext_on_loopback", ConfigValueKind::Flag),
    ("broker.follow", ConfigValueKind::Flag),
    ("broker.reconnect_spread_seconds", ConfigValueKind::Number(1, 600)),
    ("trust.operator", ConfigValueKind::Operator),
    ("trust.account", ConfigValueKind::Path),
    ("trust.max_age_seconds", ConfigValueKind::Number(0, 365 * DAY_SECONDS)),
    ("paths.state", ConfigValueKind::Path),
    ("paths.facts_d", ConfigValueKind::Path),
    ("paths.classes", ConfigValueKind::Path),
    ("paths.policies", ConfigValueKind::Path),
    ("paths.ddls", ConfigValueKind::Path),
    ("paths.audit", ConfigValueKind::Path),
    ("paths.root", ConfigValueKind::Path),
    ("facts.refresh_seconds", ConfigValueKind::Number(1, DAY_SECONDS)),
    ("facts.facter", ConfigValueKind::OptionalPath),
    ("facts.cloud", ConfigValueKind::Choice(&["off", "auto", "ec2", "gce", "azure", "openstack"])),
    ("facts.cloud_url", ConfigValueKind::OptionalLinkUrl),
    ("facts.cloud_imds_v1", ConfigValueKind::Flag),
    ("limits.concurrency", ConfigValueKind::Number(1, 10_000)),
    ("limits.queue", ConfigValueKind::Number(0, 1_000_000)),
    ("limits.output_bytes", ConfigValueKind::Number(1024, 900 * 1024)),
    ("limits.agents.*.concurrency", ConfigValueKind::Number(1, 10_000)),
    ("limits.agents.*.queue", ConfigValueKind::Number(0, 1_000_000)),
    ("limits.agents.*.output_bytes", ConfigValueKind::Number(1024, 900 * 1024)),
    ("requests.skew_seconds", ConfigValueKind::Number(0, DAY_SECONDS)),
    ("requests.plain_secrets", ConfigValueKind::Flag),
    ("policy.default", ConfigValueKind::Choice(&["deny", "allow"])),
    ("policy.tell_rules", ConfigValueKind::Flag),
    ("policy.approve_dangerous", ConfigValueKind::Flag),
    ("audit.fail_closed", ConfigValueKind::Flag),
    ("audit.fail_closed_root", ConfigValueKind::Flag),
    ("audit.max_bytes", ConfigValueKind::Number(0, 1 << 50)),
    ("audit.keep", ConfigValueKind::Number(1, 10_000)),
    ("audit.mode", ConfigValueKind::Mode),
    ("audit.group", ConfigValueKind::OptionalName),
    ("audit.checkpoint_lines", ConfigValueKind::Number(1, 1_000_000)),
    ("audit.checkpoint_seconds", ConfigValueKind::Number(1, DAY_SECONDS)),
    ("log.level", ConfigValueKind::Choice(&["error", "warn", "info", "debug", "trace"])),
    ("log.format", ConfigValueKind::Choice(&["text", "json"])),
    ("metrics.listen", ConfigValueKind::OptionalAddress),
    ("registration.enabled", ConfigValueKind::Flag),
    ("registration.heartbeat_seconds", ConfigValueKind::Number(1, 3600)),
    ("registration.refresh_seconds", ConfigValueKind::Number(1, DAY_SECONDS)),
    ("registration.min_interval_seconds", ConfigValueKind::Number(0, DAY_SECONDS)),
    ("registration.state_interval_seconds", ConfigValueKind::Number(0, DAY_SECONDS)),
    ("registration.volatile_facts", ConfigValueKind::FactPatterns),
    ("registration.excluded_facts", ConfigValueKind::FactPatterns),
    ("registration.hashed_facts", ConfigValueKind::FactPatterns),
    ("registration.yield_to_older", ConfigValueKind::Flag),
    ("drain.seconds", ConfigValueKind::Number(0, DAY_SECONDS)),
    ("provisioning.credentials", ConfigValueKind::OptionalPath),
    ("provisioning.account", ConfigValueKind::Path),
];

/// Options of plugins that are paths of files. The plugins check them; like the other paths they are relative to the file that
/// contains them.
const PLUGIN_PATHS: &[(&str, &[&str])] = &[
    ("catalog", &["state_dir"]),
    ("compiler", &["credentials", "secret_key"]),
    ("gateway", &["credentials", "certificate", "key", "ca", "crl"]),
    ("history", &["credentials"]),
    ("puppetdb", &["ca", "certificate", "key"]),
    ("schedule", &["credentials"]),
    ("directory", &["credentials", "http.socket", "http.certificate", "http.key", "http.tokens"]),
    ("external", &["paths"]),
    ("provision", &["hosts"]),
    (
        "puppet",
        &[
            "catalog",
            "manifest",
            "confdir",
            "codedir",
            "vardir",
            "rundir",
            "logdir",
            "publicdir",
            "ssldir",
            "state_dir",
            "engine_dir",
        ],
    ),
    ("puppetca", &["ca", "cert", "key", "cadir"]),
    ("puppetral", &["resources_file", "state_dir", "types_dir", "lock"]),
];

/// Whether this is an option of a plugin with a path, or a list of paths.
pub(super) fn is_plugin_path(path: &[String]) -> bool {
    let [plugins, plugin, option @ ..] = path else { return false };
    let option = option.join(".");
    let mut paths = PLUGIN_PATHS.iter();
    plugins == "plugins"
        && paths.any(|(name, options)| name == plugin && options.contains(&option.as_str()))
}

pub(super) fn match_key(path: &[String]) -> KeyMatch {
    if path.first().is_some_and(|first| first == "plugins") {
        return if path.len() < 2 { KeyMatch::Table } else { KeyMatch::Free };
    }
    let mut found = KeyMatch::Unknown;
    for (known, kind) in CONFIG_KEYS {
        match remaining_segments(known, path) {
            Some(0) => return KeyMatch::Value(*kind),
            Some(_) => found = KeyMatch::Table,
            None => {}
        }
    }
    found
}

/// The number of segments of `known` after `path`; `None` if `path` is not a prefix of it.
fn remaining_segments(known: &str, path: &[String]) -> Option<usize> {
    let mut segments = known.split('.');
    for given in path {
        let segment = segments.next()?;
        if segment != "*" && segment != given {
            return None;
        }
    }
    Some(segments.count())
}

/// The known key most similar to an unknown one, if any is similar enough.
pub(super) fn nearest_key(unknown: &str) -> Option<String> {
    nearest_name(unknown, CONFIG_KEYS.iter().map(|(known, _)| *known))
}

#[cfg(test)]
mod tests {
    use super::{ConfigValueKind, KeyMatch, is_plugin_path, match_key, nearest_key};

    fn look(path: &str) -> KeyMatch {
        match_key(&path.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn classifies_keys() {
        assert_eq!(look("broker.ca"), KeyMatch::Value(ConfigValueKind::OptionalPath));
        assert_eq!(look("broker"), KeyMatch::Table);
        assert_eq!(look("limits.agents.service"), KeyMatch::Table);
        assert_eq!(
            look("limits.agents.service.queue"),
            KeyMatch::Value(ConfigValueKind::Number(0, 1_000_000))
        );
        assert_eq!(look("plugins"), KeyMatch::Table);
        assert_eq!(look("plugins.x.y.z"), KeyMatch::Free);
        for unknown in ["brokers", "broker.ca.x", "limits.agents.service.depth"] {
            assert_eq!(look(unknown), KeyMatch::Unknown, "{unknown}");
        }
    }

    #[test]
    fn recognises_paths_of_plugins() {
        let is_path =
            |key: &str| is_plugin_path(&key.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert!(is_path("plugins.puppetral.types_dir") && is_path("plugins.external.paths"));
        assert!(is_path("plugins.directory.credentials") && is_path("plugins.directory.http.key"));
        for other in [
            "plugins.puppetral.ruby",
            "plugins.x.types_dir",
            "plugins.puppetral",
            "plugins.x.http.key",
        ] {
            assert!(!is_path(other), "{other}");
        }
    }

    #[test]
    fn suggests_the_nearest_key() {
        assert_eq!(nearest_key("broker.url"), Some("broker.urls".to_owned()));
        assert_eq!(nearest_key("requests.skew"), Some("requests.skew_seconds".to_owned()));
        assert_eq!(nearest_key("indentity"), Some("identity".to_owned()));
        assert_eq!(nearest_key("zzz"), None);
    }
}
