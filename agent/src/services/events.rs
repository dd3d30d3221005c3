//! Publishes fleet events: signed messages about what happened on this node outside of a request. These are the outcomes of restarts, refreshes
//! that were dropped because their target left the catalog, changes of scheduled checks, which wait in the file of their states, and those of
//! runs that were asked for, which wait in their journal.
//!
//! The first two are written by other processes, too: the worker of a restart, which may restart this daemon, and `rpcd apply`. So the daemon reads them from
//! their files. The ids of published events are on disk: after a crash between publishing and writing, an event is published again with the same id.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_agents::nrpe::{CheckMonitor, StoredCheckEvent};
use muster_agents::restart::{RestartCycle, RestartState, RestartStore};
use muster_api::base::error_chain;
use muster_api::system::SystemResult;
use muster_base::NodeText;
use muster_bus::{Bus, BusError};
use muster_engine::ledger::expiry::{ExpiredRefresh, read_expired};
use muster_files::replace_file;
use muster_node::core::DaemonCore;
use muster_puppet::again::AgainMonitor;
use muster_puppet::again::plan::state::StoredAgainEvent;
use muster_wire::event::FleetEvent;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::limits::MAX_EVENT_TEXT_BYTES;
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, sign_envelope};
use muster_wire::subject::EventAddress;
use serde_json::json;
use uuid::Uuid;

use crate::services::agents;

/// How often the files are read while a restart is in progress.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(500);
/// How often they are read otherwise: an idle daemon wakes up rarely. An event is late by at most this time.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of remembered ids of published events: several times the finished restarts that the store keeps for a service, and the dropped refreshes
/// that the ledger lists.
const MAX_PUBLISHED_IDS: usize = 512;
/// File of the published ids, in the daemon's state directory.
const PUBLISHED_FILE: &str = "events.json";
const PUBLISHED_FILE_MODE: u32 = 0o600;

#[derive(Debug, Clone)]
pub(crate) struct EventSources {
    published_file: PathBuf,
    pub(crate) restarts: RestartStore,
    /// Directory of the refresh ledger.
    pub(crate) engine_dir: PathBuf,
    /// The scheduled checks, if the node has any.
    pub(crate) checks: Option<CheckMonitor>,
    /// The runs that are asked for, if the node has the agent.
    pub(crate) again: Option<AgainMonitor>,
}

impl EventSources {
    pub(crate) fn new(
        state: &Path,
        engine_dir: PathBuf,
        checks: Option<CheckMonitor>,
        again: Option<AgainMonitor>,
    ) -> Self {
        let published_file = state.join(PUBLISHED_FILE);
        Self { published_file, restarts: agents::restart_store(state), engine_dir, checks, again }
    }

    /// Waits for an event of a check, or of a run that is asked for.
    async fn wait_for_event(&self) {
        let of_checks = async {
            match &self.checks {
                Some(checks) => checks.wait_for_event().await,
                None => std::future::pending().await,
            }
        };
        let of_again = async {
            match &self.again {
                Some(again) => again.wait_for_event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = of_checks => {}
            () = of_again => {}
        }
    }
}

/// Publishes the events of the node, for the daemon's lifetime.
pub(crate) async fn publish_node_events(core: Arc<DaemonCore>, sources: EventSources, bus: Bus) {
    let path = sources.published_file.clone();
    let mut published = PublishedEvents::load(path.clone()).await;
    let mut interval = Duration::ZERO;
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = sources.wait_for_event() => {}
        }
        interval = IDLE_INTERVAL;
        if !bus.is_connected() {
            continue;
        }
        if let Some(checks) = &sources.checks {
            let events = checks.unpublished_events().into_iter();
            let events = events.map(|event| (event.id, check_event(event, core.identity())));
            let published = publish_in_order(&core, &bus, events).await;
            if !published.is_empty() {
                checks.confirm_events(&published).await;
            }
        }
        if let Some(again) = &sources.again {
            let events = again.unpublished_events().into_iter();
            let events = events.map(|event| (event.id, again_event(event, core.identity())));
            let published = publish_in_order(&core, &bus, events).await;
            if !published.is_empty() {
                again.confirm_events(&published).await;
            }
        }
        let (reader, node) = (sources.clone(), core.identity().clone());
        let read = tokio::task::spawn_blocking(move || read_events(&reader, &node)).await;
        let StoredEvents { mut events, in_progress } = match read {
            Ok(Ok(stored)) => stored,
            Ok(Err(error)) => {
                tracing::debug!(error = error_chain(&error), "cannot read the events of the node");
                continue;
            }
            Err(_) => return,
        };
        if in_progress {
            interval = ACTIVE_INTERVAL;
        }
        events.retain(|event| !published.ids.contains(&event.id));
        for event in &events {
            match publish_event(&core, &bus, event).await {
                Ok(()) => published.add(event.id),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, id = %event.id, "cannot publish an event");
                }
            }
        }
        if !events.is_empty() {
            published.save(path.clone()).await;
        }
    }
}

/// Publishes events in their order, up to the first one that the broker does not receive. Returns the ids of those that it has.
async fn publish_in_order(
    core: &DaemonCore,
    bus: &Bus,
    events: impl Iterator<Item = (Uuid, Option<FleetEvent>)>,
) -> Vec<Uuid> {
    let mut published = Vec::new();
    for (id, event) in events {
        if let Some(event) = event
            && let Err(error) = publish_event(core, bus, &event).await
        {
            let error = error_chain(&error);
            tracing::warn!(error, %id, "cannot publish an event");
            break;
        }
        published.push(id);
    }
    published
}

