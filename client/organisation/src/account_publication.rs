//! Publishes the fleet's account token in the bucket `TRUST`, which nodes and callers read when they connect and watch for changes.

use muster_bus::{BucketError, Bytes};
use muster_wire::Millis;
use muster_wire::stores;
use muster_wire::token::head::AccountHead;

use crate::push::PushError;
use crate::{Organisation, OrganisationError, StoreChange, StoreOptions};

impl Organisation {
    /// Writes the account token and its head. Creates the stores if they are missing, and returns what was created.
    pub async fn publish_account(&self, now: Millis) -> Result<Vec<StoreChange>, PushError> {
        match self.write_account(now).await {
            Err(PushError::Stores(BucketError::Missing(_))) => {
                let created = self.declare_stores(StoreOptions::default(), now).await?;
                self.write_account(now).await?;
                Ok(created)
            }
            written => written.map(|()| Vec::new()),
        }
    }

    /// Writes the token before the head, so a head always refers to an existing token.
    async fn write_account(&self, now: Millis) -> Result<(), PushError> {
        let trust = self.fleet_trust()?;
        let head = AccountHead::of_trust(&trust).to_json().map_err(|error| {
            OrganisationError::Format("the head of the account token", error.into())
        })?;
        let bus = self.connect_administrator(now).await?;
        let bucket = bus.bucket(stores::TRUST_BUCKET.name);
        // Without JetStream the write fails, with the same error.
        if let Ok(Some(entry)) = bucket.get_once(stores::TRUST_ACCOUNT_KEY).await
            && let Some(stored) = entry.value
        {
            self.check_token(&trust, &String::from_utf8_lossy(&stored))?;
        }
        let token = Bytes::from(trust.account_token().to_owned());
        bucket.put(stores::TRUST_ACCOUNT_KEY, token).await?;
        bucket.put(stores::TRUST_HEAD_KEY, Bytes::from(head)).await?;
        Ok(bus.close().await?)
    }
}
