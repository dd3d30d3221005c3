//! The service at work: waits until it leads, then moves every node on, several at once, until it leads no more.
//!
//! All that it knows stands in the store. What it was doing when it died, the next leader finds written down, and goes on with.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::system::System;
use muster_api::wire::Millis;
use muster_api::wire::identity::Identity;
use muster_bus::{Bus, StoreError};
use muster_client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::enrol::Newcomers;
use crate::fleet::{Fleet, MastersError};
use crate::journey::Journey;
use crate::leader;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::record::{Next, Record, State, StepError};
use crate::store::{RecordError, Store, readable};
use crate::work::Worker;

/// The pause after the broker did not do what it should.
const RECOVER: Duration = Duration::from_millis(500);
/// How often the account token is looked for.
const TRUST_INTERVAL: Duration = Duration::from_mins(5);
/// Longest pause in which nothing is looked at.
const LOOK: Duration = Duration::from_secs(30);

/// Why the service does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The configured steps are no plan.
    #[error("the steps of [plugins.provisioner] cannot be done in that order")]
    Plan(#[from] PlanError),
    /// The configured filter is none.
    #[error(transparent)]
    Masters(#[from] MastersError),
}

/// The service on one host.
#[derive(Debug)]
pub struct Service {
    host: Identity,
    bus: Bus,
    options: Arc<Options>,
    plan: Arc<Plan>,
    worker: Worker,
    newcomers: Option<Newcomers>,
}

impl Service {
    /// A service on this host, with a connection of its own, as a service of the fleet.
    pub fn new(
        host: Identity,
        bus: Bus,
        client: Client,
        options: Options,
        system: Arc<dyn System>,
    ) -> Result<Self, ServiceError> {
        let plan = Arc::new(Plan::read(&options)?);
        let fleet = Arc::new(Fleet::new(client, &options)?);
        let options = Arc::new(options);
        Ok(Self {
            host,
            bus,
            plan,
            worker: Worker {
                fleet,
                options: Arc::clone(&options),
                system,
            },
            options,
            newcomers: None,
        })
    }

    /// Opens the door for newcomers, too.
    #[must_use]
    pub fn with_newcomers(mut self, newcomers: Newcomers) -> Self {
        self.newcomers = Some(newcomers);
        self
    }

    /// Works until `stop`; what the broker does not do is tried again.
    pub async fn serve(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let reigned = tokio::select! {
                reigned = self.reign(&stop) => reigned,
                () = stop.cancelled() => break,
            };
            if let Err(error) = reigned {
                tracing::warn!(%error, "provisioning pauses");
                tokio::select! {
                    () = tokio::time::sleep(RECOVER) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        self.worker.fleet.close().await;
    }

    /// Waits to lead, and leads.
    async fn reign(&self, stop: &CancellationToken) -> Result<(), RecordError> {
        let store = Store::open(&self.bus);
        let lead = leader::lead(store.bucket(), &self.host, self.options.lease()).await?;
        tracing::info!(epoch = lead.epoch, "leads the provisioning");
        let mut reign = Reign {
            service: self,
            store: store.clone(),
            epoch: lead.epoch,
            known: BTreeMap::new(),
            due: BTreeSet::new(),
            busy: HashSet::new(),
            tasks: JoinSet::new(),
        };
        let door = async {
            match &self.newcomers {
                Some(newcomers) => newcomers.receive(&store).await,
                None => std::future::pending().await,
            }
        };
        let renewals = async {
            match &self.newcomers {
                Some(newcomers) => newcomers.renew_tokens().await,
                None => std::future::pending().await,
            }
        };
        let trust = async {
            loop {
                self.worker.fleet.refresh_trust().await;
                tokio::time::sleep(TRUST_INTERVAL).await;
            }
        };
        let ended = tokio::select! {
            ended = reign.work() => ended,
            () = trust => Ok(()),
            ended = door => ended,
            never = renewals => match never {},
            () = lead.lost.cancelled() => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        reign.tasks.shutdown().await;
        lead.resign().await;
        ended
    }
}

/// What ended beside the watch.
enum Ended {
    /// A stage of a node's journey: it waits for its time, or has arrived.
    Node(Identity),
    /// A look for nodes that nobody told of.
    Look,
}

/// One time of leading.
struct Reign<'a> {
    service: &'a Service,
    store: Store,
    epoch: u64,
    known: BTreeMap<Identity, Record>,
    /// When something is to be done for whom.
    due: BTreeSet<(Millis, Identity)>,
    busy: HashSet<Identity>,
    tasks: JoinSet<Ended>,
}

impl Reign<'_> {
    async fn work(&mut self) -> Result<(), RecordError> {
        let mut watch = self.store.watch().await?;
        let every = Duration::from_secs(self.service.options.discover_seconds);
        let mut looks = tokio::time::interval(every.max(Duration::from_secs(1)));
        loop {
            self.start();
            let pause = self.pause();
            tokio::select! {
                entry = watch.next() => match entry? {
                    Some(entry) => if let Some(record) = readable(&entry) {
                        self.learn(record);
                    },
                    None => return Err(StoreError::Failed {
                        what: "watch",
                        bucket: self.store.bucket().name().to_owned(),
                        problem: "the connection is closed".to_owned(),
                    }.into()),
                },
                Some(ended) = self.tasks.join_next() => if let Ok(Ended::Node(node)) = ended {
                    self.busy.remove(&node);
                    self.schedule(&node);
                },
                _ = looks.tick(), if !every.is_zero() => self.look(),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn learn(&mut self, record: Record) {
        let node = record.identity.clone();
        self.known.insert(node.clone(), record);
        self.schedule(&node);
    }

    /// Notes when something is to be done for a node; once, whatever was noted before.
    fn schedule(&mut self, node: &Identity) {
        self.due.retain(|(_, other)| other != node);
        let Some(record) = self.known.get(node) else {
            return;
        };
        let at = match record.next(&self.service.plan, now()) {
            Next::Step(_) | Next::Settle | Next::Retire => 0,
            Next::Wait(until) => until,
            Next::Rest => return,
        };
        self.due.insert((at, node.clone()));
    }

    /// Sets out with as many nodes as there are workers.
    fn start(&mut self) {
        let now = now();
        while self.busy.len() < self.service.options.workers.max(1) {
            let next = self
                .due
                .iter()
                .find(|(at, node)| *at <= now && !self.busy.contains(node))
                .cloned();
            let Some(next) = next else { return };
            self.due.remove(&next);
            let (_, node) = next;
            self.busy.insert(node.clone());
            let journey = Journey::new(
                self.store.clone(),
                self.service.worker.clone(),
                Arc::clone(&self.service.plan),
                node.clone(),
                self.epoch,
            );
            self.tasks.spawn(async move {
                journey.go().await;
                Ended::Node(node)
            });
        }
    }

    /// How long nothing is due.
    fn pause(&self) -> Duration {
        let now = now();
        let waiting = self.due.iter().find(|(_, node)| !self.busy.contains(node));
        match waiting {
            Some((at, _)) if self.busy.len() < self.service.options.workers.max(1) => {
                Duration::from_millis(at.saturating_sub(now).max(1)).min(LOOK)
            }
            _ => LOOK,
        }
    }

    fn look(&mut self) {
        let (store, worker) = (self.store.clone(), self.service.worker.clone());
        self.tasks.spawn(async move {
            if let Err(error) = look(&store, &worker).await {
                tracing::warn!(%error, "nodes to provision were not looked for");
            }
            Ended::Look
        });
    }
}

/// Takes up nodes that say that they may be provisioned, and that nobody has told of.
async fn look(store: &Store, worker: &Worker) -> Result<(), StepError> {
    let begun = now();
    let told = |error: RecordError| StepError::passing(error.to_string());
    for node in worker.fleet.candidates().await? {
        match store.get(&node).await.map_err(told)? {
            None => {
                let record = Record::new(node, Uuid::now_v7(), now());
                store.create(&record).await.map_err(told)?;
            }
            // It was done before, and somebody has put it back since.
            Some(known) if known.state == State::Done && known.changed < begun => {
                again(store, &node, begun).await.map_err(told)?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Begins anew with a node that was done before `begun`.
async fn again(store: &Store, node: &Identity, begun: Millis) -> Result<(), RecordError> {
    let edited = store.edit(node, |record| {
        let is_old = record.state == State::Done && record.changed < begun;
        if is_old {
            let fresh = Record::new(node.clone(), Uuid::now_v7(), now());
            let epoch = record.epoch;
            *record = Record { epoch, ..fresh };
        }
        Ok(is_old)
    });
    edited.await.map(drop)
}

/// This host's clock, in milliseconds since the epoch.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
