//! Creates an organisation in an empty directory.
//!
//! The description is written last. A directory without one is not an organisation, so an interrupted creation has no effect.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_files::ProtectedFileError;
use muster_files::files;
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::token::UserRole;
use muster_wire::token::encode::{self, TokenValidity};
use rcgen::ExtendedKeyUsagePurpose;

use crate::account::{account_claims, system_claims, write_token};
use crate::authority::CertificateWithKey;
use crate::nats_config::NatsServerConfig;
use crate::profile::{self, BrokerProfile, OrganisationProfile};
use crate::{
    AccountRealm, MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey,
    OrganisationLayout, OrganisationLock, authority,
};

/// Write permission bits of group and others.
const OTHERS_WRITE: u32 = 0o022;

/// Properties of the new organisation.
#[derive(Debug, Clone)]
pub struct OrganisationSpec {
    /// An empty directory, or one that does not exist yet.
    pub directory: PathBuf,
    /// Display name. Default: the directory's name.
    pub name: Option<String>,
    /// Collectives, the first tokens of subjects.
    pub collectives: Vec<SubjectName>,
    /// Host names and addresses of the broker.
    pub hosts: Vec<String>,
    /// Port of the broker; -1 selects any free port.
    pub port: i32,
    /// Whether the broker uses TLS.
    pub tls: bool,
}

/// Creates the organisation.
pub fn create_organisation(
    spec: OrganisationSpec,
    now: Millis,
) -> Result<Organisation, OrganisationError> {
    let directory = std::path::absolute(&spec.directory).unwrap_or(spec.directory);
    let name = spec.name.unwrap_or_else(|| default_name(&directory));
    if !profile::is_valid_name(&name) {
        return Err(OrganisationError::Name(name));
    }
    require_hosts(&spec.hosts)?;
    require_empty(&directory)?;
    require_protected(&directory)?;
    let layout = OrganisationLayout::new(directory);
    for private in [
        layout.directory(),
        &layout.keys_directory(),
        &layout.creds_directory(),
        &layout.broker_directory(),
    ] {
        files::create_private_directory(private)?;
    }
    let public_key = |key| layout.create_key(key).map(|pair| pair.public_key());
    let mut organisation = Organisation {
        profile: OrganisationProfile {
            name,
            collectives: spec.collectives,
            operator: public_key(OrganisationKey::Operator)?,
            account: public_key(OrganisationKey::Account)?,
            storage_account: Some(public_key(OrganisationKey::Storage)?),
            system_account: public_key(OrganisationKey::System)?,
            newcomers_account: None,
            broker: BrokerProfile {
                urls: broker_urls(spec.tls, &spec.hosts, spec.port),
                port: spec.port,
                tls: spec.tls,
                leafs: Vec::new(),
            },
        },
        layout,
    };
    if spec.tls {
        organisation.write_authority()?;
        organisation.write_certificate(&spec.hosts)?;
    }
    organisation.create_tokens(now)?;
    organisation.create_newcomers_account(now)?;
    organisation.write_broker_accounts()?;
    let conf = NatsServerConfig::for_organisation(&organisation);
    conf.write_config(&organisation.layout.broker_config())?;
    // Written last: only a directory with this file is an organisation.
    organisation.write_profile()?;
    Ok(organisation)
}

impl Organisation {
    /// Creates the keys of the roles, the tokens of operator, fleet and system account, and the credentials that push account tokens.
    fn create_tokens(&self, now: Millis) -> Result<(), OrganisationError> {
        let (layout, profile) = (&self.layout, &self.profile);
        let validity = TokenValidity::without_end(now / 1000);
        let public_key = |key| layout.create_key(key).map(|pair| pair.public_key());
        let role_keys = [
            (UserRole::Node, public_key(OrganisationKey::Node)?),
            (UserRole::Caller, public_key(OrganisationKey::Caller)?),
            (UserRole::Service, public_key(OrganisationKey::Service)?),
        ];
        let mut fleet = account_claims(AccountRealm::Fleet, &role_keys, &profile.collectives);
        self.refresh_account(&mut fleet, AccountRealm::Fleet)?;
        fleet.broker = self.broker_record()?;
        let storage = self.storage_claims()?;
        let system = system_claims(public_key(OrganisationKey::SystemRole)?);
        let operator = self.load_key(OrganisationKey::Operator)?;
        self.write_operator_token(&operator, Vec::new(), now)?;
        for (path, name, account, claims) in [
            (layout.account_token(), profile.name.as_str(), profile.account, fleet),
            (layout.system_token(), "system", profile.system_account, system),
        ]
        .into_iter()
        .chain(profile.storage_account.map(|key| (layout.storage_token(), "storage", key, storage)))
        {
            let token = encode::issue_account_token(name, account, claims, validity, &operator)?;
            write_token(&path, &token)?;
        }
        let creds = self.issue_system_user(now)?;
        Ok(files::create_secret(&layout.system_creds(), creds.to_text().as_bytes())?)
    }

