//! Derives from a run's log which refreshes are owed and which were made.
//!
//! Pure: lines go in, [`RefreshEvent`]s for the ledger come out. Refreshes that Puppet drops without a log line are found at the end of the run:
//! those of changed containers whose notifications were not sent, and those of the resource that was being evaluated when the run broke off.

use std::collections::BTreeSet;

use super::relations::{CatalogRelations, comparison_key};
use super::replay;
use super::trace::{TraceEvent, TraceLine};

/// Puppet types without a refresh; a notification has no effect on them.
const NON_REFRESHABLE: [&str; 13] = [
    "File",
    "Filebucket",
    "Group",
    "Notify",
    "Resources",
    "Schedule",
    "Stage",
    "Tidy",
    "User",
    "Cron",
    "Host",
    "Ssh_authorized_key",
    "Sshkey",
];

/// Effect of a log line on the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefreshEvent {
    /// The target is owed a refresh.
    Owed {
        /// The changed resource.
        source: String,
        /// The resource to be refreshed.
        target: String,
        is_certain: bool,
    },
    /// The target was refreshed, or no longer needs it.
    Refreshed { target: String },
    /// A refresh of the target began and failed.
    Failed {
        target: String,
        /// Puppet's message.
        reason: String,
    },
    /// The target could not be refreshed in this run.
    NotRefreshed { target: String, reason: &'static str },
}

/// State of a run, as derived from its log so far.
#[derive(Debug, Default)]
pub struct TraceInterpreter {
    is_noop: bool,
    evaluation: Option<ResourceEvaluation>,
    changed: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Pairs of source and target that were notified, as comparison keys.
    scheduled: BTreeSet<(String, String)>,
    /// Targets that were notified and not evaluated since. Containers among them have not passed it on yet.
    due: BTreeSet<String>,
    /// Whether the replay resource was evaluated.
    replayed: bool,
}

/// Evaluation of one resource or container.
#[derive(Debug)]
struct ResourceEvaluation {
    source: String,
    reference: String,
    has_noop_change: bool,
    has_real_change: bool,
}

impl TraceInterpreter {
    /// State at the beginning of a run; `is_noop` if the run changes nothing.
    pub fn new(is_noop: bool) -> Self {
        Self { is_noop, ..Self::default() }
    }

    pub fn process_line(
        &mut self,
        line: &TraceLine,
        relations: &CatalogRelations,
    ) -> Option<RefreshEvent> {
        let event = line.classify_line();
        if self.is_noop || event == TraceEvent::Other {
            return None;
        }
        let reference = self.resource_reference(&line.source, relations);
        match event {
            TraceEvent::Started => {
                self.evaluation = Some(ResourceEvaluation {
                    source: line.source.clone(),
                    reference,
                    has_noop_change: false,
                    has_real_change: false,
                });
                None
            }
            TraceEvent::Evaluated => {
                self.evaluation = None;
                self.replayed |= reference == replay::replay_reference();
                let was_due = self.due.remove(&comparison_key(&reference));
                // Resources log with their path, containers with their reference, also those that contain nothing.
                let is_container = line.source == reference || relations.is_container(&reference);
                (was_due && is_container).then_some(RefreshEvent::Refreshed { target: reference })
            }
            TraceEvent::Scheduled { target } => {
                self.record_scheduled(&reference, &target, relations)
            }
            TraceEvent::Triggered => {
                self.mark_real_change();
                self.changed.insert(reference.clone());
                Some(RefreshEvent::Refreshed { target: reference })
            }
            TraceEvent::NotNeeded => Some(RefreshEvent::Refreshed { target: reference }),
            TraceEvent::WouldTrigger => {
                self.mark_noop_change();
                Some(RefreshEvent::NotRefreshed { target: reference, reason: "noop" })
            }
            TraceEvent::RefreshFailed { reason } => {
                self.failed.insert(reference.clone());
                Some(RefreshEvent::Failed { target: reference, reason })
            }
            TraceEvent::Unscheduled => {
                self.due.remove(&comparison_key(&reference));
                Some(RefreshEvent::NotRefreshed {
                    target: reference,
                    reason: "it was skipped, or a dependency failed",
                })
            }
            TraceEvent::Noop => {
                self.mark_noop_change();
                None
            }
            TraceEvent::Failed => {
                self.failed.insert(reference);
                None
            }
            TraceEvent::Changed => {
                let is_current = |evaluation: &ResourceEvaluation| {
                    line.source.strip_prefix(evaluation.source.as_str()).is_some()
                };
                if self.evaluation.as_ref().is_some_and(is_current) {
                    self.mark_real_change();
                    self.changed.insert(reference);
                }
                None
            }
            TraceEvent::Applying | TraceEvent::Other => None,
        }
    }

