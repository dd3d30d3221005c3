//! What can be wrong with the configuration, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use muster_wire::identity::NameError;

use super::settings::SettingOrigin;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A file is larger than any configuration is.
    #[error("{} has {size} bytes; a configuration file has at most {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Not UTF-8, or not TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// Where reading stopped.
        origin: SettingOrigin,
        /// The parser's words.
        message: String,
    },
    /// One or more values are wrong or missing; all of them are listed.
    #[error("{}", join_faults(.0))]
    Invalid(Vec<ConfigFault>),
}

/// One wrong or missing value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    /// A value of the wrong type.
    #[error("{origin}: `{key}` is {found}; it must be {expected}")]
    Type {
        /// The dotted key.
        key: String,
        /// Where it stands.
        origin: SettingOrigin,
        /// What it is, with an article.
        found: &'static str,
        /// What it should be.
        expected: String,
    },
    /// The right type with a value that is not allowed.
    #[error("{origin}: `{key}` is {value}; it must be {expected}")]
    Value {
        /// The dotted key.
        key: String,
        /// Where it stands.
        origin: SettingOrigin,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// Not a name.
    #[error("{origin}: `{key}`: {error}")]
    Name {
        /// The dotted key.
        key: String,
        /// Where it stands.
        origin: SettingOrigin,
        /// What is wrong with the name.
        error: NameError,
    },
    /// A URL that carries a user name or password. The URL is not repeated: it holds a secret.
    #[error("{origin}: `{key}` holds a URL with a user name; put credentials in the .creds file")]
    Userinfo {
        /// The dotted key.
        key: String,
        /// Where it stands.
        origin: SettingOrigin,
    },
    /// A key that has no default is not set.
    #[error("`{key}` is not set: {hint}")]
    Missing {
        /// The dotted key.
        key: &'static str,
        /// What to write there.
        hint: &'static str,
    },
    /// The merged values are not a configuration, though each fits its key.
    #[error("the merged configuration is not usable")]
    Merged(#[source] serde_json::Error),
}

impl ConfigFault {
    /// The dotted key that is wrong; nothing for the whole.
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

/// Something to tell the operator that does not stop the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The unknown dotted key.
    pub key: String,
    /// Where it stands.
    pub origin: SettingOrigin,
    /// The known key that was probably meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: unknown key `{}` is ignored",
            self.origin, self.key
        )?;
        match self.nearest {
            Some(known) => write!(out, "; did you mean `{known}`?"),
            None => Ok(()),
        }
    }
}

fn join_faults(faults: &[ConfigFault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
