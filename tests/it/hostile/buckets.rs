//! A stolen node key in the buckets: it writes its own keys, within their limits, and nothing that it writes changes what others read.

use std::time::Duration;

use muster_bus::{Bucket, Bus};
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_wire::stores::{ALL_BUCKETS, BucketDefinition, PERMITS_BUCKET};

use super::actors::Scene;

const CLAIM: &str = "$KV.PERMITS.claim.1.stolen.example.net";
const WITHIN: Duration = Duration::from_secs(10);

/// Publishes, and gives what the broker answers.
async fn answer(
    client: &mut RawNats,
    reply: &str,
    subject: &str,
    headers: &str,
    value: &str,
) -> String {
    client.publish(subject, reply, headers, value).await;
    let mut found = Vec::new();
    poll_until_ok("the broker answers", WITHIN, async || {
        found.extend(client.sync().await.messages);
        let own = found.iter().find(|(to, _)| to == reply);
        own.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).ok_or(())
    })
    .await
}

async fn honest(scene: &Scene) -> (Bus, Bucket) {
    let bus = connect(&scene.server, &scene.node).await;
    let bucket = bus.bucket(PERMITS_BUCKET.name);
    bucket.put("claim.1.web1.example.net", "honest".into()).await.unwrap();
    (bus, bucket)
}

/// The broker keeps the number of a node's keys, the size of each, and the other nodes' keys.
#[tokio::test]
async fn a_node_has_few_small_keys_and_rolls_up_nothing() {
    let scene = Scene::new().await;
    let (_bus, bucket) = honest(&scene).await;
    let thief = scene.thief("node");
    let mut client = RawNats::connect(&scene.server, &thief.signer).await;
    let inbox = format!("_INBOX.{}.x", thief.signer.public_key());
    client.subscribe(&inbox, "").await;
    for (headers, refusal) in [
        ("Nats-Rollup: all", "rollup not permitted"),
        ("Nats-Rollup: sub", "rollup not permitted"),
        ("Nats-TTL: 1s", "ttl"),
        ("Nats-Schedule: @every 1s", "schedul"),
        ("Nats-Incr: 1", "counter"),
        ("Nats-Batch-Id: x", "publish is disabled"),
    ] {
        let said = answer(&mut client, &inbox, CLAIM, headers, "{}").await;
        assert!(said.to_lowercase().contains(refusal), "{headers}: {said}");
        client.sync().await;
    }
    let large = "x".repeat(PERMITS_BUCKET.max_value_bytes as usize + 1);
    let said = answer(&mut client, &inbox, CLAIM, "", &large).await;
    assert!(said.contains("message size exceeds maximum"), "{said}");
    let keys = thief.publish.iter().filter(|line| line.starts_with("$KV.PERMITS.")).count();
    assert_eq!(keys, 12, "what one node can write at most");
    let kept = bucket.list("claim.1.web1.example.net").await.unwrap();
    let values: Vec<_> = kept.into_iter().filter_map(|entry| entry.value).collect();
    assert_eq!(values, ["honest"]);
}

/// A writer can send the headers that the broker adds to a stored message. Such a value says nothing, and hides no other.
#[tokio::test]
async fn forged_headers_say_nothing_and_hide_nothing() {
    let scene = Scene::new().await;
    let (_bus, bucket) = honest(&scene).await;
    let mut watch = bucket.watch(">").await.unwrap();
    watch.next().await.unwrap().unwrap();
    let thief = scene.thief("node");
    let mut client = RawNats::connect(&scene.server, &thief.signer).await;
    let inbox = format!("_INBOX.{}.x", thief.signer.public_key());
    client.subscribe(&inbox, "").await;
    for headers in [
        "Nats-Sequence: 1",
        "Nats-Subject: $KV.PERMITS.claim.1.web1.example.net",
        "Nats-Time-Stamp: 2001-01-01T00:00:00Z",
        "Nats-Stream: KV_PROVISION",
        "Nats-Num-Pending: 0",
        "Status: 204",
    ] {
        let said = answer(&mut client, &inbox, CLAIM, headers, "forged").await;
        assert!(said.contains("\"seq\""), "{said}");
        client.sync().await;
        bucket.put("claim.2.web1.example.net", headers.into()).await.unwrap();
        let listed = bucket.list(">").await.unwrap();
        let of = |key: &str| listed.iter().find(|entry| entry.key == key);
        let honest = of("claim.1.web1.example.net").unwrap();
        assert_eq!(
            (honest.value.as_deref(), honest.revision),
            (Some(&b"honest"[..]), 1),
            "{headers}"
        );
        let last = of("claim.2.web1.example.net").expect("an entry after the forged one is listed");
        assert_eq!(last.value.as_deref(), Some(headers.as_bytes()));
        // Who follows sees the honest write that came after it, too.
        loop {
            let entry = watch.next().await.unwrap().unwrap();
            assert_ne!(entry.key, "claim.1.web1.example.net", "{headers}");
            if entry.value.as_deref() == Some(headers.as_bytes()) {
                break;
            }
        }
    }
}

