//! Evaluates one resource: skip, or read, change and refresh.

use std::time::Instant;

use serde_json::Value as Json;

use super::CatalogRun;
use super::notify::QueuedRefresh;
use crate::error::EngineError;
use crate::graph::GraphNodeId;
use crate::plan::{ChangeOutcome, PropertyChange, REDACTED, ResourcePlan, quote_value};
use crate::providers::digest::ChecksumKind;
use crate::redact::SecretRedactor;
use crate::report::{ResourceEvent, ResourceStatus, RunEvent, RunLogLevel};
use crate::resolved_catalog::MemberId;
use crate::resource::{Resource, ResourceValue};

/// Number of hexadecimal digits of a digest stored in the ledger.
const DIGEST_DIGITS: usize = 32;

impl CatalogRun<'_> {
    pub(super) fn process_resource(&mut self, node: GraphNodeId, member: MemberId) {
        let resource = self.resolved.resource_of(member).cloned();
        let (Some(resource), Some(mut status)) = (resource, self.new_status(member)) else {
            return;
        };
        self.propagate_failures(node);
        if let Some(skip) = self.skip_reason(node, member) {
            status.skipped = true;
            self.drop_queue(node, member, skip);
        } else {
            let started = Instant::now();
            self.evaluate_resource(node, member, &resource, &mut status);
            status.evaluation_time = Some(started.elapsed().as_secs_f64());
            self.refresh_resource(node, member, &mut status);
        }
        if let Some(progress) = self.progress.get_mut(node) {
            progress.failed = status.failed;
            progress.failed_to_restart = status.failed_to_restart;
        }
        self.emit_event(&RunEvent::Resource(Box::new(status)));
    }

    pub(super) fn is_noop(&self, resource: &Resource) -> bool {
        // `noop => false` of a resource overrides the run's noop, as in Puppet, but not a read-only engine.
        let resource_noop = resource.get("noop").and_then(ResourceValue::as_bool);
        self.engine.is_read_only() || resource_noop.unwrap_or(self.options.noop)
    }

    fn evaluate_resource(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        resource: &Resource,
        status: &mut ResourceStatus,
    ) {
        let reference = resource.reference();
        let now = self.epoch_seconds();
        self.cx.earlier_changes_pending = self.is_noop(resource);
        let planned = self.engine.type_of(resource).and_then(|known| {
            let resource = &self.cx.bind(resource);
            status.provider_used = known.provider_name(resource);
            known.read_and_plan(resource)
        });
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(error) if error.is_not_evaluated() => {
                return self.report_not_evaluated(node, member, &error, status);
            }
            Err(error) => return self.report_evaluation_failure(member, resource, &error, status),
        };
        self.log_output(member, resource);
        self.state_store.get_mut(&reference).checked = Some(now);
        if let Some(member) = self.resolved.get_member(member) {
            SecretRedactor::mark_sensitive(&mut plan, &member.sensitive);
        }
        let digest = plan_digest(&plan);
        let audits = self.audit_properties(member, &plan);
        if self.is_noop(resource) {
            for change in &plan.changes {
                self.report_change(member, change, &ChangeOutcome::Planned, status);
            }
        } else {
            self.apply_changes(node, member, &plan, &digest, status);
        }
        for event in audits {
            let property = event.property.as_deref();
            if !plan.changes.iter().any(|change| Some(change.property.as_str()) == property) {
                self.log_member_message(member, property, RunLogLevel::Notice, &event.message);
                status.add_event(event);
            }
        }
        let planned = (!plan.is_empty()).then_some(digest.as_str());
        self.resolve_uncertain(&reference, planned);
        self.flag_reverted(&plan, status);
        self.store_values(&plan, status);
        if !status.failed {
            let queued = |event: &ResourceEvent| QueuedRefresh { noop: event.status == "noop" };
            let events: Vec<QueuedRefresh> = status.events.iter().map(queued).collect();
            self.queue_for_targets(node, &events);
            self.queue_for_itself(node, resource, &events);
            self.drop_spared_refresh(node, member, &plan, status);
        }
    }

    fn report_evaluation_failure(
        &mut self,
        member: MemberId,
        resource: &Resource,
        error: &EngineError,
        status: &mut ResourceStatus,
    ) {
        self.log_output(member, resource);
        let reason = self.redact_text(member, &error.reason());
        let message = format!("Could not evaluate: {reason}");
        self.log_member_message(member, None, RunLogLevel::Err, &message);
        status.add_event(self.error_event(&reason));
    }

    /// Whether an earlier run left a value different from the one found now.
    pub(super) fn is_corrective(
        &self,
        reference: &str,
        resource: &Resource,
        change: &PropertyChange,
    ) -> bool {
        if change.sensitive || matches!(resource.type_name.as_str(), "exec" | "notify") {
            return false;
        }
        let stored = self.state_store.get(reference);
        let applied = stored.and_then(|stored| stored.applied.get(&change.property));
        let absent = ResourceValue::from("absent");
        applied.is_some_and(|applied| change.from.as_ref().unwrap_or(&absent) != applied)
    }

    /// Audited properties whose value changed since the last audit.
    fn audit_properties(&mut self, member: MemberId, plan: &ResourcePlan) -> Vec<ResourceEvent> {
        let resource = &plan.resource;
        let mut names: Vec<String> =
            resource.get_list("audit").into_iter().map(str::to_owned).collect();
        if names.iter().any(|name| name == "all") {
            names = plan.state.values.keys().cloned().collect();
        }
        let mut events = Vec::new();
        for name in names {
            let found = plan.state.get(&name).cloned().unwrap_or_else(|| "absent".into());
            let details = self.resolved.get_member(member);
            let sensitive = details.is_some_and(|details| details.sensitive.contains(&name));
            let stored = self.state_store.get_mut(&resource.reference());
            let previous = stored.audited.insert(name.clone(), found.clone());
            let to_json = |value: &ResourceValue| {
                if sensitive { Json::from(REDACTED) } else { Json::from(value) }
            };
            let to_text = |text: String| if sensitive { REDACTED.to_owned() } else { text };
            match previous {
                None => {
                    let text = to_text(found.to_string());
                    let message = format!("audit change: newly-recorded value {text}");
                    self.log_member_message(member, Some(&name), RunLogLevel::Notice, &message);
                }
                Some(previous) if previous != found => {
                    let message = format!(
                        "audit change: previously recorded value {} has been changed to {}",
                        to_text(quote_value(Some(&previous))),
                        to_text(quote_value(Some(&found)))
                    );
                    events.push(ResourceEvent {
                        audited: true,
                        previous_value: to_json(&found),
                        historical_value: to_json(&previous),
                        desired_value: resource.get(&name).map_or(Json::Null, to_json),
                        property: Some(name.clone()),
                        ..self.whole_event(&format!("{name}_changed"), "audit", &message)
                    });
                }
                Some(_) => {}
            }
        }
        events
    }

    /// Stores the current values of managed properties; a later run that finds other values knows that they were changed externally.
    fn store_values(&mut self, plan: &ResourcePlan, status: &ResourceStatus) {
        let now = self.epoch_seconds();
        let engine = self.engine;
        let stored = self.state_store.get_mut(&plan.resource.reference());
        if status.changed {
            stored.synced = Some(now);
        }
        for (name, desired) in engine.managed_properties(&plan.resource) {
            let event = status.events.iter().find(|event| event.property.as_deref() == Some(name));
            match event.map(|event| event.status) {
                None | Some("success") => {
                    stored.applied.insert(name.to_owned(), desired.clone());
                }
                Some(_) => {
                    let found = plan.state.get(name).cloned().unwrap_or_else(|| "absent".into());
                    stored.applied.entry(name.to_owned()).or_insert(found);
                }
            }
        }
    }

    /// A service that was just started need not be restarted.
    fn drop_spared_refresh(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        plan: &ResourcePlan,
        status: &ResourceStatus,
    ) {
        let is_applied = |change: &&PropertyChange| {
            status.events.iter().any(|event| {
                event.property.as_ref() == Some(&change.property) && event.status == "success"
            })
        };
        let is_spared = self.engine.type_satisfies(&plan.resource, |resource_type| {
            let mut applied = plan.changes.iter().filter(is_applied);
            applied.any(|change| resource_type.spares_refresh(change))
        });
        if !is_spared {
            return;
        }
        let reference = plan.resource.reference();
        if !self.take_queue(node).is_empty() {
            let message = format!("Unscheduling refresh on {reference}");
            self.log_member_message(member, None, RunLogLevel::Info, &message);
        }
        self.update_ledger(|ledger| ledger.mark_refreshed(&reference));
    }

    /// Logs messages of the type: command output and other text.
    pub(super) fn log_output(&mut self, member: MemberId, resource: &Resource) {
        let lines = self.cx.log.take();
        let level = RunLogLevel::from_resource(resource);
        for line in lines {
            let line = self.redact_text(member, &line);
            match resource.type_name.as_str() {
                "notify" if !resource.get_flag("withpath") => self.log_message(level, &line),
                "exec" => self.log_member_message(member, Some("returns"), level, &line),
                _ => self.log_member_message(member, None, level, &line),
            }
        }
    }

    pub(super) fn redact_text(&self, member: MemberId, text: &str) -> String {
        match self.resolved.member_with_resource(member) {
            Some((details, resource)) => {
                SecretRedactor::new(resource, &details.sensitive).redact_text(text)
            }
            None => text.to_owned(),
        }
    }
}

/// Digest of the desired state of a resource. Does not reveal a secret unless the entire state can be guessed.
pub(super) fn definition_digest(resource: &Resource) -> String {
    short_digest(&serde_json::to_vec(&resource.values).unwrap_or_default())
}

fn plan_digest(plan: &ResourcePlan) -> String {
    let changes: Vec<_> =
        plan.changes.iter().map(|change| (&change.property, &change.from, &change.to)).collect();
    short_digest(&serde_json::to_vec(&changes).unwrap_or_default())
}

pub(super) fn short_digest(bytes: &[u8]) -> String {
    let mut text = ChecksumKind::Sha256.hex_checksum(bytes);
    text.truncate(DIGEST_DIGITS);
    text
}
