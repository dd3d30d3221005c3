//! Run permits on a real broker: nodes that communicate only through the store never exceed the limit, whichever
//! process dies.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_puppet::permits::{Permit, PermitClient, PermitError, PermitRequest};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::{await_state, simulate_delay};
use muster_wire::identity::{Identity, SubjectName};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Barrier;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

struct PermitFixture {
    organisation: Organisation,
    server: NatsServer,
}

impl PermitFixture {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self { organisation, server }
    }

    /// A permit client of a node, with its own connection and the rights of a node.
    async fn connect_permit_client(&self, name: &str) -> PermitClient {
        let signer = self.organisation.node(name);
        let client = PermitClient::new(signer.identity().clone());
        client.connect(connect(&self.server, &signer).await);
        client
    }
}

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

fn permit_request(limit: u32) -> PermitRequest {
    let limit = NonZeroU32::new(limit).unwrap();
    PermitRequest::new(pool(), limit, Uuid::now_v7(), WAIT_TIMEOUT)
}

async fn acquire(client: &PermitClient, request: PermitRequest) -> Result<Permit, PermitError> {
    client.acquire_permit(request, &CancellationToken::new()).await
}

/// Number of concurrent runs, now and at most.
#[derive(Debug, Default)]
struct RunCounter {
    running: usize,
    highest: usize,
    runs: usize,
}

impl RunCounter {
    /// Counts a start; returns its number, from 1.
    fn record_start(counter: &Mutex<Self>) -> usize {
        let mut counter = counter.lock().unwrap();
        counter.running += 1;
        counter.runs += 1;
        counter.highest = counter.highest.max(counter.running);
        counter.runs
    }
}

/// 47 nodes at once, each with its own delay and duration: the limit is reached and never exceeded, and fences
/// increase.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_seven_nodes_never_exceed_the_limit() {
    let fixture = PermitFixture::new().await;
    let mut clients = Vec::new();
    for number in 0..47 {
        clients.push(fixture.connect_permit_client(&format!("web{number}.example.net")).await);
    }
    for (seed, limit) in [(1, 1), (2, 2), (3, 4), (4, 16)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let counter = Arc::new(Mutex::new(RunCounter::default()));
        let max_running = limit as usize;
        let full = Arc::new(Barrier::new(max_running));
        let mut runs = tokio::task::JoinSet::new();
        for client in &clients {
            let (client, counter, full) = (client.clone(), Arc::clone(&counter), Arc::clone(&full));
            let delay = Duration::from_millis(rng.random_range(0..50));
            let work = Duration::from_millis(rng.random_range(10..80));
            runs.spawn(async move {
                simulate_delay(delay).await;
                let permit = acquire(&client, permit_request(limit)).await.unwrap();
                if RunCounter::record_start(&counter) <= max_running {
                    // The first runs wait until the limit is reached; an unused permit would leave them waiting.
                    let reached = tokio::time::timeout(WAIT_TIMEOUT, full.wait()).await;
                    reached.expect("permits were not used");
                }
                simulate_delay(work).await;
                counter.lock().unwrap().running -= 1;
                let fence = permit.fence();
                permit.release().await;
                fence
            });
        }
        let fences = runs.join_all().await;
        let distinct: std::collections::BTreeSet<u64> = fences.iter().copied().collect();
        assert_eq!(distinct.len(), 47, "each permit must have its own fence");
        let counter = counter.lock().unwrap();
        assert_eq!((counter.runs, counter.highest), (47, max_running), "seed {seed}");
    }
}

