//! Executes the steps of one node as far as possible now; records each step before and after its execution.

use std::sync::Arc;

use muster_api::wire::identity::Identity;
use muster_base::unix_millis_now;
use muster_bus::NameStore;
use muster_contract::provisioner::ProvisioningState;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::notify::{self, build_message};
use crate::options::{NotificationEvent, StepName};
use crate::plan::{BuiltinStep, PlanStep, ProvisioningPlan, RetryBackoff, StepKind};
use crate::record::{DeliveryState, NextAction, NodeRecord, NotificationRecord, StepError};
use crate::store::{NodeRecordError, NodeRecordStore};
use crate::worker::StepWorker;

/// Settling and retiring are retried without limit, with growing pauses, because nothing else does them.
const UNLIMITED_TRIES: u32 = u32::MAX;

/// Workflow of one node under one leader.
#[derive(Debug)]
pub struct NodeWorkflow {
    store: NodeRecordStore,
    worker: StepWorker,
    plan: Arc<ProvisioningPlan>,
    node: Identity,
    epoch: u64,
}

impl NodeWorkflow {
    pub fn new(
        store: NodeRecordStore,
        worker: StepWorker,
        plan: Arc<ProvisioningPlan>,
        node: Identity,
        epoch: u64,
    ) -> Self {
        Self { store, worker, plan, node, epoch }
    }

    /// Runs until there is nothing to do now.
    pub async fn run_until_idle(&self) {
        if let Err(error) = self.run_steps().await {
            tracing::warn!(node = %self.node, %error, "cannot continue provisioning the node");
        }
    }

    async fn run_steps(&self) -> Result<(), NodeRecordError> {
        // The fence under which the node is locked; a new leader locks it with a larger one.
        let mut fence = None;
        let record = self.store.get(&self.node).await?;
        let mut record = record.ok_or_else(|| NodeRecordError::Unknown(self.node.clone()))?;
        loop {
            record = match record.next_action(&self.plan, unix_millis_now()) {
                NextAction::Step(step) => self.run_step(step, &mut fence).await?,
                NextAction::Settle => self.settle_failure(record).await?,
                NextAction::Retire => self.retire_node(record).await?,
                NextAction::Wait(_) | NextAction::Rest => return Ok(()),
            };
        }
    }

    async fn run_step(
        &self,
        step: &PlanStep,
        fence: &mut Option<u64>,
    ) -> Result<NodeRecord, NodeRecordError> {
        let mut began = false;
        let (record, revision) = self
            .edit_record(|record| {
                // An operator may have paused or retired the node in between.
                began = matches!(record.next_action(&self.plan, unix_millis_now()), NextAction::Step(next) if next.name == step.name);
                if began {
                    record.begin_step(&step.name, unix_millis_now());
                }
                began
            })
            .await?;
        if !began {
            return Ok(record);
        }
        tracing::info!(node = %self.node, step = %step.name, "step started");
        match self.execute_step(step, &record, revision, fence).await {
            Ok(values) => {
                let is_last = |record: &NodeRecord| {
                    let mut step_names = self.plan.steps().iter().map(|step| &step.name);
                    step_names.all(|name| record.done.contains(name))
                };
                let finished = self.update_record(|record| {
                    record.finish_step(&step.name, values.clone(), unix_millis_now());
                    if record.state == ProvisioningState::Working && is_last(record) {
                        record.mark_done(unix_millis_now());
                    }
                });
                finished.await
            }
            Err(error) => self.record_failure(&step.name, &error, step.tries).await,
        }
    }

    async fn execute_step(
        &self,
        step: &PlanStep,
        record: &NodeRecord,
        revision: u64,
        fence: &mut Option<u64>,
    ) -> Result<Map<String, Value>, StepError> {
        if matches!(step.work, StepKind::Builtin(BuiltinStep::Notify, _)) {
            self.notify_targets(NotificationEvent::Done, record).await?;
            return Ok(Map::new());
        }
        let node_fence = match *fence {
            Some(node_fence) => node_fence,
            None if needs_node_lock(&step.work) => {
                if step.name != BuiltinStep::Lock.step_name()
                    && let Err(error) = self.worker.lock_node(record, revision).await
                {
                    return self.complete_release(step, error).await;
                }
                *fence = Some(revision);
                revision
            }
            None => revision,
        };
        self.worker.execute_step(step, record, node_fence).await
    }

    /// Completes a release that an earlier leader has begun. The node refuses the lock since then, because its provisioning has ended. Otherwise
    /// the refused lock is the error of the step.
    async fn complete_release(
        &self,
        step: &PlanStep,
        lock_error: StepError,
    ) -> Result<Map<String, Value>, StepError> {
        let is_release = matches!(step.work, StepKind::Builtin(BuiltinStep::Release, _));
        if !is_release || !self.worker.is_provisioning_ended(&self.node).await? {
            return Err(lock_error);
        }
        self.worker.unlock_node(&self.node).await;
        self.worker.release_without_lock(&self.node).await
    }