    fn write_authority(&self) -> Result<(), OrganisationError> {
        let generated = authority::generate_authority(&self.profile.name)?;
        files::replace_public(
            &self.layout.authority_certificate(),
            generated.certificate.as_bytes(),
        )?;
        Ok(files::create_secret(&self.layout.authority_key(), generated.key.as_bytes())?)
    }

    pub(crate) fn write_certificate(&self, hosts: &[String]) -> Result<(), OrganisationError> {
        let layout = &self.layout;
        let key = files::read_secret(&layout.authority_key(), MAX_FILE_BYTES)?;
        let issued = authority::issue_broker_certificate(&self.profile.name, &key, hosts)?;
        files::replace_secret(&layout.broker_key(), issued.key.as_bytes())?;
        Ok(files::replace_public(&layout.broker_certificate(), issued.certificate.as_bytes())?)
    }

    /// Issues a certificate with these names for a leaf node. It is not valid for clients, so the servers of a cluster refuse it for routes.
    pub(crate) fn issue_leaf_certificate(
        &self,
        hosts: &[String],
    ) -> Result<CertificateWithKey, OrganisationError> {
        require_hosts(hosts)?;
        let key = files::read_secret(&self.layout.authority_key(), MAX_FILE_BYTES)?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        authority::issue_server_certificate(&self.profile.name, &key, hosts, usages)
    }

    /// Replaces the broker's host names: issues a new certificate from the same authority and updates the URLs of nodes and clients.
    pub fn rename_broker(
        &mut self,
        _lock: &OrganisationLock,
        hosts: &[String],
    ) -> Result<(), OrganisationError> {
        require_hosts(hosts)?;
        if !self.profile.broker.tls {
            return Err(OrganisationError::PlainText);
        }
        self.write_certificate(hosts)?;
        self.set_urls(broker_urls(true, hosts, self.profile.broker.port))
    }
}

pub(crate) fn require_hosts(hosts: &[String]) -> Result<(), OrganisationError> {
    match hosts.iter().find(|host| !authority::is_host(host)) {
        Some(host) => Err(OrganisationError::Host(host.clone())),
        None => Ok(()),
    }
}

/// Fails if the directory is not empty. A missing directory counts as empty.
pub(crate) fn require_empty(directory: &Path) -> Result<(), OrganisationError> {
    match fs::read_dir(directory).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(OrganisationError::NotEmpty(directory.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(files::file_error("read", directory)(error).into()),
    }
}

/// Fails if other users can write to the directory or replace it. Checks every directory and symbolic link of the path.
/// Parent directories may have the sticky bit, as `/tmp` has: others cannot rename files there that they do not own.
/// The organisation's own directory must not be writable for others at all.
pub(crate) fn require_protected(directory: &Path) -> Result<(), OrganisationError> {
    let to_error = |source| OrganisationError::Unprotected(directory.to_owned(), source);
    let mut ancestors = directory.ancestors();
    let existing = ancestors.find(|path| path.symlink_metadata().is_ok());
    let existing = existing.unwrap_or(directory);
    muster_files::check_protected(existing).map_err(to_error)?;
    if existing != directory {
        return Ok(());
    }
    let metadata = fs::metadata(directory).map_err(files::file_error("read", directory))?;
    let (path, mode) = (directory.to_owned(), metadata.mode() & 0o7777);
    if mode & OTHERS_WRITE != 0 {
        return Err(to_error(ProtectedFileError::Writable { path, mode }));
    }
    Ok(())
}

fn default_name(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// URLs of the broker for nodes and clients. Without hosts, the loopback address only.
pub(crate) fn broker_urls(tls: bool, hosts: &[String], port: i32) -> Vec<String> {
    let scheme = if tls { "tls" } else { "nats" };
    let local = ["127.0.0.1".to_owned()];
    let hosts = if hosts.is_empty() { &local } else { hosts };
    hosts.iter().map(|host| format!("{scheme}://{}:{port}", bracket_ipv6(host))).collect()
}

/// Puts an IPv6 address in brackets, as URLs require.
fn bracket_ipv6(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::broker_urls;

    #[test]
    fn urls_name_every_host_or_the_local_machine() {
        let hosts = ["b.acme.net".to_owned(), "2001:db8::1".to_owned()];
        assert_eq!(
            broker_urls(true, &hosts, 4222),
            ["tls://b.acme.net:4222", "tls://[2001:db8::1]:4222"]
        );
        assert_eq!(broker_urls(false, &[], 4223), ["nats://127.0.0.1:4223"]);
    }
}