/// A read has a reply subject that the reader chooses, so a thief can have its own stored value sent to any subject. Who follows a bucket
/// does not take it for a change of another key.
#[tokio::test]
async fn a_value_that_is_reflected_to_another_key_is_not_believed() {
    let scene = Scene::new().await;
    let (_bus, bucket) = honest(&scene).await;
    let mut watch = bucket.watch(">").await.unwrap();
    watch.next().await.unwrap().unwrap();
    let thief = scene.thief("node");
    let mut client = RawNats::connect(&scene.server, &thief.signer).await;
    let inbox = format!("_INBOX.{}.x", thief.signer.public_key());
    client.subscribe(&inbox, "").await;
    answer(&mut client, &inbox, CLAIM, "", "reflected").await;
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

/// A watch of a whole bucket misses nothing, even if republished changes are lost: here by a connection that is cut again and again.
#[tokio::test]
async fn a_watch_hands_out_every_last_value_in_order() {
    let scene = Scene::new().await;
    let (_bus, bucket) = honest(&scene).await;
    let reader = connect(&scene.server, &scene.service).await;
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

/// Buckets that an earlier version made get the rules of this one.
#[tokio::test]
async fn push_repairs_the_buckets_of_earlier_versions() {
    let scene = Scene::new().await;
    let everything = connect(&scene.server, &scene.organisation.unrestricted_user("old")).await;
    for BucketDefinition { name, .. } in ALL_BUCKETS {
        everything.request(&format!("$JS.API.STREAM.DELETE.KV_{name}"), "".into()).await.unwrap();
        // As the client library makes a bucket.
        let old = serde_json::json!({
            "name": format!("KV_{name}"), "subjects": [format!("$KV.{name}.>")], "max_msgs_per_subject": 1,
            "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
            "storage": "file", "num_replicas": 1, "retention": "limits", "max_consumers": -1,
            "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": 524_288,
        });
        let made = everything
            .request(&format!("$JS.API.STREAM.CREATE.KV_{name}"), old.to_string().into())
            .await
            .unwrap();
        assert!(!String::from_utf8_lossy(made.payload()).contains("error"), "{made:?}");
    }
    let kept = everything.bucket("PROVISION");
    kept.put("node.web1", "kept".into()).await.unwrap();
    scene.organisation.declare_stores(&scene.server, 1).await;
    for store in ALL_BUCKETS {
        let info = everything
            .request(&format!("$JS.API.STREAM.INFO.KV_{}", store.name), "".into())
            .await
            .unwrap();
        let info: serde_json::Value = serde_json::from_slice(info.payload()).unwrap();
        let config = &info["config"];
        assert_eq!(config["allow_rollup_hdrs"], false, "{config}");
        assert_eq!(config["deny_purge"], true, "{config}");
        assert_eq!(config["max_msg_size"], store.max_value_bytes, "{config}");
        assert_eq!(config["max_bytes"], store.max_bytes, "{config}");
        assert_eq!(config["republish"]["dest"], format!("_W.{}.>", store.name), "{config}");
    }
    let value = kept.get("node.web1").await.unwrap().unwrap().value.unwrap();
    assert_eq!(value, "kept", "what was in it stays");
}
