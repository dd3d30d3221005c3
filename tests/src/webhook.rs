//! A receiver of webhooks on a free loopback port, which remembers what came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One message: the id that it came under, and the document.
pub type Received = (String, Value);

/// A running receiver.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    running: JoinHandle<()>,
}

impl Webhook {
    /// Starts one.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        let running = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, Arc::clone(&kept)));
            }
        });
        Self { url, received, running }
    }

    /// Where to post to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every message, by its id: one that was sent again under the same id is one message.
    pub fn messages(&self) -> BTreeMap<String, Value> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.iter().cloned().collect()
    }

    /// The nodes that messages of this event are about, each as often as there are messages.
    pub fn nodes(&self, event: &str) -> Vec<String> {
        let about = |message: &Value| {
            let is_meant = message.get("event").and_then(Value::as_str) == Some(event);
            let node = message.get("node").and_then(Value::as_str)?;
            is_meant.then(|| node.to_owned())
        };
        let mut nodes: Vec<String> = self.messages().values().filter_map(about).collect();
        nodes.sort();
        nodes
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// One request: headers to the empty line, then as many bytes as they say.
async fn take(mut stream: TcpStream, kept: Arc<Mutex<Vec<Received>>>) {
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
    if let Ok(document) = serde_json::from_slice(bytes.get(..length).unwrap_or_default()) {
        let id = header(&head, "idempotency-key");
        kept.lock().unwrap_or_else(PoisonError::into_inner).push((id, document));
    }
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
}

fn header(head: &str, name: &str) -> String {
    let found = head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
