//! The account of the fleet's stores. The broker answers requests to a stream without a check of permissions, on any subject of the stream's account: so the
//! fleet, which sends them, is in another one. See [`muster_wire::token::storage`].

use muster_base::unix_millis_now;
use muster_bus::Bus;
use muster_files::files;
use muster_wire::Millis;
use muster_wire::stores;
use muster_wire::token::claims::{AccountClaims, AccountLimits, SigningKeyEntry};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::scope::{ADMINISTRATOR_ROLE, administrator_template};

use crate::account::write_token;
use crate::push::PushError;
use crate::{
    AccountRealm, MissingStores, Organisation, OrganisationError, OrganisationKey,
    OrganisationLock, StoreOptions,
};

impl Organisation {
    /// Claims of a new account of the stores.
    pub(crate) fn storage_claims(&self) -> Result<AccountClaims, OrganisationError> {
        let mut claims = AccountClaims::new(AccountLimits::default(), Vec::new());
        self.refresh_account(&mut claims, AccountRealm::Storage)?;
        self.add_administrator_key(&mut claims)?;
        Ok(claims)
    }

    /// Moves the stores of an organisation of an earlier version from the fleet's account to one of their own. Returns the number of keys, or `None` if they are
    /// there already.
    ///
    /// The broker has space for one of the two, so what cannot be written again is kept in a file meanwhile. An interrupted move continues with the same command.
    pub async fn move_stores(
        &mut self,
        lock: &OrganisationLock,
        options: StoreOptions,
        now: Millis,
    ) -> Result<Option<usize>, PushError> {
        // Another process may have moved them before this one got the lock.
        self.profile = Self::open(self.layout.directory())?.profile;
        if self.profile().storage_account.is_some() {
            return Ok(None);
        }
        let path = self.layout().moved_keys();
        if !path.exists() {
            if self.refresh_administrators(lock, now)? {
                self.push_account(AccountRealm::Fleet).await?;
            }
            let fleet = self.connect_administrator(now).await?;
            self.copy_keys(&fleet, now).await?.write(&path)?;
            remove_stores(&fleet).await?;
            fleet.close().await?;
        }
        let keys = self.read_backup(&path)?;
        self.create_storage_account(now)?;
        // The new account must be known before the fleet's imports from it, and gets its space when the fleet's account has none.
        self.push_account(AccountRealm::Storage).await?;
        self.refresh_scopes(lock, now)?;
        self.push_account(AccountRealm::Fleet).await?;
        self.push_account(AccountRealm::Storage).await?;
        let options = StoreOptions { missing: MissingStores::CreateLost, ..options };
        let count = self.restore_stores(&keys, options, unix_millis_now).await?.written;
        self.write_profile()?;
        std::fs::remove_file(&path)
            .map_err(files::file_error("remove", &path))
            .map_err(OrganisationError::from)?;
        Ok(Some(count))
    }

    /// Gives the administrators of the fleet's account the permissions of this version, which finds and removes more stores than the earlier one. Returns whether
    /// the account token was signed again.
    fn refresh_administrators(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<bool, OrganisationError> {
        let mut account = self.realm_trust(AccountRealm::Fleet)?.claims().nats.clone();
        let before = account.clone();
        for entry in &mut account.signing_keys {
            if let SigningKeyEntry::Scoped(scope) = entry
                && scope.role == ADMINISTRATOR_ROLE
            {
                scope.template = administrator_template();
            }
        }
        let is_changed = account != before;
        if is_changed {
            self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        }
        Ok(is_changed)
    }

    /// Creates key and token of the account, without space. The description that names it is not written.
    fn create_storage_account(&mut self, now: Millis) -> Result<(), OrganisationError> {
        let account = self.load_or_create_key(OrganisationKey::Storage)?.public_key();
        self.profile.storage_account = Some(account);
        let operator = self.load_key(OrganisationKey::Operator)?;
        let validity = TokenValidity::without_end(now / 1000);
        let mut claims = self.storage_claims()?;
        claims.limits = AccountLimits::default();
        let token = encode::issue_account_token("storage", account, claims, validity, &operator)?;
        Ok(write_token(&self.layout.storage_token(), &token)?)
    }
}

/// Removes the stores from the fleet's account. After an interrupted removal, the rest stays in the server's directory.
async fn remove_stores(fleet: &Bus) -> Result<(), PushError> {
    for store in stores::ALL_BUCKETS.map(|store| store.name) {
        if fleet.has_bucket(store).await? {
            fleet.bucket(store).remove().await?;
        }
    }
    Ok(())
}
