//! A9.4: the provisioner's host is killed as a process in each step of its plan; another process completes the step.

use std::os::unix::process::ExitStatusExt as _;

use muster_provisioner::Options;
use muster_provisioner::plan::ProvisioningPlan;
use muster_provisioner::record::EventKind;
use muster_provisioner::store::NodeRecordStore;
use muster_tests::command::describe_output;
use muster_tests::puppet_ca::RequestHold;
use muster_tests::rpcd::Rpcd;
use muster_tests::tier::case_step;
use serde_json::Value;

use super::processes::{
    ProcessFleet, add_record, await_done, await_record, puppet_runs, start_leader,
};

/// What each node gets, in the order of the plan: the built-in steps, an agent's action, and a helper.
const STEPS: &str = r#"
[[plugins.provisioner.steps]]
name = "configure"
inputs = { configuration = { "log.level" = "debug" }, policies = { "service.policy" = "policy default deny\n" } }
[[plugins.provisioner.steps]]
name = "daemonize"
[[plugins.provisioner.steps]]
name = "ping"
after = "final_run"
agent = { agent = "rpcutil", action = "ping" }
[[plugins.provisioner.steps]]
name = "quota"
after = "lock"
helper = { command = ["/bin/sh", "-c", "while [ -e @/hold_helper ]; do sleep 0.05; done; echo '{}'"], timeout = 60 }
"#;
/// Steps that may be executed twice if their host dies in them: a run of Puppet cannot be asked whether it took place.
const REPEATED_RUNS: [(&str, &str); 2] = [("bootstrap", "bootstrap"), ("final_run", "production")];

/// The plan of the configuration above.
fn plan_steps() -> Vec<String> {
    let document: Value = toml::from_str(STEPS).unwrap();
    let options = document.pointer("/plugins/provisioner").unwrap().clone();
    let options: Options = serde_json::from_value(options).unwrap();
    let plan = ProvisioningPlan::from_options(&options).unwrap();
    plan.steps().iter().map(|step| step.name.to_string()).collect()
}

/// The host is killed by SIGKILL in every step of the plan, for two nodes at once. What the step calls is held, so that the
/// step is certainly in progress, and the call of the killed host is executed after its death. Alternately the same host
/// is restarted, and another host takes over before the held call is executed.
///
/// Every node ends provisioned: one certificate, each step done once, one notification, the runs of Puppet one after
/// the other. Only a run of Puppet in which the host died may have taken place twice. The fence of the killed host is
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_4_host_killed_in_each_step_is_replaced() {
    let fleet = ProcessFleet::start().await;
    let store = fleet.open_record_store().await;
    let steps = plan_steps();
    assert!(steps.len() >= 14, "{steps:?}");
    for (index, step) in steps.iter().enumerate().step_by(case_step(5)) {
        let previous = index.checked_sub(1).and_then(|index| steps.get(index));
        let names = ["a", "b"].map(|name| format!("{name}{index}.example.net"));
        let scenario = KilledHost { fleet: &fleet, store: &store, step, names };
        Box::pin(scenario.run(previous, index % 2 == 1)).await;
    }
}

struct KilledHost<'a> {
    fleet: &'a ProcessFleet,
    store: &'a NodeRecordStore,
    step: &'a str,
    names: [String; 2],
}

