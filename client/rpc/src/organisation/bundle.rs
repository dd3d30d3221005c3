//! Bundles: a directory with all that a node's or a user's machine needs, ready to be copied to it.

use std::path::Path;

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::{PublicKey, UserCredentials};
use serde::Serialize;

use super::{
    AccountRealm, MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey, PrincipalKind,
    issue,
};
use crate::files;

/// Where the provisioner's directory is on its host.
pub const PROVISIONER_HOME: &str = "/etc/muster/provisioner";

/// The names of the files in a bundle.
pub mod name {
    /// The daemon's configuration.
    pub const NODE_CONFIG: &str = "rpcd.toml";
    /// The daemon's credentials.
    pub const NODE_CREDS: &str = "node.creds";
    /// The client's configuration.
    pub const USER_CONFIG: &str = "rpc.toml";
    /// The client's credentials.
    pub const USER_CREDS: &str = "user.creds";
    /// The fleet's account token.
    pub const ACCOUNT: &str = "account.jwt";
    /// The TLS authority.
    pub const AUTHORITY: &str = "ca.pem";
    /// The newcomers' account token.
    pub const NEWCOMERS: &str = "newcomers.jwt";
    /// The provisioner's credentials in the fleet.
    pub const SERVICE_CREDS: &str = "service.creds";
    /// The provisioner's credentials in the newcomers' account.
    pub const NEWCOMERS_CREDS: &str = "newcomers.creds";
    /// The key that signs nodes.
    pub const NODE_KEY: &str = "node-signing.nk";
    /// The part of `rpcd.toml` on the provisioner's host that names these.
    pub const PROVISIONER_CONFIG: &str = "provisioner.toml";
}

/// `rpcd.toml`, as far as an organisation knows it.
#[derive(Debug, Serialize)]
pub struct NodeBundleConfig<'a, Extra: Serialize> {
    identity: &'a Identity,
    collectives: &'a [SubjectName],
    broker: BundleBrokerSection<'a>,
    trust: BundleTrustSection,
    #[serde(flatten)]
    extra: Extra,
}

/// `rpc.toml`.
#[derive(Debug, Serialize)]
struct UserBundleConfig<'a> {
    collective: &'a str,
    broker: BundleBrokerSection<'a>,
    trust: BundleTrustSection,
}

#[derive(Debug, Serialize)]
struct BundleBrokerSection<'a> {
    urls: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<&'static str>,
    credentials: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    plaintext_on_loopback: bool,
}

#[derive(Debug, Serialize)]
struct BundleTrustSection {
    operator: PublicKey,
    account: &'static str,
}

/// Nothing beyond what every node has.
#[derive(Debug, Serialize)]
pub struct NoExtraConfig {}

/// Refuses a directory that holds a configuration already: it may be another fleet's.
pub fn require_free(directory: &Path, kind: PrincipalKind) -> Result<(), OrganisationError> {
    require_absent(
        directory,
        match kind {
            PrincipalKind::User => &[name::USER_CONFIG, name::USER_CREDS],
            PrincipalKind::Node
            | PrincipalKind::Service
            | PrincipalKind::Newcomer
            | PrincipalKind::Enroller => &[name::NODE_CONFIG, name::NODE_CREDS],
        },
    )
}

/// Refuses a directory that holds one of these files.
pub fn require_absent(directory: &Path, names: &[&str]) -> Result<(), OrganisationError> {
    let mut paths = names.iter().map(|name| directory.join(name));
    paths
        .find(|path| path.exists())
        .map_or(Ok(()), |path| Err(OrganisationError::Configured(path)))
}

impl Organisation {
    /// Fills a directory for a node. `extra` are further sections of its configuration.
    pub fn bundle_node(
        &self,
        directory: &Path,
        creds: &UserCredentials,
        identity: &Identity,
        extra: impl Serialize,
    ) -> Result<(), OrganisationError> {
        let config = NodeBundleConfig {
            identity,
            collectives: &self.profile().collectives,
            broker: self.broker_section(name::NODE_CREDS),
            trust: self.trust_section(),
            extra,
        };
        let head = "# Configuration of rpcd on this node. Paths are relative to this file.\n\n";
        self.write_config(directory, name::NODE_CONFIG, head, &config)?;
        issue::write_credentials(&directory.join(name::NODE_CREDS), creds)
    }

