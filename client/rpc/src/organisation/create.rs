//! Makes a new organisation in an empty directory. Its description is written last: without it, nothing is believed.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_secret::ProtectedFileError;
use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::token::claims::User;
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyKind, KeyPair};

use super::account::{self, RoleKeys};
use super::profile::{self, Broker, Profile};
use super::{FILE_BYTES, Key, Layout, Lock, Organisation, OrganisationError, authority};
use crate::broker::conf::Conf;
use crate::files;

/// Write permission of the group and of everybody.
const OTHERS_WRITE: u32 = 0o022;

/// What the new organisation shall be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// An empty or new directory.
    pub directory: PathBuf,
    /// For people; the directory's name when absent.
    pub name: Option<String>,
    /// First parts of subjects.
    pub collectives: Vec<Name>,
    /// Names and addresses under which the broker is reached.
    pub hosts: Vec<String>,
    /// The broker's port; -1 is any that is free.
    pub port: i32,
    /// Whether the broker speaks TLS.
    pub tls: bool,
}

/// The secret keys, while they are made.
struct Keys {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
    node: KeyPair,
    caller: KeyPair,
    service: KeyPair,
    system_role: KeyPair,
}

impl Keys {
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

    fn each(&self) -> [(Key, &KeyPair); 7] {
        [
            (Key::Operator, &self.operator),
            (Key::Account, &self.account),
            (Key::System, &self.system),
            (Key::Node, &self.node),
            (Key::Caller, &self.caller),
            (Key::Service, &self.service),
            (Key::SystemRole, &self.system_role),
        ]
    }
}

/// Makes the organisation.
pub fn create(plan: Plan, now: Millis) -> Result<Organisation, OrganisationError> {
    let directory = std::path::absolute(&plan.directory).unwrap_or(plan.directory);
    let name = plan.name.unwrap_or_else(|| default_name(&directory));
    if !profile::is_name(&name) {
        return Err(OrganisationError::Name(name));
    }
    require_hosts(&plan.hosts)?;
    require_empty(&directory)?;
    require_protected(&directory)?;
    let layout = Layout::new(directory);
    for private in [
        layout.directory(),
        &layout.keys(),
        &layout.creds(),
        &layout.broker(),
    ] {
        files::private_directory(private)?;
    }
    let keys = Keys::generate()?;
    let mut organisation = Organisation {
        profile: Profile {
            name,
            collectives: plan.collectives,
            operator: keys.operator.public(),
            account: keys.account.public(),
            system_account: keys.system.public(),
            newcomers_account: None,
            broker: Broker {
                urls: urls(plan.tls, &plan.hosts, plan.port),
                port: plan.port,
                tls: plan.tls,
            },
        },
        layout,
    };
    organisation.write_keys(&keys)?;
    organisation.write_tokens(&keys, now)?;
    organisation.found_newcomers(&keys.operator, now)?;
    if plan.tls {
        organisation.write_authority()?;
        organisation.write_certificate(&plan.hosts)?;
    }
    organisation.write_broker_accounts()?;
    let conf = Conf::of(&organisation);
    files::replace(&organisation.layout.broker_config(), conf.text().as_bytes())?;
    files::replace(
        &organisation.layout.profile(),
        organisation.profile.text()?.as_bytes(),
    )?;
    Ok(organisation)
}

impl Organisation {
    fn write_keys(&self, keys: &Keys) -> Result<(), OrganisationError> {
        for (key, pair) in keys.each() {
            files::create_secret(&self.layout.key(key), pair.seed().as_bytes())?;
        }
        Ok(())
    }

    fn write_tokens(&self, keys: &Keys, now: Millis) -> Result<(), OrganisationError> {
        let (layout, profile, at) = (&self.layout, &self.profile, now / 1000);
        let roles = RoleKeys {
            node: keys.node.public(),
            caller: keys.caller.public(),
            service: keys.service.public(),
        };
        let operator =
            account::operator_token(&profile.name, profile.system_account, &keys.operator, at)?;
        let (name, collectives) = (&profile.name, &profile.collectives);
        let fleet = account::fleet_token(
            name,
            profile.account,
            roles,
            collectives,
            &keys.operator,
            at,
        )?;
        let role = keys.system_role.public();
        let system = account::system_token(profile.system_account, role, &keys.operator, at)?;
        for (path, token) in [
            (layout.operator_token(), operator),
            (layout.account_token(), fleet),
            (layout.system_token(), system),
        ] {
            files::replace(&path, format!("{token}\n").as_bytes())?;
        }
        let path = layout.system_creds();
        let creds = self.system_user(&keys.system_role, now)?;
        Ok(files::create_secret(&path, creds.format().as_bytes())?)
    }