fn again_event(stored: StoredAgainEvent, node: &Identity) -> Option<FleetEvent> {
    let StoredAgainEvent { id, kind, time, text, again, run, cause } = stored;
    let data = json!({
        "again": again,
        "run": run,
        "cause_run": cause.run,
        "cause_transaction": cause.transaction,
    });
    Some(FleetEvent {
        id,
        sender: node.clone(),
        kind: SubjectName::parse(&kind).ok()?,
        text: shorten_text(&text),
        data: data.as_object()?.clone(),
        time,
    })
}

fn check_event(stored: StoredCheckEvent, node: &Identity) -> Option<FleetEvent> {
    let StoredCheckEvent { id, kind, time, text, data } = stored;
    Some(FleetEvent {
        id,
        sender: node.clone(),
        kind: SubjectName::parse(&kind).ok()?,
        text: shorten_text(&text),
        data: serde_json::to_value(data).ok()?.as_object()?.clone(),
        time,
    })
}

/// Returns when the broker has received the event.
async fn publish_event(
    core: &DaemonCore,
    bus: &Bus,
    event: &FleetEvent,
) -> Result<(), EventPublishError> {
    let signed = sign_envelope(EnvelopeKind::Event, event, &core.trust.signer)?;
    let address = EventAddress { kind: event.kind.clone(), node: event.sender.clone() };
    bus.publish(&address.subject(), signed.into()).await?;
    bus.flush().await?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum EventPublishError {
    #[error("cannot sign the event")]
    Sign(#[from] EnvelopeSignError),
    #[error("the broker did not receive the event")]
    Bus(#[from] BusError),
}

#[derive(Debug, Default)]
struct StoredEvents {
    /// The outcomes of finished restarts, and the dropped refreshes.
    events: Vec<FleetEvent>,
    /// Whether a restart has not finished.
    in_progress: bool,
}

fn read_events(sources: &EventSources, node: &Identity) -> SystemResult<StoredEvents> {
    let mut stored = read_restarts(&sources.restarts, node)?;
    let expired = read_expired(&sources.engine_dir)?;
    stored.events.extend(expired.iter().filter_map(|refresh| expiry_event(refresh, node)));
    Ok(stored)
}

/// The event of a refresh that was dropped because its target left the catalog.
fn expiry_event(refresh: &ExpiredRefresh, node: &Identity) -> Option<FleetEvent> {
    let ExpiredRefresh { source, target, run, since, expired_at, .. } = refresh;
    Some(FleetEvent {
        id: Uuid::try_parse(&refresh.id).ok()?,
        sender: node.clone(),
        kind: SubjectName::parse("refresh_expired").ok()?,
        text: shorten_text(&format!(
            "{target}: its refresh by {source} was dropped, because it left the catalog"
        )),
        data: json!({"target": target, "source": source, "run": run, "since": since})
            .as_object()?
            .clone(),
        time: u64::try_from(*expired_at).ok()?.saturating_mul(1000),
    })
}

fn read_restarts(store: &RestartStore, node: &Identity) -> SystemResult<StoredEvents> {
    let mut stored = StoredEvents::default();
    for key in store.list_keys()? {
        let Some(record) = store.read_record(&key)? else { continue };
        let target = record.target.to_string();
        stored.in_progress |= !record.current.state.is_finished();
        let cycles = record.past.iter().chain([&record.current]);
        stored.events.extend(cycles.filter_map(|cycle| outcome_event(cycle, &target, node)));
    }
    Ok(stored)
}

/// The event of a finished restart; its id is that of the restart.
fn outcome_event(cycle: &RestartCycle, target: &str, node: &Identity) -> Option<FleetEvent> {
    let kind = match cycle.state {
        RestartState::Ok => "restart_ok",
        RestartState::Failed => "restart_failed",
        RestartState::Timeout => "restart_timeout",
        _ => return None,
    };
    let pid = cycle.after.as_ref().map(|process| process.pid);
    Some(FleetEvent {
        id: cycle.id,
        sender: node.clone(),
        kind: SubjectName::parse(kind).ok()?,
        text: shorten_text(&format!("{target}: {}", cycle.text)),
        data: json!({"target": target, "requests": cycle.requests, "pid": pid})
            .as_object()?
            .clone(),
        time: cycle.finished_at()?.wall,
    })
}

/// The text up to the protocol's limit, cut between characters.
fn shorten_text(text: &str) -> NodeText {
    let mut end = text.len().min(MAX_EVENT_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().into()
}

/// The ids of published events, oldest first.
#[derive(Debug, Default)]
struct PublishedEvents {
    ids: VecDeque<Uuid>,
}

impl PublishedEvents {
    /// A missing or unreadable file counts as empty: events are then published again.
    async fn load(path: PathBuf) -> Self {
        let read = tokio::task::spawn_blocking(move || std::fs::read(path).ok()).await;
        let ids = read.ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { ids: ids.unwrap_or_default() }
    }

    fn add(&mut self, id: Uuid) {
        self.ids.push_back(id);
        while self.ids.len() > MAX_PUBLISHED_IDS {
            self.ids.pop_front();
        }
    }

    async fn save(&self, path: PathBuf) {
        // Serializing ids cannot fail.
        let bytes = serde_json::to_vec(&self.ids).unwrap_or_default();
        let write = move || replace_file(&path, &bytes, PUBLISHED_FILE_MODE);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
            tracing::warn!(%error, "cannot store the ids of published events");
        }
    }
}
