//! Errors of packing, installing and removing bundles as files.

use std::path::PathBuf;

use muster_ddl::DdlError;
use muster_secret::files::FileAccessError;
use muster_wire::identity::NameError;

use crate::BundleError;

/// Why a bundle operation failed.
#[derive(Debug, thiserror::Error)]
pub enum BundleFileError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileAccessError),
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
    #[error("the program `{}` is missing or not executable (chmod 755)", .0.escape_debug())]
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
}
