//! What no catalog reaches is deleted after a day, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_bus::BucketError;
use muster_bus::content::CollectionReport;
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::raw_nats::RawNats;
use muster_tests::{now, poll_until_ok};
use muster_wire::catalog::content::{CHUNK_BYTES, ContentAddress, ContentKey};
use muster_wire::stores::CONTENT_BUCKET;

use super::fixture::{ContentFixture, fetch, put, random_bytes};

const HOUR: u64 = 60 * 60 * 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_collection_keeps_what_is_reachable_or_young() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    let [a, b, c] = [1, 2, 3].map(|seed| random_bytes(seed, CHUNK_BYTES));
    let (marked_bytes, other_bytes) = ([&a[..], &b].concat(), [&b[..], &c].concat());
    let marked = put(&compiler, &marked_bytes).await;
    let other = put(&compiler, &other_bytes).await;
    let (small, other_small) = (put(&compiler, b"small").await, put(&compiler, b"other").await);
    let marks = BTreeSet::from([marked, small]);

    let young = compiler.collect(&BTreeSet::new(), now() + 23 * HOUR).await.unwrap();
    assert_eq!((young.deleted_files, young.deleted_chunks), (0, 0));
    assert_eq!((young.kept_files, young.kept_chunks, young.broken), (4, 3, vec![]));

    let list_bytes = 10 + 2 * 32;
    let chunk_bytes = CHUNK_BYTES as u64;
    let report = compiler.collect(&marks, now() + 25 * HOUR).await.unwrap();
    let expected = CollectionReport {
        kept_files: 2,
        kept_chunks: 2,
        kept_bytes: 2 * chunk_bytes + list_bytes + 6,
        deleted_files: 2,
        deleted_chunks: 1,
        deleted_bytes: chunk_bytes + list_bytes + 6,
        broken: vec![],
    };
    assert_eq!(report, expected);
    let files: BTreeSet<ContentAddress> =
        compiler.list().await.unwrap().iter().map(|stored| stored.file).collect();
    assert_eq!(files, marks);
    assert!(!compiler.has(other).await.unwrap() && !compiler.has(other_small).await.unwrap());
    assert_eq!(compiler.verify().await.unwrap().defects, []);
    let node = fixture.node().await;
    fetch(&node, marked, &fixture.path("marked")).await;
    fetch(&node, small, &fixture.path("small")).await;

    // What was deleted can be stored again.
    put(&fixture.compiler().await, &other_bytes).await;
    fetch(&node, other, &fixture.path("other")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_collection_deletes_no_chunk_while_a_marked_file_is_missing() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    let file = put(&compiler, &random_bytes(1, 2 * CHUNK_BYTES)).await;
    let missing = ContentAddress::of(b"missing");
    let later = now() + 25 * HOUR;
    let report = compiler.collect(&BTreeSet::from([missing]), later).await.unwrap();
    assert_eq!((report.broken, report.deleted_files), (vec![missing], 1));
    assert_eq!((report.deleted_chunks, report.kept_chunks), (0, 2));
    assert!(!compiler.has(file).await.unwrap());
    let report = compiler.collect(&BTreeSet::new(), later).await.unwrap();
    assert_eq!((report.deleted_chunks, report.kept_chunks), (2, 0));
}

/// An entry that was written again after it was read is not deleted. The broker removes the note of a deletion by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_deletion_names_its_revision_and_leaves_no_note() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    let file = put(&compiler, b"small").await;
    let key = ContentKey::File(file).to_string();
    let bucket = fixture.administrator().await.bucket(CONTENT_BUCKET.name);
    let read = bucket.get(&key).await.unwrap().unwrap();
    put(&fixture.compiler().await.refreshing_after(Duration::ZERO), b"small").await;
    let second = Duration::from_secs(1);
    let refused = bucket.delete_revision(&key, read.revision, second).await.unwrap_err();
    assert!(matches!(refused, BucketError::Conflict { .. }), "{refused}");
    let again = bucket.get(&key).await.unwrap().unwrap();
    assert!(again.revision > read.revision);
    bucket.delete_revision(&key, again.revision, second).await.unwrap();
    assert!(!compiler.has(file).await.unwrap());
    poll_until_ok("the note is removed", NETWORK_TIMEOUT, async || {
        match fixture.stream_state("messages").await {
            0 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    put(&fixture.compiler().await, b"small").await;
    assert!(compiler.has(file).await.unwrap());

    // A collection asks for the removal, too.
    compiler.collect(&BTreeSet::new(), now() + 25 * HOUR).await.unwrap();
    let administrator = fixture.organisation.administrator();
    let mut client = RawNats::connect(&fixture.server, &administrator).await;
    let inbox = format!("_INBOX.{}.x", administrator.public_key());
    client.subscribe(&inbox, "").await;
    let subject = format!("$JS.API.DIRECT.GET.KV_CONTENT.$KV.CONTENT.{key}");
    client.publish(&subject, &inbox, "", "").await;
    let note = poll_until_ok("the broker answers", NETWORK_TIMEOUT, async || {
        client.sync().await.messages.pop().ok_or("no answer")
    })
    .await;
    let note = String::from_utf8(note.1).unwrap();
    assert!(note.contains("KV-Operation: DEL") && note.contains("Nats-TTL: 3600s"), "{note}");
}
