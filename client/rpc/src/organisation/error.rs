//! Errors of the organisation's files, and hints for each.

use std::path::PathBuf;

use muster_secret::ProtectedFileError;
use muster_wire::enrol::TokenGrantError;
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::{KeyError, PublicKey, TokenError, UserCredentialsError};

use super::ledger::PrincipalKind;
use crate::cloud_init::PackageDownloadError;
use crate::error::CommandError;
use crate::files::RpcFileError;

/// An operation on the organisation failed.
#[derive(Debug, thiserror::Error)]
pub enum OrganisationError {
    /// No directory was given, and the current directory is not an organisation.
    #[error("no organisation is named, and the current directory is none")]
    Nowhere,
    /// The directory holds no organisation.
    #[error("{} holds no organisation", directory.display())]
    None {
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// The directory is not empty.
    #[error("{} is not empty; nothing there was touched", directory.display())]
    Occupied {
        /// The directory in which the organisation should have been created.
        directory: PathBuf,
    },
    /// The name is not valid for an organisation.
    #[error(
        "`{0}` cannot be an organisation's name; use up to 64 letters, digits, spaces, `.`, `_` and `-`"
    )]
    Name(String),
    /// The broker runs without TLS, so there are no certificates.
    #[error("this organisation's broker speaks no TLS; it is for this machine's loopback only")]
    PlainText,
    /// A configuration file exists that the bundle would replace.
    #[error("{} exists already; nothing there was touched", .0.display())]
    Configured(PathBuf),
    /// The text is neither a host name nor an address.
    #[error(
        "`{0}` cannot be in the broker's certificate: it is neither a host name nor an address"
    )]
    Host(String),
    /// Reading or writing a file failed.
    #[error(transparent)]
    File(#[from] RpcFileError),
    /// The public description cannot be parsed.
    #[error("{} cannot be understood", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value cannot be serialized.
    #[error("cannot write {what}")]
    Format {
        /// What was serialized.
        what: &'static str,
        /// The serialization error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A line of the list of issued credentials cannot be parsed.
    #[error("{}:{line} is no record of issued credentials", path.display())]
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
    #[error("cannot make a key")]
    NewKey(#[source] KeyError),
    /// A token failed verification.
    #[error("the token in {} is not usable", path.display())]
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
        "the account token would hold {revocations} revocations and be longer than {limit} bytes, as much as brokers, nodes and callers accept; nothing was revoked"
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
    #[error("cannot make the broker's certificate")]
    Certificate(#[from] rcgen::Error),
    /// A principal with this name already has valid credentials.
    #[error("{kind} {name} has valid credentials already (key {key})")]
    Duplicate {
        /// The kind of principal.
        kind: PrincipalKind,
        /// Its name.
        name: String,
        /// The valid key.
        key: PublicKey,
    },
    /// The name belongs to a principal of another kind.
    #[error("`{name}` is the name of a {kind} (key {key}); a {wanted} needs another name")]
    NameOfOther {
        /// The name.
        name: String,
        /// The kind of principal that has the name.
        kind: PrincipalKind,
        /// Its key.
        key: PublicKey,
        /// The kind that was requested.
        wanted: PrincipalKind,
    },
    /// The name belongs to a node that an enroller admitted.
    #[error("`{name}` is the name of an enrolled node (key {key})")]
    Enrolled {
        /// The name.
        name: String,
        /// The node's key.
        key: PublicKey,
    },
    /// The name cannot be released, because its key is not revoked.
    #[error("the name `{name}` is not released: its key {key} is not revoked")]
    NotRevoked {
        /// The name.
        name: String,
        /// The key that has the name.
        key: PublicKey,
    },
    /// Other users can change or replace the directory.
    #[error("no organisation is made in {}: other users could replace its keys", directory.display())]
    Unprotected {
        /// The directory in which the organisation should have been created.
        directory: PathBuf,
        /// The unprotected directory or symbolic link: that directory or one of its parents.
        #[source]
        source: ProtectedFileError,
    },
    /// No credentials were ever issued for this name or key.
    #[error("nobody was ever issued credentials as `{0}`")]
    Unknown(String),
    /// The organisation has no newcomers account yet.
    #[error("this organisation has no account for newcomers yet")]
    NoNewcomers,
    /// The grant of the bootstrap token is not valid.
    #[error("no such bootstrap token can be made")]
    Ticket(#[from] TokenGrantError),
    /// The package download for a new machine is not valid.
    #[error("the machine could not be told what to fetch")]
    Fetch(#[from] PackageDownloadError),
    /// Principals of several kinds have this name.
    #[error("`{name}` is {}", join_kinds(kinds))]
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
            Self::Nowhere => "say which with `--org DIR` or MUSTER_ORG",
            Self::None { .. } => "`rpc org init DIR` makes one",
            Self::Occupied { .. } => "choose a directory that is empty or does not exist yet",
            Self::Duplicate { .. } => {
                "`--renew` issues new ones beside them; `rpc org revoke` voids the old ones"
            }
            Self::NameOfOther { .. } => {
                "policies name parties by their names: choose another one, or revoke the party that has it"
            }
            Self::Enrolled { .. } => {
                "`rpc org revoke NAME` revokes the node and frees the name for `rpc org add`"
            }
            Self::NotRevoked { .. } => {
                "`rpc org revoke NAME` first: two keys must not have one name"
            }
            Self::Unprotected { .. } => {
                "choose a directory whose path only root and you can change"
            }
            Self::Configured(_) => "`--renew` replaces it; another directory keeps it",
            Self::PlainText => {
                "an organisation with TLS is made by `rpc org init` without `--no-tls`"
            }
            Self::Unknown(_) => "`rpc org list` shows everybody",
            Self::Ambiguous { .. } => "say which with `--kind`",
            Self::TooManyRevocations { .. } => {
                "revocations of expired tokens are removed by themselves; issue nodes with `--expires 90d`, so that theirs end, or make a new organisation"
            }
            Self::NoNewcomers => "`rpc org newcomers` makes it",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

fn join_kinds(kinds: &[PrincipalKind]) -> String {
    let article = |kind: &PrincipalKind| {
        if *kind == PrincipalKind::Enroller {
            "an"
        } else {
            "a"
        }
    };
    let words: Vec<String> = kinds
        .iter()
        .map(|kind| format!("{} {kind}", article(kind)))
        .collect();
    words.join(" and ")
}
