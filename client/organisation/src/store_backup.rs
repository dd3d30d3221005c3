//! Copies of the keys of the fleet's stores in a file, and back. A copy is independent of servers and replicas: it can be restored into any broker of the
//! organisation.
//!
//! The file has one JSON document per line: what it is, then one key each. `PERMITS` and `REQUESTS` are not copied, because their keys are valid for seconds
//! to minutes; neither is `TRUST`, which `rpc org push` writes from the organisation's directory, nor `CATALOGS`, `CONTENT` and `COMPILES`, which compilers write
//! again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_bus::{BucketError, Bus};
use muster_files::files;
use muster_wire::Millis;
use muster_wire::stores::{
    BucketDefinition, FORGOTTEN_BUCKET, NODES_BUCKET, PROVISION_BUCKET, SCHEDULES_BUCKET,
    TOKENS_BUCKET,
};
use muster_wire::token::PublicKey;
use serde::{Deserialize, Serialize};

use crate::push::PushError;
use crate::store_declaration::{StoreChange, StoreOptions};
use crate::{Organisation, OrganisationError};

/// The stores that are copied.
const COPIED_STORES: [BucketDefinition; 5] =
    [PROVISION_BUCKET, TOKENS_BUCKET, FORGOTTEN_BUCKET, SCHEDULES_BUCKET, NODES_BUCKET];
/// First line of a copy.
const FORMAT: &str = "muster-stores-1";
/// Largest file that is read, in bytes: above all stores at their limits, as JSON.
const MAX_BACKUP_BYTES: u64 = 1024 * 1024 * 1024;
/// Keys that are written with one connection, whose credentials are valid for a minute.
const KEYS_PER_CONNECTION: usize = 5_000;

/// The keys of the stores at one time.
#[derive(Debug, Clone)]
pub struct StoreBackup {
    head: BackupHead,
    keys: Vec<StoredKey>,
}

/// Why a copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A line is no JSON document of the format.
    #[error("{path}, line {line}: this is no backup of the broker's stores; `rpc broker backup` writes one", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The copy is one of another organisation.
    #[error("{path} is a backup of the organisation {name} with the account {account}, not of this one", path = .path.display())]
    OtherOrganisation {
        /// The file.
        path: PathBuf,
        /// Name of the organisation.
        name: String,
        /// Its account.
        account: PublicKey,
    },
}

/// What a restoration changed.
#[derive(Debug, Clone, Default)]
pub struct RestoredStores {
    /// Stores that were created or changed.
    pub changes: Vec<StoreChange>,
    /// Keys that were written.
    pub written: usize,
    /// Keys that had a later value, or were deleted later.
    pub kept: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BackupHead {
    format: String,
    organisation: String,
    account: PublicKey,
    time: Millis,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    store: String,
    key: String,
    value: String,
}

impl StoreBackup {
    /// When the keys were read, by the clock of the reader.
    pub fn time(&self) -> Millis {
        self.head.time
    }

    /// How many keys each store has.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::from(COPIED_STORES.map(|store| (store.name, 0)));
        for StoredKey { store, .. } in &self.keys {
            *counts.entry(store).or_default() += 1;
        }
        counts
    }

    /// Replaces the file, which only its owner can read.
    pub fn write(&self, path: &Path) -> Result<(), OrganisationError> {
        let failed = |error: serde_json::Error| {
            OrganisationError::Format("the keys of the stores", error.into())
        };
        let mut text = serde_json::to_vec(&self.head).map_err(failed)?;
        for key in &self.keys {
            text.push(b'\n');
            serde_json::to_writer(&mut text, key).map_err(failed)?;
        }
        text.push(b'\n');
        Ok(files::replace_secret(path, &text)?)
    }

    /// Reads a copy. A file that others could have changed is refused: it says which machines have which names.
    pub(crate) fn read(path: &Path, account: PublicKey) -> Result<Self, OrganisationError> {
        let text = files::read_secret(path, MAX_BACKUP_BYTES)?;
        let invalid = |line: usize, source| {
            OrganisationError::Backup(BackupError::Format { path: path.to_owned(), line, source })
        };
        let mut lines = text.lines();
        let head: BackupHead = serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|error| invalid(1, Some(error)))?;
        if head.format != FORMAT {
            return Err(invalid(1, None));
        }
        if head.account != account {
            let (path, name, account) = (path.to_owned(), head.organisation, head.account);
            return Err(BackupError::OtherOrganisation { path, name, account }.into());
        }
        let keys = lines.zip(2..).map(|(line, number)| {
            let key: StoredKey =
                serde_json::from_str(line).map_err(|error| invalid(number, Some(error)))?;
            let is_copied = COPIED_STORES.iter().any(|store| store.name == key.store);
            if is_copied { Ok(key) } else { Err(invalid(number, None)) }
        });
        Ok(Self { keys: keys.collect::<Result<_, _>>()?, head })
    }
}

