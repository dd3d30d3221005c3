//! Records that the directory must not believe. The attacker's connection may write any key, as one who controls the broker can.

use std::time::Duration;

use data_encoding::BASE64_NOPAD;
use muster_bus::{Bucket, Bytes};
use muster_calls::Client;
use muster_contract::directory::{DirectoryShow, DirectoryShowInput};
use muster_filter::state::NodeFacts;
use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_tests::{now, poll_until_ok};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::node_record::{NodeContent, NodeRecord};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::NODES_BUCKET;
use serde_json::{Value, json};

use super::fixture::{ANSWER_TIMEOUT, DirectoryFixture, FleetNode, lines, read_status};

const VICTIM: &str = "db1.acme.net";

struct HostileFleet {
    fleet: DirectoryFixture,
    victim: FleetNode,
    _directory: FleetNode,
    client: Client,
    /// The bucket, through the attacker's connection.
    bucket: Bucket,
}

impl HostileFleet {
    async fn start() -> Self {
        let fleet = DirectoryFixture::start().await;
        let directory = fleet.start_directory("dir1.acme.net", "directory1");
        let signer = fleet.organisation.node(VICTIM);
        let home = fleet.node_home(&signer, r#"{"tier": "test"}"#, "common\n");
        // A node looks after its record every ten heartbeats, and writes it again if it was replaced.
        let rarely = "[registration]\nheartbeat_seconds = 60\n";
        home.write("conf.d/registration.toml", rarely, 0o644);
        let victim = FleetNode { signer, daemon: home.start() };
        fleet.await_present(&[VICTIM, "dir1.acme.net"]).await;
        let client = fleet.client().await;
        let bus = connect(&fleet.server, &fleet.organisation.unrestricted_user("attacker")).await;
        let bucket = bus.bucket(NODES_BUCKET.name);
        Self { fleet, victim, _directory: directory, client, bucket }
    }

    /// What the directory says of the victim, apart from times.
    async fn victim_document(&self) -> Value {
        let show = DirectoryShowInput { node: VICTIM.to_owned(), record: None };
        let told = self.client.query_directory::<DirectoryShow>(&show, ANSWER_TIMEOUT).await;
        let told = serde_json::to_value(told.unwrap()).unwrap();
        json!([
            told["facts"],
            told["classes"],
            told["agents"],
            told["record_time"],
            told["revision"]
        ])
    }

    /// Writes a value under a name, and waits until the directory has refused it; its answers must not change.
    async fn write_refused(&self, what: &str, key: &str, value: Vec<u8>) {
        let before = self.victim_document().await;
        let (names, refused) = (self.names().await, read_status(&self.client).await.refused);
        self.bucket.put_unconfirmed(key, Bytes::from(value)).await.unwrap();
        poll_until_ok(&format!("{what} is refused"), Duration::from_secs(20), async || {
            match read_status(&self.client).await.refused {
                count if count == refused + 1 => Ok(()),
                count => Err(count),
            }
        })
        .await;
        assert_eq!(self.victim_document().await, before, "{what}");
        assert_eq!(self.names().await, names, "{what}");
    }

    async fn names(&self) -> Vec<String> {
        let output = self.fleet.rpc.run(&["nodes", "-o", "name", "--stale"]).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        lines(&output.stdout)
    }
}

fn content(tier: &str) -> NodeContent {
    NodeContent {
        version: "0.1.0".to_owned(),
        collectives: vec![SubjectName::parse("muster").unwrap()],
        facts: NodeFacts::from_value(json!({"tier": tier})).unwrap(),
        heartbeat_seconds: 1,
        ..NodeContent::default()
    }
}

fn record(sender: &Identity, time: u64, tier: &str) -> NodeRecord {
    NodeRecord::new(sender.clone(), time, &content(tier), &content(tier)).unwrap()
}

fn sign(record: &NodeRecord, signer: &Signer) -> Vec<u8> {
    sign_envelope(EnvelopeKind::Record, record, signer).unwrap()
}

/// The content of a record that is 6 MB of spaces after decompression, in 39 KB.
fn deflate_bomb() -> String {
    // A stored block cannot be small; a fixed Huffman block with one literal and many repetitions can.
    let mut bits = BitWriter::default();
    bits.push(0b1, 1);
    bits.push(0b01, 2);
    // The literal 0x20 in the fixed code: 8 bits, 0x30 + 0x20, most significant bit first.
    bits.push_reversed(0x30 + 0x20, 8);
    for _ in 0..24_000 {
        // Length 258 is symbol 285, code 11000101; distance 1 is code 00000.
        bits.push_reversed(0b1100_0101, 8);
        bits.push(0, 5);
    }
    bits.push(0, 7);
    BASE64_NOPAD.encode(&bits.finish())
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    used: usize,
}

impl BitWriter {
    fn push(&mut self, value: u32, count: usize) {
        for bit in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let is_set = (value >> bit) & 1 == 1;
            if let Some(last) = self.bytes.last_mut() {
                *last |= u8::from(is_set) << (self.used % 8);
            }
            self.used += 1;
        }
    }

