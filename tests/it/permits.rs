//! Run permits on a real broker: nodes that only know each other by what stands in the store never exceed the limit, whatever dies.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_permits::{Permit, PermitClient, PermitError, PermitRequest};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::simulate_delay;
use muster_wire::identity::{Identity, SubjectName};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Barrier;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_mins(2);

struct World {
    organisation: Organisation,
    server: NatsServer,
}

impl World {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self { organisation, server }
    }

    /// A node's desk on a connection of its own, with a node's rights.
    async fn desk(&self, name: &str) -> PermitClient {
        let signer = self.organisation.node(name);
        let desk = PermitClient::new(signer.identity().clone());
        desk.connect(connect(&self.server, &signer).await);
        desk
    }
}

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

fn ask(limit: u32) -> PermitRequest {
    let limit = NonZeroU32::new(limit).unwrap();
    PermitRequest::new(pool(), limit, Uuid::now_v7(), PATIENCE)
}

async fn enter(desk: &PermitClient, ask: PermitRequest) -> Result<Permit, PermitError> {
    desk.acquire_permit(ask, &CancellationToken::new()).await
}

/// Who is at work, and the most that ever were.
#[derive(Debug, Default)]
struct Site {
    now: usize,
    most: usize,
    runs: usize,
}

impl Site {
    /// Gives the number of this arrival, from 1.
    fn arrive(site: &Mutex<Self>) -> usize {
        let mut site = site.lock().unwrap();
        site.now += 1;
        site.runs += 1;
        site.most = site.most.max(site.now);
        site.runs
    }
}

/// Forty-seven nodes at once, each with its own delay and duration: the limit is used, and never exceeded; fences grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_seven_nodes_never_exceed_the_limit() {
    let world = World::new().await;
    let mut desks = Vec::new();
    for number in 0..47 {
        desks.push(world.desk(&format!("web{number}.example.net")).await);
    }
    for (seed, limit) in [(1, 1), (2, 2), (3, 4), (4, 16)] {
        let mut random = StdRng::seed_from_u64(seed);
        let site = Arc::new(Mutex::new(Site::default()));
        let may = limit as usize;
        let full = Arc::new(Barrier::new(may));
        let mut runs = tokio::task::JoinSet::new();
        for desk in &desks {
            let (desk, site, full) = (desk.clone(), Arc::clone(&site), Arc::clone(&full));
            let delay = Duration::from_millis(random.random_range(0..50));
            let work = Duration::from_millis(random.random_range(10..80));
            runs.spawn(async move {
                simulate_delay(delay).await;
                let permit = enter(&desk, ask(limit)).await.unwrap();
                if Site::arrive(&site) <= may {
                    // The first stay until as many work as may: a permit that lies idle leaves them waiting.
                    let filled = tokio::time::timeout(PATIENCE, full.wait()).await;
                    filled.expect("permits lay idle");
                }
                simulate_delay(work).await;
                site.lock().unwrap().now -= 1;
                let fence = permit.fence();
                permit.release().await;
                fence
            });
        }
        let fences = runs.join_all().await;
        let distinct: std::collections::BTreeSet<u64> = fences.iter().copied().collect();
        assert_eq!(distinct.len(), 47, "each permit has a fence of its own");
        let site = site.lock().unwrap();
        assert_eq!((site.runs, site.most), (47, may), "seed {seed}");
    }
}

/// A holder that dies without a word is missed for one lease, and no longer; who lives on keeps its place however long it works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_missed_for_one_lease_and_a_living_one_never() {
    let world = World::new().await;
    let lease = Duration::from_secs(2);
    let short = || PermitRequest { lease, ..ask(1) };

    let signer = world.organisation.node("dead.example.net");
    let dying = {
        // Its own runtime ends with it: nothing of it is renewed or given back.
        let (server, signer) = (world.server.url(), signer.clone());
        let organisation_options = muster_tests::organisation::options(&world.server, &signer);
        let ask = short();
        std::thread::spawn(move || {
            let _ = server;
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut options = organisation_options;
                options.inbox_prefix =
                    Some(muster_wire::subject::inbox_prefix(&signer.public_key().to_string()));
                let desk = PermitClient::new(signer.identity().clone());
                desk.connect(options.connect().await.unwrap());
                std::mem::forget(enter(&desk, ask).await.unwrap());
            });
        })
    };
    dying.join().unwrap();

    let living = world.desk("living.example.net").await;
    let begun = Instant::now();
    let permit = enter(&living, short()).await.unwrap();
    let waited = begun.elapsed();
    assert!(waited < lease * 4, "the dead node was missed for {waited:?}");

    let third = world.desk("third.example.net").await;
    let impatient = PermitRequest { timeout: lease * 3, ..short() };
    let refused = enter(&third, impatient).await.unwrap_err();
    let told = refused.to_string();
    assert!(
        told.contains("current holders: living.example.net"),
        "{told}: a living holder was pushed out"
    );
    assert!(!permit.lost_token().is_cancelled());
    permit.release().await;
    enter(&third, short()).await.unwrap().release().await;
}

