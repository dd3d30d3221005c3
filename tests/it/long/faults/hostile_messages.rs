//! 10,000 messages of an attacker who controls the broker or has a caller's key: damaged, swapped, truncated, huge, and
//! correctly signed but invalid, on every subject that a node subscribes to.

use std::path::Path;

use muster_bus::{Bus, Bytes};
use muster_tests::memory::anonymous_kib;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::subject;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{FaultFixture, NODE};
use super::{RECOVERY_TIMEOUT, print_figures};

const MESSAGES: u64 = 10_000;
/// Messages per round; fewer than the node buffers while it works.
const ROUND_MESSAGES: u64 = 100;
/// Permitted growth of the daemon's memory after 10,000 messages: its bounded cache of seen requests, and memory that
/// its allocator keeps.
const GROWTH_KIB: u64 = 8 * 1024;

/// The material that messages are built from.
struct MessageSource {
    /// Complete messages, which mutation starts from.
    bytes: Vec<Vec<u8>>,
    /// Requests, which are modified and then signed.
    requests: Vec<Value>,
    subjects: Vec<String>,
}

impl MessageSource {
    fn new(fixture: &FaultFixture) -> Self {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden");
        let mut files: Vec<_> =
            std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes: Vec<Vec<u8>> =
            files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        let ping = fixture.other.ping_request();
        let request = serde_json::to_value(&ping).unwrap();
        bytes.push(fixture.other.sign_request(&ping).to_vec());
        bytes.push(fixture.organisation.account_token().into_bytes());
        bytes.push(fixture.signer.token().as_bytes().to_vec());
        let build = |agent: &str, action: &str, data: Value| {
            let mut request = request.clone();
            for (key, value) in [("agent", json!(agent)), ("action", json!(action)), ("data", data)]
            {
                request.as_object_mut().unwrap().insert(key.to_owned(), value);
            }
            request
        };
        let requests = vec![
            build("rpcutil", "ping", json!({})),
            build("rpcutil", "get_fact", json!({"fact": "identity"})),
            build("rpcutil", "cancel", json!({"id": "0"})),
            build("puppetral", "find", json!({"type": "user", "name": "root"})),
            build("nobody", "knows", json!({})),
        ];
        let collective = fixture.organisation.collective();
        let mut subjects = vec![announcement_subject()];
        for (agent, action) in [
            ("rpcutil", "ping"),
            ("rpcutil", "get_fact"),
            ("puppetral", "find"),
            ("tally", "strike"),
            ("x", "y"),
        ] {
            subjects.push(format!("{collective}.{agent}.{action}.all"));
            subjects.push(format!("{collective}.{agent}.{action}.node.{NODE}"));
        }
        Self { bytes, requests, subjects }
    }

    /// The next message and its subject.
    fn next_message(&self, rng: &mut StdRng, attacker: &Signer) -> (String, Vec<u8>) {
        let subject = self.subjects.choose(rng).unwrap().clone();
        if rng.random_ratio(3, 10) {
            let mut request = self.requests.choose(rng).unwrap().clone();
            let fields = request.as_object_mut().unwrap();
            fields.insert("id".to_owned(), json!(Uuid::now_v7()));
            fields.insert("issued_at".to_owned(), json!(muster_tests::now()));
            // Half of them are valid requests except for their inputs, and are sent to the matching subject.
            let valid_request = rng.random_ratio(1, 2);
            if valid_request {
                let data = fields.get_mut("data").unwrap();
                corrupt_value(data, rng);
            } else {
                (0..rng.random_range(1..4)).for_each(|_| corrupt_value(&mut request, rng));
            }
            let text_field =
                |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
            let subject = match (valid_request, text_field("agent"), text_field("action")) {
                (true, Some(agent), Some(action)) => format!("muster.{agent}.{action}.all"),
                _ => subject.clone(),
            };
            if let Ok(signed) = sign_envelope(EnvelopeKind::Request, &request, attacker) {
                return (subject, signed);
            }
        }
        let mut bytes = self.bytes.choose(rng).unwrap().clone();
        for _ in 0..rng.random_range(1..6) {
            self.damage(&mut bytes, rng);
        }
        (subject, bytes)
    }

