//! Tests of runs that outlive the daemon, and of the ledger of refreshes that Puppet would lose.

use muster_api::system::StateDir;
use muster_engine::ledger::RefreshLedger;
use serde_json::{Value, json};

use super::machine::{Machine, ask, ask_in, context, reside, run, until, until_there};
use crate::{PuppetApplication, PuppetPlugin};

const SLOW: &str = "lock; touch \"$state/begun\"; while [ ! -e \"$state/go\" ]; do sleep 0.05; done; report changed 9 2 0; unlock; exit 2";

/// A daemon with its own runtime. `kill` stops all its tasks without cancelling them.
struct Daemon {
    runtime: tokio::runtime::Runtime,
    puppet: PuppetPlugin,
}

impl Daemon {
    fn start(machine: &Machine) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let puppet = machine.puppet();
        let entered = runtime.enter();
        // The token is never cancelled, as when the daemon is killed.
        drop(reside(&puppet));
        drop(entered);
        Self { runtime, puppet }
    }

    fn ask(&self, action: &str, input: Value) -> Value {
        self.runtime.block_on(ask(&self.puppet, action, input)).unwrap()
    }

    fn until(&self, run: &str, wanted: &[&str]) -> Value {
        self.runtime.block_on(until(&self.puppet, run, wanted))
    }

    fn kill(self) {
        self.runtime.shutdown_background();
    }
}

#[test]
fn program_continues_without_its_daemon_and_the_next_daemon_waits() {
    let machine = Machine::new(SLOW);
    let first = Daemon::start(&machine);
    let begun = first.ask("runonce", json!({"background": true}));
    let id = begun["run"].as_str().unwrap();
    first.runtime.block_on(until_there(&machine.state("begun")));
    first.until(id, &["starting"]);
    first.kill();
    let second = Daemon::start(&machine);
    second.until(id, &["starting", "applying"]);
    std::fs::write(machine.state("go"), "").unwrap();
    let outcome = second.until(id, &["finished", "aborted"]);
    assert_eq!(
        (&outcome["class"], &outcome["exitcode"]),
        (&json!("changed"), &json!(2)),
        "{outcome}"
    );
    assert_eq!(machine.calls(), 1);
    second.kill();
}

#[test]
fn result_of_a_program_that_ended_without_a_daemon_is_recorded() {
    let machine = Machine::new(SLOW);
    let first = Daemon::start(&machine);
    let begun = first.ask("runonce", json!({"background": true}));
    let id = begun["run"].as_str().unwrap();
    first.runtime.block_on(until_there(&machine.state("begun")));
    first.until(id, &["starting"]);
    first.kill();
    std::fs::write(machine.state("go"), "").unwrap();
    let exit = machine.path("muster/puppet/runs").join(id).join("run/exit");
    tokio::runtime::Runtime::new().unwrap().block_on(until_there(&exit));
    let second = Daemon::start(&machine);
    let outcome = second.until(id, &["finished", "aborted"]);
    assert_eq!(outcome["class"], "changed", "{outcome}");
    second.kill();
}

#[test]
fn run_that_had_not_begun_is_aborted_after_a_restart() {
    let machine = Machine::new(SLOW);
    // Another process holds the run lock of the node.
    let engine = StateDir::open(&machine.path("muster/engine")).unwrap();
    let lock = engine.acquire_lock("run.lock", std::time::Duration::ZERO).unwrap();
    let first = Daemon::start(&machine);
    let begun = first.ask("runonce", json!({"background": true}));
    let id = begun["run"].as_str().unwrap();
    first.kill();
    drop(lock);
    let second = Daemon::start(&machine);
    let outcome = second.until(id, &["aborted"]);
    assert_eq!(outcome["reason"], "daemon_restart", "{outcome}");
    let again = second.runtime.block_on(run(&second.puppet, json!({"run": id})));
    assert_eq!(again["reason"], "daemon_restart", "the run is not started later");
    assert_eq!(machine.calls(), 0);
    second.kill();
}

#[tokio::test]
async fn stopping_daemon_replies_and_the_program_continues() {
    let machine = Machine::new(SLOW);
    let puppet = machine.puppet();
    let stop = reside(&puppet);
    let cx = context("runonce");
    let (answer, ()) = tokio::join!(ask_in(&puppet, &cx, json!({})), async {
        until_there(&machine.state("begun")).await;
        stop.cancel();
    });
    let error = answer.unwrap_err();
    assert!(error.message.contains("the daemon is stopping"), "{}", error.message);
    std::fs::write(machine.state("go"), "").unwrap();
    until(&puppet, error.data["run"].as_str().unwrap(), &["finished"]).await;
}

fn owed(machine: &Machine) -> Vec<String> {
    let engine = StateDir::open(&machine.path("muster/engine")).unwrap();
    let debts = RefreshLedger::read_owed(&engine).unwrap();
    debts.into_iter().map(|debt| format!("{} by {}", debt.target, debt.source)).collect()
}

