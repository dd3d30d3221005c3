//! A receiver of webhooks on a free loopback port, which stores what it receives.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One message: its id and the document.
pub type WebhookMessage = (String, Value);

/// A request that was received.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// Its first line and its headers, in lower case.
    head: String,
    /// As received.
    pub body: Vec<u8>,
    /// The status; `None` if it is not answered.
    pub answer: Option<u16>,
}

impl WebhookRequest {
    /// The value of a header, in lower case; empty if it is absent.
    pub fn header(&self, name: &str) -> String {
        header(&self.head, name)
    }
}

#[derive(Debug, Default)]
struct WebhookState {
    received: Vec<WebhookRequest>,
    planned: VecDeque<Option<u16>>,
}

/// A running receiver.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    state: Arc<Mutex<WebhookState>>,
    held: watch::Sender<bool>,
    running: JoinHandle<()>,
}

impl Webhook {
    /// Starts a receiver.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let state: Arc<Mutex<WebhookState>> = Arc::default();
        let stored = Arc::clone(&state);
        let (held, is_held) = watch::channel(false);
        let running = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive_message(stream, Arc::clone(&stored), is_held.clone()));
            }
        });
        Self { url, state, held, running }
    }

    /// While held, a message is received and stored, but not answered.
    pub fn hold_answers(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// The statuses of the next answers; `None`: no answer. Then all messages are accepted.
    pub fn answer_next(&self, answers: &[Option<u16>]) {
        lock(&self.state).planned = answers.iter().copied().collect();
    }

    /// Every request, also those that were not accepted.
    pub fn requests(&self) -> Vec<WebhookRequest> {
        lock(&self.state).received.clone()
    }

    /// The URL to post to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every message by its id; a message that is repeated under the same id is stored once.
    pub fn messages(&self) -> BTreeMap<String, Value> {
        let message = |request: WebhookRequest| {
            let document = serde_json::from_slice(&request.body).ok()?;
            Some((request.header("idempotency-key"), document))
        };
        self.requests().into_iter().filter_map(message).collect()
    }

    /// The nodes of all messages of this event, one entry per message, sorted.
    pub fn nodes(&self, event: &str) -> Vec<String> {
        let node_of = |message: &Value| {
            let matches_event = message.get("event").and_then(Value::as_str) == Some(event);
            let node = message.get("node").and_then(Value::as_str)?;
            matches_event.then(|| node.to_owned())
        };
        let mut nodes: Vec<String> = self.messages().values().filter_map(node_of).collect();
        nodes.sort();
        nodes
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Reads one request: headers up to the empty line, then the body of the announced length.
async fn receive_message(
    mut stream: TcpStream,
    stored: Arc<Mutex<WebhookState>>,
    mut is_held: watch::Receiver<bool>,
) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let (head, length) = loop {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            _ => return,
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_lowercase();
        let length: usize = header(&head, "content-length").parse().unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            bytes.drain(..end + 4);
            break (head, length);
        }
    };
    bytes.truncate(length);
    let answer = {
        let mut state = lock(&stored);
        let answer = state.planned.pop_front().unwrap_or(Some(204));
        state.received.push(WebhookRequest { head, body: bytes, answer });
        answer
    };
    let Some(status) = answer else { return pending().await };
    // An error means that the receiver has ended.
    let _ = is_held.wait_for(|held| !held).await;
    let answer =
        format!("HTTP/1.1 {status} Planned\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn lock(state: &Mutex<WebhookState>) -> MutexGuard<'_, WebhookState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn header(head: &str, name: &str) -> String {
    let found = head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
