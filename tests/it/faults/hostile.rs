//! Ten thousand messages of somebody who has the broker, or a caller's key, and wishes a node ill: damaged, swapped, cut, huge, and well signed
//! nonsense, on every subject that a node hears.

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

use super::rig::{NODE, Rig};
use super::{BACK, note};

const MESSAGES: u64 = 10_000;
/// Sent before the node is asked how it is: fewer than it holds while it works.
const AT_ONCE: u64 = 100;
/// What a daemon may have more of after ten thousand of them: its bounded memory of what was seen, and what its allocator keeps.
const GROWTH_KIB: u64 = 8 * 1024;

/// What messages are made of.
struct Seeds {
    /// Whole ones, which mutation begins with.
    bytes: Vec<Vec<u8>>,
    /// Requests, to be changed and then signed as they are.
    requests: Vec<Value>,
    subjects: Vec<String>,
}

impl Seeds {
    fn new(rig: &Rig) -> Self {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden");
        let mut files: Vec<_> =
            std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes: Vec<Vec<u8>> =
            files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        let ping = rig.other.request();
        let request = serde_json::to_value(&ping).unwrap();
        bytes.push(rig.other.sign_request(&ping).to_vec());
        bytes.push(rig.organisation.account_token().into_bytes());
        bytes.push(rig.signer.token().as_bytes().to_vec());
        let of = |agent: &str, action: &str, data: Value| {
            let mut request = request.clone();
            for (key, value) in [("agent", json!(agent)), ("action", json!(action)), ("data", data)]
            {
                request.as_object_mut().unwrap().insert(key.to_owned(), value);
            }
            request
        };
        let requests = vec![
            of("rpcutil", "ping", json!({})),
            of("rpcutil", "get_fact", json!({"fact": "identity"})),
            of("rpcutil", "cancel", json!({"id": "0"})),
            of("puppetral", "find", json!({"type": "user", "name": "root"})),
            of("nobody", "knows", json!({})),
        ];
        let collective = rig.organisation.collective();
        let mut subjects = vec![subject_of_heads()];
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

    /// The next message, and where it goes.
    fn next(&self, dice: &mut StdRng, thief: &Signer) -> (String, Vec<u8>) {
        let subject = self.subjects.choose(dice).unwrap().clone();
        if dice.random_ratio(3, 10) {
            let mut request = self.requests.choose(dice).unwrap().clone();
            let fields = request.as_object_mut().unwrap();
            fields.insert("id".to_owned(), json!(Uuid::now_v7()));
            fields.insert("issued_at".to_owned(), json!(muster_tests::now()));
            // Half of them are requests in all but what they ask with, and go where they say that they go.
            let honest = dice.random_ratio(1, 2);
            if honest {
                let data = fields.get_mut("data").unwrap();
                deface(data, dice);
            } else {
                (0..dice.random_range(1..4)).for_each(|_| deface(&mut request, dice));
            }
            let word = |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
            let subject = match (honest, word("agent"), word("action")) {
                (true, Some(agent), Some(action)) => format!("muster.{agent}.{action}.all"),
                _ => subject.clone(),
            };
            if let Ok(sealed) = sign_envelope(EnvelopeKind::Request, &request, thief) {
                return (subject, sealed);
            }
        }
        let mut bytes = self.bytes.choose(dice).unwrap().clone();
        for _ in 0..dice.random_range(1..6) {
            self.damage(&mut bytes, dice);
        }
        (subject, bytes)
    }

    fn damage(&self, bytes: &mut Vec<u8>, dice: &mut StdRng) {
        let at = dice.random_range(0..=bytes.len());
        match dice.random_range(0..9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(..at)),
            2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.random_range(0..8);
                }
            }
            3 => bytes.insert(at, dice.random()),
            4 => {
                let other = self.bytes.choose(dice).unwrap();
                let from = dice.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend(other.iter().skip(from));
            }
            5 => bytes.splice(at..at, [b'['; 4000]).for_each(drop),
            6 => bytes.splice(at..at, b"{\"a\":".repeat(500)).for_each(drop),
            7 => bytes.splice(at..at, [b'9'; 400]).for_each(drop),
            _ => bytes.resize(dice.random_range(0..200_000), dice.random()),
        }
        bytes.truncate(600_000);
    }
}

