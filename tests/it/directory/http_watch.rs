//! Live queries over HTTP: server-sent events, resumed after an interruption.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::http::HttpFleet;

/// Time for an event.
const EVENT_TIMEOUT: Duration = Duration::from_mins(1);

/// An event as a client reads it.
#[derive(Debug, Default)]
struct ServerEvent {
    name: String,
    id: Option<String>,
    data: Value,
}

/// A stream that curl reads.
struct EventStream {
    lines: Lines<BufReader<ChildStdout>>,
    _curl: Child,
}

impl EventStream {
    fn open(fleet: &HttpFleet, last_event_id: Option<&str>) -> Self {
        let mut command = fleet.curl();
        command.args(["-N", "--max-time", "300", "-G", "--data-urlencode"]);
        command.args(["q={ 'facts.customer': 'acme' }", "-d", "fields=tier"]);
        if let Some(id) = last_event_id {
            command.arg("-H").arg(format!("Last-Event-ID: {id}"));
        }
        command.arg("http://directory/v1/watch").stdout(std::process::Stdio::piped());
        let mut curl = command.spawn().unwrap();
        let lines = BufReader::new(curl.stdout.take().unwrap()).lines();
        Self { lines, _curl: curl }
    }

    /// The next event; comments are left out.
    async fn next(&mut self) -> ServerEvent {
        let mut event = ServerEvent::default();
        loop {
            let line = tokio::time::timeout(EVENT_TIMEOUT, self.lines.next_line()).await;
            let line = line.unwrap().unwrap().unwrap();
            match line.split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !event.name.is_empty() => return event,
                _ => {}
            }
        }
    }

    /// The next event that has this tier of a node.
    async fn await_tier(&mut self, node: &str, tier: &str) -> ServerEvent {
        loop {
            let event = self.next().await;
            assert_eq!(event.name, "nodes", "{event:?}");
            let rows = event.data["nodes"].as_array().unwrap();
            if rows.iter().any(|row| row["node"] == node && row["fields"]["tier"] == tier) {
                return event;
            }
        }
    }
}

fn change_tier(fleet: &HttpFleet, tier: &str) {
    let facts = json!({"customer": "acme", "tier": tier}).to_string();
    let node = fleet.nodes.first().unwrap();
    node.daemon.home().write("facts.d/site.json", &facts, 0o644);
    node.reload();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_sent_and_none_is_missed_after_an_interruption() {
    let fleet = HttpFleet::start().await;
    let mut stream = EventStream::open(&fleet, None);
    assert_eq!(stream.next().await.name, "reset");
    let all = stream.next().await;
    let names: Vec<&Value> =
        all.data["nodes"].as_array().unwrap().iter().map(|row| &row["node"]).collect();
    assert_eq!(names, ["db1.acme.net", "db2.acme.net"]);
    assert!(all.id.is_some(), "{all:?}");
    change_tier(&fleet, "test");
    let changed = stream.await_tier("db1.acme.net", "test").await;
    drop(stream);

    // A change while the client is away.
    change_tier(&fleet, "production");
    let mut resumed = EventStream::open(&fleet, changed.id.as_deref());
    resumed.await_tier("db1.acme.net", "production").await;

    // A cursor of another instance begins a new list.
    let foreign = "01890000-0000-7000-8000-000000000000.7";
    let mut other = EventStream::open(&fleet, Some(foreign));
    assert_eq!(other.next().await.name, "reset");

    let (status, answer) = fleet.get("/v1/watch", &["q={ $where: 1 }"]).await;
    assert_eq!(status, 400, "{answer}");
}
