//! Errors of the organisation's files, and hints for each.

use std::path::PathBuf;

use muster_secret::ProtectedFileError;
use muster_wire::enrol::TokenGrantError;
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::{KeyError, PublicKey, TokenError, UserCredentialsError};

use super::ledger::PrincipalKind;
use crate::cloud_init::PackageDownloadError;
use crate::error::CommandError;
use muster_secret::files::FileAccessError;

/// An operation on the organisation failed.
#[derive(Debug, thiserror::Error)]
pub enum OrganisationError {
    /// No directory was given, and the current directory is not an organisation.
    #[error(
        "no organisation directory is specified, and the current directory is not an organisation"
    )]
    NoDirectory,
    /// The directory holds no organisation.
    #[error("{} is not an organisation: organisation.toml is missing", directory.display())]
    NotAnOrganisation {
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// The directory is not empty.
    #[error("{} is not empty; nothing was changed", directory.display())]
    NotEmpty {
        /// The directory in which the organisation should have been created.
        directory: PathBuf,
    },
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
    /// A configuration file exists that the bundle would replace.
    #[error("{} already exists; nothing was changed", .0.display())]
    Configured(PathBuf),
    /// The text is neither a host name nor an address.
    #[error(
        "`{0}` is neither a host name nor an IP address, so the broker's certificate cannot contain it"
    )]
    Host(String),
    /// Reading or writing a file failed.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// The public description cannot be parsed.
    #[error("cannot parse {}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value cannot be serialized.
    #[error("cannot serialise {item}")]
    Format {
        /// What was serialized.
        item: &'static str,
        /// The serialization error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A line of the list of issued credentials cannot be parsed.
    #[error("{}:{line}: not a record of issued credentials", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// A key file cannot be used.
    #[error("the key in {} cannot be used", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: KeyError,
    },
    /// Generating a key failed.
    #[error("cannot generate a key")]
    NewKey(#[source] KeyError),
    /// A token failed verification.
    #[error("the token in {} is not valid", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: TokenError,
    },
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
    #[error("{} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: UserCredentialsError,
    },
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
    /// The name belongs to a node that an enroller admitted.
    #[error("`{name}` is already the name of an enrolled node (key {key})")]
    Enrolled {
        /// The name.
        name: String,
        /// The node's key.
        key: PublicKey,
    },
    /// The name cannot be released, because its key is not revoked.
    #[error("cannot release the name `{name}`: its key {key} is not revoked")]
    NotRevoked {
        /// The name.
        name: String,
        /// The key that has the name.
        key: PublicKey,
    },
    /// Other users can change or replace the directory.
    #[error("cannot create an organisation in {}: other users could replace its keys", directory.display())]
    Unprotected {
        /// The directory in which the organisation should have been created.
        directory: PathBuf,
        /// The unprotected directory or symbolic link: that directory or one of its parents.
        #[source]
        source: ProtectedFileError,
    },
    /// No credentials were ever issued for this name or key.
    #[error("no credentials were ever issued for `{0}`")]
    Unknown(String),
    /// The organisation has no bootstrap account yet.
    #[error("this organisation has no bootstrap account yet")]
    NoNewcomers,
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

impl CommandError for OrganisationError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoDirectory => "specify the directory with `--org DIR` or MUSTER_ORG",
            Self::NotAnOrganisation { .. } => "run `rpc org init DIR` to create one",
            Self::NotEmpty { .. } => "choose a directory that is empty or does not exist yet",
            Self::Duplicate { .. } => {
                "use `--renew` to issue additional credentials; run `rpc org revoke` to revoke the old ones"
            }
            Self::NameOfOther { .. } => {
                "policies identify principals by name: choose another name, or revoke the principal that has it"
            }
            Self::Enrolled { .. } => {
                "run `rpc org revoke NAME` to revoke the node; after that `rpc org add` accepts the name"
            }
            Self::NotRevoked { .. } => {
                "run `rpc org revoke NAME` first: two valid keys must not have the same name"
            }
            Self::Unprotected { .. } => {
                "choose a directory whose path only root and you can change"
            }
            Self::Configured(_) => {
                "use `--renew` to replace it, or choose another directory to keep it"
            }
            Self::PlainText => {
                "to use TLS, create an organisation with `rpc org init` without `--no-tls`"
            }
            Self::Unknown(_) => "run `rpc org list` for all issued credentials",
            Self::Ambiguous { .. } => "select one with `--kind`",
            Self::TooManyRevocations { .. } => {
                "revocations of expired tokens are removed automatically: issue credentials of nodes with `--expires 90d`, or create a new organisation"
            }
            Self::NoNewcomers => "run `rpc org newcomers` to create it",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

fn join_kinds(kinds: &[PrincipalKind]) -> String {
    let article = |kind: &PrincipalKind| {
        if *kind == PrincipalKind::Enroller { "an" } else { "a" }
    };
    let words: Vec<String> = kinds.iter().map(|kind| format!("{} {kind}", article(kind))).collect();
    words.join(" and ")
}
