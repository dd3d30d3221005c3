//! Bundles: directories with all files that a node or a user needs, ready to be copied to the target machine.

use std::path::Path;

use muster_files::files;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::{PublicKey, UserCredentials};
use serde::Serialize;

use crate::machines::file::{MachineFile, write_files};
use crate::{
    AccountRealm, MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey, PrincipalKind,
};

/// Directory of the provisioner on its host.
pub const PROVISIONER_HOME: &str = "/etc/muster/provisioner";

/// File names in a bundle.
pub mod name {
    /// Configuration of rpcd.
    pub const NODE_CONFIG: &str = "rpcd.toml";
    /// Credentials of rpcd.
    pub const NODE_CREDS: &str = "node.creds";
    /// Configuration of rpc.
    pub const USER_CONFIG: &str = "rpc.toml";
    /// Credentials of rpc.
    pub const USER_CREDS: &str = "user.creds";
    /// Account token of the fleet.
    pub const ACCOUNT: &str = "account.jwt";
    /// Certificate of the TLS authority.
    pub const AUTHORITY: &str = "ca.pem";
    /// Token of the bootstrap account.
    pub const NEWCOMERS: &str = "newcomers.jwt";
    /// Credentials of the provisioner in the fleet's account.
    pub const SERVICE_CREDS: &str = "service.creds";
    /// Credentials of the provisioner in the bootstrap account.
    pub const NEWCOMERS_CREDS: &str = "newcomers.creds";
    /// Secret key that signs node tokens.
    pub const NODE_KEY: &str = "node-signing.nk";
    /// Part of `rpcd.toml` on the provisioner's host that names these files.
    pub const PROVISIONER_CONFIG: &str = "provisioner.toml";
}

/// The sections of `rpcd.toml` that follow from the organisation.
#[derive(Debug, Serialize)]
pub struct NodeBundleConfig<'a, Extra: Serialize> {
    identity: &'a Identity,
    collectives: &'a [SubjectName],
    broker: BundleBrokerSection<'a>,
    trust: BundleTrustSection,
    #[serde(flatten)]
    extra: Extra,
}

/// The contents of `rpc.toml`.
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

/// No configuration sections beyond those of every node.
#[derive(Debug, Serialize)]
pub struct NoExtraConfig {}

/// Fails if the directory already holds a configuration, which may be that of another fleet.
pub fn require_free(directory: &Path, kind: PrincipalKind) -> Result<(), OrganisationError> {
    let names = match kind {
        PrincipalKind::User => [name::USER_CONFIG, name::USER_CREDS],
        _ => [name::NODE_CONFIG, name::NODE_CREDS],
    };
    require_absent(directory, &names)
}

/// Fails if the directory already holds one of these files.
pub fn require_absent(directory: &Path, names: &[&str]) -> Result<(), OrganisationError> {
    let mut paths = names.iter().map(|name| directory.join(name));
    paths.find(|path| path.exists()).map_or(Ok(()), |path| Err(OrganisationError::Configured(path)))
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
        write_files(directory, &self.node_files(creds, identity, extra)?)
    }

    /// The files of a node below its configuration directory; the configuration is the last one. `extra` are further sections of it.
    pub fn node_files(
        &self,
        creds: &UserCredentials,
        identity: &Identity,
        extra: impl Serialize,
    ) -> Result<Vec<MachineFile>, OrganisationError> {
        let config = NodeBundleConfig {
            identity,
            collectives: &self.profile().collectives,
            broker: self.broker_section(name::NODE_CREDS),
            trust: self.trust_section(),
            extra,
        };
        let header = "# Configuration of rpcd on this node. Paths are relative to this file.\n\n";
        let mut files = self.trust_files()?;
        files.push(MachineFile::secret(name::NODE_CREDS, creds.to_text().as_str()));
        files.push(config_file(name::NODE_CONFIG, header, &config)?);
        Ok(files)
    }

    /// Writes a user's files to a directory.
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
        let header = "# Configuration of rpc for this user. Paths are relative to this file.\n\n";
        let mut files = self.trust_files()?;
        files.push(MachineFile::secret(name::USER_CREDS, creds.to_text().as_str()));
        files.push(config_file(name::USER_CONFIG, header, &config)?);
        write_files(directory, &files)
    }

    /// Adds the other files that the provisioner's host needs to a directory with its credentials: the key that signs nodes, the account tokens,
    /// the authority's certificate, and the configuration section with their paths on that host.
    pub fn bundle_provisioner(&self, directory: &Path) -> Result<(), OrganisationError> {
        let remote_path = |file: &str| format!("\"{PROVISIONER_HOME}/{file}\"");
        let config = format!(
            "# For conf.d of rpcd on the provisioner's host.\n\n\
             [plugins.provisioner]\nenabled = true\ncredentials = {}\n\n\
             [plugins.provisioner.newcomers]\ncredentials = {}\naccount = {}\nnode_key = {}\n",
            remote_path(name::SERVICE_CREDS),
            remote_path(name::NEWCOMERS_CREDS),
            remote_path(name::NEWCOMERS),
            remote_path(name::NODE_KEY),
        );
        let seed = self.load_key(OrganisationKey::Node)?.seed_text();
        files::replace_secret(&directory.join(name::NODE_KEY), seed.as_bytes())?;
        let newcomers = self.token_text(AccountRealm::Newcomers)?;
        let public_files = [
            (name::PROVISIONER_CONFIG, Some(config)),
            (name::NEWCOMERS, Some(newcomers)),
            (name::ACCOUNT, Some(self.token_text(AccountRealm::Fleet)?)),
            (name::AUTHORITY, self.authority_text()?),
        ];
        for (file, text) in public_files {
            if let Some(text) = text {
                files::replace_public(&directory.join(file), text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The account token that is in force, as text.
    pub fn token_text(&self, realm: AccountRealm) -> Result<String, OrganisationError> {
        self.realm_trust(realm).map(|trust| format!("{}\n", trust.account_token()))
    }

    /// The certificate of the TLS authority. `None` if the broker runs without TLS.
    pub fn authority_text(&self) -> Result<Option<String>, OrganisationError> {
        if !self.profile().broker.tls {
            return Ok(None);
        }
        Ok(Some(files::read_text(&self.layout().authority_certificate(), MAX_FILE_BYTES)?))
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
        BundleTrustSection { operator: self.profile().operator, account: name::ACCOUNT }
    }

    /// The account token, and the certificate of the TLS authority.
    fn trust_files(&self) -> Result<Vec<MachineFile>, OrganisationError> {
        let account = files::read_text(&self.layout().account_token(), MAX_FILE_BYTES)?;
        let authority = self.authority_text()?;
        let authority = authority.map(|text| MachineFile::public(name::AUTHORITY, text));
        Ok([MachineFile::public(name::ACCOUNT, account)].into_iter().chain(authority).collect())
    }
}

fn config_file(
    file: &str,
    header: &str,
    config: &impl Serialize,
) -> Result<MachineFile, OrganisationError> {
    let body = toml::to_string(config)
        .map_err(|error| OrganisationError::Format("the configuration", error.into()))?;
    Ok(MachineFile::public(file, format!("{header}{body}")))
}
