//! Refreshes that earlier runs owe: which of them a run makes, and what changed since they were recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::CatalogRun;
use super::evaluate::{definition_digest, short_digest};
use super::notify::QueuedRefresh;
use crate::graph::GraphNodeId;
use crate::ledger::expiry::MISSING_TARGET_TTL_SECS;
use crate::ledger::{OwedRefresh, RefreshCertainty};
use crate::plan::ResourcePlan;
use crate::report::{ResourceStatus, RunLogLevel};
use crate::resolved_catalog::MemberId;
use crate::resource::ResourceValue;

impl CatalogRun<'_> {
    /// Queues pending refreshes of earlier runs for their targets, if these are still in the catalog.
    pub(super) fn queue_owed_refreshes(&mut self) {
        self.expire_missing_targets();
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
            self.queue_owed_refresh(&owed);
        }
    }

    /// Drops the refreshes whose target left the catalog long ago.
    fn expire_missing_targets(&mut self) {
        let now = self.epoch_seconds();
        let targets = self.ledger.owed_refreshes().map(|owed| owed.target.as_str());
        let missing: BTreeSet<String> =
            targets.filter(|target| self.node_of(target).is_none()).map(str::to_owned).collect();
        let expired = match self.ledger.expire_missing(now, &missing) {
            Ok(expired) => expired,
            Err(error) => return self.log_ledger_error(&error),
        };
        for owed in expired {
            let days = MISSING_TARGET_TTL_SECS / (24 * 3600);
            let message = format!(
                "Dropped the refresh of {} by {}, pending since run {}: it left the catalog {days} days ago",
                owed.target, owed.source, owed.run
            );
            self.log_message(RunLogLevel::Warning, &message);
        }
    }

    fn queue_owed_refresh(&mut self, owed: &OwedRefresh) {
        let Some((node, member)) = self.node_of(&owed.target) else {
            self.update_ledger(|ledger| {
                ledger.record_reason(&owed.target, "it is not in the catalog")
            });
            return;
        };
        if !self.supports_refresh(member) {
            self.update_ledger(|ledger| ledger.remove_owed(&[owed.id]));
            return;
        }
        let is_changed = self
            .resolved
            .resource_of(member)
            .is_some_and(|resource| owed.has_other_definition(&definition_digest(resource)));
        self.update_ledger(|ledger| ledger.record_target_changed(&[owed.id], is_changed));
        let owed = OwedRefresh { target_changed: is_changed, ..owed.clone() };
        let message =
            format!("A refresh by {} has been pending since run {}", owed.source, owed.run);
        self.log_owed_refresh(member, &message, &owed.remarks());
        if let Some(progress) = self.progress.get_mut(node) {
            progress.queue.push(QueuedRefresh { noop: false });
        }
    }

    /// Logs a message about a pending refresh of this target. With remarks, it is shown by default.
    fn log_owed_refresh(&mut self, member: MemberId, message: &str, remarks: &str) {
        if remarks.is_empty() {
            self.log_member_message(member, None, RunLogLevel::Info, message);
        } else {
            let message = format!("{message}; {remarks}");
            self.log_member_message(member, None, RunLogLevel::Notice, &message);
        }
    }

    /// Decides uncertain entries after the evaluation of their source, which shows whether the interrupted change was made.
    pub(super) fn resolve_uncertain(&mut self, source: &str, plan: Option<&str>) {
        for owed in self.ledger.uncertain_from(source) {
            // The same change is still planned, so it had not been made.
            if plan == Some(owed.plan.as_str()) {
                self.update_ledger(|ledger| ledger.remove_owed(&[owed.id]));
            } else {
                self.update_ledger(|ledger| ledger.confirm_owed(&[owed.id]));
                self.queue_owed_refresh(&owed);
            }
        }
    }

    /// Flags the entries of a source that is again as it was before the change. Their refreshes are still made.
    pub(super) fn flag_reverted(&mut self, plan: &ResourcePlan, status: &ResourceStatus) {
        let source = plan.resource.reference();
        let of_source = self.ledger.owed_refreshes().filter(|owed| owed.source == source);
        let recorded: Vec<OwedRefresh> =
            of_source.filter(|owed| !owed.source_before.is_empty()).cloned().collect();
        for owed in recorded {
            let is_before = |(property, before): (&String, &String)| {
                value_digest(current_value(plan, status, property).as_ref()) == *before
            };
            let is_reverted = owed.source_before.iter().all(is_before);
            let flagged = match self.ledger.record_source_reverted(&[owed.id], is_reverted) {
                Ok(flagged) => flagged,
                Err(error) => return self.log_ledger_error(&error),
            };
            for owed in flagged.into_iter().filter(|owed| owed.source_reverted) {
                if let Some((_, member)) = self.node_of(&owed.target) {
                    let message =
                        format!("The refresh by {source} since run {} is still made", owed.run);
                    self.log_owed_refresh(member, &message, &owed.remarks());
                }
            }
        }
    }

    pub(super) fn node_of(&self, reference: &str) -> Option<(GraphNodeId, MemberId)> {
        let member = self.resolved.find_member(&reference.parse().ok()?)?;
        Some((*self.built.nodes.get(&member)?, member))
    }
}

/// Value of a property after the evaluation.
fn current_value(
    plan: &ResourcePlan,
    status: &ResourceStatus,
    property: &str,
) -> Option<ResourceValue> {
    let is_made = status
        .events
        .iter()
        .any(|event| event.property.as_deref() == Some(property) && event.status == "success");
    let change = plan.changes.iter().find(|change| change.property == property && is_made);
    match change {
        Some(change) => Some(change.to.clone()),
        None => plan.state.get(property).cloned(),
    }
}

/// Digests of the values that the planned changes replace. Empty for commands, which cannot be reverted, and if a value is secret.
pub(super) fn values_before(plan: &ResourcePlan) -> BTreeMap<String, String> {
    let is_command = matches!(plan.resource.type_name.as_str(), "exec" | "notify");
    if is_command || plan.changes.iter().any(|change| change.sensitive) {
        return BTreeMap::new();
    }
    let digest = |from: &Option<ResourceValue>| value_digest(from.as_ref());
    plan.changes.iter().map(|change| (change.property.clone(), digest(&change.from))).collect()
}

/// Digest of a value; a missing one counts as `absent`.
fn value_digest(value: Option<&ResourceValue>) -> String {
    let absent = ResourceValue::from("absent");
    short_digest(&serde_json::to_vec(value.unwrap_or(&absent)).unwrap_or_default())
}
