//! A stolen node key and the broker's memory: what one key sends grows the memory of a broker with the generated configuration by a bounded amount.
//!
//! Not bounded by nats-server: the number of connections of one key. Each costs some 40 KiB, up to 1 MiB for a message that is sent in part, and up to 64 MiB
//! for messages that it does not read.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_tests::cluster::free_ports;
use muster_tests::command::{describe_output, find_program};
use muster_tests::memory::anonymous_kib;
use muster_tests::nats_server::{NETWORK_TIMEOUT, find_binary};
use muster_tests::organisation::Broker;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_tests::tier::case_step;
use muster_wire::limits::{MAX_CONNECT_BYTES, MAX_SUBSCRIPTION_TOKENS};
use muster_wire::sign::Signer;
use muster_wire::stores::{PERMITS_BUCKET, permit_keys};
use muster_wire::token::UserCredentials;
use tempfile::TempDir;

const THIEF: &str = "stolen.example.net";
/// How much the memory of the broker may grow through one attack.
const MAX_GROWTH_KIB: u64 = 256 * 1024;
/// Subscriptions that a node may have.
const SUBSCRIPTIONS: usize = 256;
/// A line that the broker accepts has this space for a subject.
const LONG_SUBJECT_BYTES: usize = MAX_CONNECT_BYTES - 400;

/// An organisation, its running broker with the generated configuration, and a node's credentials.
struct GeneratedBroker {
    scratch: TempDir,
    port: u16,
    child: Option<Child>,
    thief: Option<Signer>,
}

