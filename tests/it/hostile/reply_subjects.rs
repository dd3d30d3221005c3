//! A known fault, which SECURITY.md states: nats-server answers a request to a store on whatever reply subject it names, without a check of permissions. When this
//! test fails, the fault is mended: turn its assertions round, and remove the paragraph there.

use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_wire::stores::{PERMITS_BUCKET, SCHEDULES_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use tokio::time::Duration;

use super::fixture::AttackFixture;

/// A key of another node.
const CLAIM: &str = "claim.1.web1.example.net";

#[tokio::test]
async fn known_fault_a_node_key_writes_and_deletes_stores_through_reply_subjects() {
    let fixture = AttackFixture::new().await;
    let administrator = connect(&fixture.server, &fixture.organisation.administrator()).await;
    let trust = administrator.bucket(TRUST_BUCKET.name);
    trust.put(TRUST_ACCOUNT_KEY, "genuine".into()).await.unwrap();
    let permits = administrator.bucket(PERMITS_BUCKET.name);
    permits.put(CLAIM, "genuine".into()).await.unwrap();
    let attacker = fixture.attacker("node");
    let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
    let own = attacker.signer.identity();
    let record = format!("$KV.NODES.{own}");
    let read = format!("$JS.API.DIRECT.GET.KV_NODES.$KV.NODES.{own}");
    let missing = format!("$JS.API.DIRECT.GET.KV_TOKENS.$KV.TOKENS.{own}");
    // The broker confirms the write there.
    client.publish(&record, "$KV.TRUST.account", "", "{}").await;
    // The answer for a key that is missing is empty, as a request to delete a stream.
    client.publish(&missing, "$JS.API.STREAM.DELETE.KV_SCHEDULES", "", "").await;
    // The answer for a key of the thief has any content.
    client.publish(&record, "", "", "chosen by the thief").await;
    client.publish(&read, &format!("$KV.PERMITS.{CLAIM}"), "", "").await;
    assert!(client.sync().await.refusals.is_empty());

    let is_attacked = async || {
        let stored = trust.get(TRUST_ACCOUNT_KEY).await.unwrap().and_then(|entry| entry.value);
        let is_overwritten = stored.as_deref() == Some(br#"{"stream":"KV_NODES","seq":1}"#);
        let is_deleted = !administrator.has_bucket(SCHEDULES_BUCKET.name).await.unwrap();
        // The broker's headers are there twice, so that the entry is not read.
        let is_hidden = permits.get(CLAIM).await.unwrap().is_none();
        let state = (is_overwritten, is_deleted, is_hidden);
        if state == (true, true, true) { Ok(()) } else { Err(format!("{state:?}")) }
    };
    poll_until_ok("the stores are attacked", Duration::from_secs(20), is_attacked).await;
}
