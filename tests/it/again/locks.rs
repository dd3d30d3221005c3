//! Timers with an injected clock, and real locks of Puppet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::{StateChanges, StateSource as _};
use muster_puppet::again::budget::FleetBudget;
use muster_puppet::again::clock::SteadyClock;
use muster_puppet::again::plan::request::AgainRequest;
use muster_puppet::again::spool::{HandedOver, RequestSpool};
use muster_puppet::again::{AgainMonitor, AgainMonitorParts, AgainPolicy};
use muster_puppet::permits::PermitClient;
use muster_system::ProcessId;
use muster_tests::{now, poll_until_ok, simulate_delay};
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::fixture::{SCRIPT, TIMEOUT};
use crate::puppet::puppet_node::PuppetNode;
use crate::restarts::FakePuppetRun;

/// A node in this process, whose clock a test sets.
struct ClockedNode {
    node: PuppetNode,
    monitor: AgainMonitor,
    clock: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl ClockedNode {
    fn start() -> Self {
        let node = PuppetNode::scripted("n1.example.net", SCRIPT);
        let clock = Arc::new(AtomicU64::new(now()));
        let permits = PermitClient::new(Identity::parse(node.name()).unwrap());
        let plugin = node.without_permits();
        let time = Arc::clone(&clock);
        let monitor = AgainMonitor::new(AgainMonitorParts {
            policy: AgainPolicy { spread: 0, ..AgainPolicy::default() },
            directory: node.path("muster/again"),
            puppet: plugin.run_handle(),
            budget: FleetBudget::new(permits, 0).unwrap(),
            clock: SteadyClock::from_function(move || time.load(Ordering::Relaxed)),
            state_changes: StateChanges::default(),
        });
        let stop = CancellationToken::new();
        let system = Arc::new(RealSystem::new("/".into()));
        tokio::spawn(plugin.build_monitor(system.clone()).run(stop.clone()));
        let handle = Arc::new(TestNode::named(node.name()).unwrap());
        tokio::spawn(monitor.clone().run(handle, system, stop.clone()));
        Self { node, monitor, clock, stop }
    }

    fn start_foreign_run(&self) -> FakePuppetRun {
        let lock = self.node.path("var/state/agent_catalog_run.lock");
        FakePuppetRun::start(&self.node.path("puppet-agent"), lock)
    }

    fn advance(&self, seconds: u64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    /// Asks in this run for another one, two minutes later.
    async fn ask(&self, run: &FakePuppetRun, start_timer_now: bool) {
        let request = AgainRequest {
            id: Uuid::now_v7(),
            requester: "Exec[again-delta-x]".to_owned(),
            reason: "test".to_owned(),
            min_delay: 120_000,
            max_delay: Some(120_000),
            group: None,
            not_before: None,
            deadline: None,
            start_timer_now,
            noop: false,
            requested_at: now(),
            process: ProcessId::from_pid(run.pid()),
            when: None,
        };
        let spool = RequestSpool::new(&self.node.path("muster/again"));
        spool.hand_over(&HandedOver::Request { request: Box::new(request) }).unwrap();
        self.await_state("pending", true).await;
    }

    async fn await_state(&self, name: &str, expected: bool) {
        let system = RealSystem::new("/".into());
        poll_until_ok(name, TIMEOUT, async || {
            let state = self.monitor.read_state(&system).map(Value::Object).unwrap_or_default();
            // A node without a pending run has no such state.
            let is_so = state.get(name) == Some(&json!(true));
            if is_so == expected { Ok(()) } else { Err(state) }
        })
        .await;
    }

    /// Waits for `count` runs; returns when the last one began.
    async fn await_runs(&self, count: usize) -> u64 {
        poll_until_ok("the run has begun", TIMEOUT, async || {
            let log = self.node.log();
            match log.last() {
                Some(last) if log.len() == count => Ok(last.parse().unwrap()),
                _ => Err(log),
            }
        })
        .await
    }

    /// Fails if a run begins now. The turns of the monitor take a tenth of this time.
    async fn assert_waits(&self, count: usize) {
        simulate_delay(Duration::from_millis(700)).await;
        assert_eq!(self.node.log().len(), count, "no run may begin now");
    }
}

impl Drop for ClockedNode {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_2_runs_begin_after_lock_and_timer_and_within_a_second_of_the_release() {
    let node = ClockedNode::start();
    // The timer counts from the request and has ended long ago, but the run that asked goes on.
    let run = node.start_foreign_run();
    node.ask(&run, true).await;
    node.advance(7200);
    node.assert_waits(0).await;
    let released = run.end();
    let began = node.await_runs(1).await;
    assert!((released..=released + 1000).contains(&began), "{} ms", began.saturating_sub(released));

    // The timer counts from the end of the run, on the injected clock only.
    node.await_state("running", false).await;
    let run = node.start_foreign_run();
    node.ask(&run, false).await;
    node.advance(7200);
    run.end();
    node.assert_waits(1).await;
    node.advance(119);
    node.assert_waits(1).await;
    // Another run begins meanwhile: its lock counts, too.
    let run = node.start_foreign_run();
    // Repeated requests of a chain are delayed by some more seconds.
    node.advance(60);
    node.assert_waits(1).await;
    let released = run.end();
    let began = node.await_runs(2).await;
    assert!((released..=released + 1000).contains(&began), "{} ms", began.saturating_sub(released));
}
