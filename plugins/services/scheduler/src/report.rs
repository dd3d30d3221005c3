//! Publishes events: a turn was missed, a node is overdue, the adaptive limit changed.

use std::collections::BTreeSet;

use muster_api::base::error_chain;
use muster_bus::{Bus, NewEvent};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use serde_json::{Map, Value, json};

/// The event that a node's turn could not begin.
const TURN_MISSED: &str = "schedule_missed";
/// The event that a node has not run for two intervals.
const NODE_OVERDUE: &str = "schedule_overdue";

#[derive(Debug, Clone)]
pub(crate) struct EventReporter {
    bus: Bus,
    signer: Signer,
}

impl EventReporter {
    pub(crate) fn new(bus: Bus, signer: Signer) -> Self {
        Self { bus, signer }
    }

    /// A node's turn could not begin.
    pub(crate) fn report_missed(
        &self,
        schedule: &SubjectName,
        node: &Identity,
        reason: &str,
        now: Millis,
    ) {
        let text = format!("{node}: the schedule {schedule} {reason}");
        let data =
            [("schedule", json!(schedule)), ("node", json!(node)), ("reason", json!(reason))];
        self.publish(TURN_MISSED, text, data.into(), now);
    }

    pub(crate) fn report_overdue(
        &self,
        schedule: &SubjectName,
        nodes: &BTreeSet<Identity>,
        now: Millis,
    ) {
        for node in nodes {
            let text = format!("{node} has not run for two intervals of the schedule {schedule}");
            let data = [("schedule", json!(schedule)), ("node", json!(node))];
            self.publish(NODE_OVERDUE, text, data.into(), now);
        }
    }

    /// Publishes in a task. A failure is logged: `rpc schedule show` has the state anyway.
    pub(crate) fn publish(
        &self,
        kind: &'static str,
        text: String,
        data: Vec<(&str, Value)>,
        time: Millis,
    ) {
        let data: Map<String, Value> =
            data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (bus, signer) = (self.bus.clone(), self.signer.clone());
        tokio::spawn(async move {
            if let Err(error) =
                bus.publish_event(&signer, NewEvent { kind, text, data, time }).await
            {
                tracing::warn!(
                    kind,
                    error = error_chain(&error),
                    "cannot publish an event of a schedule"
                );
            }
        });
    }
}