/// Who waits with a higher priority goes first; among equals, who came first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_goes_first_and_then_who_came_first() {
    let world = World::new().await;
    let holder = world.desk("holder.example.net").await;
    let held = enter(&holder, ask(1)).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut runs = tokio::task::JoinSet::new();
    let arrivals = [("late", 0), ("later", 0), ("urgent", 5), ("slow", -3)];
    for (waiting, (name, priority)) in arrivals.into_iter().enumerate() {
        let desk = world.desk(&format!("{name}.example.net")).await;
        let order = Arc::clone(&order);
        runs.spawn(async move {
            let ask = PermitRequest { priority, ..ask(1) };
            let permit = enter(&desk, ask).await.unwrap();
            order.lock().unwrap().push(name);
            permit.release().await;
        });
        until(&holder, |_, now| now == waiting + 1).await;
    }
    held.release().await;
    runs.join_all().await;
    assert_eq!(*order.lock().unwrap(), ["urgent", "late", "later", "slow"]);
}

/// What somebody else started takes up a place that the others respect, even when there was none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_somebody_else_takes_up_a_place() {
    let world = World::new().await;
    let (ours, theirs) =
        (world.desk("ours.example.net").await, world.desk("theirs.example.net").await);
    let first = enter(&ours, ask(1)).await.unwrap();
    let foreign =
        theirs.occupy_permit(&pool(), Uuid::now_v7(), Duration::from_mins(1)).await.unwrap();
    assert!(foreign.fence() > first.fence());
    first.release().await;
    let short = PermitRequest { timeout: Duration::from_millis(300), ..ask(1) };
    let refused = enter(&ours, short).await.unwrap_err().to_string();
    assert!(refused.contains("theirs.example.net"), "{refused}");
    enter(&ours, ask(2)).await.unwrap().release().await;
    foreign.release().await;
    enter(&ours, ask(1)).await.unwrap().release().await;
}

/// A permit whose broker is gone says so well before the lease is over; and whoever gives up leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_without_a_broker_is_lost_in_time() {
    let world = World::new().await;
    let lease = Duration::from_secs(3);
    let desk = world.desk("web1.example.net").await;
    let permit = enter(&desk, PermitRequest { lease, ..ask(1) }).await.unwrap();
    let other = world.desk("web2.example.net").await;
    let cancel = CancellationToken::new();
    let waiting = tokio::spawn({
        let (other, cancel) = (other.clone(), cancel.clone());
        async move { other.acquire_permit(ask(1), &cancel).await.map(drop) }
    });
    until(&desk, |_, waiting| waiting == 1).await;
    cancel.cancel();
    let gave_up = waiting.await.unwrap();
    assert!(matches!(gave_up, Err(PermitError::Cancelled { .. })));
    until(&desk, |holders, waiting| (holders, waiting) == (1, 0)).await;

    let begun = Instant::now();
    drop(world.server);
    tokio::time::timeout(PATIENCE, permit.lost_token().cancelled()).await.unwrap();
    assert!(
        begun.elapsed() < lease,
        "told {:?} after the broker went, with a lease of {lease:?}",
        begun.elapsed()
    );
}

/// The broker lets a node write below its own name only: no node can take another's place away, or claim one in its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_writes_below_its_own_name_only() {
    let world = World::new().await;
    let honest = world.desk("web1.example.net").await;
    let permit = enter(&honest, ask(1)).await.unwrap();
    let hostile = connect(&world.server, &world.organisation.node("rogue.example.net")).await;
    let web1 = Identity::parse("web1.example.net").unwrap();
    let key = muster_permits::PermitKeyKind::Claim.entry_key(1, &web1);
    let bucket = hostile.bucket("PERMITS");
    assert!(bucket.delete(&key).await.is_err());
    assert!(bucket.put(&key, "{}".into()).await.is_err());
    let (_, holders, _) = honest.inspect_pool(&pool()).await.unwrap();
    let fences: BTreeMap<_, _> =
        holders.into_iter().map(|party| (party.node.to_string(), party.revision)).collect();
    assert_eq!(fences, BTreeMap::from([("web1.example.net".to_owned(), permit.fence())]));
}

/// Waits until so many hold the pool and so many wait for it.
async fn until(desk: &PermitClient, is_so: impl Fn(usize, usize) -> bool) {
    let looking = async {
        loop {
            let (_, holders, waiting) = desk.inspect_pool(&pool()).await.unwrap();
            if is_so(holders.len(), waiting.len()) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap();
}
