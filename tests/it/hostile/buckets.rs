//! A stolen node key in the buckets: it can write its own keys, within their limits, and its writes do not change what
//! others read.

use std::time::Duration;

use muster_bus::{Bucket, Bus};
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_wire::stored_request::RequestReference;
use muster_wire::stores::{ALL_BUCKETS, BucketDefinition, PERMITS_BUCKET, REQUESTS_BUCKET};

use super::fixture::AttackFixture;

const CLAIM: &str = "$KV.PERMITS.claim.1.stolen.example.net";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes, and returns the broker's answer.
async fn publish_and_wait(
    client: &mut RawNats,
    reply: &str,
    subject: &str,
    headers: &str,
    value: &str,
) -> String {
    client.publish(subject, reply, headers, value).await;
    let mut found = Vec::new();
    poll_until_ok("the broker answers", ANSWER_TIMEOUT, async || {
        found.extend(client.sync().await.messages);
        let own = found.iter().find(|(to, _)| to == reply);
        own.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).ok_or(())
    })
    .await
}

async fn write_honest_claim(fixture: &AttackFixture) -> (Bus, Bucket) {
    let bus = connect(&fixture.server, &fixture.node).await;
    let bucket = bus.bucket(PERMITS_BUCKET.name);
    bucket.put("claim.1.web1.example.net", "honest".into()).await.unwrap();
    (bus, bucket)
}

/// The broker limits the number of a node's keys and the size of each, and protects the keys of other nodes.
#[tokio::test]
async fn node_has_few_small_keys_and_cannot_roll_up() {
    let fixture = AttackFixture::new().await;
    let (_bus, bucket) = write_honest_claim(&fixture).await;
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let inbox = format!("_INBOX.{}.x", attacker.signer.public_key());
    client.subscribe(&inbox, "").await;
    for (headers, refusal) in [
        ("Nats-Rollup: all", "rollup not permitted"),
        ("Nats-Rollup: sub", "rollup not permitted"),
        ("Nats-TTL: 1s", "ttl"),
        ("Nats-Schedule: @every 1s", "schedul"),
        ("Nats-Incr: 1", "counter"),
        ("Nats-Batch-Id: x", "publish is disabled"),
    ] {
        let response = publish_and_wait(&mut client, &inbox, CLAIM, headers, "{}").await;
        assert!(response.to_lowercase().contains(refusal), "{headers}: {response}");
        client.sync().await;
    }
    let large = "x".repeat(PERMITS_BUCKET.max_value_bytes as usize + 1);
    let response = publish_and_wait(&mut client, &inbox, CLAIM, "", &large).await;
    assert!(response.contains("message size exceeds maximum"), "{response}");
    let keys = attacker.publish.iter().filter(|line| line.starts_with("$KV.PERMITS.")).count();
    assert_eq!(keys, 12, "the maximum number of keys of one node");
    let entries = bucket.list("claim.1.web1.example.net").await.unwrap();
    let values: Vec<_> = entries.into_iter().filter_map(|entry| entry.value).collect();
    assert_eq!(values, ["honest"]);
}

/// A writer can send the headers that the broker adds to stored messages. Such an entry has no effect and hides no
/// other.
#[tokio::test]
async fn forged_headers_have_no_effect() {
    let fixture = AttackFixture::new().await;
    let (_bus, bucket) = write_honest_claim(&fixture).await;
    let mut watch = bucket.watch(">").await.unwrap();
    watch.next().await.unwrap().unwrap();
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let inbox = format!("_INBOX.{}.x", attacker.signer.public_key());
    client.subscribe(&inbox, "").await;
    for headers in [
        "Nats-Sequence: 1",
        "Nats-Subject: $KV.PERMITS.claim.1.web1.example.net",
        "Nats-Time-Stamp: 2001-01-01T00:00:00Z",
        "Nats-Stream: KV_PROVISION",
        "Nats-Num-Pending: 0",
        "Status: 204",
    ] {
        let response = publish_and_wait(&mut client, &inbox, CLAIM, headers, "forged").await;
        assert!(response.contains("\"seq\""), "{response}");
        client.sync().await;
        bucket.put("claim.2.web1.example.net", headers.into()).await.unwrap();
        let listed = bucket.list(">").await.unwrap();
        let find = |key: &str| listed.iter().find(|entry| entry.key == key);
        let honest = find("claim.1.web1.example.net").unwrap();
        assert_eq!(
            (honest.value.as_deref(), honest.revision),
            (Some(&b"honest"[..]), 1),
            "{headers}"
        );
        let last =
            find("claim.2.web1.example.net").expect("an entry after the forged one is listed");
        assert_eq!(last.value.as_deref(), Some(headers.as_bytes()));
        // A watch receives the honest write after the forged one.
        loop {
            let entry = watch.next().await.unwrap().unwrap();
            assert_ne!(entry.key, "claim.1.web1.example.net", "{headers}");
            if entry.value.as_deref() == Some(headers.as_bytes()) {
                break;
            }
        }
    }
}

