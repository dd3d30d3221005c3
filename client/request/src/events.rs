//! Follows the events of the fleet until there are enough, the time is up, or the user interrupts. Shows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_wire::event::FleetEvent;
use muster_wire::identity::Identity;

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::InterruptListener;

/// Which events to show, and how long.
#[derive(Debug, Clone, Default)]
pub struct EventSelection {
    /// Kinds, or beginnings of kinds; all when empty.
    pub kinds: Vec<String>,
    /// Nodes; all when empty.
    pub nodes: BTreeSet<Identity>,
    /// Stop after this many events.
    pub count: Option<usize>,
    /// Stop after this time.
    pub time: Option<Duration>,
}

/// How the wait for events ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventSummary {
    /// Number of events that were shown.
    pub shown: usize,
    /// Messages that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// Whether events may have been lost.
    pub incomplete: bool,
}

impl EventSelection {
    /// Whether the event is selected.
    pub fn matches(&self, event: &FleetEvent) -> bool {
        let kind = event.kind.as_str();
        (self.kinds.is_empty() || self.kinds.iter().any(|prefix| kind.starts_with(prefix)))
            && (self.nodes.is_empty() || self.nodes.contains(&event.sender))
    }
}

impl FleetConnection {
    /// Shows each selected event as it arrives. Calls `on_ready` once the subscription is active, so that no later event is missed: those that arrive
    /// meanwhile are shown after it.
    pub async fn follow_events<E: From<FleetRequestError>>(
        &self,
        selection: &EventSelection,
        on_ready: impl AsyncFnOnce() -> Result<(), E>,
        mut show: impl AsyncFnMut(&FleetEvent) -> Result<(), E>,
    ) -> Result<EventSummary, E> {
        let listener = self.client.listen_for_events().await;
        let mut listener = listener.map_err(FleetRequestError::from)?;
        on_ready().await?;
        let mut summary = EventSummary::default();
        let mut interrupt = InterruptListener::listen();
        let timeout = async {
            match selection.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timeout);
        while selection.count.is_none_or(|count| summary.shown < count) {
            let next = tokio::select! {
                next = listener.next() => next,
                () = interrupt.wait_for_signal() => break,
                () = &mut timeout => break,
            };
            match next {
                Some(Ok(event)) if selection.matches(&event) => {
                    show(&event).await?;
                    summary.shown += 1;
                }
                Some(Ok(_)) => {}
                Some(Err(refusal)) => {
                    *summary.rejected.entry(refusal.reason_code()).or_default() += 1;
                }
                None => {
                    summary.incomplete = true;
                    break;
                }
            }
        }
        summary.incomplete |= listener.disturbance().is_some();
        Ok(summary)
    }
}
