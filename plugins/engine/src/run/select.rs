//! Decides which resources are skipped, and why.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::CatalogRun;
use crate::graph::{GraphNodeId, cycle};
use crate::report::RunLogLevel;
use crate::resolved_catalog::MemberId;
use crate::types::schedule::ScheduleResourceType;

/// Why a node is skipped, in the order of Puppet's checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// It has a tag that is to be skipped.
    TagSkipped,
    /// It has none of the requested tags.
    TagNotSelected,
    /// Outside its schedule.
    Schedule,
    /// A dependency failed.
    Dependency,
    /// The run is limited to other resources.
    NotSelected,
    /// It is exported for other machines.
    Virtual,
    /// The run was cancelled.
    Cancelled,
}

impl SkipReason {
    /// The reason recorded in the ledger for a pending refresh.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::TagSkipped => "the run skips one of its tags",
            Self::TagNotSelected => "the run selects other tags",
            Self::Schedule => "it is outside its schedule",
            Self::Dependency => "a dependency failed",
            Self::NotSelected => "the run selects other resources",
            Self::Virtual => "it is exported for other nodes",
            Self::Cancelled => "the run was cancelled",
        }
    }
}

impl CatalogRun<'_> {
    /// Whether the run's tag options exclude a node.
    pub(super) fn skip_by_tags(&self, tags: &[String]) -> Option<SkipReason> {
        let has_tag = |tag: &String| tags.contains(&tag.to_lowercase());
        if self.options.skip_tags.iter().any(has_tag) {
            Some(SkipReason::TagSkipped)
        } else if !self.options.tags.is_empty() && !self.options.tags.iter().any(has_tag) {
            Some(SkipReason::TagNotSelected)
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
            return Some(SkipReason::Cancelled);
        }
        let details = self.resolved.get_member(member)?;
        let is_virtual = details.is_virtual;
        let only = &self.options.only;
        if !only.is_empty() && !only.contains(&details.reference.to_string()) {
            return Some(SkipReason::NotSelected);
        }
        if let Some(skip) = self.skip_by_tags(&details.tags) {
            return Some(skip);
        }
        if !self.options.ignore_schedules && self.is_outside_schedule(member) {
            return Some(SkipReason::Schedule);
        }
        if self.depends_on_failure(node) {
            self.log_failed_dependencies(node, member);
            let message = "Skipping because of failed dependencies";
            self.log_member_message(member, None, RunLogLevel::Warning, message);
            return Some(SkipReason::Dependency);
        }
        is_virtual.then_some(SkipReason::Virtual)
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
        let Some(resource) = self.resolved.resource_of(member) else {
            return false;
        };
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
