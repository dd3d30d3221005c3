//! The directory and a fleet that runs: commands beside a broadcast, and the registration of all nodes after a broker lost its streams.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_agent::commands::virtual_nodes::NodeFleet;
use muster_bus::BusSubscription;
use muster_node::config::RegistrationConfig;
use muster_tests::command::RpcCommand;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::stores::NODES_BUCKET;
use muster_wire::subject::bucket_changes;
use tempfile::TempDir;

use crate::caller::{ConnectionKind, connect};
use crate::client::rpc;
use crate::directory::{await_ready, start_directory};
use crate::event_shape::EventShape;
use crate::fleet::{FleetSettings, start_nodes};
use crate::measure::millis;
use crate::process::run_timed;
use crate::report::{Figure, Section, Table, format_number, max, median, min};

const COMMANDS_METHOD: &str = "Complete commands, process start included, in turns, by a caller who has used them before; the daemons are real processes. Each command \
uses the directory, or a broadcast (`--dm broadcast`), which ends after 300 ms without a reply.";

const REGISTRATION_METHOD: &str = "Virtual nodes have registered; the broker is killed, loses its streams, and starts again with an empty bucket. Nodes write their records \
within a random part of the spread, which is the number of nodes / 1000 s. Writes are counted as the broker stores them, in intervals of 100 ms from the first to the last; the mean is over the \
intervals in between. The nodes share connections. The directory is right when it lists exactly the nodes, none missing.";

/// Permitted time of a command with the directory, in milliseconds.
const MAX_COMMAND_MS: f64 = 50.0;
/// Permitted ratio of the most writes in 100 ms to the mean.
const MAX_PEAK_RATIO: f64 = 3.0;
/// Nodes that register in a second.
const NODES_PER_SECOND: usize = 1_000;
/// Connections that virtual nodes share.
const SHARED_CONNECTIONS: usize = 64;
const TIMEOUT: Duration = Duration::from_mins(3);

/// Measures commands with this many real daemons.
pub(crate) fn bench_commands(daemons: usize, rounds: usize) -> Section {
    run(
        async |section| measure_commands(daemons, rounds, section).await,
        || {
            Section::of(
                format!("{daemons} daemons and a directory, {rounds} rounds"),
                COMMANDS_METHOD,
            )
        },
    )
}

/// Measures the registration of this many virtual nodes.
pub(crate) fn bench_registration(nodes: usize) -> Section {
    run(
        async |section| measure_registration(nodes, section).await,
        || {
            Section::of(
                format!("Registration of {nodes} nodes with an empty bucket"),
                REGISTRATION_METHOD,
            )
        },
    )
}

fn run(measure: impl AsyncFnOnce(&mut Section), section: impl FnOnce() -> Section) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut section = section();
    runtime.block_on(measure(&mut section));
    runtime.shutdown_background();
    section
}

async fn measure_commands(daemons: usize, rounds: usize, section: &mut Section) {
    eprintln!("{daemons} daemons and a directory: starting");
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let directory = start_directory(&organisation, &server.url(), 1);
    let start = |number: usize| -> Rpcd {
        let signer = organisation.node(&format!("web{number:02}.example.net"));
        let more = "[broker]\nreconnect_spread_seconds = 1\n";
        DaemonHome::new(&organisation, &signer, &server.url(), more).start()
    };
    let fleet: Vec<Rpcd> = (0..daemons).map(start).collect();
    await_ready(&directory, Instant::now()).await;
    let caller = organisation.caller("regular");
    let command = RpcCommand::new(&server, &organisation, &caller, "");
    await_listed(&command, fleet.len()).await;

    let ping = ["do", "rpcutil", "ping"];
    let contenders: [(&str, &[&str], bool); 4] = [
        ("find, directory", &["find"], true),
        ("find, broadcast", &["find", "--dm", "broadcast"], false),
        ("do rpcutil ping, directory", &ping, true),
        ("do rpcutil ping, broadcast", &[&ping[..], &["--dm", "broadcast"]].concat(), false),
    ];
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for ((_, arguments, _), samples) in contenders.iter().zip(&mut samples) {
            let took = millis(run_timed(&mut rpc(&command.home(), arguments)));
            if round > 0 {
                samples.push(took);
            }
        }
    }
    let mut table = Table::new(["command", "median ms", "min", "max"]);
    for ((name, _, has_aim), samples) in contenders.iter().zip(&samples) {
        let numbers = [median(samples), min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        table.rows.push([(*name).to_owned()].into_iter().chain(numbers).collect());
        if *has_aim {
            let figure = Figure::of(format!("{name}, {daemons} daemons"), median(samples), "ms");
            section.figures.push(figure.aim(MAX_COMMAND_MS));
        }
    }
    for pair in samples.chunks(2) {
        if let [directory, broadcast] = pair {
            let name =
                format!("a command with the directory x a broadcast ({})", section.figures.len());
            section.figures.push(Figure::ratio(name, median(directory) / median(broadcast)));
        }
    }
    section.tables.push(table);
}