/// A read has a reply subject of the reader's choice, so an attacker can direct its own stored value to any subject. A
/// watch does not accept it as a change of another key.
#[tokio::test]
async fn value_reflected_to_another_key_is_ignored() {
    let fixture = AttackFixture::new().await;
    let (_bus, bucket) = write_honest_claim(&fixture).await;
    let mut watch = bucket.watch(">").await.unwrap();
    watch.next().await.unwrap().unwrap();
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let inbox = format!("_INBOX.{}.x", attacker.signer.public_key());
    client.subscribe(&inbox, "").await;
    publish_and_wait(&mut client, &inbox, CLAIM, "", "reflected").await;
    let read = r#"{"seq":1,"batch":9,"next_by_subj":"$KV.PERMITS.claim.1.stolen.example.net"}"#;
    let other = "_W.PERMITS.claim.1.web1.example.net";
    client.publish("$JS.API.DIRECT.GET.KV_PERMITS", other, "", read).await;
    client.sync().await;
    bucket.put("beat.1.web1.example.net", "end".into()).await.unwrap();
    loop {
        let entry = watch.next().await.unwrap().unwrap();
        assert_ne!(entry.key, "claim.1.web1.example.net", "{entry:?}");
        if entry.value.as_deref() == Some(&b"end"[..]) {
            return;
        }
    }
}

/// A watch of a bucket misses no value even if the broker's republished changes are lost.
#[tokio::test]
async fn watch_returns_the_last_values_in_order() {
    let fixture = AttackFixture::new().await;
    let (_bus, bucket) = write_honest_claim(&fixture).await;
    let reader = connect(&fixture.server, &fixture.service).await;
    let mut watch = reader.bucket(PERMITS_BUCKET.name).watch(">").await.unwrap();
    for number in 0..500_u32 {
        bucket.put("beat.1.web1.example.net", number.to_string().into()).await.unwrap();
    }
    let mut last = 0;
    loop {
        let entry = watch.next().await.unwrap().unwrap();
        assert!(entry.revision > last, "{entry:?} after {last}");
        last = entry.revision;
        if entry.value.as_deref() == Some(&b"499"[..]) {
            return;
        }
    }
}

/// Buckets of earlier versions get the limits of this version.
#[tokio::test]
async fn push_updates_the_buckets_of_earlier_versions() {
    let fixture = AttackFixture::new().await;
    let everything = connect(&fixture.server, &fixture.organisation.administrator()).await;
    for BucketDefinition { name, .. } in ALL_BUCKETS {
        everything.request(&format!("$JS.API.STREAM.DELETE.KV_{name}"), "".into()).await.unwrap();
        // The configuration that the client library uses by default.
        let old = serde_json::json!({
            "name": format!("KV_{name}"), "subjects": [format!("$KV.{name}.>")], "max_msgs_per_subject": 1,
            "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
            "storage": "file", "num_replicas": 1, "retention": "limits", "max_consumers": -1,
            "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": 524_288,
        });
        let created = everything
            .request(&format!("$JS.API.STREAM.CREATE.KV_{name}"), old.to_string().into())
            .await
            .unwrap();
        assert!(!String::from_utf8_lossy(created.payload()).contains("error"), "{created:?}");
    }
    let entries = everything.bucket("PROVISION");
    entries.put("node.web1", "kept".into()).await.unwrap();
    fixture.organisation.declare_stores(&fixture.server, 1).await;
    for store in ALL_BUCKETS {
        let info = everything
            .request(&format!("$JS.API.STREAM.INFO.KV_{}", store.name), "".into())
            .await
            .unwrap();
        let info: serde_json::Value = serde_json::from_slice(info.payload()).unwrap();
        let config = &info["config"];
        assert_eq!(config["allow_rollup_hdrs"], false, "{config}");
        assert_eq!(config["deny_purge"], true, "{config}");
        // 100 ms, the shortest window that the broker accepts.
        assert_eq!(config["duplicate_window"], 100_000_000, "{config}");
        assert_eq!(config["max_msg_size"], store.max_value_bytes, "{config}");
        let max_bytes = store.max_bytes.cast_signed();
        assert_eq!(config["max_bytes"], max_bytes, "{config}");
        assert_eq!(config["republish"]["dest"], format!("_W.{}.>", store.name), "{config}");
    }
    let value = entries.get("node.web1").await.unwrap().unwrap().value.unwrap();
    assert_eq!(value, "kept", "the contents must be kept");
}

/// A node may read the bucket of requests, which a subject with wildcards extends to all of them. Without their references they are useless, and
/// it cannot write there.
#[tokio::test]
async fn stolen_node_reads_requests_to_others_only_encrypted() {
    let fixture = AttackFixture::new().await;
    let caller = connect(&fixture.server, &fixture.organisation.caller("rip")).await;
    let reference = RequestReference::generate().unwrap();
    let request = br#"{"secret":"request to web1"}"#;
    let stored = reference.encrypt_request(request).unwrap();
    let bucket = caller.bucket(REQUESTS_BUCKET.name);
    bucket.put_once(&reference.bucket_key(), stored.clone().into()).await.unwrap();
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let inbox = format!("_INBOX.{}.x", attacker.signer.public_key());
    client.subscribe(&inbox, "").await;
    let any_request = "$JS.API.DIRECT.GET.KV_REQUESTS.$KV.REQUESTS.*";
    client.publish(any_request, &inbox, "", "").await;
    let mut found = Vec::new();
    poll_until_ok("the broker answers", ANSWER_TIMEOUT, async || {
        found.extend(client.sync().await.messages);
        if found.is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    let (_, message) = &found[0];
    assert!(message.windows(stored.len()).any(|part| part == stored), "{message:?}");
    let node = connect(&fixture.server, &attacker.signer).await;
    let refusal = node.bucket(REQUESTS_BUCKET.name).put_once("x", "y".into()).await.unwrap_err();
    assert!(refusal.to_string().contains("no permission to publish"), "{refusal}");
    let refusal = node.bucket(REQUESTS_BUCKET.name).list(">").await.unwrap_err();
    assert!(refusal.to_string().contains("no permission to publish"), "{refusal}");
}
