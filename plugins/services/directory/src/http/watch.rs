//! Live queries as server-sent events: all nodes that match, and then their changes.
//!
//! `reset` begins a new list: forget what was known. `nodes` has nodes that match, and names of those that do not match any more. The id of an event is the cursor of the
//! instance; a client that reconnects with it as `Last-Event-ID` misses no change. Another instance, and one that was restarted, begin with `reset`.

use std::sync::Arc;
use std::time::Duration;

use muster_api::ActionError;
use muster_contract::directory::{DirectoryChangesInput, DirectoryNodeRow, DirectoryQueryInput};
use muster_http::{HttpBody, HttpRequest, HttpResponse, HttpStatus};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::api::{ApiError, not_ready};
use super::parameters::ApiParameters;
use crate::actions;
use crate::state::DirectoryHandle;

/// Events that wait for a slow client. Further ones are not computed before it has read these.
const MAX_WAITING_EVENTS: usize = 2;
/// Pause after which a comment is sent, so that a closed connection is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// After this time the stream ends, and the client reconnects: permissions are checked again.
const MAX_DURATION: Duration = Duration::from_hours(1);
/// Longest time for a client to read an event.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// The data of the event `nodes`.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub(super) struct WatchChange {
    /// Nodes that match, and have changed.
    nodes: Vec<DirectoryNodeRow>,
    /// Nodes that have changed and do not match, whether they did before or not.
    gone: Vec<String>,
}

/// Where live queries read, and how many of them at once.
#[derive(Debug, Clone)]
pub(super) struct WatchSource {
    pub(super) handle: DirectoryHandle,
    pub(super) queries: Arc<Semaphore>,
}

impl WatchSource {
    /// Evaluates on a thread where it can take its time, when it is this query's turn.
    async fn evaluate<T: Send + 'static>(
        &self,
        run: impl FnOnce(&DirectoryHandle) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let permit = Arc::clone(&self.queries).acquire_owned().await;
        let handle = self.handle.clone();
        let task = spawn_blocking(move || {
            let result = run(&handle);
            drop(permit);
            result
        });
        task.await.map_err(ActionError::from_cause)?
    }
}

pub(super) async fn start_watch(
    source: WatchSource,
    request: &HttpRequest,
    parameters: ApiParameters,
    permit: OwnedSemaphorePermit,
) -> Result<HttpResponse, ApiError> {
    if !source.handle.read().is_ready {
        return Err(not_ready());
    }
    let cursor = request.last_event_id.clone().or(parameters.last_event_id);
    let DirectoryQueryInput { filter, fields, .. } = parameters.query;
    let input = DirectoryChangesInput { cursor, wait: None, filter, fields };
    // An invalid query is refused now.
    let now = DirectoryChangesInput { cursor: None, ..input.clone() };
    source.evaluate(move |handle| actions::answer_changes(handle, &now)).await?;
    let (sender, receiver) = mpsc::channel(MAX_WAITING_EVENTS);
    tokio::spawn(async move {
        let deadline = Instant::now() + MAX_DURATION;
        let _ = tokio::time::timeout_at(deadline, follow(&source, input, &sender)).await;
    });
    Ok(HttpResponse {
        status: HttpStatus::Ok,
        content_type: "text/event-stream",
        body: HttpBody::Stream(receiver),
        records: None,
        permit: Some(permit),
    })
}

/// The client has gone, or the query cannot be answered any more.
struct WatchEnded;

/// Sends events until the client has gone.
async fn follow(
    source: &WatchSource,
    mut input: DirectoryChangesInput,
    sender: &mpsc::Sender<String>,
) -> Result<(), WatchEnded> {
    // The client knows that the stream is open before the first change.
    send(sender, ": connected\n\n".to_owned()).await?;
    loop {
        let asked = input.clone();
        let changes = source.evaluate(move |handle| actions::answer_changes(handle, &asked)).await;
        let changes = changes.map_err(|_| WatchEnded)?;
        if changes.reset {
            // Changes during the list are after the cursor.
            send_all(source, &input, &changes.cursor, sender).await?;
        } else if !changes.nodes.is_empty() || !changes.gone.is_empty() {
            let change = WatchChange { nodes: changes.nodes, gone: changes.gone };
            send(sender, event("nodes", Some(&changes.cursor), &change)).await?;
        }
        let known = actions::change_number(&source.handle, &changes.cursor).ok_or(WatchEnded)?;
        input.cursor = Some(changes.cursor);
        let next = timeout(KEEP_ALIVE_INTERVAL, source.handle.wait_for_change(known));
        let waited = tokio::select! {
            waited = next => waited,
            () = sender.closed() => return Err(WatchEnded),
        };
        if waited.is_err() {
            send(sender, ": keep-alive\n\n".to_owned()).await?;
        }
    }
}

/// Sends all nodes that match, page by page; only the last event has the cursor.
async fn send_all(
    source: &WatchSource,
    input: &DirectoryChangesInput,
    cursor: &str,
    sender: &mpsc::Sender<String>,
) -> Result<(), WatchEnded> {
    send(sender, "event: reset\ndata: {}\n\n".to_owned()).await?;
    let DirectoryChangesInput { filter, fields, .. } = input.clone();
    let mut query =
        DirectoryQueryInput { filter, fields, stale: Some(true), ..DirectoryQueryInput::default() };
    loop {
        let asked = query.clone();
        let page = source
            .evaluate(move |handle| actions::list(handle, &asked, false, Instant::now()))
            .await;
        let page = page.map_err(|_| WatchEnded)?;
        let cursor = page.next.is_none().then_some(cursor);
        let change = WatchChange { nodes: page.nodes, gone: Vec::new() };
        send(sender, event("nodes", cursor, &change)).await?;
        let Some(next) = page.next else { return Ok(()) };
        query.after = Some(next);
    }
}

async fn send(sender: &mpsc::Sender<String>, text: String) -> Result<(), WatchEnded> {
    sender.send_timeout(text, SEND_TIMEOUT).await.map_err(|_| WatchEnded)
}

/// JSON has no line feeds, so its data are one line.
fn event(name: &str, id: Option<&str>, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n")
}
