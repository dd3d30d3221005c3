//! Run permits when their store fails: its leader is killed again and again, its stream is created again, the server of a holder dies.
//! The limit holds, every node gets its permit, and a rollout takes little longer.
//!
//! The nodes are permit clients in this process, as the daemon has them, each with its own connection and the rights of a node. Their
//! work is simulated. The servers are real.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_bus::BusOptions;
use muster_puppet::permits::{PermitClient, PermitRequest};
use muster_tests::cluster::Cluster;
use muster_tests::organisation::{Broker, Organisation, options};
use muster_tests::{poll_until_ok, simulate_delay};
use muster_wire::identity::SubjectName;
use muster_wire::subject;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The stream of permits.
const PERMIT_STREAM: &str = "KV_PERMITS";
/// Time between two kills.
const KILL_INTERVAL: Duration = Duration::from_secs(8);
/// How long a killed server stays down.
const DOWN_TIME: Duration = Duration::from_secs(1);
/// How long an election may take.
const ELECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a node waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_mins(15);

/// The size of one rollout.
#[derive(Debug, Clone, Copy)]
struct SimulatedRollout {
    nodes: usize,
    limit: u32,
    work: Duration,
}

/// What happened in a rollout.
#[derive(Debug)]
struct RolloutRecord {
    /// Begin and end of each run.
    intervals: Vec<(Instant, Instant)>,
    /// Errors of nodes without a permit.
    failures: Vec<String>,
    makespan: Duration,
}

impl RolloutRecord {
    /// Maximum number of runs at once.
    fn highest_count(&self) -> usize {
        let count_at = |at: Instant| {
            let running = self.intervals.iter().filter(|(begin, end)| *begin <= at && at < *end);
            running.count()
        };
        self.intervals.iter().map(|(begin, _)| count_at(*begin)).max().unwrap_or_default()
    }
}

impl SimulatedRollout {
    async fn run(self, organisation: &Organisation, cluster: &impl Broker) -> RolloutRecord {
        let mut clients = Vec::new();
        for number in 0..self.nodes {
            let name = format!("web{number}.example.net");
            clients.push(connect_daemon_client(organisation, cluster, &name).await);
        }
        let started = Instant::now();
        let mut runs = JoinSet::new();
        for client in clients {
            runs.spawn(self.run_node(client));
        }
        let results = runs.join_all().await;
        let makespan = started.elapsed();
        let (mut intervals, mut failures) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(interval) => intervals.push(interval),
                Err(failure) => failures.push(failure),
            }
        }
        RolloutRecord { intervals, failures, makespan }
    }

    /// One node's run: acquire, work, release.
    async fn run_node(self, client: PermitClient) -> Result<(Instant, Instant), String> {
        let pool = SubjectName::parse("puppet").unwrap();
        let limit = NonZeroU32::new(self.limit).unwrap();
        let request = PermitRequest::new(pool, limit, Uuid::now_v7(), PERMIT_TIMEOUT);
        let acquired = client.acquire_permit(request, &CancellationToken::new()).await;
        let permit = acquired.map_err(|error| format!("{error:?}"))?;
        let begin = Instant::now();
        tokio::select! {
            () = simulate_delay(self.work) => {}
            () = permit.lost_token().cancelled() => return Err("the permit was lost".to_owned()),
        }
        let end = Instant::now();
        permit.release().await;
        Ok((begin, end))
    }
}

/// A permit client with the connection of a daemon, which reconnects without limit.
async fn connect_daemon_client(
    organisation: &Organisation,
    broker: &impl Broker,
    name: &str,
) -> PermitClient {
    let signer = organisation.node(name);
    let settings = options(broker, &signer);
    let mut daemon = BusOptions::for_daemon(name, settings.servers);
    daemon.credentials = settings.credentials;
    daemon.inbox_prefix = Some(subject::inbox_prefix(&signer.public_key().to_string()));
    let client = PermitClient::new(signer.identity().clone());
    let bus = daemon.connect().await.unwrap();
    bus.wait_connected().await;
    client.connect(bus);
    client
}