    /// The user of the system account that pushes account tokens.
    fn system_user(&self, role: &KeyPair, now: Millis) -> Result<Creds, OrganisationError> {
        let name = Identity::parse("system")
            .map_err(|error| OrganisationError::Name(error.to_string()))?;
        let pair = KeyPair::generate(KeyKind::User).map_err(OrganisationError::NewKey)?;
        let user = User::new(self.profile.system_account, Vec::new());
        let token = encode::user(&name, pair.public(), user, Validity::from(now / 1000), role)?;
        let path = self.layout.system_creds();
        Creds::new(&token, pair).map_err(|source| OrganisationError::Creds { path, source })
    }

    fn write_authority(&self) -> Result<(), OrganisationError> {
        let made = authority::new(&self.profile.name)?;
        files::replace(&self.layout.authority(), made.certificate.as_bytes())?;
        Ok(files::create_secret(
            &self.layout.authority_key(),
            made.key.as_bytes(),
        )?)
    }

    fn write_certificate(&self, hosts: &[String]) -> Result<(), OrganisationError> {
        let layout = &self.layout;
        let key = files::read_secret(&layout.authority_key(), FILE_BYTES)?;
        let made = authority::broker(&self.profile.name, &key, hosts)?;
        files::replace_secret(&layout.broker_key(), made.key.as_bytes())?;
        Ok(files::replace(
            &layout.broker_certificate(),
            made.certificate.as_bytes(),
        )?)
    }

    /// Gives the broker other names: a new certificate of the same authority, and addresses for nodes and clients.
    pub fn move_broker(&mut self, _lock: &Lock, hosts: &[String]) -> Result<(), OrganisationError> {
        require_hosts(hosts)?;
        if !self.profile.broker.tls {
            return Err(OrganisationError::PlainText);
        }
        self.write_certificate(hosts)?;
        self.set_urls(urls(true, hosts, self.profile.broker.port))
    }
}

fn require_hosts(hosts: &[String]) -> Result<(), OrganisationError> {
    match hosts.iter().find(|host| !authority::is_host(host)) {
        Some(host) => Err(OrganisationError::Host(host.clone())),
        None => Ok(()),
    }
}

/// A directory that is not there is as good as an empty one.
fn require_empty(directory: &Path) -> Result<(), OrganisationError> {
    match fs::read_dir(directory).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(OrganisationError::Occupied {
            directory: directory.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(files::failed("read", directory)(error).into()),
    }
}

/// Refuses a directory that others may write to, or could put another one in the place of: every directory and link of the path counts.
/// In a directory with the sticky bit, as /tmp, others cannot rename what is not theirs; in the organisation's own they must not write.
fn require_protected(directory: &Path) -> Result<(), OrganisationError> {
    let refused = |source| OrganisationError::Unprotected {
        directory: directory.to_owned(),
        source,
    };
    let mut above = directory.ancestors();
    let existing = above.find(|path| path.symlink_metadata().is_ok());
    let existing = existing.unwrap_or(directory);
    muster_secret::check_protected(existing).map_err(refused)?;
    if existing != directory {
        return Ok(());
    }
    let found = fs::metadata(directory).map_err(files::failed("read", directory))?;
    let (path, mode) = (directory.to_owned(), found.mode() & 0o7777);
    if mode & OTHERS_WRITE != 0 {
        return Err(refused(ProtectedFileError::Writable { path, mode }));
    }
    Ok(())
}

fn default_name(directory: &Path) -> String {
    directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Where nodes and clients find the broker. Without a host that is this machine only.
fn urls(tls: bool, hosts: &[String], port: i32) -> Vec<String> {
    let scheme = if tls { "tls" } else { "nats" };
    let local = ["127.0.0.1".to_owned()];
    let hosts = if hosts.is_empty() { &local } else { hosts };
    hosts
        .iter()
        .map(|host| format!("{scheme}://{}:{port}", bracketed(host)))
        .collect()
}

/// An IPv6 address in a URL stands in brackets.
fn bracketed(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::urls;

    #[test]
    fn urls_name_every_host_or_else_this_machine() {
        let hosts = ["b.acme.net".to_owned(), "2001:db8::1".to_owned()];
        assert_eq!(
            urls(true, &hosts, 4222),
            ["tls://b.acme.net:4222", "tls://[2001:db8::1]:4222"]
        );
        assert_eq!(urls(false, &[], 4223), ["nats://127.0.0.1:4223"]);
    }
}