/// The permit of a dead holder is free after one lease; a living holder keeps its permit however long it works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_holder_blocks_for_one_lease_and_living_one_keeps_its_permit() {
    let fixture = PermitFixture::new().await;
    let lease = Duration::from_secs(2);
    let short = || PermitRequest { lease, ..permit_request(1) };

    let signer = fixture.organisation.node("dead.example.net");
    let dying = {
        // The thread's runtime ends with it, so the permit is neither renewed nor released.
        let (server, signer) = (fixture.server.url(), signer.clone());
        let organisation_options = muster_tests::organisation::options(&fixture.server, &signer);
        let request = short();
        std::thread::spawn(move || {
            let _ = server;
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut options = organisation_options;
                options.inbox_prefix =
                    Some(muster_wire::subject::inbox_prefix(&signer.public_key().to_string()));
                let client = PermitClient::new(signer.identity().clone());
                client.connect(options.connect().await.unwrap());
                std::mem::forget(acquire(&client, request).await.unwrap());
            });
        })
    };
    dying.join().unwrap();

    let living = fixture.connect_permit_client("living.example.net").await;
    let started = Instant::now();
    let permit = acquire(&living, short()).await.unwrap();
    let waited = started.elapsed();
    assert!(waited < lease * 4, "the dead node blocked the pool for {waited:?}");

    let third = fixture.connect_permit_client("third.example.net").await;
    let with_timeout = PermitRequest { timeout: lease * 3, ..short() };
    let refused = acquire(&third, with_timeout).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("current holders: living.example.net"),
        "{message}: a living holder lost its permit"
    );
    assert!(!permit.lost_token().is_cancelled());
    permit.release().await;
    acquire(&third, short()).await.unwrap().release().await;
}

/// Higher priority first; with equal priority, in order of arrival.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_granted_by_priority_then_arrival() {
    let fixture = PermitFixture::new().await;
    let holder = fixture.connect_permit_client("holder.example.net").await;
    let held = acquire(&holder, permit_request(1)).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut runs = tokio::task::JoinSet::new();
    let arrivals = [("late", 0), ("later", 0), ("urgent", 5), ("slow", -3)];
    for (waiting, (name, priority)) in arrivals.into_iter().enumerate() {
        let client = fixture.connect_permit_client(&format!("{name}.example.net")).await;
        let order = Arc::clone(&order);
        runs.spawn(async move {
            let request = PermitRequest { priority, ..permit_request(1) };
            let permit = acquire(&client, request).await.unwrap();
            order.lock().unwrap().push(name);
            permit.release().await;
        });
        await_pool(&holder, |_, now| now == waiting + 1).await;
    }
    held.release().await;
    runs.join_all().await;
    assert_eq!(*order.lock().unwrap(), ["urgent", "late", "later", "slow"]);
}

/// A run without a limit of its own waits for the limits of others and counts for them; each permit knows the highest
/// number of runs at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_without_a_limit_keeps_the_limits_of_others() {
    let fixture = PermitFixture::new().await;
    let client =
        async |name: &str| fixture.connect_permit_client(&format!("{name}.example.net")).await;
    let (limited, free, other) =
        (client("limited").await, client("free").await, client("other").await);
    let without_limit = |timeout| PermitRequest::without_limit(pool(), Uuid::now_v7(), timeout);
    let held = acquire(&limited, permit_request(1)).await.unwrap();
    let refused = acquire(&free, without_limit(Duration::from_millis(300))).await.unwrap_err();
    assert!(refused.to_string().contains("limited.example.net"), "{refused}");
    held.release().await;
    let first = acquire(&free, without_limit(WAIT_TIMEOUT)).await.unwrap();
    let second = acquire(&other, without_limit(WAIT_TIMEOUT)).await.unwrap();
    let short = PermitRequest { timeout: Duration::from_millis(300), ..permit_request(1) };
    let refused = acquire(&limited, short).await.unwrap_err().to_string();
    assert!(refused.contains("free") && refused.contains("other"), "{refused}");
    await_state("both permits have seen both runs", || {
        (first.highest_count(), second.highest_count()) == (2, 2)
    })
    .await;
    first.release().await;
    second.release().await;
    let alone = acquire(&limited, permit_request(1)).await.unwrap();
    assert_eq!(alone.highest_count(), 1);
    alone.release().await;
}

