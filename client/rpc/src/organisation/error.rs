//! What can go wrong with an organisation's files, and what to do about it.

use std::path::PathBuf;

use muster_secret::ProtectedFileError;
use muster_wire::enrol::TokenGrantError;
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::{KeyError, PublicKey, TokenError, UserCredentialsError};

use super::ledger::PrincipalKind;
use crate::cloud_init::PackageDownloadError;
use crate::files::RpcFileError;

/// Why something could not be done with the organisation.
#[derive(Debug, thiserror::Error)]
pub enum OrganisationError {
    /// Nobody said where it is.
    #[error("no organisation is named, and the current directory is none")]
    Nowhere,
    /// There is none where it should be.
    #[error("{} holds no organisation", directory.display())]
    None {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// There is something already.
    #[error("{} is not empty; nothing there was touched", directory.display())]
    Occupied {
        /// Where the organisation should have been made.
        directory: PathBuf,
    },
    /// A name that cannot be an organisation's.
    #[error(
        "`{0}` cannot be an organisation's name; use up to 64 letters, digits, spaces, `.`, `_` and `-`"
    )]
    Name(String),
    /// Without TLS there are no certificates.
    #[error("this organisation's broker speaks no TLS; it is for this machine's loopback only")]
    PlainText,
    /// A configuration that a bundle would replace.
    #[error("{} exists already; nothing there was touched", .0.display())]
    Configured(PathBuf),
    /// A text that is no host.
    #[error(
        "`{0}` cannot be in the broker's certificate: it is neither a host name nor an address"
    )]
    Host(String),
    /// A file.
    #[error(transparent)]
    File(#[from] RpcFileError),
    /// The public description cannot be read.
    #[error("{} cannot be understood", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// Something of ours cannot be written as text.
    #[error("cannot write {what}")]
    Format {
        /// What should have been written.
        what: &'static str,
        /// The writer's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A line of the list of issued credentials.
    #[error("{}:{line} is no record of issued credentials", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's words.
        #[source]
        source: serde_json::Error,
    },
    /// A key that cannot be used.
    #[error("the key in {} cannot be used", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KeyError,
    },
    /// A key that could not be made.
    #[error("cannot make a key")]
    NewKey(#[source] KeyError),
    /// A token that is not believed.
    #[error("the token in {} is not usable", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// A token could not be signed.
    #[error("cannot issue the token")]
    Issue(#[from] TokenIssueError),
    /// More revocations than one account token holds.
    #[error(
        "the account token would hold {revocations} revocations and be longer than {limit} bytes, as much as brokers, nodes and callers accept; nothing was revoked"
    )]
    TooManyRevocations {
        /// How many there would be.
        revocations: usize,
        /// Most bytes of a token.
        limit: usize,
    },
    /// Credentials that cannot be used.
    #[error("{} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UserCredentialsError,
    },
    /// The certificate could not be made.
    #[error("cannot make the broker's certificate")]
    Certificate(#[from] rcgen::Error),
    /// Somebody has this name already.
    #[error("{kind} {name} has valid credentials already (key {key})")]
    Duplicate {
        /// The kind of party.
        kind: PrincipalKind,
        /// Its name.
        name: String,
        /// The key that is valid.
        key: PublicKey,
    },
    /// Parties of two kinds would have one name.
    #[error("`{name}` is the name of a {kind} (key {key}); a {wanted} needs another name")]
    NameOfOther {
        /// The name.
        name: String,
        /// The kind of party that has it.
        kind: PrincipalKind,
        /// Its key.
        key: PublicKey,
        /// The kind that it was wanted for.
        wanted: PrincipalKind,
    },
    /// The enroller gave the name to a machine.
    #[error("`{name}` is the name of an enrolled node (key {key})")]
    Enrolled {
        /// The name.
        name: String,
        /// The node's key.
        key: PublicKey,
    },
    /// A name whose node is not revoked.
    #[error("the name `{name}` is not released: its key {key} is not revoked")]
    NotRevoked {
        /// The name.
        name: String,
        /// The key that has it.
        key: PublicKey,
    },
    /// Others may change what is in the directory, or put another one in its place.
    #[error("no organisation is made in {}: other users could replace its keys", directory.display())]
    Unprotected {
        /// Where the organisation should have been made.
        directory: PathBuf,
        /// The directory or link that others can change: that one, or one above it.
        #[source]
        source: ProtectedFileError,
    },
    /// Nobody has this name or key.
    #[error("nobody was ever issued credentials as `{0}`")]
    Unknown(String),
    /// A revoked node whose token an enroller signed.
    #[error(
        "the token of `{0}` was signed by an enroller, and is not kept here; `rpc org list` has its key and its end"
    )]
    TokenElsewhere(String),
    /// There is no account for newcomers yet.
    #[error("this organisation has no account for newcomers yet")]
    NoNewcomers,
    /// What a bootstrap token shall allow.
    #[error("no such bootstrap token can be made")]
    Ticket(#[from] TokenGrantError),
    /// What a new machine should fetch.
    #[error("the machine could not be told what to fetch")]
    Fetch(#[from] PackageDownloadError),
    /// Several kinds of parties have this name.
    #[error("`{name}` is {}", join_kinds(kinds))]
    Ambiguous {
        /// The name.
        name: String,
        /// Who has it.
        kinds: Vec<PrincipalKind>,
    },
}

impl OrganisationError {
    /// What the user may do about it.
    pub fn hints(&self) -> Vec<String> {
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
