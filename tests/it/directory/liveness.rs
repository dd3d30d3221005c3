//! Missing and stale nodes. Restarts and wrong clocks raise no alarm.

use std::time::{Duration, Instant};

use muster_bus::Bytes;
use muster_calls::{Client, EventArrival, EventListener};
use muster_contract::directory::{DirectoryFind, DirectoryFindOutput, DirectoryQueryInput};
use muster_filter::state::NodeFacts;
use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_tests::{now, poll_until_ok, simulate_delay};
use muster_wire::enrolment::issue_node_token;
use muster_wire::event::FleetEvent;
use muster_wire::identity::SubjectName;
use muster_wire::node_record::{NodeContent, NodeHeartbeat, NodeRecord};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::NODES_BUCKET;
use muster_wire::subject;
use muster_wire::token::{UserCredentials, UserRole};
use serde_json::json;
use uuid::Uuid;

use super::fixture::{ANSWER_TIMEOUT, DirectoryFixture, FleetNode, GRACE_SECONDS, lines};

/// Two intervals of one second and the grace period.
const TOLERANCE: Duration = Duration::from_secs(2 + GRACE_SECONDS);
const NAMES: [&str; 3] = ["db1.acme.net", "dir1.acme.net", "web1.acme.net"];

struct LivenessFleet {
    fleet: DirectoryFixture,
    directory: FleetNode,
    database: FleetNode,
    _web: FleetNode,
    client: Client,
    events: EventListener,
}

/// The event that has arrived; `None` for a gap, as after a restart of the broker.
fn to_event(arrival: Option<EventArrival>) -> Option<FleetEvent> {
    match arrival {
        Some(EventArrival::Event(event)) => Some(*event),
        Some(EventArrival::Gap(_)) => None,
        other => panic!("no event: {other:?}"),
    }
}

impl LivenessFleet {
    async fn start() -> Self {
        Self::start_with(|fleet| fleet.start_impatient_directory("dir1.acme.net", "directory1"))
            .await
    }

    async fn start_with(start_directory: impl FnOnce(&DirectoryFixture) -> FleetNode) -> Self {
        let fleet = DirectoryFixture::start().await;
        let directory = start_directory(&fleet);
        let database = fleet.start_node("db1.acme.net", "{}", "mysql::master\n");
        let web = fleet.start_node("web1.acme.net", "{}", "apache\n");
        fleet.await_present(&NAMES).await;
        let client = fleet.client().await;
        let events = client.listen_for_events().await.unwrap();
        Self { fleet, directory, database, _web: web, client, events }
    }

    async fn check(&self, interval: &str, code: i32, line: &str) {
        let output = self.fleet.rpc.run(&["check-registration", "--interval", interval]).await;
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{line}\n"));
        assert_eq!(output.status.code(), Some(code), "{}", describe_output(&output));
    }

