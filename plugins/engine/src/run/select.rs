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
    TagUnwanted,
    /// It has none of the requested tags.
    TagMissing,
    /// Outside its schedule.
    Schedule,
    /// A dependency failed.
    Dependency,
    /// The run is limited to other resources.
    NotAsked,
    /// It is exported for other machines.
    Virtual,
    /// The run was cancelled.
    Cancelled,
}

impl SkipReason {
    /// The reason recorded in the ledger for a pending refresh.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::TagUnwanted => "the run skips one of its tags",
            Self::TagMissing => "the run selects other tags",
            Self::Schedule => "it is outside its schedule",
            Self::Dependency => "a dependency failed",
            Self::NotAsked => "the run selects other resources",
            Self::Virtual => "it is exported for other nodes",
            Self::Cancelled => "the run was cancelled",
        }
    }
}

impl CatalogRun<'_> {
    /// Whether the run's tag options exclude a node.
    pub(super) fn skip_by_tags(&self, tags: &[String]) -> Option<SkipReason> {
        let has = |wanted: &String| tags.contains(&wanted.to_lowercase());
        if self.options.skip_tags.iter().any(has) {
            Some(SkipReason::TagUnwanted)
        } else if !self.options.tags.is_empty() && !self.options.tags.iter().any(has) {
            Some(SkipReason::TagMissing)
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
        let (tags, is_virtual, reference) = {
            let known = self.world.get_member(member)?;
            let reference = known.reference.to_string();
            (known.tags.clone(), known.is_virtual, reference)
        };
        if !self.options.only.is_empty() && !self.options.only.contains(&reference) {
            return Some(SkipReason::NotAsked);
        }
        if let Some(skip) = self.skip_by_tags(&tags) {
            return Some(skip);
        }
        if !self.options.ignore_schedules && self.is_outside_schedule(member) {
            return Some(SkipReason::Schedule);
        }
        if self.depends_on_failure(node) {
            self.log_failed_dependencies(node, member);
            self.log_member_message(
                member,
                None,
                RunLogLevel::Warning,
                "Skipping because of failed dependencies",
            );
            return Some(SkipReason::Dependency);
        }
        is_virtual.then_some(SkipReason::Virtual)
    }

    /// Collects all failed dependencies of the node: its direct dependencies and those recorded for them.
    pub(super) fn propagate_failures(&mut self, node: GraphNodeId) {
        let mut failed = BTreeSet::new();
        for before in self.built.graph.predecessors(node) {
            if let Some(note) = self.notes.get(before) {
                failed.extend(&note.failed_dependencies);
                if note.failed || note.failed_to_restart {
                    failed.insert(before);
                }
            }
        }
        if let Some(note) = self.notes.get_mut(node) {
            note.failed_dependencies = failed;
        }
    }

    pub(super) fn depends_on_failure(&self, node: GraphNodeId) -> bool {
        self.notes
            .get(node)
            .is_some_and(|note| !note.failed_dependencies.is_empty())
    }

    /// Whether the resource has a schedule that does not allow evaluation now.
    fn is_outside_schedule(&self, member: MemberId) -> bool {
        let Some(resource) = self
            .world
            .get_member(member)
            .and_then(|known| known.resource.as_ref())
        else {
            return false;
        };
        let Some(schedule) = resource
            .get_text("schedule")
            .and_then(|name| self.world.find_schedule(name))
        else {
            return false;
        };
        let seen = self.memory.get(&resource.reference());
        let checked = seen.and_then(|seen| Timestamp::from_second(seen.checked?).ok());
        let now = Timestamp::from_second(self.epoch_seconds()).unwrap_or(Timestamp::MAX);
        // Invalid schedules were rejected when the catalog was validated.
        let allowed =
            ScheduleResourceType::allows_change(&schedule, checked, now, &TimeZone::system());
        !allowed.unwrap_or(true)
    }

    /// Logs each failed resource once per run.
    fn log_failed_dependencies(&mut self, node: GraphNodeId, member: MemberId) {
        let failed = self
            .notes
            .get(node)
            .map(|note| note.failed_dependencies.clone())
            .unwrap_or_default();
        for dependency in failed {
            if self.told_failures.insert(dependency) {
                let name = cycle::node_name(&self.built.graph, &self.world, dependency);
                // Puppet reports `false` for a resource that only failed to refresh.
                let is_failed = self.notes.get(dependency).is_some_and(|note| note.failed);
                let message = format!("Dependency {name} has failures: {is_failed}");
                self.log_member_message(member, None, RunLogLevel::Notice, &message);
            }
        }
    }
}
