//! The traffic of nodes that wait for one pool: each of them receives the heartbeats of all others, so their number per second must not grow with that of the
//! nodes.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_puppet::permits::{PermitClient, PermitRequest, WaitRecord};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_wire::identity::SubjectName;
use muster_wire::stores::PERMITS_BUCKET;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Runs at the head of the queue. Each sends a heartbeat every 20 s.
const HEAD: usize = 64;
/// Nodes behind it that are measured. The rest of the queue is in the bucket only, because a process cannot be 2,000 nodes.
const MEASURED_NODES: usize = 100;
/// Longer than the interval of those at the head.
const MEASURED: Duration = Duration::from_mins(1);
/// Most heartbeats per second of all runs behind the head together: one in 100 ms.
const MAX_RATE: f64 = 10.0;
/// Longest lease, in milliseconds: the entries of nodes that do not run stay valid during the test.
const LEASE: u64 = 600_000;

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

fn request() -> PermitRequest {
    PermitRequest::new(pool(), NonZeroU32::MIN, Uuid::now_v7(), Duration::from_hours(1))
}

/// Heartbeats per second of all runs behind the head of a queue of this many.
async fn measure(count: usize) -> f64 {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let client = async |name: String| {
        let signer = organisation.node(&name);
        let client = PermitClient::new(signer.identity().clone());
        client.connect(connect(&server, &signer).await);
        client
    };
    let observer = connect(&server, &organisation.unrestricted_user("observer")).await;
    let bucket = observer.bucket(PERMITS_BUCKET.name);
    let holder = client("holder".to_owned()).await;
    let _permit = holder.acquire_permit(request(), &CancellationToken::new()).await.unwrap();
    let await_waiting = async |expected: usize| {
        poll_until_ok("all runs wait", Duration::from_mins(2), async || {
            let waiting = holder.inspect_pool(&pool()).await.map(|(_, _, waiting)| waiting.len());
            if waiting.as_ref().is_ok_and(|count| *count == expected) {
                return Ok(());
            }
            Err(waiting)
        })
        .await;
    };
    let mut tasks = JoinSet::new();
    for number in 0..count - MEASURED_NODES {
        let (pool, run) = (pool(), Uuid::now_v7());
        let wait = WaitRecord { pool, run, priority: 0, limit: 1, lease: LEASE, rollout: None };
        let key = format!("wait.1.silent{number}");
        bucket.put(&key, serde_json::to_vec(&wait).unwrap().into()).await.unwrap();
    }
    for number in 0..MEASURED_NODES {
        let client = client(format!("behind{number}")).await;
        tasks.spawn(async move {
            client.acquire_permit(request(), &CancellationToken::new()).await.map(drop)
        });
    }
    await_waiting(count).await;
    let pattern = format!("$KV.{}.beat.>", PERMITS_BUCKET.name);
    let mut beats = observer.subscribe(&pattern).await.unwrap();
    let (mut received, end) = (0_u32, Instant::now() + MEASURED);
    while let Ok(Some(beat)) = timeout_at(end, beats.next()).await {
        received += u32::from(beat.subject().contains(".behind"));
    }
    await_waiting(count).await;
    let queue = f64::from(u32::try_from((count - HEAD) / MEASURED_NODES).unwrap());
    f64::from(received) * queue / MEASURED.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_of_2000_waiting_nodes_are_as_many_as_those_of_500() {
    let rates = [measure(500).await, measure(2_000).await];
    println!("heartbeats per second of 500 and of 2,000 waiting nodes: {rates:?}");
    assert!(rates.iter().all(|rate| *rate < MAX_RATE), "{rates:?}");
}