impl Broker for GeneratedBroker {
    fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for GeneratedBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl GeneratedBroker {
    async fn start() -> Self {
        let [port] = free_ports();
        let mut broker = Self { scratch: TempDir::new().unwrap(), port, child: None, thief: None };
        let port = port.to_string();
        broker.run(&["org", "init", "acme", "--no-tls", "--port", &port]);
        let state = ["--state-dir", ".", "--monitoring-port", "0", "--bundle", "broker1"];
        broker.run(&[&["broker", "config", "--name", "broker1"][..], &state].concat());
        broker.restart().await;
        broker.run(&["org", "push"]);
        broker.run(&["org", "add", "node", THIEF, "--bundle", "thief"]);
        let creds = std::fs::read_to_string(broker.path().join("thief/node.creds")).unwrap();
        let creds = UserCredentials::parse(&creds).unwrap();
        broker.thief = Some(Signer::new(creds).unwrap());
        broker
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Runs `rpc` as the administrator.
    fn run(&self, arguments: &[&str]) {
        let output = Command::new(find_program("rpc"))
            .args(arguments)
            .env("HOME", self.path())
            .env("MUSTER_ORG", self.path().join("acme"))
            .env_remove("RPC_CONFIG")
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", describe_output(&output));
    }

    /// Starts the broker with its streams, and without what it remembers in memory.
    async fn restart(&mut self) {
        self.stop();
        let child = Command::new(find_binary())
            .args(["-c", "nats.conf", "-l", "log"])
            .current_dir(self.path().join("broker1"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        poll_until_ok("the broker listens", NETWORK_TIMEOUT, async || {
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.map(drop)
        })
        .await;
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    async fn connect_thief(&self) -> RawNats {
        RawNats::connect(self, self.thief.as_ref().unwrap()).await
    }

    /// A subject of the thief's inbox with this end.
    fn inbox(&self, end: &str) -> String {
        format!("_INBOX.{}.{end}", self.thief.as_ref().unwrap().public_key())
    }

    fn memory_kib(&self) -> u64 {
        anonymous_kib(self.child.as_ref().unwrap().id()).unwrap()
    }

    /// How much the memory has grown. Freed memory counts until the broker's runtime gives it back, on a busy machine for seconds: growth above the limit is
    /// measured again until then.
    async fn settled_growth_kib(&self, before: u64) -> u64 {
        let growth = || self.memory_kib().saturating_sub(before);
        let settled = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            while growth() > MAX_GROWTH_KIB {
                ticks.tick().await;
            }
        };
        let _ = tokio::time::timeout(NETWORK_TIMEOUT, settled).await;
        growth()
    }
}

/// What the thief does.
#[derive(Debug, Clone, Copy)]
enum Attack {
    /// Writes to a key that it may write, with a message id of this size each.
    UniqueIds { key: &'static str, id_bytes: usize, count: usize },
    /// Subscribes with subjects of very many tokens.
    DeepSubscriptions,
    /// Subscribes with long subjects.
    LongSubscriptions,
    /// Subscribes with long subjects and disconnects, again and again.
    ClosedConnections(usize),
    /// Reads the whole bucket of permits, and does not read the answers.
    UnreadAnswers,
    /// Publishes long subjects without subscribers.
    LongSubjects(usize),
}

impl Attack {
    async fn run(self, broker: &GeneratedBroker) -> RawNats {
        let mut client = broker.connect_thief().await;
        match self {
            Self::UniqueIds { key, id_bytes, count } => {
                let padding = "a".repeat(id_bytes - 12);
                for number in 0..count {
                    let id = format!("Nats-Msg-Id: {number:012}{padding}");
                    client.publish(key, "", &id, "x").await;
                }
                client.sync().await;
            }
            Self::DeepSubscriptions => {
                // As many tokens as a line has space for, and as many as are permitted.
                let own_tokens = broker.inbox("").split('.').count();
                let permitted = MAX_SUBSCRIPTION_TOKENS - own_tokens - 1;
                for (tokens, expected_refusals) in
                    [(LONG_SUBJECT_BYTES / 2 - 32, SUBSCRIPTIONS), (permitted, 0)]
                {
                    let end = vec!["a"; tokens].join(".");
                    for number in 0..SUBSCRIPTIONS {
                        client.subscribe(&broker.inbox(&format!("{number}.{end}")), "").await;
                    }
                    let refusals = client.sync().await.refusals.len();
                    assert_eq!(refusals, expected_refusals, "{tokens} tokens");
                }
            }
            Self::LongSubscriptions => subscribe_long(broker, &mut client).await,
            Self::ClosedConnections(count) => {
                for _ in 0..count {
                    subscribe_long(broker, &mut client).await;
                    client = broker.connect_thief().await;
                }
            }
            Self::UnreadAnswers => {
                for key in permit_keys(THIEF) {
                    let subject = format!("$KV.{}.{key}", PERMITS_BUCKET.name);
                    client.publish(&subject, "", "", &"x".repeat(900)).await;
                }
                client.subscribe(&broker.inbox(">"), "").await;
                client.sync().await;
                let all = r#"{"batch":1000,"multi_last":["$KV.PERMITS.>"]}"#;
                let line = format!(
                    "PUB $JS.API.DIRECT.GET.KV_PERMITS {} {}\r\n{all}\r\n",
                    broker.inbox("x"),
                    all.len()
                );
                for _ in 0..100 {
                    client.send(&line.repeat(100)).await;
                }
                // The broker may have closed the connection of a client that does not read.
                client.sync_or_closed().await;
            }
            Self::LongSubjects(count) => {
                for number in 0..count {
                    let subject = format!("_R.{number}.{}.{THIEF}", "a".repeat(LONG_SUBJECT_BYTES));
                    client.publish(&subject, "", "", "").await;
                }
                client.sync().await;
            }
        }
        client
    }
}

async fn subscribe_long(broker: &GeneratedBroker, client: &mut RawNats) {
    let end = "a".repeat(LONG_SUBJECT_BYTES);
    for number in 0..SUBSCRIPTIONS {
        client.subscribe(&broker.inbox(&format!("{number}.{end}")), "").await;
    }
    assert_eq!(client.sync().await.refusals, [""; 0]);
}

#[tokio::test]
async fn stolen_node_key_grows_the_memory_of_the_broker_by_a_bounded_amount() {
    let mut broker = GeneratedBroker::start().await;
    let mut failures = Vec::new();
    let attacks = [
        Attack::UniqueIds { key: "$KV.NODES.stolen.example.net", id_bytes: 65_000, count: 8_000 },
        Attack::UniqueIds {
            key: "$KV.PERMITS.beat.1.stolen.example.net",
            id_bytes: 900,
            count: 100_000,
        },
        Attack::DeepSubscriptions,
        Attack::LongSubscriptions,
        Attack::ClosedConnections(100),
        Attack::UnreadAnswers,
        Attack::LongSubjects(5_000),
    ];
    for attack in attacks.into_iter().step_by(case_step(2)) {
        broker.restart().await;
        let before = broker.memory_kib();
        let client = attack.run(&broker).await;
        let growth = broker.settled_growth_kib(before).await;
        print_figures(&format!("{attack:?}: {} MiB", growth / 1024));
        if growth > MAX_GROWTH_KIB {
            failures.push(format!("{attack:?}: {growth} KiB"));
        }
        drop(client);
    }
    assert_eq!(failures, [""; 0]);
}

#[expect(clippy::print_stderr, reason = "prints measurements")]
fn print_figures(text: &str) {
    eprintln!("figures: {text}");
}
