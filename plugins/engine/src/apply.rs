//! Applies resources on request, outside a catalog: reads and plans all of them, then makes the changes.
//!
//! A resource that generates others (`tidy`, `file` with `recurse`, `resources` with `purge`) is applied together with those. All plans are made
//! before the first change, so that the caller can record what will be replaced.

use std::sync::Arc;

use muster_system::command::CancelFlag;

use crate::engine::ResourceEngine;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::event::{ChangeEvent, ChangeEventStatus};
use crate::plan::{ChangeOutcome, PropertyChange, ResourcePlan};
use crate::resource::Resource;
use crate::resource_type::{BoundResource, GenerationPhase, ResourceContext, ResourceType};
use crate::schema::AttributeSchema;

/// Maximum size of the diffs of one request, in bytes. Further ones are omitted.
const MAX_DIFF_BYTES: usize = 32 * 1024;

/// The result of applying one resource, or several as one request.
#[derive(Debug, Default)]
pub struct ApplyOutcome {
    /// `User[rip]`: the first requested resource.
    pub resource: String,
    /// Changes made, or in noop mode pending; includes failures.
    pub events: Vec<ChangeEvent>,
    /// The unified diff of the content of files. A read-only engine makes none.
    pub diff: Option<String>,
    /// Log lines: command output, messages.
    pub log: Vec<String>,
    /// Why a read-only engine did not evaluate a resource: the program it would have had to run.
    pub not_evaluated: Option<String>,
    /// The first error, if any.
    pub error: Option<EngineError>,
}

impl ApplyOutcome {
    pub fn has_changed(&self) -> bool {
        self.events.iter().any(|event| event.status == ChangeEventStatus::Success)
    }

    /// Whether something would be changed without noop.
    pub fn would_change(&self) -> bool {
        self.events.iter().any(|event| event.status == ChangeEventStatus::Noop)
    }

    fn record_failed_change(
        &mut self,
        reference: &str,
        change: &PropertyChange,
        error: EngineError,
    ) {
        let reason = error.reason();
        self.events.push(change.to_event(reference, &ChangeOutcome::Failed(&reason)));
        self.error.get_or_insert(error);
    }

    /// Records the failure of a resource that could not be read or generated. Its error names another resource than the requested one, so it is
    /// logged as a whole.
    fn record_failure(&mut self, error: EngineError) {
        if error.is_not_evaluated() {
            self.not_evaluated.get_or_insert_with(|| error.reason());
            return;
        }
        if self.error.is_some() {
            self.log.push(error.one_line_message());
        } else {
            self.error = Some(error);
        }
    }
}

/// Decisions of the caller while its resources are applied.
pub trait ApplyHooks {
    /// An error refuses the whole request before any change.
    fn admit_generated(&mut self, _: &Resource) -> Result<bool> {
        Ok(true)
    }

    /// Called with all plans that are not empty, before the first change. After an error nothing is changed.
    fn before_changes(&mut self, _: &[&ResourcePlan]) -> Result<()> {
        Ok(())
    }
}

/// Admits everything and records nothing.
impl ApplyHooks for () {}

type PlannedResource = (Arc<dyn ResourceType>, ResourcePlan);

impl ResourceEngine {
    /// Applies the resource; with `noop` (option or attribute) only reports the pending changes.
    pub fn apply_resource(
        &self,
        resource: &Resource,
        cancel: CancelFlag,
        noop: bool,
    ) -> ApplyOutcome {
        self.apply_resources(std::slice::from_ref(resource), cancel, noop, &mut ())
    }

    /// Applies the resources in this order, each with those that it generates.
    pub fn apply_resources(
        &self,
        resources: &[Resource],
        cancel: CancelFlag,
        noop: bool,
        hooks: &mut dyn ApplyHooks,
    ) -> ApplyOutcome {
        let cx = self.resource_context(cancel);
        let name = resources.first().map(Resource::reference).unwrap_or_default();
        let mut outcome = ApplyOutcome { resource: name, ..ApplyOutcome::default() };
        let planned = match self.plan_with_generated(&cx, resources, hooks, &mut outcome) {
            Ok(planned) => planned,
            Err(error) => {
                outcome.error = Some(error);
                Vec::new()
            }
        };
        if !self.is_read_only() {
            outcome.diff = join_diffs(&cx, &planned);
        }
        let is_noop =
            |plan: &ResourcePlan| noop || self.is_read_only() || plan.resource.get_flag("noop");
        let to_change: Vec<&ResourcePlan> =
            planned.iter().map(|(_, plan)| plan).filter(|plan| !is_noop(plan)).collect();
        let refused = match to_change.as_slice() {
            [] => None,
            plans => hooks.before_changes(plans).err(),
        };
        for (resource_type, plan) in &planned {
            if is_noop(plan) {
                let reference = plan.resource.reference();
                let to_event =
                    |change: &PropertyChange| change.to_event(&reference, &ChangeOutcome::Planned);
                outcome.events.extend(plan.changes.iter().map(to_event));
            } else if refused.is_none() {
                apply_changes(&**resource_type, &cx, plan, &mut outcome);
            }
        }
        outcome.error = refused.or(outcome.error);
        if let Some(resource) = resources.first() {
            let synced = cx.sync_created_files().during(resource, "syncing changed files to disk");
            outcome.error = outcome.error.or(synced.err());
        }
        outcome.log.splice(0..0, cx.log.take());
        outcome
    }