impl Organisation {
    /// Reads a copy of this organisation's stores.
    pub fn read_backup(&self, path: &Path) -> Result<StoreBackup, OrganisationError> {
        StoreBackup::read(path, self.profile().account)
    }

    /// Copies the keys of the stores.
    pub async fn back_up_stores(&self, now: Millis) -> Result<StoreBackup, PushError> {
        let bus = self.connect_administrator(now).await?;
        let backup = self.copy_keys(&bus, now).await?;
        bus.close().await?;
        Ok(backup)
    }

    /// Copies the keys of the stores that exist. Values that are no text are none of ours.
    pub(crate) async fn copy_keys(&self, bus: &Bus, now: Millis) -> Result<StoreBackup, PushError> {
        let mut keys = Vec::new();
        for store in COPIED_STORES.map(|store| store.name) {
            if !bus.has_bucket(store).await? {
                continue;
            }
            for entry in bus.bucket(store).list(">").await? {
                let value = entry.value.and_then(|value| String::from_utf8(value.to_vec()).ok());
                let (store, key) = (store.to_owned(), entry.key);
                keys.extend(value.map(|value| StoredKey { store, key, value }));
            }
        }
        let head = BackupHead {
            format: FORMAT.to_owned(),
            organisation: self.profile().name.clone(),
            account: self.profile().account,
            time: now,
        };
        Ok(StoreBackup { head, keys })
    }

    /// Creates missing stores, and writes each key that its store never had. `clock` tells the time at which the credentials of each connection are issued.
    pub async fn restore_stores(
        &self,
        backup: &StoreBackup,
        options: StoreOptions,
        clock: impl Fn() -> Millis,
    ) -> Result<RestoredStores, PushError> {
        let changes = self.declare_stores(options, clock()).await?;
        let mut restored = RestoredStores { changes, ..RestoredStores::default() };
        for keys in backup.keys.chunks(KEYS_PER_CONNECTION) {
            let bus = self.connect_administrator(clock()).await?;
            for StoredKey { store, key, value } in keys {
                // A deletion is a change, too: a removed schedule stays removed.
                match bus.bucket(store).update(key, value.clone().into(), 0).await {
                    Ok(_) => restored.written += 1,
                    Err(BucketError::Conflict { .. }) => restored.kept += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            bus.close().await?;
        }
        Ok(restored)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use muster_wire::token::{KeyKind, KeyPair};

    use super::{BackupHead, FORMAT, StoreBackup, StoredKey};

    #[test]
    fn copy_is_read_as_written_and_others_are_refused() {
        let account = || KeyPair::generate(KeyKind::Account).unwrap().public_key();
        let (own, other) = (account(), account());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stores.jsonl");
        let head = BackupHead {
            format: FORMAT.to_owned(),
            organisation: "acme".to_owned(),
            account: own,
            time: 1,
        };
        let key = |store: &str, value: &str| StoredKey {
            store: store.to_owned(),
            key: "name.web1".to_owned(),
            value: value.to_owned(),
        };
        let keys = vec![key("PROVISION", "{\"a\":\n1}"), key("NODES", "ä\u{1b}")];
        StoreBackup { head: head.clone(), keys }.write(&path).unwrap();
        let read = StoreBackup::read(&path, own).unwrap();
        assert_eq!((read.counts()["PROVISION"], read.counts()["NODES"]), (1, 1));
        assert_eq!((read.time(), read.keys[0].value.as_str()), (1, "{\"a\":\n1}"));
        let refused = StoreBackup::read(&path, other).unwrap_err().to_string();
        assert!(refused.contains("the organisation acme"), "{refused}");
        // Stores that are not copied, and a file that others could have changed.
        StoreBackup { head, keys: vec![key("TRUST", "x")] }.write(&path).unwrap();
        let refused = StoreBackup::read(&path, own).unwrap_err().to_string();
        assert!(refused.contains("line 2"), "{refused}");
        for text in ["", "{}", "[]\n", "{\"format\":\"muster-stores-1\"}"] {
            std::fs::write(&path, text).unwrap();
            let refused = StoreBackup::read(&path, own).unwrap_err().to_string();
            assert!(refused.contains("line 1"), "{refused}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        let refused = StoreBackup::read(&path, own).unwrap_err().to_string();
        assert!(!refused.contains("line"), "{refused}");
    }
}
