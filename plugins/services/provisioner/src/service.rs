//! The service: waits for leadership, then processes all nodes concurrently until leadership is lost.
//!
//! All state is in the store. A new leader continues the steps that its predecessor recorded as begun.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::wire::Millis;
use muster_api::wire::identity::Identity;
use muster_base::unix_millis_now;
use muster_bus::{BucketError, Bus, leader};
use muster_calls::Client;
use muster_contract::provisioner::ProvisioningState;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::enrol::EnrolmentService;
use crate::fleet::{FleetClient, MasterFilterError};

use crate::options::Options;
use crate::plan::{ProvisioningPlan, ProvisioningPlanError};
use crate::record::{NextAction, NodeRecord, StepError};
use crate::store::{NodeRecordError, NodeRecordStore, decode_if_readable};
use crate::worker::StepWorker;
use crate::workflow::NodeWorkflow;

/// Pause after a broker error.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Interval at which the account token is refreshed.
const TRUST_REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// Longest pause without a check for due nodes.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ProvisionerServiceError {
    #[error("`steps` in [plugins.provisioner] is not a valid plan")]
    Plan(#[from] ProvisioningPlanError),
    #[error(transparent)]
    Masters(#[from] MasterFilterError),
}

#[derive(Debug)]
pub struct ProvisionerService {
    host: Identity,
    bus: Bus,
    options: Arc<Options>,
    plan: Arc<ProvisioningPlan>,
    worker: StepWorker,
    enrolment: Option<EnrolmentService>,
}

impl ProvisionerService {
    /// Creates the service on this host, with its own connection, in the role of a service of the fleet.
    pub fn new(
        host: Identity,
        bus: Bus,
        client: Client,
        options: Options,
        system: Arc<dyn System>,
    ) -> Result<Self, ProvisionerServiceError> {
        let plan = Arc::new(ProvisioningPlan::from_options(&options)?);
        let fleet = Arc::new(FleetClient::new(client, &options)?);
        let options = Arc::new(options);
        Ok(Self {
            host,
            bus,
            plan,
            worker: StepWorker { fleet, options: Arc::clone(&options), system },
            options,
            enrolment: None,
        })
    }

    #[must_use]
    pub fn with_enrolment(mut self, enrolment: Option<EnrolmentService>) -> Self {
        self.enrolment = enrolment;
        self
    }

    /// Runs until `stop`; retries after broker errors.
    pub async fn run_until_stopped(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let result = tokio::select! {
                result = self.run_leader_term(&stop) => result,
                () = stop.cancelled() => break,
            };
            if let Err(error) = result {
                tracing::warn!(%error, "provisioning interrupted; it will be retried");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        self.worker.fleet.close().await;
    }

    /// Waits for leadership, and runs one term.
    async fn run_leader_term(&self, stop: &CancellationToken) -> Result<(), NodeRecordError> {
        let store = NodeRecordStore::open(&self.bus);
        let lease =
            leader::wait_for_leadership(store.bucket(), &self.host, self.options.leader_lease())
                .await?;
        tracing::info!(epoch = lease.epoch, "became the provisioning leader");
        let mut term = LeaderTerm {
            service: self,
            store: store.clone(),
            epoch: lease.epoch,
            records: BTreeMap::new(),
            due: BTreeSet::new(),
            busy: HashSet::new(),
            tasks: JoinSet::new(),
        };
        let enrolment = async {
            match &self.enrolment {
                Some(enrolment) => tokio::select! {
                    result = enrolment.serve_requests(&store) => result,
                    never = enrolment.renew_tokens() => match never {},
                },
                None => std::future::pending().await,
            }
        };
        let trust = async {
            loop {
                self.worker.fleet.refresh_trust().await;
                tokio::time::sleep(TRUST_REFRESH_INTERVAL).await;
            }
        };
        let result = tokio::select! {
            result = term.process_events() => result,
            () = trust => Ok(()),
            result = enrolment => result,
            () = lease.lost.cancelled() => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        term.tasks.shutdown().await;
        lease.resign().await;
        result
    }
}

enum FinishedTask {
    /// Work on a node: it waits for its next try, or is complete.
    Node(Identity),
    /// Discovery of nodes that are not registered.
    Discovery,
}

struct LeaderTerm<'a> {
    service: &'a ProvisionerService,
    store: NodeRecordStore,
    epoch: u64,
    records: BTreeMap<Identity, NodeRecord>,
    /// Time of the next action of each node.
    due: BTreeSet<(Millis, Identity)>,
    busy: HashSet<Identity>,
    tasks: JoinSet<FinishedTask>,
}

impl LeaderTerm<'_> {
    async fn process_events(&mut self) -> Result<(), NodeRecordError> {
        let mut watch = self.store.watch_nodes().await?;
        let discovery_interval = Duration::from_secs(self.service.options.discover_seconds);
        let mut discovery_ticks =
            tokio::time::interval(discovery_interval.max(Duration::from_secs(1)));
        loop {
            self.start_due_nodes();
            let delay = self.next_delay();
            tokio::select! {
                entry = watch.next() => match entry? {
                    Some(entry) => if let Some(record) = decode_if_readable(&entry) {
                        self.update_record(record);
                    },
                    None => return Err(BucketError::Failed {
                        operation: "watch",
                        bucket: self.store.bucket().name().to_owned(),
                        problem: "the connection is closed".to_owned(),
                    }.into()),
                },
                Some(finished) = self.tasks.join_next() => if let Ok(FinishedTask::Node(node)) = finished {
                    self.busy.remove(&node);
                    self.schedule_node(&node);
                },
                _ = discovery_ticks.tick(), if !discovery_interval.is_zero() => self.spawn_discovery(),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    fn update_record(&mut self, record: NodeRecord) {
        let node = record.identity.clone();
        self.records.insert(node.clone(), record);
        self.schedule_node(&node);
    }

    /// Schedules the next action of a node; replaces an earlier entry.
    fn schedule_node(&mut self, node: &Identity) {
        self.due.retain(|(_, other)| other != node);
        let Some(record) = self.records.get(node) else { return };
        let at = match record.next_action(&self.service.plan, unix_millis_now()) {
            NextAction::Step(_) | NextAction::Settle | NextAction::Retire => 0,
            NextAction::Wait(until) => until,
            NextAction::Rest => return,
        };
        self.due.insert((at, node.clone()));
    }

    /// Starts work on due nodes, up to the number of workers.
    fn start_due_nodes(&mut self) {
        let now = unix_millis_now();
        while self.busy.len() < self.service.options.workers.max(1) {
            let next =
                self.due.iter().find(|(at, node)| *at <= now && !self.busy.contains(node)).cloned();
            let Some(next) = next else { return };
            self.due.remove(&next);
            let (_, node) = next;
            self.busy.insert(node.clone());
            let workflow = NodeWorkflow::new(
                self.store.clone(),
                self.service.worker.clone(),
                Arc::clone(&self.service.plan),
                node.clone(),
                self.epoch,
            );
            self.tasks.spawn(async move {
                workflow.run_until_idle().await;
                FinishedTask::Node(node)
            });
        }
    }

    /// Time until the next node is due.
    fn next_delay(&self) -> Duration {
        let now = unix_millis_now();
        let waiting = self.due.iter().find(|(_, node)| !self.busy.contains(node));
        match waiting {
            Some((at, _)) if self.busy.len() < self.service.options.workers.max(1) => {
                Duration::from_millis(at.saturating_sub(now).max(1)).min(MAX_IDLE_WAIT)
            }
            _ => MAX_IDLE_WAIT,
        }
    }

    fn spawn_discovery(&mut self) {
        let (store, worker) = (self.store.clone(), self.service.worker.clone());
        self.tasks.spawn(async move {
            if let Err(error) = discover_nodes(&store, &worker).await {
                tracing::warn!(%error, "cannot discover nodes to provision");
            }
            FinishedTask::Discovery
        });
    }
}

/// Adds records for nodes that report that they can be provisioned and are not known yet.
async fn discover_nodes(store: &NodeRecordStore, worker: &StepWorker) -> Result<(), StepError> {
    let started_at = unix_millis_now();
    let is_reset = |record: &NodeRecord| {
        record.state == ProvisioningState::Done && record.changed < started_at
    };
    for node in worker.fleet.find_candidates().await? {
        match store.get(&node).await? {
            None => {
                let record = NodeRecord::new(node, Uuid::now_v7(), unix_millis_now());
                store.create_record(&record).await?;
            }
            // Done before this discovery began, and available for provisioning again: the node was reset.
            Some(record) if is_reset(&record) => store.restart_record(&node, is_reset).await?,
            Some(_) => {}
        }
    }
    Ok(())
}
