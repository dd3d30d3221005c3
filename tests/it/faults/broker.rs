//! Brokers that die: one under two hundred nodes, and each of three in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use muster_bus::{BusOptions, Bytes};
use muster_client::Client;
use muster_tests::cluster::Cluster;
use muster_tests::organisation::{Organisation, connect, options};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::stores::PERMITS_BUCKET;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::books::{Effects, Entry, Fate, ask, compare};
use super::{BACK, Nodes, assert_memory_is_back, note, our_memory, strike};
use crate::ask::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_under_200_nodes_loses_no_request_untold() {
    let organisation = Organisation::new(&["muster"]);
    let mut server = organisation.start_broker().await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &server, 0..200, &effects).await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let names = nodes.names();
    let wait = Duration::from_secs(3);
    let mut entries = vec![ask(&caller.client, strike(&names, wait)).await];
    let before = our_memory();
    let over = AtomicBool::new(false);
    let whole = AtomicBool::new(false);
    let asking = async {
        let mut entries = Vec::new();
        while !over.load(Ordering::Acquire) {
            let entry = ask(&caller.client, strike(&names, wait)).await;
            whole.store(entry.is_done(), Ordering::Release);
            entries.push(entry);
        }
        entries
    };
    let killing = async {
        for _ in 0..3 {
            // In the middle of a call.
            let so_far = effects.total();
            await_state("nodes are at work", || effects.total() > so_far + 250).await;
            server.kill();
            whole.store(false, Ordering::Release);
            server.revive().await;
            let all_are_back = async || {
                let is_whole = whole.load(Ordering::Acquire);
                is_whole.then_some(()).ok_or(())
            };
            poll_until_ok("everybody answers again", BACK, all_are_back).await;
        }
        over.store(true, Ordering::Release);
    };
    let (told, ()) = tokio::join!(asking, killing);
    entries.extend(told);
    let balance = compare(&entries, &effects);
    note(&format!("{} calls: {balance:?}", entries.len()));
    assert!(nodes.0.iter().all(|node| node.core.snapshot_counters().replies > 0));
    assert_memory_is_back(before);
}

/// Asks one node after the other, fifty a second, each question in a task of its own.
async fn fifty_a_second(client: &Client, names: &[Identity], over: &AtomicBool) -> Vec<Entry> {
    let mut tick = interval(Duration::from_millis(20));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut asked = Vec::new();
    for name in names.iter().cycle() {
        if over.load(Ordering::Acquire) {
            break;
        }
        tick.tick().await;
        let client = client.clone();
        let call = strike(&[name.clone()].into(), Duration::from_secs(5));
        asked.push(tokio::spawn(async move { ask(&client, call).await }));
    }
    let entries = join_all(asked).await;
    entries.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_restarted_server_by_server_answers_and_keeps_its_stores() {
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &cluster, 0..12, &effects).await;
    let names: Vec<Identity> = nodes.names().into_iter().collect();
    let caller = TestCaller::connect(&organisation, &cluster, organisation.caller("rip")).await;
    let service = organisation.unrestricted_user("reader");
    let mut reading: BusOptions = options(&cluster, &service);
    reading.inbox_prefix = Some(format!("_INBOX.{}", service.public_key()));
    let bus = reading.connect().await.unwrap();
    let buckets = [("PERMITS", "beat.1.reader"), ("PROVISION", "kept")];
    for (bucket, key) in buckets {
        let bucket = bus.bucket(bucket);
        bucket.put(key, Bytes::from_static(b"as it was")).await.unwrap();
    }
    let before = our_memory();
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let restarting = async {
        for number in 0..cluster.size() {
            cluster.kill(number);
            for (name, key) in buckets {
                let what = format!("{name} is read while server {number} is away");
                poll_until_ok(&what, BACK, async || {
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
        over.store(true, Ordering::Release);
    };
    let asking = fifty_a_second(&caller.client, &names, &over);
    let (entries, ()) = tokio::join!(asking, restarting);
    let took = begun.elapsed();
    let balance = compare(&entries, &effects);
    let incomplete = entries.iter().filter(
        |entry| matches!(&entry.fate, Fate::Told { stats, .. } if stats.incomplete.is_some()),
    );
    note(&format!(
        "{} calls in {took:?}: {balance:?}, {} of them over a connection that was lost",
        entries.len(),
        incomplete.count()
    ));
    assert!(balance.answered > balance.missing, "{balance:?}");
    let all = strike(&nodes.names(), Duration::from_secs(5));
    let last = Mutex::new(Vec::new());
    poll_until_ok("everybody answers again", BACK, async || {
        let entry = ask(&caller.client, all.clone()).await;
        let done = entry.is_done();
        last.lock().await.push(entry);
        done.then_some(()).ok_or(())
    })
    .await;
    assert_memory_is_back(before);
    drop(connect(&cluster, &organisation.caller("late")).await);
}

/// A leader that changes, or a server that has not learnt yet where a store is: nobody hears a write, and the broker says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_nobody_hears_is_written_when_somebody_does() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let service = connect(&server, &organisation.unrestricted_user("writer")).await;
    let (master, everything) = organisation.subscribe_all(&server).await;
    // It would be somebody who listens.
    drop(everything);
    let bucket = service.bucket(PERMITS_BUCKET.name);
    let all = |value: &'static str| Bytes::from_static(value.as_bytes());
    bucket.put("pool.a", all("before")).await.unwrap();

    let remove = format!("$JS.API.STREAM.DELETE.KV_{}", PERMITS_BUCKET.name);
    master.request(&remove, Bytes::new()).await.unwrap();
    let unheard = async {
        tokio::join!(bucket.put("pool.a", all("one")), bucket.create("pool.b", all("two")))
    };
    let made_again = async {
        // The first write of each was not heard by anybody when this is.
        let nobody = bucket.get("pool.a").await;
        assert!(nobody.is_err(), "{nobody:?}");
        service.declare_bucket(&PERMITS_BUCKET, 1).await.unwrap()
    };
    let ((put, created), bucket) = tokio::join!(unheard, made_again);
    put.unwrap();
    created.unwrap();
    for (key, value) in [("pool.a", "one"), ("pool.b", "two")] {
        let entry = bucket.get(key).await.unwrap().unwrap();
        assert_eq!(entry.value.unwrap(), value);
    }
}
