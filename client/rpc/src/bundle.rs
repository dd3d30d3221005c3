//! Bundles of external agents as files: what is packed, what is put in place, and what is told when that cannot be done.
//!
//! What a bundle is, and whose counts, is [`muster_wire::bundle`]'s.

pub mod agent;
pub mod gather;
pub mod place;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_client::ClientError;
use muster_ddl::DdlError;
use muster_wire::bundle::BundleError;
use muster_wire::identity::NameError;

use crate::exit::CommandExitCode;
use crate::render::printable::escape_to_line;

/// Why nothing was packed, installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum BundleFileError {
    /// A file or directory with which something cannot be done.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// What was to be done.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// More bytes than are read.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are read.
        limit: usize,
    },
    /// The bundle's own reasons.
    #[error("{} is refused", path.display())]
    Refused {
        /// The bundle, or the directory that was to become one.
        path: PathBuf,
        /// Why.
        #[source]
        source: BundleError,
    },
    /// A link, a socket, or something else that no bundle carries.
    #[error("{} is no plain file; a bundle has only those", .0.display())]
    NotPlain(PathBuf),
    /// A name that is not text.
    #[error("the name of {} is not UTF-8", .0.display())]
    Unreadable(PathBuf),
    /// None or several DDLs.
    #[error("{} must have just one *.json, the agent's DDL; it has {found}", path.display())]
    Ddls {
        /// The directory.
        path: PathBuf,
        /// How many it has.
        found: usize,
    },
    /// The DDL is none.
    #[error("{file} is not a usable DDL")]
    Ddl {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: DdlError,
    },
    /// The agent's name cannot be one.
    #[error("the agent's name is none")]
    Name(#[from] NameError),
    /// The version cannot be compared with others.
    #[error("the agent's version {version:?} is no semantic version, as 1.4.0 is")]
    Version {
        /// What the DDL says.
        version: String,
        /// Why not.
        #[source]
        source: semver::Error,
    },
    /// The DDL is not what its bundle says, or not an external agent's.
    #[error("{0}")]
    Agent(String),
    /// A program that is not in the bundle.
    #[error("{0} would be run, and is not there as a program (chmod 755)")]
    NoProgram(String),
    /// Where agents are put must be there.
    #[error("{} is no directory", .0.display())]
    NoDirectory(PathBuf),
    /// An agent that somebody put there by hand.
    #[error("{} is there, and is not from a bundle; move it away first", .0.display())]
    InTheWay(PathBuf),
    /// Files of an installed agent that nobody but a person can have changed.
    #[error("{name} is not as it was installed: {}", .files.join(", "))]
    Changed {
        /// The agent.
        name: String,
        /// What differs, and how.
        files: Vec<String>,
    },
    /// What is there is newer.
    #[error("{name} {found} is installed, and {offered} is older")]
    Older {
        /// The agent.
        name: String,
        /// What is installed.
        found: semver::Version,
        /// What would be.
        offered: semver::Version,
    },
    /// No bundle of that name.
    #[error("no bundle of {name} is installed in {}", path.display())]
    NotInstalled {
        /// The agent.
        name: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The record of an installation cannot be understood.
    #[error("{} is not the record of an installation", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Without an account token nobody is known to be revoked.
    #[error("no account token of the operator is known here, and so nothing of revoked signers: none was given, none is configured, and {} has none", .0.display())]
    NoAccount(PathBuf),
    /// Nobody can be asked.
    #[error("there is nobody to ask whether {0} may be removed, and --yes was not given")]
    NobodyToAsk(String),
    /// The signer's key.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl BundleFileError {
    /// Next steps, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoAccount(_) => {
                "give the newest one with --account, or the node's state directory with --state"
            }
            Self::Older { .. } => "--downgrade installs it all the same",
            Self::Changed { .. } => {
                "move away what is to be kept; then `rpc plugin remove` and install again"
            }
            Self::NoDirectory(_) => "it is `paths.ddls` of rpcd.toml, /etc/muster/ddl unless set",
            Self::Refused {
                source: BundleError::Foreign { .. },
                ..
            } => "--key trusts one key only; whose key is it?",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    /// How the command ends.
    pub fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NobodyToAsk(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }

    fn file_error(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { verb, path, source }
    }
}

/// The bytes of a file of at most this many.
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

/// A text from a file, fit for a terminal.
fn printable_text(text: &str) -> String {
    escape_to_line(text).into_owned()
}
