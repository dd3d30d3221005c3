//! Creates an organisation in an empty directory.
//!
//! The description is written last. A directory without one is not an organisation, so an interrupted creation has no effect.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_secret::ProtectedFileError;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyKind, KeyPair, UserCredentials};

use super::account::{self, RoleKeys};
use super::profile::{self, BrokerProfile, OrganisationProfile};
use super::{
    MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey, OrganisationLayout,
    OrganisationLock, authority,
};
use crate::broker::conf::NatsServerConfig;
use muster_secret::files;

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

/// The generated secret keys, before they are written.
struct GeneratedKeys {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
    node: KeyPair,
    caller: KeyPair,
    service: KeyPair,
    system_role: KeyPair,
}

impl GeneratedKeys {
    fn generate() -> Result<Self, OrganisationError> {
        let new = |kind| KeyPair::generate(kind).map_err(OrganisationError::NewKey);
        Ok(Self {
            operator: new(KeyKind::Operator)?,
            account: new(KeyKind::Account)?,
            system: new(KeyKind::Account)?,
            node: new(KeyKind::Account)?,
            caller: new(KeyKind::Account)?,
            service: new(KeyKind::Account)?,
            system_role: new(KeyKind::Account)?,
        })
    }

    fn all_keys(&self) -> [(OrganisationKey, &KeyPair); 7] {
        [
            (OrganisationKey::Operator, &self.operator),
            (OrganisationKey::Account, &self.account),
            (OrganisationKey::System, &self.system),
            (OrganisationKey::Node, &self.node),
            (OrganisationKey::Caller, &self.caller),
            (OrganisationKey::Service, &self.service),
            (OrganisationKey::SystemRole, &self.system_role),
        ]
    }
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
    let keys = GeneratedKeys::generate()?;
    let mut organisation = Organisation {
        profile: OrganisationProfile {
            name,
            collectives: spec.collectives,
            operator: keys.operator.public_key(),
            account: keys.account.public_key(),
            system_account: keys.system.public_key(),
            newcomers_account: None,
            broker: BrokerProfile {
                urls: broker_urls(spec.tls, &spec.hosts, spec.port),
                port: spec.port,
                tls: spec.tls,
            },
        },
        layout,
    };
    organisation.write_keys(&keys)?;
    organisation.write_tokens(&keys, now)?;
    organisation.create_newcomers_account(&keys.operator, now)?;
    if spec.tls {
        organisation.write_authority()?;
        organisation.write_certificate(&spec.hosts)?;
    }
    organisation.write_broker_accounts()?;
    let conf = NatsServerConfig::for_organisation(&organisation);
    files::replace_public(&organisation.layout.broker_config(), conf.render_text().as_bytes())?;
    // Written last: only a directory with this file is an organisation.
    files::replace_public(
        &organisation.layout.profile_file(),
        organisation.profile.to_toml()?.as_bytes(),
    )?;
    Ok(organisation)
}

impl Organisation {
    fn write_keys(&self, keys: &GeneratedKeys) -> Result<(), OrganisationError> {
        for (key, pair) in keys.all_keys() {
            files::create_secret(&self.layout.key_file(key), pair.seed_text().as_bytes())?;
        }
        Ok(())
    }

    fn write_tokens(&self, keys: &GeneratedKeys, now: Millis) -> Result<(), OrganisationError> {
        let (layout, profile, at) = (&self.layout, &self.profile, now / 1000);
        let roles = RoleKeys {
            node: keys.node.public_key(),
            caller: keys.caller.public_key(),
            service: keys.service.public_key(),
        };
        let operator =
            account::operator_token(&profile.name, profile.system_account, &keys.operator, at)?;
        let (name, collectives) = (&profile.name, &profile.collectives);
        let fleet =
            account::fleet_token(name, profile.account, roles, collectives, &keys.operator, at)?;
        let role = keys.system_role.public_key();
        let system = account::system_token(profile.system_account, role, &keys.operator, at)?;
        for (path, token) in [
            (layout.operator_token(), operator),
            (layout.account_token(), fleet),
            (layout.system_token(), system),
        ] {
            files::replace_public(&path, format!("{token}\n").as_bytes())?;
        }
        let path = layout.system_creds();
        let creds = self.system_user(&keys.system_role, now)?;
        Ok(files::create_secret(&path, creds.to_text().as_bytes())?)
    }

    /// Issues the system account user that pushes account tokens.
    fn system_user(
        &self,
        role: &KeyPair,
        now: Millis,
    ) -> Result<UserCredentials, OrganisationError> {
        let name = Identity::parse("system")
            .map_err(|error| OrganisationError::Name(error.to_string()))?;
        let pair = KeyPair::generate(KeyKind::User).map_err(OrganisationError::NewKey)?;
        let user = UserClaims::new(self.profile.system_account, Vec::new());
        let token = encode::issue_user_token(
            &name,
            pair.public_key(),
            user,
            TokenValidity::without_end(now / 1000),
            role,
        )?;
        let path = self.layout.system_creds();
        UserCredentials::new(&token, pair)
            .map_err(|source| OrganisationError::Creds { path, source })
    }

    fn write_authority(&self) -> Result<(), OrganisationError> {
        let generated = authority::generate_authority(&self.profile.name)?;
        files::replace_public(
            &self.layout.authority_certificate(),
            generated.certificate.as_bytes(),
        )?;
        Ok(files::create_secret(&self.layout.authority_key(), generated.key.as_bytes())?)
    }

    fn write_certificate(&self, hosts: &[String]) -> Result<(), OrganisationError> {
        let layout = &self.layout;
        let key = files::read_secret(&layout.authority_key(), MAX_FILE_BYTES)?;
        let issued = authority::issue_broker_certificate(&self.profile.name, &key, hosts)?;
        files::replace_secret(&layout.broker_key(), issued.key.as_bytes())?;
        Ok(files::replace_public(&layout.broker_certificate(), issued.certificate.as_bytes())?)
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

fn require_hosts(hosts: &[String]) -> Result<(), OrganisationError> {
    match hosts.iter().find(|host| !authority::is_host(host)) {
        Some(host) => Err(OrganisationError::Host(host.clone())),
        None => Ok(()),
    }
}

/// Fails if the directory is not empty. A missing directory counts as empty.
fn require_empty(directory: &Path) -> Result<(), OrganisationError> {
    match fs::read_dir(directory).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(OrganisationError::NotEmpty { directory: directory.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(files::file_error("read", directory)(error).into()),
    }
}

/// Fails if other users can write to the directory or replace it. Checks every directory and symbolic link of the path.
/// Parent directories may have the sticky bit, as `/tmp` has: others cannot rename files there that they do not own.
/// The organisation's own directory must not be writable for others at all.
fn require_protected(directory: &Path) -> Result<(), OrganisationError> {
    let to_error =
        |source| OrganisationError::Unprotected { directory: directory.to_owned(), source };
    let mut ancestors = directory.ancestors();
    let existing = ancestors.find(|path| path.symlink_metadata().is_ok());
    let existing = existing.unwrap_or(directory);
    muster_secret::check_protected(existing).map_err(to_error)?;
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
fn broker_urls(tls: bool, hosts: &[String], port: i32) -> Vec<String> {
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
    fn urls_name_every_host_or_else_this_machine() {
        let hosts = ["b.acme.net".to_owned(), "2001:db8::1".to_owned()];
        assert_eq!(
            broker_urls(true, &hosts, 4222),
            ["tls://b.acme.net:4222", "tls://[2001:db8::1]:4222"]
        );
        assert_eq!(broker_urls(false, &[], 4223), ["nats://127.0.0.1:4223"]);
    }
}
