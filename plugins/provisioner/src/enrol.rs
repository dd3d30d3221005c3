//! The door for newcomers: hears their wishes in their own account, and lets the rules of [`muster_api::wire::enrol`] decide. Who came
//! in is provisioned like any other node. Names and uses are kept beside the nodes, where every host of the service sees them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_api::Throttle;
use muster_api::wire::enrol::{Claimed, Enroller, Entry, Handled, Outcome, Roll};
use muster_api::wire::identity::Identity;
use muster_api::wire::stores::PROVISION;
use muster_api::wire::subject;
use muster_api::wire::token::PublicKey;
use muster_bus::{Bucket, Bus, Bytes, StoreError, Subscription};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

use crate::record::{Record, State};
use crate::service::now;
use crate::store::{RecordError, Store};

/// Between two lines of the log about wishes that are nobody's.
const QUIET: Duration = Duration::from_secs(10);
/// How often a change is tried that other hosts make, too.
const TRIES: u32 = 50;

/// `[plugins.provisioner.newcomers]`: what it takes to enrol machines that have nothing but a bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewcomersOptions {
    /// Credentials of a service of the newcomers' account.
    pub credentials: PathBuf,
    /// That account's token.
    pub account: PathBuf,
    /// The key that signs nodes of the fleet.
    pub node_key: PathBuf,
    /// How long a node's token is valid, in seconds; for ever when absent.
    #[serde(default)]
    pub lifetime: Option<u64>,
}

/// The door, and the connection that it is in.
#[derive(Debug)]
pub struct Newcomers {
    bus: Bus,
    enroller: Enroller<KeptRoll>,
    /// Lines about wishes that are nobody's: whoever has a bootstrap token can cause them.
    strangers: Throttle,
}

impl Newcomers {
    /// A door in this connection to the newcomers' account.
    pub fn new(bus: Bus, enroller: Enroller<KeptRoll>) -> Self {
        Self {
            bus,
            enroller,
            strangers: Throttle::new(QUIET),
        }
    }

    /// Hears wishes, one after the other, until the connection is gone.
    pub(crate) async fn receive(&self, store: &Store) -> Result<(), RecordError> {
        let failed = |error: muster_bus::BusError| StoreError::Failed {
            what: "hear newcomers",
            bucket: PROVISION.name.to_owned(),
            problem: error.to_string(),
        };
        let subjects = [
            subject::ENROL.to_owned(),
            subject::NEWCOMERS_TRUST.to_owned(),
        ];
        let subscriptions = self.bus.subscribe_all(&subjects).await.map_err(failed)?;
        let Ok::<[Subscription; 2], _>([mut wishes, mut announcements]) = subscriptions.try_into()
        else {
            return Ok(());
        };
        loop {
            tokio::select! {
                wish = wishes.next() => match wish {
                    Some(message) => self.answer(&message, store).await?,
                    None => return Ok(()),
                },
                changed = announcements.next() => match changed {
                    Some(message) => self.learn(message.payload()),
                    None => return Ok(()),
                },
            }
        }
    }

    async fn answer(
        &self,
        message: &muster_bus::Message,
        store: &Store,
    ) -> Result<(), RecordError> {
        let Some(reply_to) = message.reply_to() else {
            return Ok(());
        };
        let (wish, outcome, bytes) = match self.enroller.handle(message.payload(), now()).await {
            Ok(Handled::Answered {
                wish,
                outcome,
                bytes,
            }) => (wish, outcome, bytes),
            Ok(Handled::Ignored(error)) => {
                if let Some(untold) = self.strangers.admit(Instant::now()) {
                    tracing::warn!(%error, untold, "a newcomer is not believed");
                }
                return Ok(());
            }
            Err(error) => {
                tracing::error!(%error, "a newcomer cannot be answered");
                return Ok(());
            }
        };
        let node = &wish.hello.identity;
        match &outcome {
            Outcome::Welcome(_) => {
                tracing::info!(%node, key = %wish.hello.key, "enrolled");
                // Known before it is told: a node that was let in is never forgotten.
                take_up(store, node).await?;
            }
            Outcome::Wait(wait) => tracing::info!(%node, reason = wait.message, "a newcomer waits"),
            Outcome::Refused(refused) => {
                tracing::warn!(%node, reason = refused.message, "a newcomer is refused");
            }
        }
        if let Err(error) = self.bus.publish(reply_to, Bytes::from(bytes)).await {
            tracing::warn!(%node, %error, "a newcomer has to ask again");
        }
        Ok(())
    }

