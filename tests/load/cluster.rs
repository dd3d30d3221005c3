//! A large fleet behind a cluster of three servers, of which one is killed in the middle of a call: every node replies or is named.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_calls::{CallEvent, CallStats, CallTarget, Client, DiscoveryWindow, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::cluster::{Cluster, SERVER_NAMES};
use muster_tests::organisation::{Broker as _, Organisation};
use muster_wire::identity::Identity;
use serde_json::Value;
use tempfile::TempDir;

use crate::caller::{ConnectionKind, connect, finish, ping_call};
use crate::fleet::{FleetSettings, start_nodes};
use crate::report::{Figure, Section, Table};

const METHOD: &str = "Virtual nodes, spread over the servers of a cluster of three with replicated streams; nodes share connections. A user is created on all nodes \
(`rpc do puppetral type=user`); in two further calls a server is killed when a third of the nodes have replied: first one that only serves nodes, \
then the one of the caller. Each node must have replied or be named as missing. Nodes, broker and caller share two processors.";

/// Connections that the nodes share.
const SHARED_CONNECTIONS: usize = 96;
/// How long a call waits for the replies of its nodes.
const WAIT: Duration = Duration::from_mins(2);
/// How long the nodes of a killed server may take to connect again.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(3);

/// Measures with this many nodes.
pub(crate) fn bench(nodes: usize) -> Section {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let section = runtime.block_on(measure_cluster(nodes));
    runtime.shutdown_background();
    section
}

async fn measure_cluster(nodes: usize) -> Section {
    let mut section =
        Section::of(format!("{nodes} nodes behind a cluster of three servers"), METHOD);
    eprintln!("{nodes} nodes behind a cluster: connecting");
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let directory = TempDir::new().unwrap();
    let shared = Some(SHARED_CONNECTIONS);
    let settings = FleetSettings { numbers: 0..nodes, shared, ..FleetSettings::default() };
    let fleet = start_nodes(&organisation, &cluster, settings, &directory).await;
    let names: BTreeSet<Identity> =
        fleet.node_connections().into_iter().map(|(name, _)| name).collect();
    let client = connect_client(&organisation, &cluster, 0).await;
    let mut rows = Vec::new();

    let started = Instant::now();
    let found = client.discover_nodes(&NodeFilter::default()).await.unwrap().nodes;
    assert_eq!(found.len(), nodes, "not all nodes were found");
    rows.push(row("find", started.elapsed(), (found.len(), 0)));
    let ping = ping_call(CallTarget::Nodes(names.clone()), WAIT);
    rows.push(timed_row("ping", &*finish(&client, ping).await, nodes));
    rows.push(timed_row("user", &*finish(&client, user_call(&names, "rip")).await, nodes));

    for (what, server) in
        [("user, a server is killed", 2), ("user, the caller's server is killed", 0)]
    {
        let stats = call_and_kill(&client, user_call(&names, "rip"), &mut cluster, server).await;
        let unaccounted = nodes.saturating_sub(stats.response_count() + stats.missing.len());
        let name = format!("{what}: nodes that neither replied nor are named");
        section.figures.push(Figure::of(name, count(unaccounted), "").aim(0.0));
        assert_eq!(unaccounted, 0, "{stats:?}");
        rows.push(row(what, stats.waiting, (stats.response_count(), stats.missing.len())));
        cluster.revive(server).await;
        let again = await_all(&client, &names).await;
        rows.push(row("until all nodes reply to a ping again", again, (nodes, 0)));
    }
    let mut table = Table::new(["", "seconds", "replied", "named as missing"]);
    table.rows = rows;
    section.tables.push(table);
    section
}

/// A caller that is connected to this server.
async fn connect_client(organisation: &Organisation, cluster: &Cluster, server: usize) -> Client {
    let signer = organisation.caller("rip");
    let urls = cluster.urls();
    let bus = loop {
        let bus = connect(&urls, &signer, ConnectionKind::Command).await;
        if Some(bus.server_name().as_str()) == SERVER_NAMES.get(server).copied() {
            break bus;
        }
    };
    let window = DiscoveryWindow::default();
    Client::new(bus, signer, organisation.trust(), organisation.collective().clone(), window)
}

fn user_call(names: &BTreeSet<Identity>, user: &str) -> RpcCall {
    let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(names.clone())).unwrap();
    call.data.insert("type".to_owned(), Value::from("user"));
    call.data.insert("name".to_owned(), Value::from(user));
    call.wait = WAIT;
    call
}

/// Makes a call, and kills a server when a third of the nodes have replied.
async fn call_and_kill(
    client: &Client,
    call: RpcCall,
    cluster: &mut Cluster,
    server: usize,
) -> Box<CallStats> {
    let CallTarget::Nodes(names) = &call.target else { panic!("calls name their nodes") };
    let mut remaining = names.len() / 3;
    let mut events = client.call(call);
    loop {
        match events.next().await.unwrap() {
            CallEvent::Reply(_) if remaining > 0 => {
                remaining -= 1;
                if remaining == 0 {
                    cluster.kill(server);
                }
            }
            CallEvent::Finished(stats) => return stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// The time until all nodes reply to one ping.
async fn await_all(client: &Client, names: &BTreeSet<Identity>) -> Duration {
    let started = Instant::now();
    loop {
        let ping = ping_call(CallTarget::Nodes(names.clone()), Duration::from_secs(10));
        let stats = finish(client, ping).await;
        if stats.ok == names.len() {
            return started.elapsed();
        }
        assert!(started.elapsed() < RECOVERY_TIMEOUT, "nodes are missing: {stats:?}");
    }
}

fn timed_row(what: &str, stats: &CallStats, nodes: usize) -> Vec<String> {
    assert_eq!(stats.ok, nodes, "{what}: {} failed, {} missing", stats.failed, stats.missing.len());
    row(what, stats.publishing + stats.waiting, (stats.ok, stats.missing.len()))
}

fn row(what: &str, took: Duration, (replied, missing): (usize, usize)) -> Vec<String> {
    vec![
        what.to_owned(),
        format!("{:.1}", took.as_secs_f64()),
        replied.to_string(),
        missing.to_string(),
    ]
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}
