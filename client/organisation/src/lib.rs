//! An organisation on disk: its keys, account tokens, issued credentials and broker certificate.
//!
//! ```text
//! operator key --signs--> account token --names--> signing key of a role --signs--> token of a principal
//! ```
//!
//! Read access to the directory gives full control of the organisation. Pushing, names and renewal connect to its broker. No function here prints.

#![warn(missing_docs)]

mod account;
mod account_publication;
mod administration_keys;
mod authority;
mod authority_rotation;
mod backup;
mod balance;
mod broker_operators;
mod broker_record;
mod broker_status;
pub mod bundle;
pub mod cloud_init;
mod cluster_config;
mod create;
pub mod enrol_script;
mod error;
mod issue;
mod layout;
mod leaf_role;
mod ledger;
mod lost_names;
pub mod machines;
mod monitor_role;
mod names;
mod nats_config;
mod newcomers;
mod newer_tokens;
mod older_copy;
mod operator_rotation;
mod profile;
mod programs;
mod prune;
mod push;
mod renewal;
mod rotation;
mod server_address;
mod server_reports;
mod server_tokens;
mod services;
mod ssh_authority;
mod starter;
mod storage_account;
mod store_backup;
mod store_cleaning;
mod store_declaration;
mod stream_copies;
#[cfg(test)]
mod testing;

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use muster_wire::token::{AccountTrust, KeyPair, PublicKey};

use muster_files::files;

pub use backup::{BackupFileError, BackupSummary, MIN_PASSPHRASE_CHARS, restore_backup};
pub use balance::{BalanceReport, DEFAULT_MOVES_PER_SECOND, ServerLoad};
pub use broker_operators::BrokerOperators;
pub use broker_status::{
    BrokerStatus, LeafStatus, RunningServer, ServerStatus, StreamFollower, StreamStatus,
};
pub use cluster_config::{ClusterSettings, DEFAULT_LEAF_PORT, DEFAULT_ROUTE_PORT, LeafSettings};
pub use create::{OrganisationSpec, create_organisation};
pub use error::OrganisationError;
pub use issue::{CredentialSpec, IssuedCredentials, PreparedCredentials};
pub use layout::{OrganisationKey, OrganisationLayout};
pub use ledger::{AccountRealm, CredentialRecord, CredentialState, PrincipalKind, RecordIndex};
pub use names::NameRegister;
pub use nats_config::{
    DEFAULT_MAX_CONNECTIONS, DEFAULT_MONITORING_PORT, NatsServerConfig, PACKAGE_STATE_DIRECTORY,
};
pub use newcomers::AccountTrusts;
pub use newer_tokens::{AdoptedToken, BrokerTokens};
pub use profile::{BrokerProfile, LeafProfile, OrganisationProfile};
pub use programs::{ProgramError, ProgramFile};
pub use push::PushError;
pub use rotation::RotationStart;
pub use server_address::{ServerAddress, ServerAddressError};
pub use ssh_authority::{OfflineCertificate, OfflineCertificateError};
pub use store_backup::{BackupError, RestoredStores, StoreBackup};
pub use store_cleaning::StoredKeys;
pub use store_declaration::{MissingStores, StoreChange, StoreChangeKind, StoreOptions};

/// Largest organisation file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// An opened organisation directory.
#[derive(Debug)]
pub struct Organisation {
    layout: OrganisationLayout,
    profile: OrganisationProfile,
}

/// Exclusive lock on an organisation's files. Dropping it releases the lock.
#[derive(Debug)]
pub struct OrganisationLock(
    #[expect(dead_code, reason = "never read: dropping the file releases the lock")] File,
);

impl Organisation {
    /// Opens the given directory, otherwise the one that the environment names, otherwise the current directory or the default one, if it is an
    /// organisation.
    pub fn open_selected(
        given: Option<&Path>,
        environment: Option<&Path>,
        default: Option<&Path>,
    ) -> Result<Self, OrganisationError> {
        if let Some(directory) = given.or(environment) {
            return Self::open(directory);
        }
        let is_one =
            |path: &&Path| OrganisationLayout::new(path.to_path_buf()).profile_file().is_file();
        let found = [Some(Path::new(".")), default].into_iter().flatten().find(is_one);
        Self::open(found.ok_or(OrganisationError::NoDirectory)?)
    }

    /// Opens the organisation in this directory.
    pub fn open(directory: &Path) -> Result<Self, OrganisationError> {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let layout = OrganisationLayout::new(absolute);
        if !layout.profile_file().is_file() {
            return Err(OrganisationError::NotAnOrganisation(layout.directory().to_owned()));
        }
        let text = files::read_text(&layout.profile_file(), MAX_FILE_BYTES)?;
        let profile = toml::from_str(&text)
            .map_err(|error| OrganisationError::Profile(layout.profile_file(), Box::new(error)))?;
        Ok(Self { layout, profile })
    }

