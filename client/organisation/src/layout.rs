//! Paths of the files of an organisation. Opens no files.

use std::path::{Path, PathBuf};

use muster_wire::identity::Identity;
use muster_wire::token::KeyKind;

use crate::ledger::{AccountRealm, PrincipalKind};

/// The directory of an organisation.
#[derive(Debug, Clone)]
pub struct OrganisationLayout(PathBuf);

/// The secret keys of an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrganisationKey {
    /// Signs account tokens; root of trust.
    Operator,
    /// Identity key of the fleet's account.
    Account,
    /// Identity key of the account of the stores. Missing in older organisations.
    Storage,
    /// Identity key of the system account.
    System,
    /// Signs node tokens.
    Node,
    /// Signs user tokens.
    Caller,
    /// Signs service tokens.
    Service,
    /// Signs tokens of system account users.
    SystemRole,
    /// Signs tokens of the fleet's administrators. Missing in older organisations, where the identity key of the account signs them.
    Administrator,
    /// Identity key of the bootstrap account.
    Newcomers,
    /// Signs bootstrap credentials, in the bootstrap account.
    Newcomer,
    /// Signs tokens of enrollers, in the bootstrap account.
    Enroller,
    /// Signs tokens of leaf nodes. Exists when a leaf node was added.
    Leaf,
    /// Signs credentials of monitoring systems, in the system account. Exists when one was added.
    Monitor,
    /// Signs SSH user certificates. Exists when an SSH authority was created.
    SshAuthority,
}

impl OrganisationKey {
    /// The kind of the key.
    pub(crate) fn key_kind(self) -> KeyKind {
        if self == Self::Operator { KeyKind::Operator } else { KeyKind::Account }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Operator => "operator.nk",
            Self::Account => "account.nk",
            Self::Storage => "storage.nk",
            Self::System => "system.nk",
            Self::Node => "role-node.nk",
            Self::Caller => "role-caller.nk",
            Self::Service => "role-service.nk",
            Self::SystemRole => "role-system.nk",
            Self::Administrator => "role-admin.nk",
            Self::Newcomers => "newcomers.nk",
            Self::Newcomer => "role-newcomer.nk",
            Self::Enroller => "role-enroller.nk",
            Self::Leaf => "role-leaf.nk",
            Self::Monitor => "role-monitor.nk",
            Self::SshAuthority => "ssh-ca.nk",
        }
    }
}

/// Defines a method for each path below the directory.
macro_rules! paths {
    ($($(#[$doc:meta])+ $name:ident = $path:literal;)+) => {
        impl OrganisationLayout {
            $($(#[$doc])+
            pub fn $name(&self) -> PathBuf {
                self.0.join($path)
            })+
        }
    };
}

paths! {
    /// The public description.
    profile_file = "organisation.toml";
    /// The operator's token.
    operator_token = "operator.jwt";
    /// The account token of the fleet.
    account_token = "account.jwt";
    /// The account token of the stores. The file is missing in older organisations.
    storage_token = "storage.jwt";
    /// The account token of the system account.
    system_token = "system.jwt";
    /// The account token of the bootstrap account. The file may be missing in older organisations.
    newcomers_token = "newcomers.jwt";
    /// The certificate of the TLS authority.
    authority_certificate = "ca.pem";
    /// The list of issued credentials.
    ledger_file = "issued.jsonl";
    /// Keys of the stores, while they are moved to an account of their own.
    moved_keys = "stores.moved.jsonl";
    /// The directory of secret keys.
    keys_directory = "keys";
    /// The secret key of the TLS authority.
    authority_key = "keys/ca.key";
    /// Certificate and secret key of the authority that replaces the present one, while a rotation is in progress.
    next_authority = "keys/ca.next.pem";
    /// The password of the routes between the servers of a cluster. Exists when a cluster was configured.
    route_password = "keys/routes.password";
    /// The directory of credentials.
    creds_directory = "creds";
    /// The credentials that push account tokens to the broker.
    system_creds = "creds/system.creds";
    /// The files that each new node gets, in the form of `rpc config deploy`. May be missing.
    site_directory = "site";
    /// The directory with all files of the broker.
    broker_directory = "broker";
    /// The broker's configuration.
    broker_config = "broker/nats.conf";
    /// The included part of the broker's configuration that changes with the accounts.
    broker_accounts = "broker/accounts.conf";
    /// The broker's certificate.
    broker_certificate = "broker/broker.pem";
    /// The secret key of the broker's certificate.
    broker_key = "broker/broker.key";
    /// The directory in which the broker stores pushed account tokens.
    broker_tokens = "broker/accounts";
    /// The directory of the broker's streams, unless it was configured elsewhere.
    broker_streams = "broker/jetstream";
}

impl OrganisationLayout {
    /// The layout below this directory. The path should be absolute.
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The account token of this account.
    pub fn realm_token(&self, realm: AccountRealm) -> PathBuf {
        match realm {
            AccountRealm::Fleet => self.account_token(),
            AccountRealm::Storage => self.storage_token(),
            AccountRealm::Newcomers => self.newcomers_token(),
        }
    }

    /// The file of a secret key.
    pub fn key_file(&self, key: OrganisationKey) -> PathBuf {
        self.keys_directory().join(key.file_name())
    }

    /// The file of the secret key that replaces this one, while a rotation is being started.
    pub(crate) fn next_key_file(&self, key: OrganisationKey) -> PathBuf {
        self.keys_directory().join(format!("{}.next", key.file_name()))
    }

    /// The default path of a principal's credentials.
    pub fn principal_creds(&self, kind: PrincipalKind, name: &Identity) -> PathBuf {
        self.creds_directory().join(format!("{kind}s")).join(format!("{name}.creds"))
    }
}
