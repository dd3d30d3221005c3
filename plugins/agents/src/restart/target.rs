//! The target of a restart: a service that the machine knows by name, or a command.

use std::fmt;

use muster_engine::providers::digest::ChecksumKind;
use serde::{Deserialize, Serialize};

/// Longest service name in bytes.
const MAX_NAME_BYTES: usize = 90;
/// The daemon itself, which has its own restart method.
const DAEMON_UNIT: &str = "rpcd";

/// The target of a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RestartTarget {
    /// A service name; for systemd without `.service`.
    Unit(String),
    /// A program and its arguments.
    Command(Vec<String>),
}

/// A target is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartTargetError {
    /// The text is not a valid service name.
    #[error(
        "`{name}` is not a service name; use at most {MAX_NAME_BYTES} letters, digits and `_ . @ : -`, not beginning with `-` or `.`"
    )]
    Name {
        /// The given name.
        name: String,
    },
    /// The command is empty or its program is not valid.
    #[error("the command has no valid program; use an absolute path, or a name that is in PATH")]
    Command,
}

impl RestartTarget {
    /// The daemon itself.
    pub fn daemon() -> Self {
        Self::Unit(DAEMON_UNIT.to_owned())
    }

    /// Parses a service name.
    pub fn parse_unit(name: &str) -> Result<Self, RestartTargetError> {
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@:-".contains(&byte);
        let valid_start = name.bytes().next().is_some_and(|first| !b".-".contains(&first));
        let short = name.strip_suffix(".service").unwrap_or(name);
        if !valid_start
            || short.is_empty()
            || name.len() > MAX_NAME_BYTES
            || !name.bytes().all(is_named)
        {
            return Err(RestartTargetError::Name { name: name.to_owned() });
        }
        Ok(Self::Unit(short.to_owned()))
    }

    /// A target that is restarted by this command.
    pub fn from_command(argv: Vec<String>) -> Result<Self, RestartTargetError> {
        match argv.first() {
            Some(program) if !program.is_empty() => Ok(Self::Command(argv)),
            _ => Err(RestartTargetError::Command),
        }
    }

    /// Whether the target is the daemon itself.
    pub fn is_daemon(&self) -> bool {
        matches!(self, Self::Unit(name) if name == DAEMON_UNIT)
    }

    /// Key of the target's record, usable as a file name. Equal targets have equal keys.
    pub fn record_key(&self) -> String {
        match self {
            Self::Unit(name) => format!("unit.{name}"),
            Self::Command(argv) => {
                let joined = argv.join("\0");
                let mut digest = ChecksumKind::Sha256.hex_checksum(joined.as_bytes());
                digest.truncate(16);
                format!("command.{digest}")
            }
        }
    }
}

impl fmt::Display for RestartTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(name) => f.write_str(name),
            Self::Command(argv) => write!(f, "`{}`", argv.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RestartTarget;

    #[test]
    fn unit_names_are_normalised_and_paths_are_refused() {
        assert_eq!(
            RestartTarget::parse_unit("puppet.service"),
            RestartTarget::parse_unit("puppet")
        );
        assert!(RestartTarget::parse_unit("rpcd.service").unwrap().is_daemon());
        assert_eq!(
            RestartTarget::parse_unit("getty@tty1").unwrap().record_key(),
            "unit.getty@tty1"
        );
        for wrong in ["", ".", "..", "-x", "../x", "a b", "a/b", ".service", "é"] {
            assert!(RestartTarget::parse_unit(wrong).is_err(), "{wrong}");
        }
        assert!(RestartTarget::parse_unit(&"a".repeat(91)).is_err());
        assert!(RestartTarget::from_command(Vec::new()).is_err());
    }

    #[test]
    fn commands_with_equal_arguments_have_equal_keys() {
        let key = |words: &[&str]| {
            let argv = words.iter().map(|word| (*word).to_owned()).collect();
            RestartTarget::from_command(argv).unwrap().record_key()
        };
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
        assert_ne!(key(&["a", "b"]), key(&["a b"]));
        assert_eq!(key(&["a"]).len(), "command.".len() + 16);
    }
}
