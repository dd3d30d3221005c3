//! Removes what a stolen key has written to a store of the fleet.

use muster_bus::BucketError;
use muster_wire::Millis;
use muster_wire::stores::BucketDefinition;

use crate::Organisation;
use crate::push::PushError;

/// Keys that are deleted with one connection, whose credentials are valid for a minute.
const KEYS_PER_CONNECTION: usize = 10_000;

/// Keys of a store that have a value.
#[derive(Debug, Default)]
pub struct StoredKeys {
    /// The keys, in the order in which they were written.
    pub keys: Vec<String>,
    /// The size of their values.
    pub bytes: u64,
}

impl Organisation {
    /// The keys of a store that were written since this instant of the broker's clock.
    pub async fn keys_written_since(
        &self,
        store: &BucketDefinition,
        instant: Millis,
        now: Millis,
    ) -> Result<StoredKeys, PushError> {
        let bus = self.connect_administrator(now).await?;
        let mut found = StoredKeys::default();
        for entry in bus.bucket(store.name).written_since(instant).await? {
            found.bytes += entry.value.map_or(0, |value| value.len() as u64);
            found.keys.push(entry.key);
        }
        bus.close().await?;
        Ok(found)
    }

    /// Deletes these keys of a store, also if it is full. `clock` tells the time at which the credentials of each connection are issued.
    pub async fn delete_keys(
        &self,
        store: &BucketDefinition,
        keys: &[String],
        clock: impl Fn() -> Millis,
    ) -> Result<(), PushError> {
        for part in keys.chunks(KEYS_PER_CONNECTION) {
            let bus = self.connect_administrator(clock()).await?;
            bus.bucket(store.name).delete_keys(part).await?;
            bus.close().await?;
        }
        Ok(())
    }

    /// Removes a store with all that is in it, and creates it again.
    pub async fn empty_store(
        &self,
        store: &BucketDefinition,
        now: Millis,
    ) -> Result<(), PushError> {
        let bus = self.connect_administrator(now).await?;
        let emptied: Result<(), BucketError> = bus.bucket(store.name).recreate().await;
        bus.close().await?;
        Ok(emptied?)
    }
}
