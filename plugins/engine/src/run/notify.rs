//! Refresh notifications between resources, and the ledger of refreshes that are still pending.

use muster_system::{SystemError, SystemResult};

use super::CatalogRun;
use super::select::SkipReason;
use crate::error::EngineError;
use crate::graph::{ContainerAnchor, GraphNode, GraphNodeId};
use crate::ledger::{OwedRefresh, RefreshCertainty, RefreshIntent};
use crate::report::{ResourceStatus, RunLogLevel};
use crate::resolved_catalog::MemberId;
use crate::resource::Resource;

/// How long an entry is kept after its target has left the catalog, in seconds: 30 days.
const ORPHANED_REFRESH_TTL_SECS: i64 = 30 * 24 * 3600;

/// One refresh queued for a node by another.
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

    fn supports_refresh(&self, member: MemberId) -> bool {
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
        let now = self.epoch_seconds();
        let run = self.options.run_id.clone();
        self.ledger.record_intent(&run, source, plan, now, &targets).map(Some)
    }

    /// Queues pending refreshes of earlier runs for their targets, if these are still in the catalog.
    pub(super) fn queue_owed_refreshes(&mut self) {
        let now = self.epoch_seconds();
        let owed_refreshes: Vec<OwedRefresh> = self.ledger.owed_refreshes().cloned().collect();
        for owed in owed_refreshes {
            let only = &self.options.only;
            let is_selected = only.is_empty() || only.contains(&owed.target);
            let is_source_evaluated = self.node_of(&owed.source).is_some()
                && (only.is_empty() || only.contains(&owed.source));
            // A replay does not evaluate the source, so it makes an uncertain refresh of a selected target.
            let is_undecided = is_source_evaluated || !is_selected;
            if owed.certainty == RefreshCertainty::Uncertain && is_undecided {
                continue;
            }
            if owed.certainty == RefreshCertainty::Uncertain {
                self.update_ledger(|ledger| ledger.confirm_owed(&[owed.id]));
            }
            self.queue_owed_refresh(&owed, now);
        }
    }

    fn queue_owed_refresh(&mut self, owed: &OwedRefresh, now: i64) {
        let Some((node, member)) = self.node_of(&owed.target) else {
            if now - owed.since > ORPHANED_REFRESH_TTL_SECS {
                let message = format!(
                    "Dropped the refresh of {} by {}, pending since run {}: it left the catalog",
                    owed.target, owed.source, owed.run
                );
                self.log_message(RunLogLevel::Warning, &message);
                self.update_ledger(|ledger| ledger.remove_owed(&[owed.id]));
            } else {
                self.update_ledger(|ledger| {
                    ledger.record_reason(&owed.target, "it is not in the catalog")
                });
            }
            return;
        };
        if !self.supports_refresh(member) {
            self.update_ledger(|ledger| ledger.remove_owed(&[owed.id]));
            return;
        }
        // Entries of Puppet's runs have no digest of the definition.
        let changed = self.resolved.resource_of(member).is_some_and(|resource| {
            !owed.target_definition.is_empty()
                && super::evaluate::definition_digest(resource) != owed.target_definition
        });
        let suffix = if changed { "; its definition has changed since" } else { "" };
        let message =
            format!("A refresh by {} has been pending since run {}{suffix}", owed.source, owed.run);
        self.log_member_message(member, None, RunLogLevel::Info, &message);
        if let Some(progress) = self.progress.get_mut(node) {
            progress.queue.push(QueuedRefresh { noop: false });
        }
    }

    /// Decides uncertain entries after the evaluation of their source, which shows whether the interrupted change was made.
    pub(super) fn resolve_uncertain(&mut self, source: &str, plan: Option<&str>) {
        let now = self.epoch_seconds();
        for owed in self.ledger.uncertain_from(source) {
            // The same change is still planned, so it had not been made.
            if plan == Some(owed.plan.as_str()) {
                self.update_ledger(|ledger| ledger.remove_owed(&[owed.id]));
            } else {
                self.update_ledger(|ledger| ledger.confirm_owed(&[owed.id]));
                self.queue_owed_refresh(&owed, now);
            }
        }
    }

    fn node_of(&self, reference: &str) -> Option<(GraphNodeId, MemberId)> {
        let member = self.resolved.find_member(&reference.parse().ok()?)?;
        Some((*self.built.nodes.get(&member)?, member))
    }

    /// Executes the queued refreshes of a resource, at the end of its processing.
    pub(super) fn refresh_resource(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        status: &mut ResourceStatus,
    ) {
        let queue = self.take_queue(node);
        let Some(resource) = self.resolved.resource_of(member).cloned() else {
            return;
        };
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
        let intent = self.record_intent(node, &reference, "refresh").unwrap_or_else(|error| {
            self.log_ledger_error(&error);
            None
        });
        self.update_ledger(|ledger| ledger.begin_refresh(&reference));
        let resource_type = self.engine.type_of(&resource);
        let result = resource_type.and_then(|known| known.refresh(&self.cx, &resource));
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
        let Some(details) = self.resolved.get_member(member) else {
            return;
        };
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

    fn log_ledger_error(&mut self, error: &SystemError) {
        let message = format!("the refresh ledger cannot be written: {error}");
        self.log_message(RunLogLevel::Err, &message);
    }
}

fn would_trigger_message(events: usize) -> String {
    let plural = if events == 1 { "" } else { "s" };
    format!("Would have triggered 'refresh' from {events} event{plural}")
}
