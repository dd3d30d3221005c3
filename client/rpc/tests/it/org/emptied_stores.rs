//! `rpc org empty` frees a store that a stolen key of a service has filled, with a real nats-server.

use std::time::UNIX_EPOCH;

use muster_bus::Bytes;
use muster_organisation::Organisation;
use muster_wire::stores::{SCHEDULES_BUCKET, TOKENS_BUCKET};

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

fn now() -> u64 {
    u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn full_store_is_emptied_of_what_was_written_since_the_theft() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "service", "scheduler1", "--serve", "schedule"]);
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    let thief = broker.connect(&world, "creds/services/scheduler1.creds").await.unwrap();
    let bucket = thief.bucket(SCHEDULES_BUCKET.name);
    bucket.put("schedule.nightly", Bytes::from_static(b"genuine")).await.unwrap();
    let mut written = Vec::new();
    for size in [400_000, 100, 0] {
        let junk = Bytes::from(vec![b'x'; size]);
        for number in 0.. {
            let key = format!("junk.{size}.{number}");
            if bucket.put_once(&key, junk.clone()).await.is_err() {
                break;
            }
            written.push(key);
        }
    }
    assert!(bucket.put_once("schedule.other", Bytes::from_static(b"genuine")).await.is_err());

    let first = bucket.get(&written[0]).await.unwrap().unwrap();
    let organisation = Organisation::open(&world.org()).unwrap();
    let since = organisation.keys_written_since(&SCHEDULES_BUCKET, first.created, now());
    let since = since.await.unwrap();
    let genuine = bucket.get("schedule.nightly").await.unwrap().unwrap();
    let is_older = genuine.created < first.created;
    assert_eq!(since.keys[usize::from(!is_older)..], written);
    organisation.delete_keys(&SCHEDULES_BUCKET, &written, now).await.unwrap();
    let left: Vec<String> =
        bucket.list(">").await.unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(left, ["schedule.nightly"]);
    bucket.put_once("schedule.other", Bytes::from_static(b"genuine")).await.unwrap();

    let output = world.rpc(&["org", "empty", "schedules", "--since", "1d", "--yes"]);
    assert!(talk(&output).contains("removed 2 keys of SCHEDULES"), "{output:?}");
    assert!(bucket.list(">").await.unwrap().is_empty());
    bucket.put_once("schedule.more", Bytes::from_static(b"genuine")).await.unwrap();
    let output = world.rpc(&["org", "empty", "SCHEDULES", "--all", "--yes"]);
    assert!(talk(&output).contains("removed 1 key of SCHEDULES"), "{output:?}");
    assert_eq!(bucket.put("schedule.more", Bytes::from_static(b"genuine")).await.unwrap(), 1);
    let output = world.rpc(&["org", "empty", TOKENS_BUCKET.name, "--all", "--yes"]);
    assert!(talk(&output).contains("removed 0 keys of TOKENS"), "{output:?}");
    let refused = world.rpc(&["org", "empty", "TRUST", "--all", "--yes"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}