    /// Handles a failure: revokes what was signed, unlocks the node, sends the notifications.
    async fn settle_failure(&self, record: NodeRecord) -> Result<NodeRecord, NodeRecordError> {
        let settled = async {
            let mut record = record;
            let signing_steps = [BuiltinStep::Csr.as_str(), BuiltinStep::Sign.as_str()];
            let mut started_steps = record.history.iter().map(|entry| entry.step.as_str());
            let is_signed = started_steps.any(|step| signing_steps.contains(&step));
            if self.worker.options.compensate && is_signed && !record.compensated {
                let revoked = self.worker.clean_certificates(&self.node).await?;
                let compensated = self.update_record(|record| {
                    let values = Map::from_iter([("taken_back".to_owned(), revoked.clone())]);
                    record.mark_compensated(values, unix_millis_now());
                });
                record = compensated.await?;
            }
            self.worker.unlock_node(&self.node).await;
            self.notify_targets(NotificationEvent::Failed, &record).await
        };
        match settled.await {
            Ok(()) => self.update_record(|record| record.mark_settled(unix_millis_now())).await,
            Err(error) => {
                self.record_failure(&StepName::builtin("settle"), &error, UNLIMITED_TRIES).await
            }
        }
    }

    /// Revokes its certificates on all masters, and sends the notifications.
    async fn retire_node(&self, record: NodeRecord) -> Result<NodeRecord, NodeRecordError> {
        let retired = async {
            let revoked = if self.may_have_certificate(&record) {
                self.worker.clean_certificates(&self.node).await?
            } else {
                Value::Array(Vec::new())
            };
            // Keep the serial numbers that were revoked in earlier tries.
            let mut serials =
                record.values.get("retired").and_then(Value::as_array).cloned().unwrap_or_default();
            serials.extend(revoked.as_array().cloned().unwrap_or_default());
            let values = Map::from_iter([("retired".to_owned(), Value::Array(serials))]);
            let record = self.update_record(|record| record.values.extend(values.clone())).await?;
            NameStore::new(self.store.bucket().clone())
                .release_name(&self.node)
                .await
                .map_err(|error| StepError::transient(error.to_string()))?;
            self.notify_targets(NotificationEvent::Retired, &record).await
        };
        match retired.await {
            Ok(()) => self.update_record(|record| record.mark_retired(unix_millis_now())).await,
            Err(error) => {
                self.record_failure(&StepName::builtin("retire"), &error, UNLIMITED_TRIES).await
            }
        }
    }

    /// Without Puppet there is no master that could be asked, unless the node was enrolled with one earlier.
    fn may_have_certificate(&self, record: &NodeRecord) -> bool {
        self.worker.options.puppet || record.values.contains_key("serial")
    }

    /// Sends to every target that was not notified yet. Tries all of them, then returns the first error.
    async fn notify_targets(
        &self,
        event: NotificationEvent,
        record: &NodeRecord,
    ) -> Result<(), StepError> {
        let options = &self.worker.options;
        let mut first_error = None;
        for target in notify::matching_targets(options, event) {
            let key = notify::notification_key(event, target);
            let previous = record.notices.get(&key);
            if previous.is_some_and(|notice| notice.delivery == DeliveryState::Sent) {
                continue;
            }
            let id = previous.map_or_else(Uuid::now_v7, |notice| notice.id);
            self.record_notification(&key, id, DeliveryState::Sending).await?;
            let message = build_message(id, event, record);
            let system = Arc::clone(&self.worker.system);
            match notify::send_message(system, &target.channel, &message).await {
                Ok(()) => {
                    self.record_notification(&key, id, DeliveryState::Sent).await?;
                }
                Err(error) => {
                    let text = format!("cannot notify {}: {}", target.name, error.message);
                    first_error.get_or_insert(StepError::transient(text));
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn record_notification(
        &self,
        key: &str,
        id: Uuid,
        delivery: DeliveryState,
    ) -> Result<NodeRecord, NodeRecordError> {
        let notice = NotificationRecord { id, delivery, at: unix_millis_now() };
        self.update_record(|record| {
            record.notices.insert(key.to_owned(), notice.clone());
        })
        .await
    }

    async fn record_failure(
        &self,
        step: &StepName,
        error: &StepError,
        tries: u32,
    ) -> Result<NodeRecord, NodeRecordError> {
        tracing::warn!(node = %self.node, %step, %error, "step not completed");
        let options = &self.worker.options;
        let backoff = RetryBackoff {
            initial: options.backoff.saturating_mul(1000),
            max: options.backoff_most.saturating_mul(1000),
        };
        self.update_record(|record| {
            record.fail_step(step, error, tries, backoff, unix_millis_now());
        })
        .await
    }

    async fn update_record(
        &self,
        mut change: impl FnMut(&mut NodeRecord),
    ) -> Result<NodeRecord, NodeRecordError> {
        let edited = self.edit_record(|record| {
            change(record);
            true
        });
        Ok(edited.await?.0)
    }

    /// Changes the record if `change` returns true, unless a newer leader has written it.
    async fn edit_record(
        &self,
        mut change: impl FnMut(&mut NodeRecord) -> bool,
    ) -> Result<(NodeRecord, u64), NodeRecordError> {
        self.store
            .edit_record(&self.node, |record| {
                if record.epoch > self.epoch {
                    return Err(NodeRecordError::Fenced {
                        node: self.node.clone(),
                        epoch: record.epoch,
                    });
                }
                record.epoch = self.epoch;
                Ok(change(record))
            })
            .await
    }
}

/// Whether a step calls an action of the node that requires the node's lock.
fn needs_node_lock(work: &StepKind) -> bool {
    match work {
        StepKind::Builtin(builtin, _) => !matches!(
            builtin,
            BuiltinStep::Place | BuiltinStep::Clean | BuiltinStep::Sign | BuiltinStep::Notify
        ),
        StepKind::Configure(..) => true,
        StepKind::Agent(_) | StepKind::Helper(_) => false,
    }
}