/// Kills the leader of the permit stream every [`KILL_INTERVAL`], and restarts it after [`DOWN_TIME`]. Counts the kills in `kills`.
async fn kill_leaders(cluster: &mut Cluster, count: usize, kills: &mut usize) {
    while *kills < count {
        let next_kill = Instant::now() + KILL_INTERVAL;
        let leader =
            poll_until_ok("the permit stream has a leader", ELECTION_TIMEOUT, async || {
                cluster.stream_leader(PERMIT_STREAM).await.ok_or("no leader")
            })
            .await;
        cluster.kill(leader);
        *kills += 1;
        simulate_delay(DOWN_TIME).await;
        cluster.restart(leader).await;
        tokio::time::sleep_until(next_kill).await;
    }
    std::future::pending::<()>().await;
}

/// Runs the same rollout on two clusters at once, on one of them with this number of leader kills, and checks the guarantees.
async fn verify_rollout_with_leader_kills(rollout: SimulatedRollout, kills: usize) {
    let organisation = Organisation::new(&["muster"]);
    // One after the other, so that they do not choose the same free ports.
    let calm_cluster = Cluster::start(&organisation).await;
    let mut cluster = Cluster::start(&organisation).await;
    let urls = ClusterUrls(cluster.urls());
    let mut killed = 0;
    let disturbed = async {
        tokio::select! {
            record = rollout.run(&organisation, &urls) => record,
            () = kill_leaders(&mut cluster, kills, &mut killed) => unreachable!(),
        }
    };
    let (calm, disturbed) = tokio::join!(rollout.run(&organisation, &calm_cluster), disturbed);
    let factor = disturbed.makespan.as_secs_f64() / calm.makespan.as_secs_f64();
    print_figures(&format!(
        "{rollout:?}: {:?} without kills, {:?} with {killed} kills, factor {factor:.2}, at most {} and {} at once; {} without a permit: {:?}",
        calm.makespan,
        disturbed.makespan,
        calm.highest_count(),
        disturbed.highest_count(),
        disturbed.failures.len(),
        disturbed.failures,
    ));
    let limit = rollout.limit as usize;
    assert_eq!((calm.highest_count(), calm.failures.len()), (limit, 0), "{calm:?}");
    assert_eq!(disturbed.failures, Vec::<String>::new());
    assert_eq!(disturbed.intervals.len(), rollout.nodes);
    assert_eq!(disturbed.highest_count(), limit);
    assert_eq!(killed, kills, "the rollout ended before the last kill");
    assert!(factor <= 1.5, "the rollout took {factor:.2} times as long");
}

/// The addresses of a cluster whose servers are killed meanwhile.
struct ClusterUrls(Vec<String>);

impl Broker for ClusterUrls {
    fn port(&self) -> u16 {
        let first = self.0.first().and_then(|url| url.rsplit(':').next());
        first.unwrap().parse().unwrap()
    }

