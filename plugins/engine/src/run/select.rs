//! Decides which resources are skipped, and why.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::CatalogRun;
use crate::graph::{GraphNodeId, cycle};
use crate::report::RunLogLevel;
use crate::resolved_catalog::MemberId;
use crate::types::schedule::ScheduleResourceType;

/// Why a node is skipped, as recorded in the ledger for a pending refresh.
pub(super) type SkipReason = &'static str;

impl CatalogRun<'_> {
    /// Whether the run's tag options exclude a node.
    pub(super) fn skip_by_tags(&self, tags: &[String]) -> Option<SkipReason> {
        let has_tag = |tag: &String| tags.contains(&tag.to_lowercase());
        if self.options.skip_tags.iter().any(has_tag) {
            Some("the run skips one of its tags")
        } else if !self.options.tags.is_empty() && !self.options.tags.iter().any(has_tag) {
            Some("the run selects other tags")
        } else {
            None
        }
    }

    /// Whether a resource is skipped; logs it where Puppet does.
    pub(super) fn skip_reason(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
    ) -> Option<SkipReason> {
        if self.cx.cancel.is_cancelled() {
            return Some("the run was cancelled");
        }
        let details = self.resolved.get_member(member)?;
        let is_virtual = details.is_virtual;
        let only = &self.options.only;
        if !only.is_empty() && !only.contains(&details.reference.to_string()) {
            return Some("the run selects other resources");
        }
        if let Some(skip) = self.skip_by_tags(&details.tags) {
            return Some(skip);
        }
        if !self.options.ignore_schedules && self.is_outside_schedule(member) {
            return Some("it is outside its schedule");
        }
        if self.depends_on_failure(node) {
            self.log_failed_dependencies(node, member);
            let message = "Skipping because of failed dependencies";
            self.log_member_message(member, None, RunLogLevel::Warning, message);
            return Some("a dependency failed");
        }
        is_virtual.then_some("it is exported for other nodes")
    }

    /// Collects all failed dependencies of the node: its direct dependencies and those recorded for them.
    pub(super) fn propagate_failures(&mut self, node: GraphNodeId) {
        let mut failed = BTreeSet::new();
        for predecessor in self.built.graph.predecessors(node) {
            if let Some(progress) = self.progress.get(predecessor) {
                failed.extend(&progress.failed_dependencies);
                if progress.failed || progress.failed_to_restart {
                    failed.insert(predecessor);
                }
            }
        }
        if let Some(progress) = self.progress.get_mut(node) {
            progress.failed_dependencies = failed;
        }
    }

    pub(super) fn depends_on_failure(&self, node: GraphNodeId) -> bool {
        self.progress.get(node).is_some_and(|progress| !progress.failed_dependencies.is_empty())
    }

    /// Whether the resource has a schedule that does not allow evaluation now.
    fn is_outside_schedule(&self, member: MemberId) -> bool {
        let Some(resource) = self.resolved.resource_of(member) else { return false };
        let name = resource.get_text("schedule");
        let Some(schedule) = name.and_then(|name| self.resolved.find_schedule(name)) else {
            return false;
        };
        let stored = self.state_store.get(&resource.reference());
        let checked = stored.and_then(|stored| Timestamp::from_second(stored.checked?).ok());
        let now = Timestamp::from_second(self.epoch_seconds()).unwrap_or(Timestamp::MAX);
        // Invalid schedules were rejected when the catalog was validated.
        let is_allowed =
            ScheduleResourceType::allows_change(&schedule, checked, now, &TimeZone::system());
        !is_allowed.unwrap_or(true)
    }

    /// Logs each failed resource once per run.
    fn log_failed_dependencies(&mut self, node: GraphNodeId, member: MemberId) {
        let failed = self.progress.get(node).map(|progress| progress.failed_dependencies.clone());
        for dependency in failed.unwrap_or_default() {
            if self.logged_failures.insert(dependency) {
                let name = cycle::node_name(&self.built.graph, &self.resolved, dependency);
                // Puppet reports `false` for a resource that only failed to refresh.
                let is_failed =
                    self.progress.get(dependency).is_some_and(|progress| progress.failed);
                let message = format!("Dependency {name} has failures: {is_failed}");
                self.log_member_message(member, None, RunLogLevel::Notice, &message);
            }
        }
    }
}
