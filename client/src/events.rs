//! Follows the events of the fleet until there are enough, the time is up, or the user interrupts. Shows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use muster_calls::EventArrival;
use muster_wire::event::FleetEvent;
use muster_wire::identity::Identity;

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::{InterruptListener, wait_for_time};

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
    /// How often events may have been lost.
    pub gaps: usize,
    /// Whether the connection was closed.
    pub closed: bool,
}

/// From when on events are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventStart {
    /// The subscription became active.
    Subscribed,
    /// Events may have been lost, because the connection was interrupted or they arrived too fast; from now on they are received again.
    Resumed,
}

impl EventSelection {
    /// Whether the event is selected.
    pub fn matches(&self, event: &FleetEvent) -> bool {
        let kind = event.kind.as_str();
        (self.kinds.is_empty() || self.kinds.iter().any(|prefix| kind.starts_with(prefix)))
            && (self.nodes.is_empty() || self.nodes.contains(&event.sender))
    }
}

/// Shows each selected event as it arrives. Calls `on_start` when the subscription is active, and again after each loss, so that a caller which
/// reads the current state then misses no change: events that arrive meanwhile are shown after it.
pub async fn follow_events<E: From<FleetRequestError>>(
    fleet: &FleetConnection,
    selection: &EventSelection,
    mut on_start: impl AsyncFnMut(EventStart) -> Result<(), E>,
    mut show: impl AsyncFnMut(&FleetEvent) -> Result<(), E>,
) -> Result<EventSummary, E> {
    let listener = fleet.client.listen_for_events().await;
    let mut listener = listener.map_err(FleetRequestError::from)?;
    on_start(EventStart::Subscribed).await?;
    let mut summary = EventSummary::default();
    let mut interrupt = InterruptListener::listen();
    let mut timeout = pin!(wait_for_time(selection.time));
    while selection.count.is_none_or(|count| summary.shown < count) {
        let next = tokio::select! {
            next = listener.next() => next,
            () = interrupt.wait_for_signal() => break,
            () = &mut timeout => break,
        };
        match next {
            Some(EventArrival::Event(event)) if selection.matches(&event) => {
                show(&event).await?;
                summary.shown += 1;
            }
            Some(EventArrival::Event(_)) => {}
            Some(EventArrival::Refused(refusal)) => {
                *summary.rejected.entry(refusal.reason_code()).or_default() += 1;
            }
            Some(EventArrival::Gap(_)) => {
                summary.gaps += 1;
                on_start(EventStart::Resumed).await?;
            }
            None => {
                summary.closed = true;
                break;
            }
        }
    }
    Ok(summary)
}
