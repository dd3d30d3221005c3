//! The traffic of nodes that wait for one pool: each of them receives the heartbeats of all others, so their number per second must not grow with that of the
//! nodes.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_permits::{PermitClient, PermitRequest};
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::SubjectName;
use muster_wire::stores::PERMITS_BUCKET;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Most heartbeats per second: 64 at the head each 20 s, and 5 to 10 of all others together.
const MAX_RATE: f64 = 14.0;
/// Longer than the interval of those at the head.
const MEASURED: Duration = Duration::from_secs(45);

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

fn request() -> PermitRequest {
    PermitRequest::new(pool(), NonZeroU32::MIN, Uuid::now_v7(), Duration::from_hours(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_of_2000_waiting_nodes_are_as_many_as_those_of_500() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let client = async |name: &str| {
        let signer = organisation.node(name);
        let client = PermitClient::new(signer.identity().clone());
        client.connect(connect(&server, &signer).await);
        client
    };
    let observer = connect(&server, &organisation.unrestricted_user("observer")).await;
    let entries = |kind: &str| format!("$KV.{}.{kind}.>", PERMITS_BUCKET.name);
    let mut waits = observer.subscribe(&entries("wait")).await.unwrap();
    let holder = client("holder").await;
    let _permit = holder.acquire_permit(request(), &CancellationToken::new()).await.unwrap();
    let mut waiting = Vec::new();
    let mut rates = Vec::new();
    for count in [500, 2_000] {
        for number in waiting.len()..count {
            let client = client(&format!("n{number}")).await;
            waiting.push(tokio::spawn(async move {
                client.acquire_permit(request(), &CancellationToken::new()).await.map(drop)
            }));
        }
        // The holder's wait entry, and its removal, are among them.
        let mut seen = 0;
        while seen < count {
            let entry = tokio::time::timeout(Duration::from_mins(3), waits.next()).await;
            seen += usize::from(entry.unwrap().unwrap().subject().contains(".n"));
        }
        let mut beats = observer.subscribe(&entries("beat")).await.unwrap();
        let (mut received, end) = (0_u32, Instant::now() + MEASURED);
        while let Ok(Some(_)) = timeout_at(end, beats.next()).await {
            received += 1;
        }
        rates.push(f64::from(received) / MEASURED.as_secs_f64());
        let (_, _, known) = holder.inspect_pool(&pool()).await.unwrap();
        assert_eq!(known.len(), count, "all still wait");
    }
    println!("heartbeats per second of 500 and of 2,000 waiting nodes: {rates:?}");
    assert!(rates.iter().all(|rate| *rate < MAX_RATE), "{rates:?}");
    assert!(waiting.iter().all(|task| !task.is_finished()));
}
