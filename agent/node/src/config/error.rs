//! Configuration errors, with their origin and a hint.

use std::fmt;
use std::io;
use std::path::PathBuf;

use muster_wire::identity::NameError;

use super::settings::SettingOrigin;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has more than {limit} bytes, the limit for this file", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// Not UTF-8, or not TOML.
    #[error("{origin}: {message}")]
    Syntax { origin: SettingOrigin, message: String },
    /// One or more values are wrong or missing; all of them are listed.
    #[error("{}", join_faults(.0))]
    Invalid(Vec<ConfigFault>),
}

/// One wrong or missing value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    #[error("{origin}: `{key}` is {found}; it must be {expected}")]
    Type { key: String, origin: SettingOrigin, found: &'static str, expected: String },
    /// A value of the right type that is not allowed.
    #[error("{origin}: `{key}` is {value}; it must be {expected}")]
    Value { key: String, origin: SettingOrigin, value: String, expected: String },
    #[error("{origin}: `{key}`: {error}")]
    Name { key: String, origin: SettingOrigin, error: NameError },
    /// A URL that contains a user name or password. The message omits the URL, because it contains a secret.
    #[error(
        "{origin}: `{key}` contains a URL with a user name; put credentials in the .creds file"
    )]
    Userinfo { key: String, origin: SettingOrigin },
    /// A key that has no default is not set.
    #[error("`{key}` is not set: {hint}")]
    Missing { key: &'static str, hint: &'static str },
    /// The merged values cannot be deserialised, though each matches its key.
    #[error("the merged configuration is not valid")]
    Merged(#[source] serde_json::Error),
}

impl ConfigFault {
    /// The dotted key that is wrong; `None` if the error concerns the whole configuration.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Type { key, .. }
            | Self::Value { key, .. }
            | Self::Name { key, .. }
            | Self::Userinfo { key, .. } => Some(key),
            Self::Missing { key, .. } => Some(key),
            Self::Merged(_) => None,
        }
    }
}

/// A warning for the operator that does not stop the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The unknown dotted key.
    pub key: String,
    pub origin: SettingOrigin,
    /// The known key that was probably intended.
    pub nearest: Option<String>,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: unknown key `{}` is ignored", self.origin, self.key)?;
        match &self.nearest {
            Some(known) => write!(out, "; did you mean `{known}`?"),
            None => Ok(()),
        }
    }
}

fn join_faults(faults: &[ConfigFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