    /// Fills a directory for a user.
    pub fn bundle_user(
        &self,
        directory: &Path,
        creds: &UserCredentials,
    ) -> Result<(), OrganisationError> {
        let config = UserBundleConfig {
            collective: self.profile().main_collective(),
            broker: self.broker_section(name::USER_CREDS),
            trust: self.trust_section(),
        };
        let head = "# Configuration of rpc for this user. Paths are relative to this file.\n\n";
        self.write_config(directory, name::USER_CONFIG, head, &config)?;
        issue::write_credentials(&directory.join(name::USER_CREDS), creds)
    }

    /// Adds to the provisioner's credentials in a directory what else its host needs: the key that signs nodes, the accounts' tokens,
    /// the authority, and the part of the configuration that names them where they will be.
    pub fn bundle_provisioner(&self, directory: &Path) -> Result<(), OrganisationError> {
        let there = |file: &str| format!("\"{PROVISIONER_HOME}/{file}\"");
        let config = format!(
            "# For conf.d of rpcd on the provisioner's host.\n\n\
             [plugins.provisioner]\nenabled = true\ncredentials = {}\n\n\
             [plugins.provisioner.newcomers]\ncredentials = {}\naccount = {}\nnode_key = {}\n",
            there(name::SERVICE_CREDS),
            there(name::NEWCOMERS_CREDS),
            there(name::NEWCOMERS),
            there(name::NODE_KEY),
        );
        let seed = self.load_key(OrganisationKey::Node)?.seed_text();
        files::replace_secret(&directory.join(name::NODE_KEY), seed.as_bytes())?;
        let newcomers = self.token_text(AccountRealm::Newcomers)?;
        let public = [
            (name::PROVISIONER_CONFIG, Some(config)),
            (name::NEWCOMERS, Some(newcomers)),
            (name::ACCOUNT, Some(self.token_text(AccountRealm::Fleet)?)),
            (name::AUTHORITY, self.authority_text()?),
        ];
        for (file, text) in public {
            if let Some(text) = text {
                files::replace_public(&directory.join(file), text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// An account's token, as it is in force.
    pub fn token_text(&self, realm: AccountRealm) -> Result<String, OrganisationError> {
        self.realm_trust(realm)
            .map(|trust| format!("{}\n", trust.account_token()))
    }

    /// The certificate of the TLS authority; nothing for a broker without TLS.
    pub fn authority_text(&self) -> Result<Option<String>, OrganisationError> {
        if !self.profile().broker.tls {
            return Ok(None);
        }
        Ok(Some(files::read_text(
            &self.layout().authority_certificate(),
            MAX_FILE_BYTES,
        )?))
    }

    fn broker_section(&self, credentials: &'static str) -> BundleBrokerSection<'_> {
        let broker = &self.profile().broker;
        BundleBrokerSection {
            urls: &broker.urls,
            ca: broker.tls.then_some(name::AUTHORITY),
            credentials,
            plaintext_on_loopback: !broker.tls,
        }
    }

    fn trust_section(&self) -> BundleTrustSection {
        BundleTrustSection {
            operator: self.profile().operator,
            account: name::ACCOUNT,
        }
    }

    fn write_config(
        &self,
        directory: &Path,
        file: &str,
        head: &str,
        config: &impl Serialize,
    ) -> Result<(), OrganisationError> {
        let body = toml::to_string(config).map_err(|error| OrganisationError::Format {
            what: "the configuration",
            source: error.into(),
        })?;
        files::create_private_directory(directory)?;
        files::replace_public(&directory.join(file), format!("{head}{body}").as_bytes())?;
        let copy = |from: &Path, to: &str| {
            files::replace_public(
                &directory.join(to),
                files::read_text(from, MAX_FILE_BYTES)?.as_bytes(),
            )
        };
        copy(&self.layout().account_token(), name::ACCOUNT)?;
        if self.profile().broker.tls {
            copy(&self.layout().authority_certificate(), name::AUTHORITY)?;
        }
        Ok(())
    }
}
