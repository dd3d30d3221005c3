//! Tests of the worker with a simulated systemd, and of restarts that a killed worker left unfinished.
//! `tests/it/restarts/` has the tests with real services, locks and runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::system::{LockGuard, ProcessId, StateDir, System, SystemResult};
use tempfile::TempDir;

use crate::restart::cycle::{MachinePaths, RestartRecord};
use crate::restart::worker::RestartWorker;
use crate::restart::{
    RestartCycle, RestartManager, RestartOptions, RestartState, RestartStore, RestartTarget,
    WorkerLauncher,
};

/// Launches no worker: each test runs the worker itself.
#[derive(Debug)]
struct Nobody;

impl WorkerLauncher for Nobody {
    fn launch(&self, _: &RestartStore, _: &str) -> SystemResult<()> {
        Ok(())
    }
}

/// A simulated machine with one service. Its main process is PID 1 before a restart and the test's process afterwards.
struct Machine {
    system: FakeSystem,
    directory: TempDir,
    restarts: RestartManager,
    target: RestartTarget,
}

impl Machine {
    fn new() -> Self {
        let system = FakeSystem::new();
        system.add_directory("/run/systemd/system");
        let directory = tempfile::tempdir().unwrap();
        let places = MachinePaths {
            root: "/".into(),
            engine: directory.path().join("engine"),
            puppet: Vec::new(),
        };
        let restarts = RestartManager::new(
            RestartStore::new(directory.path().join("restart")),
            places,
            Arc::new(Nobody),
            Arc::new(system.clone()),
        );
        let machine = Self {
            system,
            directory,
            restarts,
            target: RestartTarget::parse_unit("puppet").unwrap(),
        };
        machine.becomes(std::process::id());
        machine
    }

    /// After a restart, this process is the main process of the service.
    fn becomes(&self, after: u32) {
        let restarted = Arc::new(AtomicBool::new(false));
        let state = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n";
        self.system.script_output(&["systemctl", "show"], CommandOutput::new(0, state));
        let told = Arc::clone(&restarted);
        self.system.script_handler(&["systemctl", "restart"], move |_, _| {
            told.store(true, Ordering::SeqCst);
            CommandOutput::new(0, "")
        });
        let main = ["systemctl", "show", "--property=MainPID"];
        self.system.script_handler(&main, move |_, _| {
            let pid = if restarted.load(Ordering::SeqCst) { after } else { 1 };
            CommandOutput::new(0, format!("MainPID={pid}\n"))
        });
    }

    fn worker(&self) -> RestartWorker {
        let system: Arc<dyn System> = Arc::new(self.system.clone());
        RestartWorker::new(self.restarts.store().clone(), &self.target.record_key(), system).hasty()
    }

    /// Requests a restart and runs the worker.
    fn restart(&self, wish: &RestartOptions) -> RestartCycle {
        self.restarts.request_restart(&self.target, wish).unwrap();
        self.worker().run().unwrap();
        self.outcome()
    }

    fn outcome(&self) -> RestartCycle {
        self.restarts.find_cycle(&self.target, None).unwrap().unwrap()
    }

    fn restarts(&self) -> usize {
        let lines = self.system.recorded_command_lines();
        let restart = "systemctl restart -- puppet.service";
        lines.iter().filter(|line| *line == restart).count()
    }

    fn run_lock(&self) -> Box<dyn LockGuard> {
        let engine = StateDir::open(&self.directory.path().join("engine")).unwrap();
        engine.acquire_lock("run.lock", Duration::ZERO).unwrap()
    }
}

fn words(cycle: &RestartCycle) -> Vec<&'static str> {
    cycle.steps.iter().map(|step| step.state.as_str()).collect()
}

#[test]
fn restart_is_verified_by_a_new_main_process() {
    let machine = Machine::new();
    let cycle = machine.restart(&RestartOptions::default());
    let pid = std::process::id();
    assert_eq!(cycle.text, format!("process {pid} in place of 1"));
    assert_eq!(words(&cycle), ["requested", "locked", "restarting", "verifying", "ok"]);
    assert_eq!(cycle.after.map(|process| process.pid), Some(pid));
    assert_eq!(machine.restarts(), 1);
    let steps = &cycle.steps;
    assert!(steps.is_sorted_by_key(|step| step.at.uptime) && steps[0].at.uptime > 0);
    // The next restart starts with the current process; if the process stays the same, the restart failed.
    let cycle = machine.restart(&RestartOptions::default());
    assert_eq!(cycle.state, RestartState::Failed);
    assert_eq!(cycle.text, format!("puppet is still process {pid}, as before"));
}