/// A run that was started outside of the pool occupies a slot that others respect, even if no slot was free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_run_occupies_a_slot() {
    let fixture = PermitFixture::new().await;
    let (ours, theirs) = (
        fixture.connect_permit_client("ours.example.net").await,
        fixture.connect_permit_client("theirs.example.net").await,
    );
    let first = acquire(&ours, permit_request(1)).await.unwrap();
    let foreign = theirs
        .occupy_permit(&PermitRequest::without_limit(pool(), Uuid::now_v7(), WAIT_TIMEOUT))
        .await
        .unwrap();
    assert!(foreign.fence() > first.fence());
    first.release().await;
    let short = PermitRequest { timeout: Duration::from_millis(300), ..permit_request(1) };
    let refused = acquire(&ours, short).await.unwrap_err().to_string();
    assert!(refused.contains("theirs.example.net"), "{refused}");
    acquire(&ours, permit_request(2)).await.unwrap().release().await;
    foreign.release().await;
    acquire(&ours, permit_request(1)).await.unwrap().release().await;
}

/// A permit reports its loss before the lease ends if the broker is gone; a cancelled request leaves no entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_without_a_broker_is_lost_before_its_lease_ends() {
    let fixture = PermitFixture::new().await;
    let lease = Duration::from_secs(3);
    let client = fixture.connect_permit_client("web1.example.net").await;
    let permit = acquire(&client, PermitRequest { lease, ..permit_request(1) }).await.unwrap();
    let other = fixture.connect_permit_client("web2.example.net").await;
    let cancel = CancellationToken::new();
    let waiting = tokio::spawn({
        let (other, cancel) = (other.clone(), cancel.clone());
        async move { other.acquire_permit(permit_request(1), &cancel).await.map(drop) }
    });
    await_pool(&client, |_, waiting| waiting == 1).await;
    cancel.cancel();
    let cancelled = waiting.await.unwrap();
    assert!(matches!(cancelled, Err(PermitError::Cancelled { .. })));
    await_pool(&client, |holders, waiting| (holders, waiting) == (1, 0)).await;

    let started = Instant::now();
    drop(fixture.server);
    tokio::time::timeout(WAIT_TIMEOUT, permit.lost_token().cancelled()).await.unwrap();
    assert!(
        started.elapsed() < lease,
        "reported {:?} after the broker ended, with a lease of {lease:?}",
        started.elapsed()
    );
}

/// The broker permits a node to write below its own name only: no node can remove another's permit or claim one in its
/// name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_writes_below_its_own_name_only() {
    let fixture = PermitFixture::new().await;
    let honest = fixture.connect_permit_client("web1.example.net").await;
    let permit = acquire(&honest, permit_request(1)).await.unwrap();
    let hostile = connect(&fixture.server, &fixture.organisation.node("rogue.example.net")).await;
    let web1 = Identity::parse("web1.example.net").unwrap();
    let key = muster_puppet::permits::PermitKeyKind::Claim.entry_key(1, &web1);
    let bucket = hostile.bucket("PERMITS");
    assert!(bucket.delete(&key).await.is_err());
    assert!(bucket.put(&key, "{}".into()).await.is_err());
    let (_, holders, _) = honest.inspect_pool(&pool()).await.unwrap();
    let fences: BTreeMap<_, _> =
        holders.into_iter().map(|holder| (holder.node.to_string(), holder.revision)).collect();
    assert_eq!(fences, BTreeMap::from([("web1.example.net".to_owned(), permit.fence())]));
}

/// Waits until the numbers of holders and of waiting nodes satisfy the predicate.
async fn await_pool(client: &PermitClient, is_reached: impl Fn(usize, usize) -> bool) {
    let polling = async {
        loop {
            let (_, holders, waiting) = client.inspect_pool(&pool()).await.unwrap();
            if is_reached(holders.len(), waiting.len()) {
                return;
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, polling).await.unwrap();
}