    /// The plans that are not empty. A resource that cannot be read is reported in the outcome, and the others are planned.
    fn plan_with_generated(
        &self,
        cx: &ResourceContext<'_>,
        resources: &[Resource],
        hooks: &mut dyn ApplyHooks,
        outcome: &mut ApplyOutcome,
    ) -> Result<Vec<PlannedResource>> {
        let mut members = Vec::new();
        for resource in resources {
            self.add_with_generated(&cx.bind(resource), hooks, outcome, &mut members)?;
        }
        let mut planned = Vec::new();
        for resource in &members {
            let plan = self.type_of(resource).and_then(|resource_type| {
                resource_type.read_and_plan(&cx.bind(resource)).map(|plan| (resource_type, plan))
            });
            match plan {
                Ok((_, plan)) if plan.is_empty() => {}
                Ok(plan) => planned.push(plan),
                Err(error) => outcome.record_failure(error),
            }
        }
        Ok(planned)
    }

    /// Adds the resource and those that it generates, in the order in which a catalog applies them. Generated resources may generate more.
    fn add_with_generated(
        &self,
        bound: &BoundResource<'_>,
        hooks: &mut dyn ApplyHooks,
        outcome: &mut ApplyOutcome,
        members: &mut Vec<Resource>,
    ) -> Result<()> {
        let BoundResource { resource, cx } = *bound;
        let phase = self
            .type_of(resource)
            .map_or(GenerationPhase::Never, |known| known.generation_phase(resource));
        if phase == GenerationPhase::Never {
            members.push(resource.clone());
            return Ok(());
        }
        let generated = self
            .type_of(resource)
            .and_then(|known| known.generate_resources(bound, &()))
            .unwrap_or_else(|error| {
                outcome.record_failure(error);
                Vec::new()
            });
        let generator_first = phase != GenerationPhase::BeforeTheRunAndFirst;
        if generator_first {
            members.push(resource.clone());
        }
        for other in generated {
            if hooks.admit_generated(&other)? {
                self.add_with_generated(&cx.bind(&other), hooks, outcome, members)?;
            }
        }
        if !generator_first {
            members.push(resource.clone());
        }
        Ok(())
    }
}

/// The diffs of all plans, up to the limit.
fn join_diffs(cx: &ResourceContext<'_>, planned: &[PlannedResource]) -> Option<String> {
    let mut joined: Option<String> = None;
    for (resource_type, plan) in planned {
        let Some(diff) = resource_type.content_diff(cx, plan) else { continue };
        let shown = joined.get_or_insert_default();
        if shown.len() + diff.len() > MAX_DIFF_BYTES {
            shown.push_str("\n[the diffs of further files are omitted]");
            break;
        }
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&diff);
    }
    joined
}

/// Applies changes in order. Continues after a failed change unless that was `ensure`, as Puppet does; stops on cancellation.
fn apply_changes(
    resource_type: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    outcome: &mut ApplyOutcome,
) {
    let reference = plan.resource.reference();
    let mut attempted = AttemptedChanges::default();
    for change in &plan.changes {
        let result = apply_change(resource_type, cx, plan, change);
        attempted.record(change, result.is_ok());
        match result {
            Ok(()) => outcome.events.push(change.to_event(&reference, &ChangeOutcome::Made)),
            Err(error) => {
                outcome.record_failed_change(&reference, change, error);
                if change.property == "ensure" {
                    break;
                }
            }
        }
    }
    for (change, error) in attempted.repair_disturbed(resource_type, cx, plan) {
        outcome.record_failed_change(&reference, &change, error);
    }
}

/// The changes of one resource, in the order in which they were attempted.
#[derive(Debug, Default)]
pub(crate) struct AttemptedChanges {
    made: Vec<String>,
    failed: Vec<String>,
}

impl AttemptedChanges {
    pub(crate) fn record(&mut self, change: &PropertyChange, is_made: bool) {
        let changes = if is_made { &mut self.made } else { &mut self.failed };
        changes.push(change.property.clone());
    }

    /// Reads the resource again, and applies the properties that the change of another one has disturbed: a new owner clears the set-user-ID
    /// bit of the mode. They are not changes of their own, so only failures are returned.
    pub(crate) fn repair_disturbed(
        &self,
        resource_type: &dyn ResourceType,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
    ) -> Vec<(PropertyChange, EngineError)> {
        let is_desired = |property: &&AttributeSchema| plan.resource.get(property.name).is_some();
        let desired = resource_type.schema().properties().filter(is_desired).count();
        // A resource with one property has no other that could disturb it. The state of an `exec` is the result of its guards.
        if self.made.is_empty() || desired < 2 || cx.cancel.is_cancelled() {
            return Vec::new();
        }
        let Ok(again) = resource_type.read_and_plan(&cx.bind(&plan.resource)) else {
            return Vec::new();
        };
        // A change that had no effect is found as before; it is not tried again.
        let is_unchanged = |change: &PropertyChange| {
            let is_same = |planned: &PropertyChange| {
                planned.property == change.property && planned.from == change.from
            };
            plan.changes.iter().any(is_same)
        };
        let is_disturbed = |change: &&PropertyChange| {
            change.property != "ensure"
                && self.made.last() != Some(&change.property)
                && !self.failed.contains(&change.property)
                && !is_unchanged(change)
        };
        let failure = |change: &PropertyChange| {
            let error = apply_change(resource_type, cx, &again, change).err()?;
            Some((change.clone(), error))
        };
        again.changes.iter().filter(is_disturbed).filter_map(failure).collect()
    }
}

/// Applies one change unless the request was cancelled.
pub(crate) fn apply_change(
    resource_type: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    change: &PropertyChange,
) -> Result<()> {
    if cx.cancel.is_cancelled() {
        let problem = "the request was cancelled before this change";
        return Err(EngineError::failed(&plan.resource, problem));
    }
    resource_type.apply_change(cx, plan, change)
}
