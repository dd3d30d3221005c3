//! A fleet of real `rpcd` processes, each with a scripted Puppet that takes Puppet's lock after a delay and holds it for
//! a time. The nodes record these times themselves, so that the measurement depends neither on the daemons nor on the
//! caller.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use muster_calls::runs::{ConcurrencyStats, PermitInterval, measure_concurrency};
use muster_wire::identity::Identity;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{RpcCommand, describe_output};
use crate::nats_server::NatsServer;
use crate::organisation::Organisation;
use crate::poll_until_ok;
use crate::puppet::SimulatedBehaviour;
use crate::rpcd::{DaemonHome, Rpcd};

/// How long a fleet may take to start.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// The scripted Puppet. Reads its delay and its work in seconds, and appends the times at which it began, took the lock
/// and released it, in nanoseconds since the epoch. The lock is held within the recorded interval. A report and a
/// summary make the run a successful one whose duration is known.
const PUPPET_SCRIPT: &str = r#"#!/bin/sh
begun=$(date +%s%N)
node=${0%/*}
state=$node/var/state
read -r delay work seconds <"$node/behaviour"
sleep "$delay"
taken=$(date +%s%N)
printf %s $$ >"$state/agent_catalog_run.lock"
sleep "$work"
cat >"$state/last_run_report.yaml" <<END
--- !ruby/object:Puppet::Transaction::Report
host: node
time: '$taken'
configuration_version: 1
transaction_uuid: $taken
status: changed
transaction_completed: true
noop: false
environment: production
cached_catalog_status: not_used
metrics:
  resources:
    name: resources
    values:
    - - total
      - Total
      - 1
    - - changed
      - Changed
      - 1
END
cat >"$node/public/last_run_summary.yaml" <<END
---
version:
  config: 1
application:
  converged_environment: production
resources:
  total: 1
  changed: 1
  failed: 0
time:
  config_retrieval: 0.001
  total: $seconds
  last_run: ${taken%?????????}
END
rm -f "$state/agent_catalog_run.lock"
released=$(date +%s%N)
echo "$begun $taken $released" >>"$node/times"
"#;

/// The times of one run of the scripted Puppet, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTimes {
    /// When the program began, with its permit.
    pub begun: u64,
    /// When it took Puppet's lock.
    pub taken: u64,
    /// When it had released the lock.
    pub released: u64,
}

/// A rollout as the nodes measured it.
#[derive(Debug, Clone)]
pub struct MeasuredRollout {
    /// The nodes in the order that `rpc` printed before the first request.
    pub printed_order: Vec<Identity>,
    /// The times of each node.
    pub times: BTreeMap<Identity, LockTimes>,
    /// The time that each node was told to take: its delay and its work.
    pub planned: BTreeMap<Identity, Duration>,
}

/// Running daemons with a broker and a caller.
#[derive(Debug)]
pub struct PuppetDaemonFleet {
    /// The real `rpc`.
    pub rpc: RpcCommand,
    /// The daemons by name. Declared before the broker: they end first.
    pub daemons: BTreeMap<Identity, Rpcd>,
    directory: TempDir,
    _server: NatsServer,
    _organisation: Organisation,
}

impl PuppetDaemonFleet {
    /// Starts this number of daemons, and waits until all of them reply.
    pub async fn start(count: usize) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        let directory = tempfile::tempdir().unwrap();
        let start = |number: usize| {
            let name = format!("node{number:02}.example.net");
            let signer = organisation.node(&name);
            let config = prepare_puppet(&directory.path().join(&name), &name);
            let home = DaemonHome::new(&organisation, &signer, &server.url(), &config);
            (signer.identity().clone(), home.start())
        };
        let daemons = (1..=count).map(start).collect();
        poll_until_ok("all daemons reply", START_TIMEOUT, async || {
            let output = rpc.run(&["ping", "-A", "puppet", "-j"]).await;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let document: Value = serde_json::from_str(&text).unwrap_or_default();
            let replies = document["replies"].as_array().map_or(0, Vec::len);
            if replies == count { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        Self { rpc, daemons, directory, _server: server, _organisation: organisation }
    }

    fn node_path(&self, node: &Identity, name: &str) -> PathBuf {
        self.directory.path().join(node.as_str()).join(name)
    }

    /// Sets delay and work of each node's next runs, in the order of the names.
    pub fn set_behaviours(&self, behaviours: &[SimulatedBehaviour]) {
        assert_eq!(behaviours.len(), self.daemons.len());
        for (node, SimulatedBehaviour { delay, work, .. }) in self.daemons.keys().zip(behaviours) {
            let [delay, work, sum] = [*delay, *work, *delay + *work].map(|time| time.as_secs_f64());
            let line = format!("{delay:.4} {work:.4} {sum:.4}\n");
            std::fs::write(self.node_path(node, "behaviour"), line).unwrap();
        }
    }

    /// Runs `rpc puppet runall` with this limit and these options; every run must succeed, once.
    pub async fn run_all(&self, limit: usize, options: &[&str]) -> MeasuredRollout {
        for node in self.daemons.keys() {
            let _ = std::fs::remove_file(self.node_path(node, "times"));
        }
        let limit = limit.to_string();
        let arguments = [&["puppet", "runall", &limit, "--jsonl"], options].concat();
        let output = self.rpc.run(&arguments).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_kind = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
        let name = |value: &Value| Identity::parse(value.as_str().unwrap()).unwrap();
        let found = of_kind("found").next().unwrap();
        let printed_order = found["nodes"].as_array().unwrap().iter().map(name).collect();
        let nodes = || self.daemons.keys();
        MeasuredRollout {
            printed_order,
            times: nodes().map(|node| (node.clone(), self.read_times(node))).collect(),
            planned: nodes().map(|node| (node.clone(), self.read_planned(node))).collect(),
        }
    }

    fn read_times(&self, node: &Identity) -> LockTimes {
        let text = std::fs::read_to_string(self.node_path(node, "times")).unwrap();
        let numbers: Vec<u64> =
            text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [begun, taken, released] = numbers[..] else {
            panic!("{node} did not run exactly once: {text}");
        };
        LockTimes { begun, taken, released }
    }

    fn read_planned(&self, node: &Identity) -> Duration {
        let text = std::fs::read_to_string(self.node_path(node, "behaviour")).unwrap();
        Duration::from_secs_f64(text.split_whitespace().last().unwrap().parse().unwrap())
    }
}

/// Creates a node's scripted Puppet in a directory, which must have a file `behaviour` before a run; returns the daemon's configuration for it. Each run
/// appends a line to the file `times`.
pub fn prepare_puppet(directory: &std::path::Path, name: &str) -> String {
    for directory in ["var/state", "public", "run", "ssl"].map(|name| directory.join(name)) {
        std::fs::create_dir_all(directory).unwrap();
    }
    let program = directory.join("puppet");
    std::fs::write(&program, PUPPET_SCRIPT).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| directory.join(name).display().to_string();
    format!(
        "[plugins.puppet]\ncommand = {:?}\nvardir = {:?}\npublicdir = {:?}\nrundir = {:?}\nssldir = {:?}\n\
         certname = {name:?}\n",
        path("puppet"),
        path("var"),
        path("public"),
        path("run"),
        path("ssl"),
    )
}

impl MeasuredRollout {
    /// The time that a node was told to take.
    pub fn planned_time(&self, node: &Identity) -> Duration {
        self.planned[node]
    }

    /// Nodes that began before one that precedes them in the printed order: how many, and by how much at most. Nodes
    /// whose places become free at once claim them at once, so either may be a few milliseconds early.
    pub fn early_starts(&self) -> (usize, Duration) {
        let mut latest = 0;
        let earliness = self.printed_order.iter().map(|node| {
            let begun = self.times[node].begun;
            latest = latest.max(begun);
            Duration::from_nanos(latest - begun)
        });
        let early: Vec<Duration> = earliness.filter(|by| !by.is_zero()).collect();
        (early.len(), early.into_iter().max().unwrap_or_default())
    }

    /// Concurrency of the intervals during which Puppet's lock was held, in milliseconds. The bounds are rounded
    /// outwards, so that the maximum is not too low.
    pub fn lock_stats(&self) -> ConcurrencyStats {
        self.stats(|times| (times.taken, times.released))
    }

    /// Concurrency of the intervals from the begin of the program to its release of the lock.
    pub fn program_stats(&self) -> ConcurrencyStats {
        self.stats(|times| (times.begun, times.released))
    }

    fn stats(&self, bounds: impl Fn(&LockTimes) -> (u64, u64)) -> ConcurrencyStats {
        let interval = |times: &LockTimes| {
            let (start, end) = bounds(times);
            PermitInterval { start: start / 1_000_000, end: end.div_ceil(1_000_000) }
        };
        let intervals: Vec<PermitInterval> = self.times.values().map(interval).collect();
        measure_concurrency(&intervals).unwrap()
    }

    /// From the begin of the first program to the end of the last one.
    pub fn makespan(&self) -> Duration {
        self.program_stats().makespan
    }

    /// The ideal time of the planned delays and works in the printed order: each begins as soon as an earlier one has
    /// ended.
    pub fn ideal_makespan(&self, limit: usize) -> Duration {
        list_schedule(self.printed_order.iter().map(|node| self.planned[node]), limit)
    }

    /// Like [`Self::ideal_makespan`], with the times that the programs really took on this machine.
    pub fn ideal_measured_makespan(&self, limit: usize) -> Duration {
        let took = |node| {
            let LockTimes { begun, released, .. } = self.times[node];
            Duration::from_nanos(released - begun)
        };
        list_schedule(self.printed_order.iter().map(took), limit)
    }

    /// The lower bound of any order: the larger of the planned sum divided by the limit, and the longest.
    pub fn least_makespan(&self, limit: usize) -> Duration {
        let sum: Duration = self.planned.values().sum();
        let longest = self.planned.values().max().copied().unwrap_or_default();
        (sum / u32::try_from(limit).unwrap()).max(longest)
    }
}

/// The duration of an ideal rollout: each run starts, in this order, as soon as an earlier one has ended.
pub fn list_schedule(works: impl Iterator<Item = Duration>, limit: usize) -> Duration {
    let mut free = vec![Duration::ZERO; limit];
    for work in works {
        free.sort_unstable();
        if let Some(first) = free.first_mut() {
            *first += work;
        }
    }
    free.into_iter().max().unwrap_or_default()
}
