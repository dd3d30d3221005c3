//! Killed brokers: one with 200 nodes, and each server of a cluster in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use muster_bus::{BucketReplicas, BusOptions, Bytes};
use muster_calls::Client;
use muster_tests::cluster::Cluster;
use muster_tests::organisation::{Organisation, connect, options};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::stores::PERMITS_BUCKET;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::call_records::{CallRecord, CallResult, EffectLog, record_call, verify_records};
use super::{
    LedgerNodes, RECOVERY_TIMEOUT, assert_memory_released, own_memory_kib, print_figures,
    strike_call,
};
use crate::node_fixture::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_broker_with_200_nodes_loses_no_request_silently() {
    let organisation = Organisation::new(&["muster"]);
    let mut server = organisation.start_broker().await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &server, 0..200, &effects).await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let names = nodes.names();
    let wait = Duration::from_secs(3);
    let mut records = vec![record_call(&caller.client, strike_call(&names, wait)).await];
    let before = own_memory_kib();
    let finished = AtomicBool::new(false);
    let all_replied = AtomicBool::new(false);
    let call_loop = async {
        let mut records = Vec::new();
        while !finished.load(Ordering::Acquire) {
            let entry = record_call(&caller.client, strike_call(&names, wait)).await;
            all_replied.store(entry.is_done(), Ordering::Release);
            records.push(entry);
        }
        records
    };
    let kill_loop = async {
        for _ in 0..3 {
            // The kill happens during a call.
            let so_far = effects.total();
            await_state("nodes are working", || effects.total() > so_far + 250).await;
            server.kill();
            all_replied.store(false, Ordering::Release);
            server.revive().await;
            let check_replies = async || {
                let is_complete = all_replied.load(Ordering::Acquire);
                is_complete.then_some(()).ok_or(())
            };
            poll_until_ok("all nodes reply again", RECOVERY_TIMEOUT, check_replies).await;
        }
        finished.store(true, Ordering::Release);
    };
    let (results, ()) = tokio::join!(call_loop, kill_loop);
    records.extend(results);
    let totals = verify_records(&records, &effects);
    print_figures(&format!("{} calls: {totals:?}", records.len()));
    assert!(nodes.0.iter().all(|node| node.core.snapshot_counters().replies > 0));
    assert_memory_released(before);
}

/// Calls one node after the other, 50 per second, each call in its own task.
async fn call_fifty_per_second(
    client: &Client,
    names: &[Identity],
    finished: &AtomicBool,
) -> Vec<CallRecord> {
    let mut tick = interval(Duration::from_millis(20));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = Vec::new();
    for name in names.iter().cycle() {
        if finished.load(Ordering::Acquire) {
            break;
        }
        tick.tick().await;
        let client = client.clone();
        let call = strike_call(&[name.clone()].into(), Duration::from_secs(5));
        tasks.push(tokio::spawn(async move { record_call(&client, call).await }));
    }
    let records = join_all(tasks).await;
    records.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_restarted_server_by_server_replies_and_keeps_stores() {
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &cluster, 0..12, &effects).await;
    let names: Vec<Identity> = nodes.names().into_iter().collect();
    let caller = TestCaller::connect(&organisation, &cluster, organisation.caller("rip")).await;
    let service = organisation.unrestricted_user("reader");
    let mut reader_options: BusOptions = options(&cluster, &service);
    reader_options.inbox_prefix = Some(format!("_INBOX.{}", service.public_key()));
    let bus = reader_options.connect().await.unwrap();
    let buckets = [("PERMITS", "beat.1.reader"), ("PROVISION", "kept")];
    for (bucket, key) in buckets {
        let bucket = bus.bucket(bucket);
        bucket.put(key, Bytes::from_static(b"as it was")).await.unwrap();
    }
    let before = own_memory_kib();
    let finished = AtomicBool::new(false);
    let started = Instant::now();
    let restart_loop = async {
        for number in 0..cluster.size() {
            cluster.kill(number);
            for (name, key) in buckets {
                let what = format!("{name} is read while server {number} is down");
                poll_until_ok(&what, RECOVERY_TIMEOUT, async || {
                    let entry =
                        bus.bucket(name).get(key).await.map_err(|error| error.to_string())?;
                    let value = entry.and_then(|entry| entry.value);
                    match value {
                        Some(value) if &*value == b"as it was" => Ok(()),
                        other => Err(format!("{other:?}")),
                    }
                })
                .await;
            }
            cluster.revive(number).await;
        }
        finished.store(true, Ordering::Release);
    };
    let call_loop = call_fifty_per_second(&caller.client, &names, &finished);
    let (records, ()) = tokio::join!(call_loop, restart_loop);
    let elapsed = started.elapsed();
    let totals = verify_records(&records, &effects);
    let incomplete = records.iter().filter(
        |entry| matches!(&entry.result, CallResult::Finished { stats, .. } if stats.incomplete.is_some()),
    );
    print_figures(&format!(
        "{} calls in {elapsed:?}: {totals:?}, {} of them over a connection that was lost",
        records.len(),
        incomplete.count()
    ));
    assert!(totals.answered > totals.missing, "{totals:?}");
    let all = strike_call(&nodes.names(), Duration::from_secs(5));
    let last = Mutex::new(Vec::new());
    poll_until_ok("all nodes reply again", RECOVERY_TIMEOUT, async || {
        let entry = record_call(&caller.client, all.clone()).await;
        let done = entry.is_done();
        last.lock().await.push(entry);
        done.then_some(()).ok_or(())
    })
    .await;
    assert_memory_released(before);
    drop(connect(&cluster, &organisation.caller("late")).await);
}

/// While the leader changes, or while a server does not know the store's location, no server receives a write, and the
/// broker reports that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_without_a_responder_is_retried_until_stored() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let service = connect(&server, &organisation.unrestricted_user("writer")).await;
    let administrator = connect(&server, &organisation.administrator()).await;
    let bucket = service.bucket(PERMITS_BUCKET.name);
    let to_bytes = |value: &'static str| Bytes::from_static(value.as_bytes());
    bucket.put("pool.a", to_bytes("before")).await.unwrap();

    let remove = format!("$JS.API.STREAM.DELETE.KV_{}", PERMITS_BUCKET.name);
    administrator.request(&remove, Bytes::new()).await.unwrap();
    let pending_writes = async {
        tokio::join!(
            bucket.put("pool.a", to_bytes("one")),
            bucket.create("pool.b", to_bytes("two"))
        )
    };
    let recreated = async {
        // The first attempt of each write has failed by now.
        let unavailable = bucket.get("pool.a").await;
        assert!(unavailable.is_err(), "{unavailable:?}");
        administrator.declare_bucket(&PERMITS_BUCKET, BucketReplicas::Exactly(1)).await.unwrap();
    };
    let ((put, created), ()) = tokio::join!(pending_writes, recreated);
    put.unwrap();
    created.unwrap();
    for (key, value) in [("pool.a", "one"), ("pool.b", "two")] {
        let entry = bucket.get(key).await.unwrap().unwrap();
        assert_eq!(entry.value.unwrap(), value);
    }
}