fn catalog() -> String {
    json!({"name": "n1", "resources": [
        {"type": "Class", "title": "main"},
        {"type": "File", "title": "/a", "parameters": {"notify": "Exec[Y]"}},
        {"type": "Exec", "title": "Y", "parameters": {"notify": "Exec[Z]"}},
        {"type": "Exec", "title": "Z"},
    ], "edges": []})
    .to_string()
}

#[tokio::test]
async fn m6_refreshes_of_a_killed_run_are_replayed_in_the_next_catalog() {
    let mut machine = Machine::new(
        "say info '/Stage[main]/Main/File[/a]' 'Starting to evaluate the resource (1 of 3)'; \
         say notice '/Stage[main]/Main/File[/a]/ensure' 'defined content'; \
         say info '/Stage[main]/Main/File[/a]' 'Scheduling refresh of Exec[Y]'; \
         say info '/Stage[main]/Main/File[/a]' 'Evaluated in 0.01 seconds'; \
         say info '/Stage[main]/Main/Exec[Y]' 'Starting to evaluate the resource (2 of 3)'; kill -9 $$",
    );
    let path = machine.path("catalog.json");
    std::fs::write(&path, catalog()).unwrap();
    machine.options.application = PuppetApplication::Apply;
    machine.options.catalog = Some(path);
    let puppet = machine.puppet();
    let outcome = run(&puppet, json!({})).await;
    assert_eq!(outcome["class"], "killed");
    assert_eq!(
        outcome["pending"],
        json!(["Exec[Y]", "Exec[Z]"]),
        "Z may be owed, because Y was being evaluated"
    );
    assert_eq!(owed(&machine), ["Exec[Y] by File[/a]", "Exec[Z] by Exec[Y]"]);
    // A run without changes, except for the refreshes of the catalog that the daemon passed to it.
    machine.behave(
        "cp \"$catalog\" \"$state/given.json\"; \
         say info 'Notify[Refreshes that earlier runs owe]' 'Starting to evaluate the resource (1 of 4)'; \
         say info 'Notify[Refreshes that earlier runs owe]' 'Scheduling refresh of Exec[Y]'; \
         say info 'Notify[Refreshes that earlier runs owe]' 'Scheduling refresh of Exec[Z]'; \
         say info 'Notify[Refreshes that earlier runs owe]' 'Evaluated in 0.01 seconds'; \
         say info '/Stage[main]/Main/Exec[Y]' 'Starting to evaluate the resource (3 of 4)'; \
         say notice '/Stage[main]/Main/Exec[Y]' \"Triggered 'refresh' from 1 event\"; \
         say info '/Stage[main]/Main/Exec[Y]' 'Evaluated in 0.01 seconds'; report unchanged 4 0 0",
    );
    let outcome = run(&puppet, json!({})).await;
    assert_eq!(outcome["replayed"], json!(["Exec[Y]"]), "{outcome}");
    assert_eq!((&outcome["class"], &outcome["pending"]), (&json!("pending"), &json!(["Exec[Z]"])));
    let given: Value =
        serde_json::from_slice(&std::fs::read(machine.state("given.json")).unwrap()).unwrap();
    assert_eq!(given["resources"][4]["parameters"]["notify"], json!(["Exec[Y]", "Exec[Z]"]));
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(status["pending"], 1);
}

#[tokio::test]
async fn agent_replays_refreshes_in_a_second_run_and_restores_the_cached_catalog() {
    let machine = Machine::new(
        "say info '/Stage[main]/Main/File[/a]' 'Starting to evaluate the resource (1 of 3)'; \
         say info '/Stage[main]/Main/File[/a]' 'Scheduling refresh of Exec[Y]'; \
         say info '/Stage[main]/Main/File[/a]' 'Evaluated in 0.01 seconds'; kill -9 $$",
    );
    let cached = machine.path("var/client_data/catalog/n1.json");
    std::fs::create_dir_all(cached.parent().unwrap()).unwrap();
    std::fs::write(&cached, catalog()).unwrap();
    let puppet = machine.puppet();
    assert_eq!(run(&puppet, json!({})).await["pending"], json!(["Exec[Y]"]));
    machine.behave(
        "if grep -q 'earlier runs owe' \"$var/client_data/catalog/n1.json\"; then \
         say notice '/Stage[main]/Main/Exec[Y]' \"Triggered 'refresh' from 1 event\"; report changed 4 1 0; \
         else report unchanged 3 0 0; fi",
    );
    let outcome = run(&puppet, json!({})).await;
    assert_eq!(outcome["replayed"], json!(["Exec[Y]"]), "{outcome}");
    assert_eq!((&outcome["class"], &outcome["total"]), (&json!("changed"), &json!(3)), "{outcome}");
    assert_eq!(machine.calls(), 3, "the second request made two runs");
    let flags = machine.argv();
    assert_eq!(flags.iter().filter(|word| *word == "--use_cached_catalog").count(), 1);
    assert_eq!(std::fs::read_to_string(&cached).unwrap(), catalog());
    run(&puppet, json!({})).await;
    assert_eq!(machine.calls(), 4, "no refresh is owed");
    assert_eq!(owed(&machine), [""; 0]);
}
