//! Every key that a configuration file may hold, and what its value must be. The one table; no values here.

/// What a key's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A node's name.
    Identity,
    /// At least one name of a collective.
    Names,
    /// At least one broker URL, without user name or password in it.
    Urls,
    /// The public key of an operator.
    Operator,
    /// A path, relative to the file that holds it.
    Path,
    /// The same, or empty for none.
    OptionalPath,
    /// Yes or no.
    Flag,
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// Permission bits of a file in octal digits, as `0640`: the owner writes, others read at most.
    Mode,
    /// A name, or empty for none.
    OptionalName,
    /// An address and a port to listen on, or only a port for this machine alone; empty for none.
    OptionalAddress,
    /// An HTTP URL of this machine, or of the link that it is on, by address; empty for none.
    OptionalLinkUrl,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// What a dotted path is to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A key with a value of this kind.
    Value(Kind),
    /// A table that holds known keys.
    Table,
    /// Below `plugins.<name>`: whatever the plugin makes of it.
    Free,
    /// Nothing that we know.
    Unknown,
}

const DAY: u64 = 24 * 60 * 60;

/// The keys in the order in which they are shown. A `*` stands for any one name.
pub(super) const KEYS: &[(&str, Kind)] = &[
    ("identity", Kind::Identity),
    ("collectives", Kind::Names),
    ("broker.urls", Kind::Urls),
    ("broker.ca", Kind::OptionalPath),
    ("broker.credentials", Kind::Path),
    ("broker.plaintext_on_loopback", Kind::Flag),
    ("trust.operator", Kind::Operator),
    ("trust.account", Kind::Path),
    ("trust.max_age_seconds", Kind::Number(0, 365 * DAY)),
    ("paths.state", Kind::Path),
    ("paths.facts_d", Kind::Path),
    ("paths.classes", Kind::Path),
    ("paths.policies", Kind::Path),
    ("paths.ddls", Kind::Path),
    ("paths.audit", Kind::Path),
    ("paths.root", Kind::Path),
    ("facts.refresh_seconds", Kind::Number(1, DAY)),
    ("facts.facter", Kind::OptionalPath),
    (
        "facts.cloud",
        Kind::Word(&["off", "auto", "ec2", "gce", "azure", "openstack"]),
    ),
    ("facts.cloud_url", Kind::OptionalLinkUrl),
    ("facts.cloud_imds_v1", Kind::Flag),
    ("limits.concurrency", Kind::Number(1, 10_000)),
    ("limits.queue", Kind::Number(0, 1_000_000)),
    ("limits.output_bytes", Kind::Number(1024, 900 * 1024)),
    ("limits.agents.*.concurrency", Kind::Number(1, 10_000)),
    ("limits.agents.*.queue", Kind::Number(0, 1_000_000)),
    (
        "limits.agents.*.output_bytes",
        Kind::Number(1024, 900 * 1024),
    ),
    ("requests.skew_seconds", Kind::Number(0, DAY)),
    ("requests.plain_secrets", Kind::Flag),
    ("policy.default", Kind::Word(&["deny", "allow"])),
    ("policy.tell_rules", Kind::Flag),
    ("policy.approve_dangerous", Kind::Flag),
    ("audit.fail_closed", Kind::Flag),
    ("audit.max_bytes", Kind::Number(0, 1 << 50)),
    ("audit.keep", Kind::Number(1, 10_000)),
    ("audit.mode", Kind::Mode),
    ("audit.group", Kind::OptionalName),
    ("audit.checkpoint_lines", Kind::Number(1, 1_000_000)),
    ("audit.checkpoint_seconds", Kind::Number(1, DAY)),
    (
        "log.level",
        Kind::Word(&["error", "warn", "info", "debug", "trace"]),
    ),
    ("log.format", Kind::Word(&["text", "json"])),
    ("metrics.listen", Kind::OptionalAddress),
    ("drain.seconds", Kind::Number(0, DAY)),
    ("provisioning.credentials", Kind::OptionalPath),
    ("provisioning.account", Kind::Path),
];

/// Looks a path up.
pub(super) fn place(path: &[String]) -> Place {
    if path.first().is_some_and(|first| first == "plugins") {
        return if path.len() < 2 {
            Place::Table
        } else {
            Place::Free
        };
    }
    let mut found = Place::Unknown;
    for (known, kind) in KEYS {
        match compare(known, path) {
            Some(0) => return Place::Value(*kind),
            Some(_) => found = Place::Table,
            None => {}
        }
    }
    found
}

/// How many segments `known` goes on after `path`; nothing if it does not begin with it.
fn compare(known: &str, path: &[String]) -> Option<usize> {
    let mut segments = known.split('.');
    for given in path {
        let segment = segments.next()?;
        if segment != "*" && segment != given {
            return None;
        }
    }
    Some(segments.count())
}

/// The known key that looks most like an unknown one, if any looks like it at all.
pub(super) fn nearest(unknown: &str) -> Option<&'static str> {
    /// Below this two keys have nothing to do with each other (Jaro-Winkler, 0 to 1).
    const SIMILAR: f64 = 0.85;
    KEYS.iter()
        .map(|(known, _)| (*known, strsim::jaro_winkler(known, unknown)))
        .filter(|(_, likeness)| *likeness >= SIMILAR)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(known, _)| known)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Place, nearest, place};

    fn look(path: &str) -> Place {
        place(&path.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn paths_are_values_tables_free_or_unknown() {
        assert_eq!(look("broker.ca"), Place::Value(Kind::OptionalPath));
        assert_eq!(look("broker"), Place::Table);
        assert_eq!(look("limits.agents.service"), Place::Table);
        assert_eq!(
            look("limits.agents.service.queue"),
            Place::Value(Kind::Number(0, 1_000_000))
        );
        assert_eq!(look("plugins"), Place::Table);
        assert_eq!(look("plugins.x.y.z"), Place::Free);
        for unknown in ["brokers", "broker.ca.x", "limits.agents.service.depth"] {
            assert_eq!(look(unknown), Place::Unknown, "{unknown}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        assert_eq!(nearest("broker.url"), Some("broker.urls"));
        assert_eq!(nearest("requests.skew"), Some("requests.skew_seconds"));
        assert_eq!(nearest("indentity"), Some("identity"));
        assert_eq!(nearest("zzz"), None);
    }
}
