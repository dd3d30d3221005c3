//! Makes the changes of one resource, and reports each.

use serde_json::Value as Json;

use super::CatalogRun;
use super::owed::values_before;
use crate::apply::{AttemptedChanges, apply_change};
use crate::graph::GraphNodeId;
use crate::plan::{ChangeOutcome, PropertyChange, REDACTED, ResourcePlan};
use crate::redact::SecretRedactor;
use crate::report::{ResourceEvent, ResourceStatus, RunLogLevel};
use crate::resolved_catalog::MemberId;
use crate::resource_type::ResourceType;

impl CatalogRun<'_> {
    /// Applies changes in order. If other resources are to be refreshed, an intent is recorded before the first change.
    pub(super) fn apply_changes(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        plan: &ResourcePlan,
        digest: &str,
        status: &mut ResourceStatus,
    ) {
        if plan.is_empty() {
            return;
        }
        let reference = plan.resource.reference();
        // Must precede the intent, so that entries of a dead run are not confused with those of this run.
        self.resolve_uncertain(&reference, Some(digest));
        let before = values_before(plan);
        let intent = match self.record_intent(node, &reference, digest, before) {
            Ok(intent) => intent,
            Err(error) => {
                let problem = "nothing was changed because the refresh ledger cannot be written";
                let message = format!("{problem}: {error}");
                self.log_member_message(member, None, RunLogLevel::Err, &message);
                status.add_event(self.error_event(&message));
                return;
            }
        };
        if let Ok(resource_type) = self.engine.type_of(&plan.resource) {
            self.make_changes(member, &*resource_type, plan, status);
        }
        if let Some(intent) = intent {
            let changed = status.changed;
            self.update_ledger(|ledger| {
                if changed {
                    ledger.mark_change_made(&intent)
                } else {
                    ledger.mark_change_not_made(&intent)
                }
            });
        }
    }

    fn make_changes(
        &mut self,
        member: MemberId,
        resource_type: &dyn ResourceType,
        plan: &ResourcePlan,
        status: &mut ResourceStatus,
    ) {
        let mut attempted = AttemptedChanges::default();
        for change in &plan.changes {
            let result = apply_change(resource_type, &self.cx, plan, change);
            attempted.record(change, result.is_ok());
            self.log_output(member, &plan.resource);
            match result {
                Ok(()) => self.report_change(member, change, &ChangeOutcome::Made, status),
                Err(error) => {
                    let reason = error.reason();
                    self.report_change(member, change, &ChangeOutcome::Failed(&reason), status);
                    // As in Puppet: a service that cannot be started is not enabled either.
                    if change.property == "ensure" {
                        return;
                    }
                }
            }
        }
        let failures = attempted.repair_disturbed(resource_type, &self.cx, plan);
        self.log_output(member, &plan.resource);
        for (mut change, error) in failures {
            let details = self.resolved.get_member(member);
            change.sensitive |=
                details.is_some_and(|details| details.sensitive.contains(&change.property));
            let reason = error.reason();
            self.report_change(member, &change, &ChangeOutcome::Failed(&reason), status);
        }
    }

    /// Reports a change as a log line and an event.
    pub(super) fn report_change(
        &mut self,
        member: MemberId,
        change: &PropertyChange,
        outcome: &ChangeOutcome<'_>,
        status: &mut ResourceStatus,
    ) {
        let Some((details, resource)) = self.resolved.member_with_resource(member) else { return };
        let change_event = change.to_event(&resource.reference(), outcome);
        let loglevel = RunLogLevel::from_resource(resource);
        let (event_status, level) = match outcome {
            ChangeOutcome::Made => ("success", loglevel),
            ChangeOutcome::Planned => ("noop", loglevel),
            ChangeOutcome::Failed(_) => ("failure", RunLogLevel::Err),
        };
        let is_corrective = self.is_corrective(&resource.reference(), resource, change);
        let redactor = SecretRedactor::new(resource, &details.sensitive);
        let mut message = redactor.redact_text(&change_event.message);
        if is_corrective {
            message.push_str(" (corrective)");
        }
        let name = event_name(&resource.type_name, change);
        let event = ResourceEvent {
            property: Some(change.property.clone()),
            previous_value: match &change_event.previous_value {
                Some(value) => Json::from(value),
                None if change.sensitive => Json::from(REDACTED),
                None => Json::from("absent"),
            },
            desired_value: Json::from(&change_event.desired_value),
            redacted: change.sensitive.then_some(true),
            corrective_change: is_corrective,
            ..self.whole_event(&name, event_status, &message)
        };
        self.log_member_message(member, Some(&change.property), level, &message);
        status.add_event(event);
    }
}

/// Puppet's event name for a change of that property.
fn event_name(type_name: &str, change: &PropertyChange) -> String {
    let to = change.to.as_text().unwrap_or_default();
    let name = match (type_name, change.property.as_str(), to) {
        ("exec", "returns", _) => "executed_command",
        ("file", "ensure", "file" | "present") => "file_created",
        ("file", "ensure", "directory") => "directory_created",
        ("file", "ensure", "link") => "link_created",
        ("file", "ensure", "absent") => "file_removed",
        ("package", "ensure", "present" | "installed") => "package_installed",
        ("package", "ensure", "absent") => "package_removed",
        ("package", "ensure", "purged") => "package_purged",
        ("service", "ensure", "running") => "service_started",
        ("service", "ensure", "stopped") => "service_stopped",
        ("service", "enable", "true") => "service_enabled",
        ("service", "enable", "false" | "mask") => "service_disabled",
        ("mount", "ensure", "absent") => "mount_deleted",
        (_, "ensure", "present") => return format!("{type_name}_created"),
        (_, "ensure", "absent") => return format!("{type_name}_removed"),
        (_, "ensure", _) => return format!("{type_name}_changed"),
        (_, property, _) => return format!("{property}_changed"),
    };
    name.to_owned()
}
