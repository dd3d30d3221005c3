//! Which file of an organisation is where. Only names; nothing is opened.

use std::path::{Path, PathBuf};

use muster_wire::identity::Identity;

use super::ledger::{AccountRealm, PrincipalKind};

/// The directory of an organisation.
#[derive(Debug, Clone)]
pub struct OrganisationLayout(PathBuf);

/// The organisation's secret keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrganisationKey {
    /// Signs accounts: the root of all trust.
    Operator,
    /// The fleet's account itself.
    Account,
    /// The system account itself.
    System,
    /// Signs nodes.
    Node,
    /// Signs users.
    Caller,
    /// Signs services.
    Service,
    /// Signs users of the system account.
    SystemRole,
    /// The newcomers' account itself.
    Newcomers,
    /// Signs bootstrap credentials, in the newcomers' account.
    Newcomer,
    /// Signs services that enrol, in the newcomers' account.
    Enroller,
}

impl OrganisationKey {
    fn file_name(self) -> &'static str {
        match self {
            Self::Operator => "operator.nk",
            Self::Account => "account.nk",
            Self::System => "system.nk",
            Self::Node => "role-node.nk",
            Self::Caller => "role-caller.nk",
            Self::Service => "role-service.nk",
            Self::SystemRole => "role-system.nk",
            Self::Newcomers => "newcomers.nk",
            Self::Newcomer => "role-newcomer.nk",
            Self::Enroller => "role-enroller.nk",
        }
    }
}

impl OrganisationLayout {
    /// The layout below this directory, which is best absolute.
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The public description.
    pub fn profile_file(&self) -> PathBuf {
        self.0.join("organisation.toml")
    }

    /// The operator's own token.
    pub fn operator_token(&self) -> PathBuf {
        self.0.join("operator.jwt")
    }

    /// The fleet's account token.
    pub fn account_token(&self) -> PathBuf {
        self.0.join("account.jwt")
    }

    /// The system account's token.
    pub fn system_token(&self) -> PathBuf {
        self.0.join("system.jwt")
    }

    /// The token of the newcomers' account, once there is one.
    pub fn newcomers_token(&self) -> PathBuf {
        self.0.join("newcomers.jwt")
    }

    /// The token of an account whose parties are issued here.
    pub fn realm_token(&self, realm: AccountRealm) -> PathBuf {
        match realm {
            AccountRealm::Fleet => self.account_token(),
            AccountRealm::Newcomers => self.newcomers_token(),
        }
    }

    /// The certificate of the TLS authority.
    pub fn authority_certificate(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// The list of issued credentials.
    pub fn ledger_file(&self) -> PathBuf {
        self.0.join("issued.jsonl")
    }

    /// The directory of secret keys.
    pub fn keys_directory(&self) -> PathBuf {
        self.0.join("keys")
    }

    /// A secret key.
    pub fn key_file(&self, key: OrganisationKey) -> PathBuf {
        self.keys_directory().join(key.file_name())
    }

    /// The secret key of the TLS authority.
    pub fn authority_key(&self) -> PathBuf {
        self.keys_directory().join("ca.key")
    }

    /// The directory of credentials.
    pub fn creds_directory(&self) -> PathBuf {
        self.0.join("creds")
    }

    /// Where the credentials of a party are put.
    pub fn principal_creds(&self, kind: PrincipalKind, name: &Identity) -> PathBuf {
        self.creds_directory()
            .join(kind.plural_name())
            .join(format!("{name}.creds"))
    }

    /// The credentials that may push account tokens to the broker.
    pub fn system_creds(&self) -> PathBuf {
        self.creds_directory().join("system.creds")
    }

    /// What the broker needs.
    pub fn broker_directory(&self) -> PathBuf {
        self.0.join("broker")
    }

    /// The broker's configuration.
    pub fn broker_config(&self) -> PathBuf {
        self.broker_directory().join("nats.conf")
    }

    /// The part of the broker's configuration that changes with the account.
    pub fn broker_accounts(&self) -> PathBuf {
        self.broker_directory().join("accounts.conf")
    }

    /// The broker's certificate.
    pub fn broker_certificate(&self) -> PathBuf {
        self.broker_directory().join("broker.pem")
    }

    /// The secret key of the broker's certificate.
    pub fn broker_key(&self) -> PathBuf {
        self.broker_directory().join("broker.key")
    }

    /// Where the broker keeps account tokens that were pushed to it.
    pub fn broker_tokens(&self) -> PathBuf {
        self.broker_directory().join("accounts")
    }
}