    /// Returns the refreshes that the run dropped without a log line. Call it at the end of the run, however it ended.
    pub fn finish_run(&mut self, relations: &CatalogRelations) -> Vec<RefreshEvent> {
        let mut events = Vec::new();
        if self.is_noop {
            return events;
        }
        // The run broke off during this evaluation, so the change may have been made or not.
        if let Some(evaluation) = self.evaluation.take() {
            let source = evaluation.reference;
            for notifier in
                std::iter::once(source.clone()).chain(relations.container_chain(&source))
            {
                let is_scheduled = |target: &String| self.has_scheduled(&notifier, target);
                let targets = relations.notify_targets(&notifier);
                events.extend(targets.into_iter().filter(|target| !is_scheduled(target)).map(
                    |target| RefreshEvent::Owed {
                        source: source.clone(),
                        target,
                        is_certain: false,
                    },
                ));
            }
        }
        for source in self.changed.difference(&self.failed) {
            for container in relations.container_chain(source) {
                let targets = relations.notify_targets(&container);
                let unscheduled =
                    targets.into_iter().filter(|target| !self.has_scheduled(&container, target));
                events.extend(unscheduled.map(|target| RefreshEvent::Owed {
                    source: container.clone(),
                    target,
                    is_certain: true,
                }));
            }
        }
        events.retain(
            |event| !matches!(event, RefreshEvent::Owed { target, .. } if is_non_refreshable(target)),
        );
        events
    }

    /// Clears the replay targets that cannot be refreshed: Puppet did not schedule them although the replay resource was evaluated.
    pub fn unrefreshable_targets(&self, targets: &[String]) -> Vec<RefreshEvent> {
        let source = replay::replay_reference();
        let is_unrefreshable =
            |target: &&String| self.replayed && !self.has_scheduled(&source, target);
        let to_event = |target: &String| RefreshEvent::Refreshed { target: target.clone() };
        targets.iter().filter(is_unrefreshable).map(to_event).collect()
    }

    fn has_scheduled(&self, source: &str, target: &str) -> bool {
        self.scheduled.contains(&(comparison_key(source), comparison_key(target)))
    }

    fn record_scheduled(
        &mut self,
        source: &str,
        target: &str,
        relations: &CatalogRelations,
    ) -> Option<RefreshEvent> {
        let only_noop = |evaluation: &ResourceEvaluation| {
            evaluation.has_noop_change && !evaluation.has_real_change
        };
        // A notification that only a noop change caused owes no refresh.
        if self.evaluation.as_ref().is_some_and(only_noop) {
            return None;
        }
        self.scheduled.insert((comparison_key(source), comparison_key(target)));
        self.due.insert(comparison_key(target));
        // The targets of a replay are in the ledger already.
        if source == replay::replay_reference() {
            return None;
        }
        Some(RefreshEvent::Owed {
            source: source.to_owned(),
            target: catalog_spelling(target, relations),
            is_certain: true,
        })
    }

    /// The resource that logged a line; a property is mapped to its resource.
    fn resource_reference(&self, source: &str, relations: &CatalogRelations) -> String {
        if let Some(evaluation) = &self.evaluation
            && source.starts_with(&evaluation.source)
        {
            return evaluation.reference.clone();
        }
        catalog_spelling(&relations.resource_for_source(source), relations)
    }

    fn mark_real_change(&mut self) {
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.has_real_change = true;
        }
    }

    fn mark_noop_change(&mut self) {
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.has_noop_change = true;
        }
    }
}

fn catalog_spelling(reference: &str, relations: &CatalogRelations) -> String {
    relations.catalog_spelling(reference).unwrap_or(reference).to_owned()
}

fn is_non_refreshable(target: &str) -> bool {
    let (type_name, _) = target.split_once('[').unwrap_or_default();
    NON_REFRESHABLE.contains(&type_name)
}