#[test]
fn failed_restart_has_the_message_of_systemd() {
    let machine = Machine::new();
    let said =
        "Job for puppet.service failed because the control process exited with error code.\n";
    machine.system.script_output(&["systemctl", "restart"], CommandOutput::new(1, said));
    let cycle = machine.restart(&RestartOptions::default());
    assert_eq!(cycle.state, RestartState::Failed);
    assert_eq!(
        cycle.text,
        format!("`systemctl restart -- puppet.service` ended with code 1: {}", said.trim())
    );
    let missing = "LoadState=not-found\nActiveState=inactive\nUnitFileState=\n";
    machine.becomes(std::process::id());
    let shown = ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState,SourcePath"];
    machine.system.script_output(&shown, CommandOutput::new(0, missing));
    let cycle = machine.restart(&RestartOptions::default());
    let text = "there is no such service: looked for a systemd unit puppet.service";
    assert_eq!((cycle.state, cycle.text.as_str()), (RestartState::Failed, text));
}

#[test]
fn deadline_ends_the_wait_for_a_run_and_force_skips_it() {
    let machine = Machine::new();
    let _run = machine.run_lock();
    let wish = RestartOptions { deadline: Duration::ZERO, ..RestartOptions::default() };
    let cycle = machine.restart(&wish);
    assert_eq!(cycle.state, RestartState::Timeout);
    let text = "restart_timeout: not restarted, because another run is in progress (";
    assert!(cycle.text.starts_with(text), "{}", cycle.text);
    assert_eq!(machine.restarts(), 0);
    let forced = RestartOptions { force: true, ..wish };
    assert_eq!(machine.restart(&forced).state, RestartState::Ok);
    let at_once = RestartOptions { when_idle: false, ..RestartOptions::default() };
    machine.becomes(std::process::id());
    assert_eq!(machine.restart(&at_once).state, RestartState::Ok);
    assert_eq!(machine.restarts(), 2);
}

/// Simulates a worker that was killed in this state.
fn left_in(machine: &Machine, state: RestartState, before: Option<ProcessId>) {
    machine.restarts.request_restart(&machine.target, &RestartOptions::default()).unwrap();
    let key = machine.target.record_key();
    let leave = |record: &mut Option<RestartRecord>| {
        let cycle = &mut record.as_mut().unwrap().current;
        let now = cycle.requested;
        cycle.before = before;
        cycle.record_step(state, "and then there was silence", now);
    };
    machine.restarts.store().update_record(&key, leave).unwrap();
    assert_eq!(machine.restarts.resume_pending().unwrap(), 1, "{state:?}");
    machine.worker().run().unwrap();
}

#[test]
fn restart_of_a_killed_worker_is_done_once() {
    // The worker had not restarted the service.
    for state in [
        RestartState::Requested,
        RestartState::Waiting,
        RestartState::Locked,
        RestartState::Restarting,
    ] {
        let machine = Machine::new();
        left_in(&machine, state, ProcessId::from_pid(1));
        assert_eq!(
            (machine.outcome().state, machine.restarts()),
            (RestartState::Ok, 1),
            "{state:?}"
        );
    }
    // The worker had restarted the service: its main process differs from the process before.
    for state in [RestartState::Restarting, RestartState::Verifying] {
        let machine = Machine::new();
        left_in(&machine, state, ProcessId::from_pid(std::process::id()));
        assert_eq!(
            (machine.outcome().state, machine.restarts()),
            (RestartState::Ok, 0),
            "{state:?}"
        );
    }
    let machine = Machine::new();
    machine.restart(&RestartOptions::default());
    assert_eq!(machine.restarts.resume_pending().unwrap(), 0, "nothing is left to do");
}

#[test]
fn second_worker_does_nothing_and_a_damaged_record_is_replaced() {
    let machine = Machine::new();
    let key = machine.target.record_key();
    machine.restarts.request_restart(&machine.target, &RestartOptions::default()).unwrap();
    let occupied = machine.restarts.store().try_lock_worker(&key).unwrap().unwrap();
    machine.worker().run().unwrap();
    assert_eq!(machine.outcome().state, RestartState::Requested, "another worker holds the lock");
    drop(occupied);
    machine.worker().run().unwrap();
    assert_eq!(machine.outcome().state, RestartState::Ok);
    let file = machine.directory.path().join("restart/unit.puppet.json");
    std::fs::write(&file, "{\"target\":").unwrap();
    assert_eq!(machine.restarts.find_cycle(&machine.target, None).unwrap(), None);
    machine.becomes(std::process::id());
    assert_eq!(machine.restart(&RestartOptions::default()).state, RestartState::Ok);
}

#[test]
fn records_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new();
    machine.restart(&RestartOptions::default());
    let mode = |name: &str| {
        let path = machine.directory.path().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("restart"), 0o700);
    assert_eq!(mode("restart/unit.puppet.json"), 0o600);
}
