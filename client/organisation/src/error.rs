//! Errors of the organisation's files.

use std::path::PathBuf;

use muster_files::ProtectedFileError;
use muster_files::files::FileAccessError;
use muster_wire::enrol::TokenGrantError;
use muster_wire::identity::{Identity, NameError};
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::{KeyError, PublicKey, TokenError, UserCredentialsError};

use crate::backup::BackupFileError;
use crate::cloud_init::PackageDownloadError;
use crate::ledger::PrincipalKind;
use crate::store_backup::BackupError;

/// An operation on the organisation failed.
#[derive(Debug, thiserror::Error)]
pub enum OrganisationError {
    /// No directory was given, and the current directory is not an organisation.
    #[error(
        "no organisation directory is specified, and the current directory is not an organisation"
    )]
    NoDirectory,
    /// The directory holds no organisation.
    #[error("{} is not an organisation: organisation.toml is missing", .0.display())]
    NotAnOrganisation(PathBuf),
    /// The directory in which the organisation should be created is not empty.
    #[error("{} is not empty; nothing was changed", .0.display())]
    NotEmpty(PathBuf),
    /// The name is not valid for an organisation.
    #[error(
        "`{0}` is not a valid organisation name; use up to 64 letters, digits, spaces, `.`, `_` and `-`"
    )]
    Name(String),
    /// The broker runs without TLS, so there are no certificates.
    #[error(
        "the broker of this organisation does not use TLS; it listens on the loopback address only"
    )]
    PlainText,
    /// No credentials were written for the leaf node.
    #[error("leaf `{name}` has no credentials: {} does not exist", path.display())]
    NoLeafCredentials {
        /// Name of the leaf.
        name: Identity,
        /// Where they are expected.
        path: PathBuf,
    },
    /// No leaf of this name was added.
    #[error("the organisation has no leaf `{0}`")]
    UnknownLeaf(Identity),
    /// A configuration file exists that the bundle would replace.
    #[error("{} already exists; nothing was changed", .0.display())]
    Configured(PathBuf),
    /// A name of a principal or agent is not valid.
    #[error(transparent)]
    Identity(#[from] NameError),
    /// The text is neither a host name nor an address.
    #[error(
        "`{0}` is neither a host name nor an IP address, so the broker's certificate cannot contain it"
    )]
    Host(String),
    /// Reading or writing a file failed.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// A backup of the directory cannot be written or read.
    #[error(transparent)]
    BackupFile(#[from] BackupFileError),
    /// A copy of the stores cannot be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The public description cannot be parsed.
    #[error("cannot parse {}", .0.display())]
    Profile(PathBuf, #[source] Box<toml::de::Error>),
    /// A value cannot be serialized.
    #[error("cannot serialise {0}")]
    Format(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// A line of the list of issued credentials cannot be parsed; lines are numbered from 1.
    #[error("{}:{}: not a record of issued credentials", .0.display(), .1)]
    Ledger(PathBuf, usize, #[source] serde_json::Error),
    /// A key file cannot be used.
    #[error("the key in {} cannot be used", .0.display())]
    Key(PathBuf, #[source] KeyError),
    /// Generating a key failed.
    #[error("cannot generate a key")]
    NewKey(#[source] KeyError),
    /// A token failed verification.
    #[error("the token in {} is not valid", .0.display())]
    Token(PathBuf, #[source] TokenError),
    /// Signing a token failed.
    #[error("cannot issue the token")]
    Issue(#[from] TokenIssueError),
    /// The account token would exceed its size limit with these revocations.
    #[error(
        "the account token would contain {revocations} revocations and exceed {limit} bytes, the maximum that brokers, nodes and callers accept; nothing was revoked"
    )]
    TooManyRevocations {
        /// Number of revocations that the token would hold.
        revocations: usize,
        /// Maximum size of the token in bytes.
        limit: usize,
    },
    /// A credentials file cannot be used.
    #[error("{} cannot be used", .0.display())]
    Creds(PathBuf, #[source] UserCredentialsError),
    /// Generating the certificate failed.
    #[error("cannot generate the broker's certificate")]
    Certificate(#[from] rcgen::Error),
    /// A principal with this name already has valid credentials.
    #[error("{kind} `{name}` already has valid credentials (key {key})")]
    Duplicate {
        /// The kind of principal.
        kind: PrincipalKind,
        /// Its name.
        name: String,
        /// The valid key.
        key: PublicKey,
    },
    /// The name belongs to a principal of another kind.
    #[error(
        "`{name}` is already the name of another principal of kind {kind} (key {key}); choose another name for the {requested}"
    )]
    NameOfOther {
        /// The name.
        name: String,
        /// The kind of principal that has the name.
        kind: PrincipalKind,
        /// Its key.
        key: PublicKey,
        /// The kind that was requested.
        requested: PrincipalKind,
    },
    /// The name belongs to a node with this key that an enroller admitted.
    #[error("`{0}` is already the name of an enrolled node (key {1})")]
    Enrolled(Identity, PublicKey),
    /// The name cannot be released, because its key is not revoked.
    #[error("cannot release the name `{0}`: its key {1} is not revoked")]
    NotRevoked(Identity, PublicKey),
    /// Other users can change or replace the directory, or one of its parents.
    #[error("cannot create an organisation in {}: other users could replace its keys", .0.display())]
    Unprotected(PathBuf, #[source] ProtectedFileError),
    /// No credentials were ever issued for this name or key.
    #[error("no credentials were ever issued for `{0}`")]
    Unknown(String),
    /// The organisation has no bootstrap account yet.
    #[error("this organisation has no bootstrap account yet")]
    NoNewcomers,
    /// The organisation has no account of the stores, because an earlier version created it.
    #[error("the organisation has no account for its stores")]
    NoStorage,
    /// No SSH authority was created.
    #[error("the organisation has no SSH authority")]
    NoSshAuthority,
    /// The grant of the bootstrap token is not valid.
    #[error("the bootstrap token is not valid")]
    Ticket(#[from] TokenGrantError),
    /// The package download for a new machine is not valid.
    #[error("the package download is not valid")]
    Fetch(#[from] PackageDownloadError),
    /// The YAML writer refused the user data of a new machine.
    #[error("the user data could not be rendered as YAML")]
    UserData(#[from] serde_saphyr::ser::Error),
    /// Principals of several kinds have this name.
    #[error("`{name}` is ambiguous: it is {}", join_kinds(kinds))]
    Ambiguous {
        /// The name.
        name: String,
        /// The kinds that have it.
        kinds: Vec<PrincipalKind>,
    },
}

fn join_kinds(kinds: &[PrincipalKind]) -> String {
    let with_article = |kind: &PrincipalKind| match kind {
        PrincipalKind::Enroller => format!("an {kind}"),
        _ => format!("a {kind}"),
    };
    kinds.iter().map(with_article).collect::<Vec<_>>().join(" and ")
}
