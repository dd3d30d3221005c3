//! Errors of bundles, and of packing, installing and removing them as files.

use std::io;
use std::path::PathBuf;

use muster_ddl::DdlError;
use muster_files::files::FileAccessError;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::limits;
use muster_wire::sign::{EnvelopeSignError, MessageRefusal};
use muster_wire::token::{KeyError, PublicKey, TokenError};

use super::open::PLUGIN_SIGN_TAG;

/// Why a bundle operation failed.
#[derive(Debug, thiserror::Error)]
pub enum BundleFileError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// The bundle is invalid or rejected.
    #[error("{} is refused", .0.display())]
    Refused(PathBuf, #[source] BundleError),
    /// A symbolic link, a socket, or another file type that bundles do not support.
    #[error("{} is not a regular file; a bundle can contain only regular files", .0.display())]
    NotRegularFile(PathBuf),
    /// A file name that is not UTF-8.
    #[error("the name of {} is not UTF-8", .0.display())]
    Unreadable(PathBuf),
    /// No DDL, or several.
    #[error("{} must contain exactly one *.json file, the agent's DDL; it contains {}", .0.display(), .1)]
    Ddls(PathBuf, usize),
    /// The DDL is invalid.
    #[error("{0} is not a valid DDL")]
    Ddl(String, #[source] DdlError),
    /// The agent's name is invalid.
    #[error("the agent's name is not valid")]
    Name(#[from] NameError),
    /// The version is not a semantic version.
    #[error("the agent's version {0:?} is not a semantic version, such as 1.4.0")]
    Version(String, #[source] semver::Error),
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
    #[error("{} was changed after its installation: {}", .0, .1.join(", "))]
    Changed(SubjectName, Vec<String>),
    /// The installed version is newer.
    #[error("{name} {found} is installed, and the bundle has the older version {offered}")]
    Older {
        /// The agent.
        name: SubjectName,
        /// The installed version.
        found: semver::Version,
        /// The version of the bundle.
        offered: semver::Version,
    },
    /// No bundle with that name is installed.
    #[error("no bundle of {} is installed in {}", .0, .1.display())]
    NotInstalled(SubjectName, PathBuf),
    /// The installation record is invalid.
    #[error("{} is not a valid installation record", .0.display())]
    Record(PathBuf, #[source] serde_json::Error),
}

/// Errors of packing and verifying bundles.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The bundle exceeds the size limit.
    #[error("the bundle has {0} bytes; at most {max} are allowed", max = limits::MAX_BUNDLE_BYTES)]
    TooLarge(usize),
    /// The bundle has no files or too many.
    #[error("the bundle has {0} files; 1 to {max} are allowed", max = limits::MAX_BUNDLE_FILES)]
    Files(usize),
    /// Not a tar.
    #[error("not a bundle: cannot read it as a tar")]
    Tar(#[from] io::Error),
    /// A tar without the layout of a bundle.
    #[error("not a bundle: {0}")]
    Shape(&'static str),
    /// A path that leaves the agent's directory, or belongs to another agent.
    #[error("the path {path:?} is not allowed: {reason}")]
    Path {
        /// The path in printable form.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The signature or the signer's token failed verification.
    #[error("the bundle's signature is refused")]
    Refused(#[from] MessageRefusal),
    /// The bundle's account token, or the locally known one, failed verification.
    #[error("the bundle's account token is refused")]
    Account(#[from] TokenError),
    /// A key is invalid.
    #[error("the signer's key is invalid")]
    Key(#[from] KeyError),
    /// Signed by a key other than the expected one.
    #[error("the bundle is signed with the key {found}, not with {expected}")]
    Foreign {
        /// The expected key.
        expected: PublicKey,
        /// The key in the signer's token.
        found: PublicKey,
    },
    /// The signer lacks permission.
    #[error(
        "{0} has no permission to sign bundles: the token lacks the tag {PLUGIN_SIGN_TAG} (`rpc org add user --sign-plugins`)"
    )]
    MayNotSign(Identity),
    /// The manifest cannot be parsed.
    #[error("cannot parse the manifest")]
    Manifest(#[from] serde_json::Error),
    /// The signer in the manifest differs from the signer in the token.
    #[error("the manifest specifies the signer {claimed}, but {signer} signed it")]
    WrongSigner {
        /// The signer in the token.
        signer: Identity,
        /// The signer in the manifest.
        claimed: Identity,
    },
    /// The file is missing, unsigned, or differs from the signed one.
    #[error("the file {0:?} differs from the signed one")]
    File(String),
    /// The manifest cannot be signed.
    #[error("cannot sign the manifest")]
    Sign(#[from] EnvelopeSignError),
}