    fn damage(&self, bytes: &mut Vec<u8>, rng: &mut StdRng) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(..at)),
            2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.random_range(0..8);
                }
            }
            3 => bytes.insert(at, rng.random()),
            4 => {
                let other = self.bytes.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend(other.iter().skip(from));
            }
            5 => bytes.splice(at..at, [b'['; 4000]).for_each(drop),
            6 => bytes.splice(at..at, b"{\"a\":".repeat(500)).for_each(drop),
            7 => bytes.splice(at..at, [b'9'; 400]).for_each(drop),
            _ => bytes.resize(rng.random_range(0..200_000), rng.random()),
        }
        bytes.truncate(600_000);
    }
}

/// Replaces or removes one value of a request or of its inputs with a hostile one.
fn corrupt_value(values: &mut Value, rng: &mut StdRng) {
    let Some(fields) = values.as_object_mut() else {
        return;
    };
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = names.choose(rng).cloned().unwrap_or_default();
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let hostile_values = [
        Value::Null,
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!("\u{0}\u{202e}../../etc/passwd"),
        json!("x".repeat(100_000)),
        json!({"filter": {"facts": [{"fact": "a", "operator": "=~", "value": "(a+)+$"}]}}),
        json!({"nodes": (0..3000).map(|n| format!("n{n}")).collect::<Vec<_>>()}),
        json!({"type": "exec", "name": "rm -rf /", "provider": ["shell"]}),
        nested,
    ];
    match rng.random_range(0..4) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert(format!("{name}x"), json!(true))),
        _ => drop(fields.insert(name, hostile_values.choose(rng).unwrap().clone())),
    }
}

/// The subject of announcements of the account token; these messages are not counted as requests.
fn announcement_subject() -> String {
    subject::bucket_changes("TRUST", "head")
}

async fn send(bus: &Bus, (subject, bytes): (String, Vec<u8>)) -> bool {
    bus.publish(&subject, Bytes::from(bytes)).await.unwrap();
    subject != announcement_subject()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_messages_are_counted_and_change_nothing() {
    let fixture = FaultFixture::new("").await;
    let mut node = fixture.start().await;
    let broker_attacker =
        connect(&fixture.server, &fixture.organisation.unrestricted_user("thief")).await;
    let source = MessageSource::new(&fixture);
    let seed = 20_261_122;
    print_figures(&format!("seed {seed}"));
    let mut rng = StdRng::seed_from_u64(seed);
    let attacker = &fixture.other.signer;
    let pid = u32::try_from(node.pid()).unwrap();
    let trust = fixture.organisation.account_token();
    let mut sent_requests = 0;
    let mut queries = 0;
    let mut warm_kib = 0;
    for round in 0..MESSAGES / ROUND_MESSAGES {
        for _ in 0..ROUND_MESSAGES {
            let message = source.next_message(&mut rng, attacker);
            if send(&broker_attacker, message).await {
                sent_requests += 1;
            }
        }
        broker_attacker.confirm_delivery().await.unwrap();
        // The query uses another subscription than broadcasts, and may be processed before them.
        poll_until_ok("all messages were processed", RECOVERY_TIMEOUT, async || {
            let total = fixture.read_counter("total").await;
            queries += 1;
            (total >= sent_requests + queries).then_some(()).ok_or((total, sent_requests, queries))
        })
        .await;
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        if round == 9 {
            warm_kib = anonymous_kib(pid).unwrap();
        }
    }
    let counted = async |what| fixture.read_counter(what).await;
    let (unvalidated, validated) = (counted("unvalidated").await, counted("validated").await);
    let total = counted("total").await;
    let own = queries + 3;
    print_figures(&format!(
        "{sent_requests} requests and {} tokens: {unvalidated} not authenticated, {} of a known key, {} of them expired",
        MESSAGES - sent_requests,
        validated - own,
        counted("ttlexpired").await
    ));
    assert_eq!(total, sent_requests + own, "some messages were not counted");
    assert!(unvalidated > sent_requests / 2, "{unvalidated} of {sent_requests}");
    assert!(validated > own, "no message was correctly signed: the test covers too little");
    // Nothing was executed, no token was applied, and the daemon still replies.
    assert_eq!(fixture.effects().len(), 0);
    let stored = fixture.home.path("state/account.jwt");
    assert!(!stored.exists() || std::fs::read_to_string(stored).unwrap() == trust);
    let before = warm_kib;
    let after = anonymous_kib(pid).unwrap();
    print_figures(&format!("{before} KiB after the first 1000, {after} KiB at the end"));
    assert!(after <= before + GROWTH_KIB, "{before} KiB, then {after} KiB");
    let log = node.log();
    assert!(!log.contains("panicked"), "{log}");
}
