//! The account of the fleet's stores. The broker answers requests to a stream without a check of permissions, on any subject of the stream's account: so the
//! fleet, which sends them, is in another one. See [`muster_wire::token::storage`].

use muster_bus::{BucketError, Bus};
use muster_secret::files;
use muster_wire::Millis;
use muster_wire::stores::{
    self, BucketDefinition, FORGOTTEN_BUCKET, PROVISION_BUCKET, SCHEDULES_BUCKET, TOKENS_BUCKET,
};
use muster_wire::token::claims::{AccountClaims, AccountLimits};
use muster_wire::token::encode::{self, TokenValidity};
use serde::{Deserialize, Serialize};

use crate::account::write_token;
use crate::push::PushError;
use crate::{
    AccountRealm, Organisation, OrganisationError, OrganisationKey, OrganisationLock, StoreOptions,
};

/// The stores that are moved. Nodes write their records and permits again, `rpc org push` the account token.
const MOVED_STORES: [BucketDefinition; 4] =
    [PROVISION_BUCKET, TOKENS_BUCKET, FORGOTTEN_BUCKET, SCHEDULES_BUCKET];

/// Largest file of moved keys that is read, in bytes: above all stores at their limits, as JSON.
const MAX_MOVED_BYTES: u64 = 1024 * 1024 * 1024;

impl Organisation {
    /// Claims of a new account of the stores.
    pub(crate) fn storage_claims(&self) -> Result<AccountClaims, OrganisationError> {
        let mut claims = AccountClaims::new(AccountLimits::default(), Vec::new());
        self.refresh_account(&mut claims, AccountRealm::Storage);
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
            let fleet = self.connect_administrator(now).await?;
            let keys = read_keys(&fleet).await?;
            let text = serde_json::to_string(&keys).map_err(|error| {
                OrganisationError::Format("the keys of the stores", error.into())
            })?;
            files::replace_secret(&path, text.as_bytes()).map_err(OrganisationError::from)?;
            remove_stores(&fleet).await?;
            fleet.close().await?;
        }
        let text = files::read_secret(&path, MAX_MOVED_BYTES).map_err(OrganisationError::from)?;
        let keys: Vec<MovedKey> = serde_json::from_str(&text)
            .map_err(|error| OrganisationError::Format("the keys of the stores", error.into()))?;
        self.create_storage_account(now)?;
        // The new account must be known before the fleet's imports from it, and gets its space when the fleet's account has none.
        self.push_account(AccountRealm::Storage).await?;
        self.refresh_scopes(lock, now)?;
        self.push_account(AccountRealm::Fleet).await?;
        self.push_account(AccountRealm::Storage).await?;
        self.declare_stores(options, now).await?;
        let stores = self.connect_administrator(now).await?;
        for MovedKey { store, key, value } in &keys {
            match stores.bucket(store).create(key, value.clone().into()).await {
                Ok(_) | Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        stores.close().await?;
        self.write_profile()?;
        std::fs::remove_file(&path)
            .map_err(files::file_error("remove", &path))
            .map_err(OrganisationError::from)?;
        Ok(Some(keys.len()))
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

/// A key of a store, while it is moved.
#[derive(Debug, Serialize, Deserialize)]
struct MovedKey {
    store: String,
    key: String,
    value: String,
}

/// The keys of the stores that are moved. Values that are no text are none of ours.
async fn read_keys(fleet: &Bus) -> Result<Vec<MovedKey>, PushError> {
    let mut keys = Vec::new();
    for store in MOVED_STORES.map(|store| store.name) {
        if !fleet.has_bucket(store).await? {
            continue;
        }
        for entry in fleet.bucket(store).list(">").await? {
            let value = entry.value.and_then(|value| String::from_utf8(value.to_vec()).ok());
            keys.extend(value.map(|value| MovedKey {
                store: store.to_owned(),
                key: entry.key,
                value,
            }));
        }
    }
    Ok(keys)
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
