//! Refresh notifications between resources. The refreshes that earlier runs owe are in `owed`.

use std::collections::BTreeMap;

use muster_system::{SystemError, SystemResult};

use super::CatalogRun;
use super::select::SkipReason;
use crate::error::EngineError;
use crate::graph::{ContainerAnchor, GraphNode, GraphNodeId};
use crate::ledger::{RefreshIntent, SourceChange};
use crate::report::{ResourceStatus, RunLogLevel};
use crate::resolved_catalog::MemberId;
use crate::resource::Resource;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuedRefresh {
    /// Whether the source was only changed in noop mode.
    pub(super) noop: bool,
}

impl CatalogRun<'_> {
    /// An anchor only forwards queued refreshes.
    pub(super) fn process_anchor(&mut self, node: GraphNodeId, anchor: &ContainerAnchor) {
        self.propagate_failures(node);
        let skipped = self.skip_by_tags(&anchor.tags).is_some() || self.depends_on_failure(node);
        let queue = self.take_queue(node);
        if queue.is_empty() {
            return;
        }
        if skipped {
            let message = format!("Unscheduling all events on {}", anchor.name);
            self.log_message(RunLogLevel::Info, &message);
            return;
        }
        let noop = self.options.noop || queue.iter().all(|queued| queued.noop);
        if noop {
            let message = format!("{}: {}", anchor.name, would_trigger_message(queue.len()));
            self.log_message(RunLogLevel::Notice, &message);
        }
        self.queue_for_targets(node, &[QueuedRefresh { noop }]);
    }

    /// Queues a refresh for every node that a change of this node refreshes.
    pub(super) fn queue_for_targets(&mut self, node: GraphNodeId, events: &[QueuedRefresh]) {
        if events.is_empty() {
            return;
        }
        let targets: Vec<(GraphNodeId, u32)> = self.built.graph.outgoing_edges(node).collect();
        for (target, times) in targets.into_iter().filter(|(_, times)| *times > 0) {
            let accepts_refresh = match self.built.graph.get_node(target) {
                Some(GraphNode::Resource(member)) => self.supports_refresh(*member),
                Some(GraphNode::Anchor(_)) => true,
                None => false,
            };
            if let Some(progress) = self.progress.get_mut(target).filter(|_| accepts_refresh) {
                for _ in 0..times {
                    progress.queue.extend_from_slice(events);
                }
            }
        }
    }

    /// A mount that was changed is remounted, unless it is being removed.
    pub(super) fn queue_for_itself(
        &mut self,
        node: GraphNodeId,
        resource: &Resource,
        events: &[QueuedRefresh],
    ) {
        if !self.engine.refreshes_itself(resource) {
            return;
        }
        if let Some(progress) = self.progress.get_mut(node) {
            progress.queue.extend_from_slice(events);
        }
    }

    pub(super) fn take_queue(&mut self, node: GraphNodeId) -> Vec<QueuedRefresh> {
        self.progress
            .get_mut(node)
            .map(|progress| std::mem::take(&mut progress.queue))
            .unwrap_or_default()
    }

    pub(super) fn supports_refresh(&self, member: MemberId) -> bool {
        self.resolved.resource_of(member).is_some_and(|resource| {
            self.engine.type_satisfies(resource, |resource_type| resource_type.supports_refresh())
        })
    }

    /// Records on disk which refreshes the upcoming change of this node will cause.
    pub(super) fn record_intent(
        &mut self,
        node: GraphNodeId,
        source: &str,
        plan: &str,
        before: BTreeMap<String, String>,
    ) -> SystemResult<Option<RefreshIntent>> {
        let mut refreshed = self.built.graph.refresh_targets(node);
        if let Some(GraphNode::Resource(member)) = self.built.graph.get_node(node) {
            let source_resource = self.resolved.resource_of(*member);
            if source_resource.is_some_and(|resource| self.engine.refreshes_itself(resource)) {
                refreshed.insert(*member);
            }
        }
        let targets: Vec<(String, String)> = refreshed
            .into_iter()
            .filter(|member| self.supports_refresh(*member))
            .filter_map(|member| {
                let resource = self.resolved.resource_of(member)?;
                Some((resource.reference(), super::evaluate::definition_digest(resource)))
            })
            .collect();
        if targets.is_empty() {
            return Ok(None);
        }
        let change = SourceChange {
            run: self.options.run_id.clone(),
            source: source.to_owned(),
            plan: plan.to_owned(),
            before,
            time: self.epoch_seconds(),
        };
        self.ledger.record_intent(&change, &targets).map(Some)
    }

    /// Executes the queued refreshes of a resource, at the end of its processing.
    pub(super) fn refresh_resource(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        status: &mut ResourceStatus,
    ) {
        let queue = self.take_queue(node);
        let Some(resource) = self.resolved.resource_of(member).cloned() else { return };
        if queue.is_empty() {
            return;
        }
        let reference = resource.reference();
        if self.is_noop(&resource) || queue.iter().all(|queued| queued.noop) {
            let message = would_trigger_message(queue.len());
            self.log_member_message(member, None, RunLogLevel::Notice, &message);
            self.update_ledger(|ledger| ledger.record_reason(&reference, "it is in noop"));
            self.queue_for_targets(node, &[QueuedRefresh { noop: true }]);
            return;
        }
        // Refreshes triggered by this one are recorded first: a crash may occur after the command finished but before its result is recorded.
        let intent = self.record_intent(node, &reference, "refresh", BTreeMap::new());
        let intent = intent.unwrap_or_else(|error| {
            self.log_ledger_error(&error);
            None
        });
        self.update_ledger(|ledger| ledger.begin_refresh(&reference));
        let resource_type = self.engine.type_of(&resource);
        let result = resource_type.and_then(|known| known.refresh(&self.cx.bind(&resource)));
        self.log_output(member, &resource);
        match result {
            Ok(()) => {
                let plural = if queue.len() == 1 { "" } else { "s" };
                let message = format!("Triggered 'refresh' from {} event{plural}", queue.len());
                self.log_member_message(member, None, RunLogLevel::Notice, &message);
                status.add_event(self.whole_event("refresh", "success", &message));
                status.restarted = true;
                if let Some(intent) = intent {
                    self.update_ledger(|ledger| ledger.mark_change_made(&intent));
                }
                self.update_ledger(|ledger| ledger.mark_refreshed(&reference));
                self.queue_for_targets(node, &[QueuedRefresh { noop: false }]);
            }
            Err(error) => {
                let message = format!("Failed to call refresh: {}", error.reason());
                let message = self.redact_text(member, &message);
                self.log_member_message(member, None, RunLogLevel::Err, &message);
                status.add_event(self.error_event(&message));
                status.failed_to_restart = true;
                if let Some(intent) = intent {
                    self.update_ledger(|ledger| ledger.mark_change_not_made(&intent));
                }
                self.update_ledger(|ledger| ledger.record_reason(&reference, "its refresh failed"));
            }
        }
    }

    /// The read-only engine cannot tell whether this resource would change, so its targets get a noop refresh.
    pub(super) fn report_not_evaluated(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        error: &EngineError,
        status: &mut ResourceStatus,
    ) {
        let reason = self.redact_text(member, &error.reason());
        let message = format!("not evaluated: {reason}");
        self.log_member_message(member, None, RunLogLevel::Notice, &message);
        status.add_event(self.whole_event("not_evaluated", "noop", &message));
        self.queue_for_targets(node, &[QueuedRefresh { noop: true }]);
    }

    /// Drops the queued refreshes of a skipped resource; they stay pending in the ledger.
    pub(super) fn drop_queue(&mut self, node: GraphNodeId, member: MemberId, skip: SkipReason) {
        let Some(details) = self.resolved.get_member(member) else { return };
        let reference = details.reference.to_string();
        if !self.take_queue(node).is_empty() {
            let message = format!("Unscheduling all events on {reference}");
            self.log_member_message(member, None, RunLogLevel::Info, &message);
        }
        self.update_ledger(|ledger| ledger.record_reason(&reference, skip));
    }

    /// Sets a reason on every remaining entry without one.
    pub(super) fn record_missing_reasons(&mut self) -> SystemResult<()> {
        let reason = "its notification was dropped: a container was skipped, or the source failed";
        let lacking = self.ledger.owed_refreshes().filter(|owed| owed.reason.is_none());
        let targets: Vec<String> = lacking.map(|owed| owed.target.clone()).collect();
        targets.iter().try_for_each(|target| self.ledger.record_reason(target, reason))
    }

    /// Handles a failed ledger write. The run continues with the entries in memory; the next start reads what is on disk.
    pub(super) fn update_ledger(
        &mut self,
        update: impl FnOnce(&mut crate::ledger::RefreshLedger) -> SystemResult<()>,
    ) {
        if let Err(error) = update(&mut self.ledger) {
            self.log_ledger_error(&error);
        }
    }

    pub(super) fn log_ledger_error(&mut self, error: &SystemError) {
        let message = format!("the refresh ledger cannot be written: {error}");
        self.log_message(RunLogLevel::Err, &message);
    }
}

fn would_trigger_message(events: usize) -> String {
    let plural = if events == 1 { "" } else { "s" };
    format!("Would have triggered 'refresh' from {events} event{plural}")
}