    /// Waits for the exclusive lock on the organisation.
    ///
    /// The locked file may have been replaced while waiting. Other processes then lock the replacement, so the function locks that one instead.
    pub fn lock(&self) -> Result<OrganisationLock, OrganisationError> {
        let path = self.layout.profile_file();
        let failed = files::file_error("lock", &path);
        loop {
            let file = File::open(&path).map_err(&failed)?;
            file.lock().map_err(&failed)?;
            let (locked, current) = (file.metadata(), std::fs::metadata(&path));
            let number = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
            if locked.map(number).map_err(&failed)? == current.map(number).map_err(&failed)? {
                return Ok(OrganisationLock(file));
            }
        }
    }

    /// Paths of the organisation's files.
    pub fn layout(&self) -> &OrganisationLayout {
        &self.layout
    }

    /// The public description.
    pub fn profile(&self) -> &OrganisationProfile {
        &self.profile
    }

    /// Replaces the broker URLs.
    pub fn set_urls(&mut self, urls: Vec<String>) -> Result<(), OrganisationError> {
        self.profile.broker.urls = urls;
        self.write_profile()
    }

    /// Replaces the file with the description.
    fn write_profile(&self) -> Result<(), OrganisationError> {
        let text = self.profile.to_toml()?;
        Ok(files::replace_public(&self.layout.profile_file(), text.as_bytes())?)
    }

    /// The verified account token of the fleet that is in force.
    pub fn fleet_trust(&self) -> Result<AccountTrust, OrganisationError> {
        self.realm_trust(AccountRealm::Fleet)
    }

    /// The verified account token of this account that is in force.
    pub fn realm_trust(&self, realm: AccountRealm) -> Result<AccountTrust, OrganisationError> {
        if self.realm_account(realm).is_none() {
            return Err(match realm {
                AccountRealm::Newcomers => OrganisationError::NoNewcomers,
                _ => OrganisationError::NoStorage,
            });
        }
        let path = self.layout.realm_token(realm);
        let token = files::read_text(&path, MAX_FILE_BYTES)?;
        AccountTrust::new(self.profile.operator, token.trim())
            .map_err(|source| OrganisationError::Token(path, source))
    }

    /// The accounts that the organisation has, without the system account.
    pub(crate) fn realms(&self) -> impl Iterator<Item = AccountRealm> + use<> {
        let present = |realm: &AccountRealm| self.realm_account(*realm).is_some();
        let realms = [AccountRealm::Fleet, AccountRealm::Storage, AccountRealm::Newcomers];
        realms.into_iter().filter(present).collect::<Vec<_>>().into_iter()
    }

    /// The key of this account; `None` if the organisation does not have it.
    pub(crate) fn realm_account(&self, realm: AccountRealm) -> Option<PublicKey> {
        match realm {
            AccountRealm::Fleet => Some(self.profile.account),
            AccountRealm::Storage => self.profile.storage_account,
            AccountRealm::Newcomers => self.profile.newcomers_account,
        }
    }

    /// The key of the account that has the stores.
    pub(crate) fn stores_account(&self) -> PublicKey {
        self.profile.storage_account.unwrap_or(self.profile.account)
    }

    /// The account that has the stores.
    pub(crate) fn stores_realm(&self) -> AccountRealm {
        match self.profile.storage_account {
            Some(_) => AccountRealm::Storage,
            None => AccountRealm::Fleet,
        }
    }

    /// Reads one of the secret keys.
    pub fn load_key(&self, key: OrganisationKey) -> Result<KeyPair, OrganisationError> {
        let path = self.layout.key_file(key);
        let seed = files::read_secret(&path, MAX_FILE_BYTES)?;
        KeyPair::from_seed(seed.trim())
            .and_then(|pair| pair.public_key().expect_kind(key.key_kind()).map(|_| pair))
            .map_err(|source| OrganisationError::Key(path, source))
    }

    /// Reads one of the secret keys, or generates it if it is missing. An interrupted command may have left it.
    fn load_or_create_key(&self, key: OrganisationKey) -> Result<KeyPair, OrganisationError> {
        if self.layout.key_file(key).exists() {
            self.load_key(key)
        } else {
            self.layout.create_key(key)
        }
    }
}

impl OrganisationLayout {
    /// Generates one of the secret keys. Fails if it exists.
    fn create_key(&self, key: OrganisationKey) -> Result<KeyPair, OrganisationError> {
        let pair = KeyPair::generate(key.key_kind()).map_err(OrganisationError::NewKey)?;
        files::create_secret(&self.key_file(key), pair.seed_text().as_bytes())?;
        Ok(pair)
    }
}