    fn urls(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// A permit client that knows one server of the cluster only, so that its connection is lost with it.
async fn connect_to_server(
    organisation: &Organisation,
    cluster: &Cluster,
    server: usize,
    name: &str,
) -> PermitClient {
    let url = ClusterUrls(vec![cluster.urls().swap_remove(server)]);
    connect_daemon_client(organisation, &url, name).await
}

fn short_lease_request(lease: Duration) -> PermitRequest {
    let pool = SubjectName::parse("puppet").unwrap();
    let request = PermitRequest::new(pool, NonZeroU32::MIN, Uuid::now_v7(), PERMIT_TIMEOUT);
    PermitRequest { lease, ..request }
}

/// Waits until the names of holders and the number of waiting nodes are these.
async fn await_members(client: &PermitClient, expected: (&[&str], usize)) {
    let pool = SubjectName::parse("puppet").unwrap();
    poll_until_ok(&format!("{expected:?}"), ELECTION_TIMEOUT, async || {
        let found = client.inspect_pool(&pool).await;
        let (_, holders, waiting) = found.map_err(|error| format!("{error:?}"))?;
        let names: Vec<&str> = holders.iter().map(|holder| holder.node.as_str()).collect();
        let is_expected = (names.as_slice(), waiting.len()) == expected;
        is_expected.then_some(()).ok_or_else(|| format!("{holders:?} {waiting:?}"))
    })
    .await;
}

/// The entries of all nodes are lost with the stream: the holder claims its place again, and the waiting node waits again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_that_is_created_again_keeps_holders_and_waiting_nodes() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let holder = connect_daemon_client(&organisation, &server, "holder.example.net").await;
    let waiter = connect_daemon_client(&organisation, &server, "waiter.example.net").await;
    let observer = connect_daemon_client(&organisation, &server, "observer.example.net").await;
    let (master, everything) = organisation.subscribe_all(&server).await;
    // This subscription would count as a responder.
    drop(everything);
    // A permit is lost two thirds of its lease after its last heartbeat: that is longer than the stream is missing.
    let lease = Duration::from_secs(15);
    let never = CancellationToken::new();
    // Revisions of the new stream must be lower, as after a long use.
    for _ in 0..30 {
        let permit = holder.acquire_permit(short_lease_request(lease), &never).await.unwrap();
        permit.release().await;
    }
    let held = holder.acquire_permit(short_lease_request(lease), &never).await.unwrap();
    let waiting = tokio::spawn(async move {
        waiter.acquire_permit(short_lease_request(lease), &CancellationToken::new()).await
    });
    await_members(&observer, (&["holder.example.net"], 1)).await;

    let remove = format!("$JS.API.STREAM.DELETE.{PERMIT_STREAM}");
    master.request(&remove, muster_bus::Bytes::new()).await.unwrap();
    simulate_delay(Duration::from_secs(3)).await;
    organisation.declare_stores(&server, 1).await;

    await_members(&observer, (&["holder.example.net"], 1)).await;
    assert!(!waiting.is_finished(), "the holder's claim was lost with the stream");
    assert!(!held.lost_token().is_cancelled());
    held.release().await;
    waiting.await.unwrap().unwrap().release().await;
    await_members(&observer, (&[], 0)).await;
}

/// A holder whose server was killed reads its claim again: one is still stored, one was removed meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_is_checked_after_the_server_of_its_holder_was_killed() {
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let server = cluster.stream_leader(PERMIT_STREAM).await.unwrap();
    let connect = async |name: &str| connect_to_server(&organisation, &cluster, server, name).await;
    let kept_client = connect("kept.example.net").await;
    let removed_client = connect("removed.example.net").await;
    let never = CancellationToken::new();
    let limit = NonZeroU32::new(2).unwrap();
    let request = || PermitRequest { limit, ..short_lease_request(Duration::from_mins(1)) };
    let kept = kept_client.acquire_permit(request(), &never).await.unwrap();
    let removed = removed_client.acquire_permit(request(), &never).await.unwrap();

    let other_url = ClusterUrls(vec![cluster.urls().swap_remove((server + 1) % cluster.size())]);
    let mut settings = options(&other_url, &organisation.unrestricted_user("administrator"));
    settings.inbox_prefix = Some("_INBOX.administrator".to_owned());
    let administrator = settings.connect().await.unwrap();
    cluster.kill(server);
    let killed_at = Instant::now();
    poll_until_ok("the claim is removed", ELECTION_TIMEOUT, async || {
        administrator.bucket("PERMITS").delete("claim.1.removed.example.net").await
    })
    .await;
    cluster.restart(server).await;
    tokio::time::timeout(ELECTION_TIMEOUT, removed.lost_token().cancelled()).await.unwrap();
    let elapsed = killed_at.elapsed();
    assert!(elapsed < Duration::from_secs(40), "the lease ended first, after {elapsed:?}");
    let observer =
        connect_daemon_client(&organisation, &ClusterUrls(cluster.urls()), "observer.example.net")
            .await;
    await_members(&observer, (&["kept.example.net"], 0)).await;
    assert!(!kept.lost_token().is_cancelled());
}

/// Acceptance, with fewer kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_kills_during_a_rollout_of_16_nodes_keep_the_limit_and_every_node_gets_its_permit() {
    let rollout = SimulatedRollout { nodes: 16, limit: 8, work: Duration::from_secs(20) };
    Box::pin(verify_rollout_with_leader_kills(rollout, 5)).await;
}

/// Acceptance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_leader_kills_during_a_rollout_of_16_nodes_keep_the_limit_and_every_node_gets_its_permit()
 {
    let rollout = SimulatedRollout { nodes: 16, limit: 2, work: Duration::from_secs(30) };
    Box::pin(verify_rollout_with_leader_kills(rollout, 30)).await;
}

#[expect(clippy::print_stderr, reason = "prints measurements")]
fn print_figures(text: &str) {
    eprintln!("figures: {text}");
}
