//! The door for newcomers: hears their wishes in their own account, and lets the rules of [`muster_api::wire::enrol`] decide. Who came
//! in is provisioned like any other node. Names and uses are kept by [`crate::roll`].

use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_api::Throttle;
use muster_api::system::error::chain;
use muster_api::wire::enrol::{Enroller, Handled, Outcome, Roll as _};
use muster_api::wire::identity::Identity;
use muster_api::wire::limits::NODE_TOKEN_SECONDS;
use muster_api::wire::stores::PROVISION;
use muster_api::wire::subject::{self, AnswerAddress};
use muster_api::wire::token::Seconds;
use muster_bus::{Bus, Bytes, StoreError, Subscription};
use serde::Deserialize;
use uuid::Uuid;

use crate::record::{Record, State};
use crate::roll::{KeptRoll, RollError};
use crate::service::now;
use crate::store::{RecordError, Store};

/// How often, in the life of a token, the tokens that are due are looked for.
const LOOKS_PER_LIFE: u64 = 100;
/// Shortest and longest pause between two looks.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_hours(6);

/// Between two lines of the log about wishes that are nobody's.
const QUIET: Duration = Duration::from_secs(10);

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
    /// How long a node's token is valid, in seconds: 90 days when absent, and at most; 0 for ever. The service renews it when a third of
    /// that time is over.
    #[serde(default)]
    pub lifetime: Option<Seconds>,
}

impl NewcomersOptions {
    /// How long a node's token is valid; `None` for ever.
    pub fn token_lifetime(&self) -> Option<Seconds> {
        match self.lifetime {
            None => Some(NODE_TOKEN_SECONDS),
            Some(0) => None,
            Some(seconds) => Some(seconds.min(NODE_TOKEN_SECONDS)),
        }
    }
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
        // The reply subject is not signed: only the address of the bootstrap token that signed the request is taken.
        let key = wish.hello.credential.to_string();
        let Some(address) = AnswerAddress::from_reply_subject(reply_to, &key) else {
            return Ok(());
        };
        let answer = address.of_node(self.enroller.identity());
        if let Err(error) = self.bus.publish(&answer, Bytes::from(bytes)).await {
            tracing::warn!(%node, %error, "a newcomer has to ask again");
        }
        Ok(())
    }

    /// Renews the tokens of nodes that are due, again and again.
    pub(crate) async fn renew_tokens(&self) -> std::convert::Infallible {
        let lifetime = self.enroller.lifetime().unwrap_or(NODE_TOKEN_SECONDS);
        let pause = Duration::from_secs(lifetime / LOOKS_PER_LIFE).clamp(MIN_PAUSE, MAX_PAUSE);
        let roll = self.enroller.roll();
        loop {
            match self.renew_due(roll).await {
                Ok(nodes) if nodes.is_empty() => {}
                Ok(nodes) => tracing::info!(nodes = nodes.len(), "renewed tokens of nodes"),
                Err(error) => {
                    tracing::warn!(error = chain(&error), "tokens of nodes were not renewed");
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn renew_due(&self, roll: &KeptRoll) -> Result<Vec<Identity>, RollError> {
        if let Some(account) = roll.fleet_account().await? {
            // One that is not newer, or not the operator's, changes nothing.
            let _ = self.enroller.update_fleet(&account);
        }
        let trust = self.enroller.fleet();
        roll.renew_due(&trust, self.enroller.node_role(), now())
            .await
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
