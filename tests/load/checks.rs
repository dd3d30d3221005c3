//! A check on all nodes of a fleet, beside a ping of them.

use std::path::PathBuf;

use muster_agents::nrpe::{NrpeOptions, NrpePlugin};
use muster_api::{DaemonContext, NodePlugin as _};

use crate::client::rpc;
use crate::fleet::DaemonFleet;
use crate::measure::millis;
use crate::process::run_timed;
use crate::report::{Figure, Section, Table, max, median, min};

const METHOD: &str = "Complete commands, process start and discovery by broadcast included, in turns. The nodes are virtual and share connections; the check is a \
program of their machines in memory, so its own time is not measured.";

/// Permitted ratio of a check to a ping.
const MAX_RATIO: f64 = 2.0;
/// Connections that the nodes share.
const SHARED_CONNECTIONS: usize = 64;

/// Measures with this many nodes.
pub(crate) fn bench(nodes: usize, rounds: usize) -> Section {
    let title = format!("A check and a ping of {nodes} nodes, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    eprintln!("{nodes} nodes with checks: connecting");
    // All nodes of the process share the agent, and so its limit.
    let options = NrpeOptions { enabled: Some(true), concurrency: nodes, ..NrpeOptions::default() };
    let daemon = DaemonContext { root: PathBuf::from("/nonexistent"), ..DaemonContext::default() };
    let agent = NrpePlugin::configure(options, &daemon, ()).unwrap().build_agent().unwrap();
    let connecting = DaemonFleet::connect_with_agents(nodes, Some(SHARED_CONNECTIONS), vec![agent]);
    let fleet = runtime.block_on(connecting);
    let contenders = [
        ("rpc do rpcutil ping", &["do", "rpcutil", "ping"][..]),
        ("rpc check check_load", &["check", "check_load"][..]),
    ];
    let mut samples = [const { Vec::new() }; 2];
    for round in 0..=rounds {
        for ((_, arguments), samples) in contenders.iter().zip(&mut samples) {
            let took = millis(run_timed(&mut rpc(&fleet.home(), arguments)));
            if round > 0 {
                samples.push(took);
            }
        }
    }
    let mut table = Table::new(["command", "median ms", "min", "max"]);
    for ((name, _), samples) in contenders.iter().zip(&samples) {
        let times = [median(samples), min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        table.rows.push([(*name).to_owned()].into_iter().chain(times).collect());
    }
    section.tables.push(table);
    let [ping, check] = samples.map(|samples| median(&samples));
    section.figures.push(
        Figure::ratio(format!("a check x a ping, {nodes} nodes"), check / ping).aim(MAX_RATIO),
    );
    drop(fleet);
    runtime.shutdown_background();
    section
}
