//! Stolen keys that name subjects of others as reply subjects of permitted requests to stores: the broker answers there without a check of permissions.

use muster_bus::Bus;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_wire::stores::{ALL_BUCKETS, PERMITS_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use tokio::time::Duration;

use super::fixture::AttackFixture;

/// A key of another node.
const CLAIM: &str = "claim.1.web1.example.net";

/// The keys that an answer could overwrite, with their values.
async fn read_keys(administrator: &Bus) -> Vec<Option<Vec<u8>>> {
    let mut values = Vec::new();
    for (bucket, key) in [(TRUST_BUCKET.name, TRUST_ACCOUNT_KEY), (PERMITS_BUCKET.name, CLAIM)] {
        let entry = administrator.bucket(bucket).get(key).await.unwrap();
        values.push(entry.and_then(|entry| entry.value).map(|value| value.to_vec()));
    }
    values
}

#[tokio::test]
async fn answers_of_the_broker_reach_no_store() {
    let fixture = AttackFixture::new().await;
    let administrator = connect(&fixture.server, &fixture.organisation.administrator()).await;
    for (bucket, key) in [(TRUST_BUCKET.name, TRUST_ACCOUNT_KEY), (PERMITS_BUCKET.name, CLAIM)] {
        administrator.bucket(bucket).put(key, "genuine".into()).await.unwrap();
    }
    let before = read_keys(&administrator).await;
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let own = attacker.signer.identity();
    let record = format!("$KV.NODES.{own}");
    let read = format!("$JS.API.DIRECT.GET.KV_NODES.$KV.NODES.{own}");
    let missing = format!("$JS.API.DIRECT.GET.KV_TOKENS.$KV.TOKENS.{own}");
    let targets = ["$KV.TRUST.account", "$KV.PERMITS.claim.1.web1.example.net"];
    let deletions = ALL_BUCKETS.map(|store| format!("$JS.API.STREAM.DELETE.KV_{}", store.name));
    let lists = ["$JS.API.DIRECT.GET.KV_PERMITS"];
    for target in targets.into_iter().chain(deletions.iter().map(String::as_str)) {
        // A confirmation, a value that the thief chose, an empty answer, and a list.
        client.publish(&record, target, "", "chosen by the thief").await;
        client.publish(&read, target, "", "").await;
        client.publish(&missing, target, "", "").await;
        for list in lists {
            client
                .publish(list, target, "", r#"{"seq":1,"batch":9,"next_by_subj":"$KV.PERMITS.>"}"#)
                .await;
        }
    }
    assert!(client.sync().await.refusals.is_empty());
    // The broker answers the requests of a connection in their order.
    let inbox = format!("_INBOX.{}.x", attacker.signer.public_key());
    client.subscribe(&inbox, "").await;
    client.publish(&read, &inbox, "", "").await;
    poll_until_ok("the broker answers", Duration::from_secs(20), async || {
        let messages = client.sync().await.messages;
        if messages.iter().any(|(subject, _)| *subject == inbox) { Ok(()) } else { Err(messages) }
    })
    .await;
    assert_eq!(read_keys(&administrator).await, before);
    for store in ALL_BUCKETS {
        assert!(administrator.has_bucket(store.name).await.unwrap(), "{} was deleted", store.name);
    }
}