    /// A filter that matches no node says nothing of heartbeats.
    async fn check_unknown(&self) {
        let output = self.fleet.rpc.run(&["check-registration", "-F", "country=xx"]).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.starts_with("UNKNOWN: the directory knows no such node; looked for "),
            "{text}"
        );
        assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    }

    /// The names of missing nodes, according to the command.
    async fn missing(&self) -> Vec<String> {
        let output = self.fleet.rpc.run(&["nodes", "--missing", "-o", "name"]).await;
        lines(&output.stdout)
    }

    async fn find(&self, input: DirectoryQueryInput) -> DirectoryFindOutput {
        self.client.query_directory::<DirectoryFind>(&input, ANSWER_TIMEOUT).await.unwrap()
    }

    async fn next_alarm(&mut self, timeout: Duration) -> FleetEvent {
        self.next_event("node_missing", timeout).await
    }

    async fn next_event(&mut self, kind: &str, timeout: Duration) -> FleetEvent {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let event = tokio::time::timeout_at(deadline, self.events.next()).await;
            let arrival = event.unwrap_or_else(|_| panic!("no alarm in time"));
            let Some(event) = to_event(arrival) else { continue };
            if event.kind.as_str() == kind {
                return event;
            }
        }
    }

    /// The alarms so far: an own event is published after them, and ends the search.
    async fn alarms(&mut self) -> Vec<FleetEvent> {
        let kind = SubjectName::parse("mark").unwrap();
        let signer = self.fleet.organisation.node("marker.acme.net");
        let event = FleetEvent {
            id: Uuid::now_v7(),
            sender: signer.identity().clone(),
            kind: kind.clone(),
            text: "mark".into(),
            data: serde_json::Map::new(),
            time: now(),
        };
        let sealed = sign_envelope(EnvelopeKind::Event, &event, &signer).unwrap();
        let address = subject::EventAddress { kind, node: signer.identity().clone() };
        let bus = connect(&self.fleet.server, &signer).await;
        bus.publish(&address.subject(), Bytes::from(sealed)).await.unwrap();
        let mut alarms = Vec::new();
        loop {
            let event = tokio::time::timeout(ANSWER_TIMEOUT, self.events.next()).await;
            let Some(event) = to_event(event.unwrap()) else { continue };
            match event.kind.as_str() {
                "mark" => return alarms,
                "node_missing" => alarms.push(event),
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_9_killed_node_is_missing_after_two_intervals_and_the_grace_period() {
    let mut fleet = LivenessFleet::start().await;
    let healthy =
        "OK: 3 / 3 hosts checked in within 300 seconds| totalhosts=3 oldhosts=0 currenthosts=3";
    fleet.check("300", 0, healthy).await;
    fleet.check_unknown().await;
    assert_eq!(fleet.missing().await, [""; 0]);

    fleet.database.daemon.kill_and_wait();
    let killed = Instant::now();
    let alarm = fleet.next_alarm(TOLERANCE + Duration::from_secs(15)).await;
    let took = killed.elapsed();
    assert_eq!(
        (alarm.sender.as_str(), &alarm.data["node"]),
        ("directory1", &json!("db1.acme.net"))
    );
    assert_eq!(fleet.missing().await, ["db1.acme.net"]);
    // The last heartbeat was sent up to a second before.
    assert!(took + Duration::from_secs(2) >= TOLERANCE, "{took:?}");
    let failing = "CRITICAL: 1 / 3 hosts not checked in within 5 seconds| totalhosts=3 oldhosts=1 currenthosts=2";
    fleet.check("5", 2, failing).await;

    // A4.5: silence beyond the limit hides a node, and its last record is there on request.
    let short = DirectoryQueryInput { stale_seconds: Some(5), ..DirectoryQueryInput::default() };
    let found = fleet.find(short.clone()).await;
    assert_eq!(
        (found.nodes, found.stale),
        (["dir1.acme.net", "web1.acme.net"].map(str::to_owned).to_vec(), 1)
    );
    let found = fleet.find(DirectoryQueryInput { stale: Some(true), ..short }).await;
    assert_eq!((found.nodes, found.stale), (NAMES.map(str::to_owned).to_vec(), 0));
    assert_eq!(found.missing, ["db1.acme.net"]);
    let (document, code) = fleet.fleet.rpc.run_json(&["node", "db1.acme.net"]).await;
    assert_eq!((code, &document["node"]["state"]), (0, &json!("missing")));
    assert_eq!(document["classes"], json!(["mysql::master"]));

    // Found and named as missing, and never silently a target less.
    let output = fleet.fleet.rpc.run(&["find"]).await;
    assert_eq!(lines(&output.stdout), ["dir1.acme.net", "web1.acme.net"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("1 node missing, left out: db1.acme.net"), "{errors}");

    // A second write of its last record does not make the node present.
    let attacker = fleet.fleet.organisation.unrestricted_user("attacker");
    let bucket = connect(&fleet.fleet.server, &attacker).await.bucket(NODES_BUCKET.name);
    let last = bucket.get("db1.acme.net").await.unwrap().unwrap();
    let revision = bucket.put("db1.acme.net", last.value.unwrap()).await.unwrap();
    poll_until_ok("the directory has the repeated record", ANSWER_TIMEOUT, async || {
        let (document, _) = fleet.fleet.rpc.run_json(&["node", "db1.acme.net"]).await;
        if document["revision"] == json!(revision) { Ok(()) } else { Err(document) }
    })
    .await;
    assert_eq!(fleet.missing().await, ["db1.acme.net"]);

    fleet.database.daemon = fleet.database.daemon.home().clone().start();
    let back = fleet.next_event("node_back", Duration::from_mins(1)).await;
    assert_eq!((back.sender.as_str(), &back.data["node"]), ("directory1", &json!("db1.acme.net")));
    fleet.fleet.await_present(&NAMES).await;
    assert_eq!(fleet.missing().await, [""; 0]);
    assert_eq!(fleet.alarms().await, [], "a missing node is reported once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_9_restarts_of_nodes_and_directory_raise_no_alarm() {
    let mut fleet = LivenessFleet::start().await;
    fleet.database.daemon.kill_and_wait();
    fleet.database.daemon = fleet.database.daemon.home().clone().start();
    fleet.directory.daemon.kill_and_wait();
    fleet.directory.daemon = fleet.directory.daemon.home().clone().start();
    fleet.fleet.await_present(&NAMES).await;
    // Longer than any of them could have been silent without an alarm.
    simulate_delay(TOLERANCE + Duration::from_secs(2)).await;
    assert_eq!(fleet.missing().await, [""; 0]);
    fleet.fleet.await_present(&NAMES).await;
    assert_eq!(fleet.alarms().await, []);
}

/// A directory that was stopped for longer than the tolerance, as a paused virtual machine is, has not listened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_9_stopped_directory_raises_no_alarm() {
    let mut fleet = LivenessFleet::start().await;
    fleet.directory.daemon.freeze().await;
    simulate_delay(TOLERANCE + Duration::from_secs(3)).await;
    fleet.directory.daemon.thaw();
    fleet.fleet.await_present(&NAMES).await;
    assert_eq!(fleet.alarms().await, []);
}

/// The time at which the directory receives something counts, not the time that the node's clock shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_5_node_with_a_wrong_clock_is_not_hidden() {
    let fleet = LivenessFleet::start().await;
    let hours = 5 * 3_600_000;
    for (name, clock) in [("past.acme.net", now() - hours), ("future.acme.net", now() + hours)] {
        let signer = fleet.fleet.organisation.node(name);
        let bus = connect(&fleet.fleet.server, &signer).await;
        let bucket = bus.bucket(NODES_BUCKET.name);
        let write = async |time: u64, tier: &str| {
            let content = NodeContent {
                version: "0.1.0".to_owned(),
                collectives: vec![SubjectName::parse("muster").unwrap()],
                facts: NodeFacts::from_value(json!({"tier": tier})).unwrap(),
                heartbeat_seconds: 1,
                ..NodeContent::default()
            };
            let record = NodeRecord::new(signer.identity().clone(), time, &content, &content);
            let sealed = sign_envelope(EnvelopeKind::Record, &record.unwrap(), &signer).unwrap();
            bucket.put(name, Bytes::from(sealed)).await.unwrap();
        };
        write(clock, "first").await;
        let heartbeat = NodeHeartbeat {
            sender: signer.identity().clone(),
            time: clock,
            digest: String::new(),
            boot: Uuid::now_v7(),
        };
        let sealed = sign_envelope(EnvelopeKind::Heartbeat, &heartbeat, &signer).unwrap();
        bus.publish(&subject::heartbeat(name), Bytes::from(sealed)).await.unwrap();
        let filter = ["nodes", "-o", "name", "-Q"];
        let await_tier = async |tier: &str| {
            let query = format!("{{ identity: '{name}', 'facts.tier': '{tier}' }}");
            poll_until_ok(&query, Duration::from_secs(20), async || {
                let output = fleet.fleet.rpc.run(&[&filter[..], &[&query]].concat()).await;
                if lines(&output.stdout) == [name] { Ok(()) } else { Err(describe_output(&output)) }
            })
            .await;
        };
        await_tier("first").await;
        // The clock is corrected.
        write(now(), "second").await;
        await_tier("second").await;
        // Each record has the time at which the directory saw the node, by the directory's clock.
        let (document, _) = fleet.fleet.rpc.run_json(&["node", name]).await;
        let last_seen = document["node"]["last_seen"].as_u64().unwrap();
        assert!(now().abs_diff(last_seen) < 60_000, "{document:#}");
    }
}

/// A record is written again when the node has a newer token, although nothing else has changed: the older token expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_is_signed_again_with_a_newer_token() {
    let fleet = LivenessFleet::start().await.fleet;
    let name = "db7.acme.net";
    let signer = fleet.organisation.node(name);
    let bucket = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = bucket.bucket(NODES_BUCKET.name);
    let await_token = async |token: &str| {
        poll_until_ok("the record has the token", Duration::from_secs(20), async || {
            let entry = bucket.get(name).await.unwrap();
            let value = entry.and_then(|entry| entry.value).unwrap_or_default();
            let record = String::from_utf8_lossy(&value).into_owned();
            if record.contains(token) { Ok(()) } else { Err(record) }
        })
        .await;
    };
    let mut daemon = fleet.node_home(&signer, "{}", "").start();
    await_token(&signer.token()).await;
    daemon.kill_and_wait();

    let account = fleet.organisation.trust().account_key();
    let role_key = fleet.organisation.role_key(UserRole::Node);
    let newer =
        issue_node_token(signer.identity(), signer.public_key(), account, None, role_key, now());
    let creds = UserCredentials::new(&newer.unwrap(), signer.key_pair().clone()).unwrap();
    let newer = Signer::new(creds).unwrap();
    assert_ne!(signer.token(), newer.token());
    let _daemon = fleet.node_home(&newer, "{}", "").start();
    await_token(&newer.token()).await;
}

/// Run by `make test-all`.
mod long {
    use super::{DirectoryFixture, Duration, LivenessFleet, NAMES, simulate_delay};

    /// With the default grace: nodes connect again some seconds after the directory does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a4_9_outage_of_the_broker_raises_no_alarm() {
        let start_directory =
            |fleet: &DirectoryFixture| fleet.start_directory("dir1.acme.net", "directory1");
        let mut fleet = LivenessFleet::start_with(start_directory).await;
        fleet.fleet.server.kill();
        simulate_delay(Duration::from_secs(35)).await;
        fleet.fleet.server.revive().await;
        fleet.fleet.await_present(&NAMES).await;
        assert_eq!(fleet.missing().await, [""; 0]);
        assert_eq!(fleet.alarms().await, []);
    }
}