    fn learn(&self, token: &[u8]) {
        let Ok(token) = std::str::from_utf8(token) else {
            return;
        };
        match self.enroller.update_newcomers(token) {
            Ok(()) => tracing::info!("took over the newcomers' changed account token"),
            Err(error) => tracing::warn!(%error, "an announced account token was not taken over"),
        }
    }
}

/// Begins to provision a node, unless that is under way. One that was retired, or done before it lost everything, begins anew.
async fn take_up(store: &Store, node: &Identity) -> Result<(), RecordError> {
    let fresh = Record::new(node.clone(), Uuid::now_v7(), now());
    if store.create(&fresh).await? {
        return Ok(());
    }
    let edited = store.edit(node, |record| {
        let over = matches!(record.state, State::Retired);
        if over {
            let epoch = record.epoch;
            *record = Record {
                epoch,
                ..fresh.clone()
            };
        }
        Ok(over)
    });
    edited.await.map(drop)
}

/// Names and uses in the bucket `PROVISION`: `name.NODE` and `uses.CREDENTIAL`.
#[derive(Debug)]
pub struct KeptRoll {
    bus: Bus,
    bucket: OnceCell<Bucket>,
    /// Uses of one credential are counted in one value: this host does not compete with itself for it.
    counting: Mutex<()>,
}

impl KeptRoll {
    /// A roll in the fleet's account, to which this is a connection.
    pub fn new(bus: Bus) -> Self {
        Self {
            bus,
            bucket: OnceCell::new(),
            counting: Mutex::new(()),
        }
    }

    async fn bucket(&self) -> Result<&Bucket, StoreError> {
        let open = || self.bus.bucket(PROVISION.name);
        self.bucket.get_or_try_init(open).await
    }

    /// Reads a value, lets it be changed, and writes it if nobody else has in between, or begins anew. `change` gives what to write, if
    /// anything, and the answer.
    async fn settle<T: DeserializeOwned + Serialize, A>(
        &self,
        key: &str,
        change: impl Fn(Option<T>) -> (Option<T>, A),
    ) -> Result<A, StoreError> {
        let bucket = self.bucket().await?;
        for _ in 0..TRIES {
            let entry = bucket.get(key).await?;
            let value = entry.as_ref().and_then(|entry| entry.value.as_deref());
            let known = match value.map(serde_json::from_slice).transpose() {
                Ok(known) => known,
                Err(error) => return Err(unreadable(key, &error)),
            };
            let (changed, answer) = change(known);
            let Some(changed) = changed else {
                return Ok(answer);
            };
            let bytes = Bytes::from(serde_json::to_vec(&changed).unwrap_or_default());
            let written = match entry {
                Some(entry) => bucket.update(key, bytes, entry.revision).await,
                None => bucket.create(key, bytes).await,
            };
            match written {
                Ok(_) => return Ok(answer),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Conflict {
            key: key.to_owned(),
        })
    }
}

impl Roll for KeptRoll {
    type Error = StoreError;

    async fn holder(&self, name: &Identity) -> Result<Option<Entry>, StoreError> {
        let known = |entry: Option<Entry>| (None, entry);
        self.settle(&name_key(name), known).await
    }

    async fn claim(&self, entry: &Entry) -> Result<Claimed, StoreError> {
        let key = name_key(&entry.identity);
        self.settle(&key, |held: Option<Entry>| match held {
            Some(held) if held.key == entry.key && !held.released => (None, Claimed::Before),
            Some(held) if !held.released => (None, Claimed::Taken(held.key)),
            _ => (Some(entry.clone()), Claimed::Now),
        })
        .await
    }

    async fn take_use(&self, entry: &Entry, limit: u32) -> Result<bool, StoreError> {
        let _alone = self.counting.lock().await;
        let use_of = (entry.identity.clone(), entry.key);
        let key = format!("uses.{}", entry.credential);
        self.settle(&key, |uses: Option<Vec<(Identity, PublicKey)>>| {
            let mut uses = uses.unwrap_or_default();
            if uses.contains(&use_of) {
                return (None, true);
            }
            if uses.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
                return (None, false);
            }
            uses.push(use_of.clone());
            (Some(uses), true)
        })
        .await
    }
}

/// Lets another key have the name of a node that is gone.
pub(crate) async fn release(bucket: &Bucket, name: &Identity) -> Result<(), StoreError> {
    bucket.delete(&name_key(name)).await
}

fn name_key(name: &Identity) -> String {
    format!("name.{name}")
}

fn unreadable(key: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Failed {
        what: "give what was written",
        bucket: PROVISION.name.to_owned(),
        problem: format!("{key}: {error}"),
    }
}
