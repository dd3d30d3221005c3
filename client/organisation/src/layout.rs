//! Paths of the files of an organisation. Opens no files.

use std::path::{Path, PathBuf};

use muster_wire::identity::Identity;

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
    /// Identity key of the bootstrap account.
    Newcomers,
    /// Signs bootstrap credentials, in the bootstrap account.
    Newcomer,
    /// Signs tokens of enrollers, in the bootstrap account.
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
    /// The layout below this directory. The path should be absolute.
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The public description.
    pub fn profile_file(&self) -> PathBuf {
        self.0.join("organisation.toml")
    }

    /// The operator's token.
    pub fn operator_token(&self) -> PathBuf {
        self.0.join("operator.jwt")
    }

    /// The account token of the fleet.
    pub fn account_token(&self) -> PathBuf {
        self.0.join("account.jwt")
    }

    /// The account token of the system account.
    pub fn system_token(&self) -> PathBuf {
        self.0.join("system.jwt")
    }

    /// The account token of the bootstrap account. The file may be missing in older organisations.
    pub fn newcomers_token(&self) -> PathBuf {
        self.0.join("newcomers.jwt")
    }

    /// The account token of this account.
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

    /// The file of a secret key.
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

    /// The default path of a principal's credentials.
    pub fn principal_creds(&self, kind: PrincipalKind, name: &Identity) -> PathBuf {
        self.creds_directory().join(format!("{kind}s")).join(format!("{name}.creds"))
    }

    /// The credentials that push account tokens to the broker.
    pub fn system_creds(&self) -> PathBuf {
        self.creds_directory().join("system.creds")
    }

    /// The directory with all files of the broker.
    pub fn broker_directory(&self) -> PathBuf {
        self.0.join("broker")
    }

    /// The broker's configuration.
    pub fn broker_config(&self) -> PathBuf {
        self.broker_directory().join("nats.conf")
    }

    /// The included part of the broker's configuration that changes with the accounts.
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

    /// The directory in which the broker stores pushed account tokens.
    pub fn broker_tokens(&self) -> PathBuf {
        self.broker_directory().join("accounts")
    }
}