/// Changes one value of a request, its times too, or of its inputs, into one that somebody might try.
fn deface(values: &mut Value, dice: &mut StdRng) {
    let Some(fields) = values.as_object_mut() else {
        return;
    };
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = names.choose(dice).cloned().unwrap_or_default();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let strange = [
        Value::Null,
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!("\u{0}\u{202e}../../etc/passwd"),
        json!("x".repeat(100_000)),
        json!({"filter": {"facts": [{"fact": "a", "operator": "=~", "value": "(a+)+$"}]}}),
        json!({"nodes": (0..3000).map(|n| format!("n{n}")).collect::<Vec<_>>()}),
        json!({"type": "exec", "name": "rm -rf /", "provider": ["shell"]}),
        deep,
    ];
    match dice.random_range(0..4) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert(format!("{name}x"), json!(true))),
        _ => drop(fields.insert(name, strange.choose(dice).unwrap().clone())),
    }
}

/// Where changes of the account token are announced: not a request, so that it is counted nowhere.
fn subject_of_heads() -> String {
    subject::bucket_changes("TRUST", "head")
}

async fn send(bus: &Bus, (subject, bytes): (String, Vec<u8>)) -> bool {
    bus.publish(&subject, Bytes::from(bytes)).await.unwrap();
    subject != subject_of_heads()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_hostile_messages_are_counted_and_change_nothing() {
    let rig = Rig::new("").await;
    let mut node = rig.start().await;
    let thief_of_the_broker =
        connect(&rig.server, &rig.organisation.unrestricted_user("thief")).await;
    let seeds = Seeds::new(&rig);
    let seed = 20_261_122;
    note(&format!("seed {seed}"));
    let mut dice = StdRng::seed_from_u64(seed);
    let thief = &rig.other.signer;
    let pid = u32::try_from(node.pid()).unwrap();
    let trust = rig.organisation.account_token();
    let mut sent = 0;
    let mut asked = 0;
    let mut warm = 0;
    for round in 0..MESSAGES / AT_ONCE {
        for _ in 0..AT_ONCE {
            let message = seeds.next(&mut dice, thief);
            if send(&thief_of_the_broker, message).await {
                sent += 1;
            }
        }
        thief_of_the_broker.confirm_delivery().await.unwrap();
        // The question comes by another subscription than what is for everybody, and may overtake it.
        poll_until_ok("all of them were looked at", BACK, async || {
            let total = rig.counted("total").await;
            asked += 1;
            (total >= sent + asked).then_some(()).ok_or((total, sent, asked))
        })
        .await;
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        if round == 9 {
            warm = anonymous_kib(pid).unwrap();
        }
    }
    let counted = async |what| rig.counted(what).await;
    let (unvalidated, validated) = (counted("unvalidated").await, counted("validated").await);
    let total = counted("total").await;
    let own = asked + 3;
    note(&format!(
        "{sent} requests and {} tokens: {unvalidated} nobody's, {} of a known key, {} of them over age",
        MESSAGES - sent,
        validated - own,
        counted("ttlexpired").await
    ));
    assert_eq!(total, sent + own, "some were not counted");
    assert!(unvalidated > sent / 2, "{unvalidated} of {sent}");
    assert!(validated > own, "none of them was well signed: the test tries too little");
    // Nothing was carried out, nobody's token was taken over, and it answers as before.
    assert_eq!(rig.effects().len(), 0);
    let kept = rig.home.path("state/account.jwt");
    assert!(!kept.exists() || std::fs::read_to_string(kept).unwrap() == trust);
    let before = warm;
    let after = anonymous_kib(pid).unwrap();
    note(&format!("{before} KiB after the first thousand, {after} KiB in the end"));
    assert!(after <= before + GROWTH_KIB, "{before} KiB, then {after} KiB");
    let log = node.log();
    assert!(!log.contains("panicked"), "{log}");
}