impl KilledHost<'_> {
    async fn run(&self, previous: Option<&String>, by_another: bool) {
        let mut machines = Vec::new();
        for name in &self.names {
            machines.push(self.fleet.start_machine(name, ACCEPTED).await);
        }
        // A helper between the previous step and this one waits until everything that the step may call is held.
        let hold = previous.map(|previous| {
            format!(
                "[[plugins.provisioner.steps]]\nname = \"hold\"\nafter = \"{previous}\"\nhelper = {{ command = \
                 [\"/bin/sh\", \"-c\", \"while [ -e @/hold_step ]; do sleep 0.05; done; echo '{{}}'\"], timeout = 60 }}\n"
            )
        });
        let text = format!("{STEPS}{}", hold.as_deref().unwrap_or_default());
        let first = self.fleet.create_host("prov1.example.net", &text);
        for file in ["hold_step", "hold_helper"] {
            first.write(file, "", 0o600);
        }
        let release = |file: &str| std::fs::remove_file(first.path(file)).unwrap();
        if self.step != "quota" {
            release("hold_helper");
        }
        let mut host = start_leader(first.clone()).await;
        if hold.is_none() {
            self.hold_calls(&machines).await;
        }
        for name in &self.names {
            add_record(self.store, name).await;
        }
        if hold.is_some() {
            self.await_underway("hold").await;
            self.hold_calls(&machines).await;
            release("hold_step");
        }
        self.await_underway(self.step).await;
        let fences = machines.iter().map(fence_of).collect::<Vec<_>>();
        assert_eq!(host.kill_and_wait().signal(), Some(9));
        if self.step == "quota" {
            release("hold_helper");
        }
        let _successor = if by_another {
            let second = self.fleet.create_host("prov2.example.net", &text);
            let second = start_leader(second).await;
            self.release_calls(&machines);
            second
        } else {
            self.release_calls(&machines);
            start_leader(first).await
        };
        for (machine, (name, fence)) in machines.iter_mut().zip(self.names.iter().zip(fences)) {
            self.check_node(name, machine, fence).await;
        }
    }

    /// Holds what a step may call: the nodes, the authority behind the master, and the receiver of notifications.
    async fn hold_calls(&self, machines: &[Rpcd]) {
        for machine in machines {
            machine.freeze().await;
        }
        self.fleet.ca.hold_requests(RequestHold::All);
        self.fleet.hook.hold_answers(true);
    }

    fn release_calls(&self, machines: &[Rpcd]) {
        machines.iter().for_each(Rpcd::thaw);
        self.fleet.ca.hold_requests(RequestHold::None);
        self.fleet.hook.hold_answers(false);
    }

    /// Waits until the step of both nodes is in progress.
    async fn await_underway(&self, step: &str) {
        for name in &self.names {
            let what = format!("the step {step} of {name} is in progress");
            let is_underway = |record: &muster_provisioner::record::NodeRecord| {
                let current = record.current.as_ref();
                current.is_some_and(|current| current.underway && current.step.as_str() == step)
            };
            await_record(self.store, name, &what, is_underway).await;
        }
    }

    async fn check_node(&self, name: &str, machine: &mut Rpcd, killed_fence: u64) {
        let (step, fleet) = (self.step, self.fleet);
        let record = await_done(self.store, name).await;
        let count = |kind: EventKind, step: &str| {
            let entries = record.history.iter();
            entries.filter(|entry| entry.what == kind && entry.step == step).count()
        };
        for done in &record.done {
            assert_eq!(count(EventKind::Done, done.as_str()), 1, "{step}: {done} of {name}");
        }
        assert!(
            count(EventKind::Began, step) >= 2,
            "{step} of {name} was not repeated: {record:#?}"
        );
        // One certificate, which is not revoked.
        let context = || format!("killed in {step}: {name}\n{}", fleet.master_log());
        assert_eq!(fleet.ca.times_signed(name), 1, "{}", context());
        assert_eq!(fleet.ca.state(name), Some("signed"), "{}", context());
        // One notification; a repeated delivery has the same id.
        let notified = fleet.hook.nodes("done");
        assert_eq!(notified.iter().filter(|node| *node == name).count(), 1, "{}", context());
        let runs = puppet_runs(machine);
        for (run_step, environment) in REPEATED_RUNS {
            let found = runs.iter().filter(|run| **run == format!("end {environment}")).count();
            let most = if run_step == step { 2 } else { 1 };
            assert!((1..=most).contains(&found), "{}: {runs:?}", context());
        }
        assert!(!runs.iter().any(|run| run.starts_with("overlap")), "{}: {runs:?}", context());
        assert!(machine.home().path("state/provision.disabled").exists(), "{}", context());
        assert!(!machine.home().path("state/provision.lock").exists(), "{}", context());
        // The settings were delivered once: the daemon has restarted once.
        assert_eq!(machine.log().matches("restarting: waiting").count(), 1, "{}", context());
        self.check_fence(name, machine, killed_fence).await;
    }

    /// The fence of the killed host is refused by the node, once another one has locked it.
    async fn check_fence(&self, name: &str, machine: &Rpcd, killed_fence: u64) {
        let newest = fence_of(machine);
        assert!(newest >= killed_fence, "{}: {newest} < {killed_fence}", self.step);
        if newest == killed_fence {
            // Only steps after the node was released need no lock.
            assert!(["notify", "release"].contains(&self.step), "{} of {name}", self.step);
            return;
        }
        let fence = format!("fence={killed_fence}");
        let rpc = self.fleet.caller();
        let refused = rpc.run(&["do", "provision", "release", &fence, "-I", name]).await;
        let text = describe_output(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("fence {killed_fence} is not valid")), "{text}");
    }
}

/// What the nodes accept from a provisioner.
const ACCEPTED: &str =
    "accept_settings = [\"log.level\"]\naccept_policies = true\ndaemon_command = [\"/bin/true\"]\n";

/// The highest fence that a node has seen; 0 before the first lock.
fn fence_of(machine: &Rpcd) -> u64 {
    let text = std::fs::read(machine.home().path("state/provision.fence")).unwrap_or_default();
    let record: Value = serde_json::from_slice(&text).unwrap_or_default();
    record.get("fence").and_then(Value::as_u64).unwrap_or_default()
}
