//! Packs, installs and removes bundles of external agents as files, and defines the errors.
//!
//! [`muster_bundle`] defines the format and the verification of signers.

pub mod agent;
pub mod collect;
pub mod install;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_bundle::BundleError;
use muster_client::ClientError;
use muster_ddl::DdlError;
use muster_wire::identity::NameError;

use crate::error::CommandError;
use crate::exit::CommandExitCode;
use crate::render::printable::escape_to_line;

/// Why a bundle operation failed.
#[derive(Debug, thiserror::Error)]
pub enum BundleFileError {
    /// A file operation failed.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// The operation.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The file exceeds the size limit.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The bundle is invalid or rejected.
    #[error("{} is refused", path.display())]
    Refused {
        /// The bundle, or the source directory.
        path: PathBuf,
        /// The error.
        #[source]
        source: BundleError,
    },
    /// A symbolic link, a socket, or another file type that bundles do not support.
    #[error("{} is not a regular file; a bundle can contain only regular files", .0.display())]
    NotRegularFile(PathBuf),
    /// A file name that is not UTF-8.
    #[error("the name of {} is not UTF-8", .0.display())]
    Unreadable(PathBuf),
    /// No DDL, or several.
    #[error("{} must contain exactly one *.json file, the agent's DDL; it contains {found}", path.display())]
    Ddls {
        /// The directory.
        path: PathBuf,
        /// Number of DDLs.
        found: usize,
    },
    /// The DDL is invalid.
    #[error("{file} is not a valid DDL")]
    Ddl {
        /// The file.
        file: String,
        /// The error.
        #[source]
        source: DdlError,
    },
    /// The agent's name is invalid.
    #[error("the agent's name is not valid")]
    Name(#[from] NameError),
    /// The version is not a semantic version.
    #[error("the agent's version {version:?} is not a semantic version, such as 1.4.0")]
    Version {
        /// The version in the DDL.
        version: String,
        /// The parse error.
        #[source]
        source: semver::Error,
    },
    /// The DDL does not match the bundle, or is not of an external agent.
    #[error("{0}")]
    Agent(String),
    /// A program that is missing from the bundle.
    #[error("the program `{0}` is missing or not executable (chmod 755)")]
    NoProgram(String),
    /// The directory for agents does not exist.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// An agent that was installed manually.
    #[error("{} already exists and is not from a bundle; move it away first", .0.display())]
    AlreadyExists(PathBuf),
    /// Files of an installed agent that were changed since the installation.
    #[error("{name} was changed after its installation: {}", .files.join(", "))]
    Changed {
        /// The agent.
        name: String,
        /// The changed files and their changes.
        files: Vec<String>,
    },
    /// The installed version is newer.
    #[error("{name} {found} is installed, and the bundle has the older version {offered}")]
    Older {
        /// The agent.
        name: String,
        /// The installed version.
        found: semver::Version,
        /// The version of the bundle.
        offered: semver::Version,
    },
    /// No bundle with that name is installed.
    #[error("no bundle of {name} is installed in {}", path.display())]
    NotInstalled {
        /// The agent.
        name: String,
        /// The expected path.
        path: PathBuf,
    },
    /// The installation record is invalid.
    #[error("{} is not a valid installation record", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// Without an account token revocations cannot be checked.
    #[error("no account token of the operator was found, so revoked signers are unknown: none was given, none is configured, and {} contains none", .0.display())]
    NoAccount(PathBuf),
    /// Confirmation is required, and there is no terminal.
    #[error(
        "cannot ask for confirmation to remove {0}: standard input is not a terminal, and `--yes` was not given"
    )]
    NoTerminal(String),
    /// An error with the signer's key.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl CommandError for BundleFileError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoAccount(_) => {
                "specify the newest account token with `--account`, or the node's state directory with `--state`"
            }
            Self::Older { .. } => "use `--downgrade` to install it anyway",
            Self::Changed { .. } => {
                "move away the files to keep, run `rpc plugin remove`, then install again"
            }
            Self::NoDirectory(_) => {
                "specify the directory of `paths.ddls` in rpcd.toml; its default is /etc/muster/ddl"
            }
            Self::Refused { source: BundleError::Foreign { .. }, .. } => {
                "`--key` accepts signatures of one key only: check which key signed the bundle"
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NoTerminal(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

impl BundleFileError {
    fn file_error(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { verb, path, source }
    }
}

/// Reads a file of at most this many bytes.
pub fn read_limited(path: &Path, limit: usize) -> Result<Vec<u8>, BundleFileError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes))
        .map_err(BundleFileError::file_error("read", path))?;
    if bytes.len() > limit {
        let path = path.to_owned();
        return Err(BundleFileError::TooLarge { path, limit });
    }
    Ok(bytes)
}

/// Text from a file with control characters removed.
fn printable_text(text: &str) -> String {
    escape_to_line(text).into_owned()
}