    fn push_reversed(&mut self, value: u32, count: usize) {
        (0..count).rev().for_each(|bit| self.push((value >> bit) & 1, 1));
    }

    fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_7_records_of_others_and_old_records_change_nothing_and_are_counted() {
    let fleet = HostileFleet::start().await;
    let other = fleet.fleet.organisation.node("db2.acme.net");
    let victim = fleet.victim.signer.identity();
    let later = now() + 1000;

    let forged = sign(&record(victim, later, "forged"), &other);
    fleet.write_refused("a record of the victim, signed by another node", VICTIM, forged).await;
    let foreign = sign(&record(other.identity(), later, "foreign"), &other);
    fleet.write_refused("a record of another node under the victim's name", VICTIM, foreign).await;
    let unknown = sign(&record(other.identity(), later, "unknown"), &other);
    fleet.write_refused("a record under an unknown name", "db3.acme.net", unknown).await;
    let caller = &fleet.fleet.caller;
    let by_caller = sign(&record(caller.identity(), later, "caller"), caller);
    fleet.write_refused("a record of a caller", "rip", by_caller).await;
    let older = sign(&record(victim, now() - 3_600_000, "older"), &fleet.victim.signer);
    fleet.write_refused("an older record of the victim itself", VICTIM, older).await;
    let mut changed = sign(&record(victim, later, "changed"), &fleet.victim.signer);
    let at = changed.iter().rposition(|byte| *byte == b'd').unwrap();
    changed[at] = b'e';
    fleet.write_refused("a record with a changed byte", VICTIM, changed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_7_garbage_and_bombs_change_nothing_and_are_counted() {
    let fleet = HostileFleet::start().await;
    let victim = &fleet.victim.signer;
    let later = now() + 1000;
    fleet.write_refused("garbage", VICTIM, vec![0xff, 0, b'{']).await;
    fleet.write_refused("an empty value", VICTIM, Vec::new()).await;
    fleet.write_refused("garbage under an unknown name", "db9.acme.net", b"{}".to_vec()).await;
    let bomb = NodeRecord { content: deflate_bomb(), ..record(victim.identity(), later, "bomb") };
    fleet.write_refused("a deflate bomb", VICTIM, sign(&bomb, victim)).await;
    for content in ["AAAA", "!", ""] {
        let record =
            NodeRecord { content: content.to_owned(), ..record(victim.identity(), later, "") };
        fleet.write_refused("a content that is none", VICTIM, sign(&record, victim)).await;
    }
    let list = json!({"sender": VICTIM, "time": later, "digest": "", "content": ["a"]});
    let signed = sign_envelope(EnvelopeKind::Record, &list, victim).unwrap();
    fleet.write_refused("a body of another form", VICTIM, signed).await;
}

/// A record that was replaced is written again, by one who recorded it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_7_replayed_record_does_not_replace_a_newer_one() {
    let fleet = HostileFleet::start().await;
    let recorded = fleet.bucket.get(VICTIM).await.unwrap().and_then(|entry| entry.value).unwrap();
    fleet.victim.daemon.home().write("facts.d/site.json", r#"{"tier": "production"}"#, 0o644);
    fleet.victim.reload();
    poll_until_ok("the change is known", Duration::from_mins(1), async || {
        let document = fleet.victim_document().await;
        if document[0]["tier"] == "production" { Ok(()) } else { Err(document) }
    })
    .await;
    fleet.write_refused("a replayed record", VICTIM, recorded.to_vec()).await;
}

/// A node may delete its own key, as the broker cannot forbid it. It stays known with what it said last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_7_node_that_deletes_its_record_stays_known() {
    let fleet = HostileFleet::start().await;
    let before = fleet.victim_document().await;
    let bus = connect(&fleet.fleet.server, &fleet.victim.signer).await;
    bus.bucket(NODES_BUCKET.name).delete(VICTIM).await.unwrap();
    let marker = fleet.fleet.start_node("marker.acme.net", "{}", "");
    // The marker's record was stored after the deletion, so the directory has seen both.
    fleet.fleet.await_present(&[VICTIM, "dir1.acme.net", "marker.acme.net"]).await;
    assert_eq!(fleet.victim_document().await, before);
    drop(marker);
}

/// The records of a revoked node are dropped, also one that the node has deleted or that was overwritten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_7_revoked_nodes_disappear() {
    let mut fleet = HostileFleet::start().await;
    let deleted = fleet.fleet.start_node("db2.acme.net", "{}", "");
    let overwritten = fleet.fleet.start_node("db3.acme.net", "{}", "");
    let kept = ["db1.acme.net", "db2.acme.net", "db3.acme.net", "dir1.acme.net"];
    fleet.fleet.await_present(&kept).await;
    fleet.bucket.delete("db2.acme.net").await.unwrap();
    fleet.write_refused("garbage", "db3.acme.net", b"garbage".to_vec()).await;
    let revoked = [fleet.victim.signer.clone(), deleted.signer, overwritten.signer];
    let mut token = String::new();
    for signer in &revoked {
        token = fleet.fleet.organisation.revoke_user(signer);
    }
    fleet.fleet.organisation.push_account(&fleet.fleet.server, &token).await;
    fleet.fleet.organisation.publish_account(&fleet.fleet.server, &token).await;
    poll_until_ok("revoked nodes are gone", Duration::from_mins(1), async || {
        match fleet.names().await {
            names if names == ["dir1.acme.net"] => Ok(()),
            names => Err(names),
        }
    })
    .await;
}

/// Run by `make test-all`.
mod long {
    use super::{
        ANSWER_TIMEOUT, DirectoryFixture, NODES_BUCKET, connect, describe_output, lines,
        poll_until_ok,
    };