async fn measure_registration(nodes: usize, section: &mut Section) {
    eprintln!("{nodes} nodes that register: connecting");
    let organisation = Organisation::new(&["muster"]);
    let mut server = organisation.start_broker_with_stores().await;
    let directory = start_directory(&organisation, &server.url(), 1);
    let scratch = TempDir::new().unwrap();
    let spread = Duration::from_secs(u64::try_from(nodes.div_ceil(NODES_PER_SECOND)).unwrap());
    let settings = FleetSettings {
        numbers: 0..nodes,
        shared: Some(SHARED_CONNECTIONS),
        agents: Vec::new(),
        registration: Some((registration_config(), spread)),
    };
    let fleet = start_nodes(&organisation, &server, settings, &scratch).await;
    await_ready(&directory, Instant::now()).await;
    let caller = organisation.caller("regular");
    let command = RpcCommand::new(&server, &organisation, &caller, "");
    await_listed(&command, nodes).await;

    server.kill();
    server.remove_streams();
    server.revive().await;
    let observer = organisation.unrestricted_user("observer");
    let bus = connect(&[server.url()], &observer, ConnectionKind::Command).await;
    let writes = bus.subscribe(&bucket_changes(NODES_BUCKET.name, ">")).await.unwrap();
    let started = Instant::now();
    organisation.declare_stores(&server, 1).await;
    let times = await_writes(writes, &names(&fleet), started).await;
    let shape = EventShape::from_times(&times);
    await_listed(&command, nodes).await;
    let all_right = started.elapsed();

    let mut table = Table::new(["", "value"]);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    for (name, value) in [
        ("records written", times.len().to_string()),
        ("first record after", seconds(shape.first)),
        ("last record after", seconds(shape.last)),
        ("records in 100 ms, mean", format_number(shape.mean)),
        ("records in 100 ms, most", shape.most.to_string()),
        ("the directory is right after", seconds(all_right)),
    ] {
        table.rows.push(vec![name.to_owned(), value]);
    }
    section.tables.push(table);
    let peak = Figure::ratio("most records in 100 ms x the mean", shape.peak());
    section.figures.push(peak.aim(MAX_PEAK_RATIO).within(0.5));
}

/// The defaults of the daemon. The facts of virtual nodes do not change.
fn registration_config() -> RegistrationConfig {
    RegistrationConfig {
        enabled: true,
        heartbeat: Duration::from_mins(1),
        refresh: Duration::from_hours(1),
        min_interval: Duration::from_secs(10),
        state_interval: Duration::from_mins(5),
        volatile_facts: Vec::new(),
        excluded_facts: Vec::new(),
        hashed_facts: Vec::new(),
        yield_to_older: false,
    }
}

fn names(fleet: &NodeFleet) -> BTreeSet<Identity> {
    fleet.node_connections().into_iter().map(|(name, _)| name).collect()
}

/// When each node's record was written, sorted; each node must write one.
async fn await_writes(
    mut writes: BusSubscription,
    names: &BTreeSet<Identity>,
    started: Instant,
) -> Vec<Duration> {
    let mut waiting = names.clone();
    let mut times = Vec::new();
    let all = async {
        while !waiting.is_empty() {
            let change = writes.next().await.unwrap();
            let key = change.subject().splitn(3, '.').nth(2).unwrap();
            times.push(started.elapsed());
            waiting.remove(&Identity::parse(key).unwrap());
        }
    };
    let is_complete = tokio::time::timeout(TIMEOUT, all).await.is_ok();
    assert!(is_complete, "{} of {} nodes did not register", waiting.len(), names.len());
    times
}

/// Waits until the directory lists this many nodes, all present.
async fn await_listed(command: &RpcCommand, nodes: usize) {
    poll_until_ok("the directory lists all nodes", TIMEOUT, async || {
        let output = command.run(&["find", "--dm", "directory"]).await;
        let listed = String::from_utf8_lossy(&output.stdout).lines().count();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if listed == nodes && stderr.is_empty() {
            Ok(())
        } else {
            Err(format!("{listed}: {stderr}"))
        }
    })
    .await;
}
