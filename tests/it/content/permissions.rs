//! Who may do what with the content store, by the broker: a compiler everything, a node reads what it can name, others nothing.

use muster_bus::content::{ContentError, ContentStore};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::raw_nats::RawNats;
use muster_wire::catalog::content::{CHUNK_BYTES, ContentKey};
use muster_wire::stores::CONTENT_BUCKET;
use muster_wire::token::{ServiceRight, UserRole};

use super::fixture::{ContentFixture, fetch, open_store, put, random_bytes};

fn assert_refused<T: std::fmt::Debug>(result: Result<T, ContentError>) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains("no permission to publish"), "{error}");
}

/// Neither writes nor lists.
async fn assert_reads_only(store: &ContentStore) {
    assert_refused(store.put_file(&b"planted"[..], None).await);
    assert_refused(store.put_file(random_bytes(9, 2 * CHUNK_BYTES).as_slice(), None).await);
    assert_refused(store.list().await);
    assert_refused(store.verify().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_only_a_compiler_writes_and_lists() {
    let fixture = ContentFixture::new().await;
    let file = put(&fixture.compiler().await, &random_bytes(1, 2 * CHUNK_BYTES)).await;
    let organisation = &fixture.organisation;
    let node = fixture.node().await;
    assert_reads_only(&node).await;
    fetch(&node, file, &fixture.path("node")).await;
    let mut services: Vec<_> =
        [ServiceRight::Directory, ServiceRight::Schedule, ServiceRight::Provision]
            .map(|right| organisation.service(right, &format!("service-{right}")))
            .into();
    services.push(organisation.user(UserRole::Service, "service-without-right", &[]));
    for service in services {
        assert_reads_only(&open_store(&fixture.server, &service).await).await;
    }
    let caller = open_store(&fixture.server, &organisation.caller("rip")).await;
    assert_refused(caller.has(file).await);
    assert_refused(caller.list().await);
    assert_eq!(fixture.stream_state("last_seq").await, 3, "no other user has written");
}

/// A node that knows no hash learns none: it cannot watch or list, and a read of one key cannot be turned into a list. A pattern in place of the hash reads the
/// newest entry only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_6_node_reads_only_what_it_can_name() {
    let fixture = ContentFixture::new().await;
    let compiler = fixture.compiler().await;
    let file = put(&compiler, b"first").await;
    put(&compiler, b"second").await;
    let signer = fixture.organisation.node("stolen.example.net");
    let bucket = connect(&fixture.server, &signer).await.bucket(CONTENT_BUCKET.name);
    assert!(bucket.watch(">").await.is_err());
    let mut client = RawNats::connect(&fixture.server, &signer).await;
    let inbox = format!("_INBOX.{}.x", signer.public_key());
    client.subscribe(&inbox, "").await;
    for subject in ["_W.CONTENT.>", "_W.CONTENT.file.*", "$KV.CONTENT.>"] {
        client.subscribe(subject, "").await;
        let output = client.sync().await;
        assert!(!output.refusals.is_empty(), "{subject}");
    }
    let key = ContentKey::File(file).to_string();
    let get = |key: &str| format!("$JS.API.DIRECT.GET.KV_CONTENT.$KV.CONTENT.{key}");
    let list = r#"{"seq":1,"batch":9,"next_by_subj":"$KV.CONTENT.>"}"#;
    let many = r#"{"multi_last":["$KV.CONTENT.>"]}"#;
    for (subject, request, answer) in [
        (get(&key), "", "first"),
        (get(&key), list, "408 Bad Request"),
        (get(&key), many, "408 Bad Request"),
        (get("file.*"), list, "408 Bad Request"),
        (get("file.*"), "", "second"),
        // Further answers to the requests before would arrive before this one.
        (get(&key), "", "first"),
    ] {
        client.publish(&subject, &inbox, "", request).await;
        let mut found = Vec::new();
        poll_until_ok("the broker answers", NETWORK_TIMEOUT, async || {
            found.extend(client.sync().await.messages);
            if found.is_empty() { Err(()) } else { Ok(()) }
        })
        .await;
        let texts: Vec<_> =
            found.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
        assert!(texts.len() == 1 && texts[0].contains(answer), "{subject} {request}: {texts:?}");
    }
}