    /// Who can delete the bucket hides no node: instances keep what they know, nodes write their records again, and instances follow the new bucket.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn deleted_bucket_hides_no_node_and_is_filled_again() {
        const NAMES: [&str; 3] = ["db1.acme.net", "dir1.acme.net", "dir2.acme.net"];
        let fleet = DirectoryFixture::start().await;
        let mut first = fleet.start_directory(NAMES[1], "directory1");
        let node = fleet.start_node(NAMES[0], r#"{"tier": "test"}"#, "");
        fleet.await_present(&NAMES[..2]).await;
        let attacker = fleet.organisation.administrator();
        let bus = connect(&fleet.server, &attacker).await;
        let bucket = bus.bucket(NODES_BUCKET.name);
        let delete_bucket = async || {
            let deleted = bus.request("$JS.API.STREAM.DELETE.KV_NODES", "".into()).await.unwrap();
            let answer = String::from_utf8_lossy(deleted.payload()).into_owned();
            assert!(answer.contains("\"success\":true"), "{answer}");
        };
        delete_bucket().await;
        fleet.organisation.declare_stores(&fleet.server, 1).await;
        for name in &NAMES[..2] {
            poll_until_ok("the record is written again", ANSWER_TIMEOUT, async || {
                bucket.get(name).await.unwrap().ok_or(name)
            })
            .await;
        }

        // An instance that knows only the new bucket, and later one that has seen two buckets.
        let _second = fleet.start_directory(NAMES[2], "directory2");
        first.daemon.kill_and_wait();
        fleet.await_rows("the records are read", &NAMES, |_| true).await;
        first.daemon = first.daemon.home().clone().start();
        fleet.await_present(&NAMES).await;
        delete_bucket().await;
        fleet.organisation.declare_stores(&fleet.server, 1).await;
        node.daemon.home().write("facts.d/site.json", r#"{"tier": "production"}"#, 0o644);
        node.reload();
        poll_until_ok("both instances know the change", ANSWER_TIMEOUT, async || {
            for _ in 0..10 {
                let query = ["find", "--dm", "directory", "-F", "tier=production"];
                let output = fleet.rpc.run(&query).await;
                if lines(&output.stdout) != [NAMES[0]] {
                    return Err(describe_output(&output));
                }
            }
            Ok(())
        })
        .await;
        delete_bucket().await;
        fleet.await_present(&NAMES).await;
    }
}
