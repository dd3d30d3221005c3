//! Tests of single runs: results, refusals, and that a run never executes twice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::progress;
use muster_api::wire::status::ReplyStatus;
use serde_json::json;
use uuid::Uuid;

use super::machine::{Machine, ask, ask_in, context, run, until, until_there};
use crate::Options;

const CHANGED: &str = "lock; say info Puppet \"Applying configuration version '7'\"; report changed 9 2 0; unlock; exit 2";

#[tokio::test]
async fn a2_5_runonce_returns_the_result_of_the_run() {
    let machine = Machine::new(CHANGED);
    let puppet = machine.puppet();
    let outcome = ask(&puppet, "runonce", json!({})).await.unwrap();
    let told: Vec<_> =
        ["state", "class", "exitcode", "total", "changed", "failed", "config_version"]
            .map(|name| outcome[name].clone())
            .to_vec();
    assert_eq!(
        told,
        [json!("finished"), json!("changed"), json!(2), json!(9), json!(2), json!(0), json!("7")]
    );
    assert!(outcome["finished_at"].as_u64() >= outcome["started_at"].as_u64(), "{outcome}");
    assert_eq!(outcome["transaction_uuid"].as_str().unwrap().len(), 36);
    machine.behave("report failed 9 1 1; exit 0");
    let failed = ask(&puppet, "runonce", json!({})).await.unwrap_err();
    assert_eq!(failed.status, ReplyStatus::Failed);
    assert!(failed.message.starts_with("failed+changed: "), "{}", failed.message);
    assert_eq!(failed.data["failed"], 1, "the exit code was 0");
    let runs = ask(&puppet, "runs", json!({})).await.unwrap();
    assert_eq!(runs["count"], 2);
    assert_eq!(runs["runs"][1]["class"], "changed");
}

#[tokio::test]
async fn a2_5_every_other_outcome_has_its_own_class() {
    for (behave, state, class) in [
        ("exit 1", "aborted", "not_started"),
        ("exit 0", "aborted", "no_report"),
        ("kill -9 $$", "aborted", "killed"),
        ("report failed 0 0 0; exit 1", "finished", "compile_failed"),
        (
            "report unchanged 9 0 0; sed -i 's/not_used/on_failure/' \"$state/last_run_report.yaml\"",
            "finished",
            "stale_catalog",
        ),
        ("report unchanged 9 0 0", "finished", "clean"),
    ] {
        let machine = Machine::new(behave);
        let outcome = run(&machine.puppet(), json!({})).await;
        assert_eq!(
            (&outcome["state"], &outcome["class"]),
            (&json!(state), &json!(class)),
            "{behave}: {outcome}"
        );
    }
}

#[tokio::test]
async fn run_with_one_identifier_executes_once() {
    let machine = Machine::new(
        "touch \"$state/begun\"; while [ ! -e \"$state/go\" ]; do sleep 0.05; done; report changed 9 2 0",
    );
    let puppet = machine.puppet();
    let id = Uuid::now_v7().to_string();
    let input = json!({"run": id});
    let both = async { tokio::join!(run(&puppet, input.clone()), run(&puppet, input.clone())) };
    let go = async {
        until_there(&machine.state("begun")).await;
        std::fs::write(machine.state("go"), "").unwrap();
    };
    let ((one, other), ()) = tokio::join!(both, go);
    assert_eq!(one["transaction_uuid"], other["transaction_uuid"]);
    assert_eq!(
        [&one["attached"], &other["attached"]]
            .map(|flag| u8::from(*flag == json!(true)))
            .iter()
            .sum::<u8>(),
        1
    );
    let again = run(&puppet, input.clone()).await;
    assert_eq!(
        (&again["transaction_uuid"], &again["attached"]),
        (&one["transaction_uuid"], &json!(true))
    );
    // Another daemon finds the stored run too.
    let later = run(&machine.puppet(), input).await;
    assert_eq!(later["transaction_uuid"], one["transaction_uuid"]);
    assert_eq!(machine.calls(), 1);
}

#[tokio::test]
async fn disabled_node_refuses_runs() {
    let machine = Machine::new(CHANGED);
    let puppet = machine.puppet();
    ask(&puppet, "disable", json!({"message": "hand hacking"})).await.unwrap();
    let outcome = run(&puppet, json!({})).await;
    assert_eq!((&outcome["state"], &outcome["reason"]), (&json!("refused"), &json!("disabled")));
    assert!(outcome["error"].as_str().unwrap().contains("hand hacking"));
    assert_eq!(machine.calls(), 0);
}

#[tokio::test]
async fn catalogs_that_others_can_change_are_not_applied() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut machine = Machine::new("report clean 9 0 0");
    let applied =
        ["catalog/site.json", "manifest/site.pp", "confdir/puppet.conf", "codedir/site.pp"];
    for file in applied {
        std::fs::create_dir_all(machine.path(file).parent().unwrap()).unwrap();
        std::fs::write(machine.path(file), "[]").unwrap();
    }
    let [catalog, manifest, confdir, codedir] = applied.map(|file| Some(machine.path(file)));
    let parent = |file: &Option<PathBuf>| file.as_ref().unwrap().parent().map(Path::to_owned);
    let apply = crate::PuppetApplication::Apply;
    let base = machine.options.clone();
    for options in [
        Options { engine: crate::CatalogEngine::Native, catalog: catalog.clone(), ..base.clone() },
        Options { application: apply, catalog: catalog.clone(), ..base.clone() },
        Options { application: apply, manifest: manifest.clone(), ..base.clone() },
        Options { confdir: parent(&confdir), ..base.clone() },
        Options { codedir: parent(&codedir), ..base.clone() },
    ] {
        let path = options.applied_paths().next().unwrap().to_owned();
        machine.options = options;
        let puppet = machine.puppet();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let set_mode =
            |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        set_mode(mode | 0o002).unwrap();
        let outcome = run(&puppet, json!({})).await.to_string();
        let remedy = format!("run `chmod go-w {}`", path.display());
        assert!(outcome.contains(&remedy), "{remedy}: {outcome}");
        set_mode(mode).unwrap();
    }
    assert_eq!(machine.calls(), 0);
}

/// A process whose name Puppet takes for a running Puppet.
struct Foreign(std::process::Child);

impl Foreign {
    #[expect(clippy::disallowed_types, reason = "the test is the somebody else")]
    fn new(machine: &Machine) -> Self {
        let program = machine.path("puppet");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let child = std::process::Command::new(program).arg("60").spawn().unwrap();
        // `spawn` returns before the kernel shows the arguments of the new program.
        let arguments = format!("/proc/{}/cmdline", child.id());
        while std::fs::read(&arguments).unwrap().is_empty() {
            std::thread::yield_now();
        }
        std::fs::write(machine.state("agent_catalog_run.lock"), child.id().to_string()).unwrap();
        Self(child)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn m13_waits_for_a_foreign_run_but_not_for_a_stale_lock() {
    let machine = Machine::new(CHANGED);
    let puppet = machine.puppet();
    std::fs::write(machine.state("agent_catalog_run.lock"), "999999999").unwrap();
    assert_eq!(run(&puppet, json!({"wait": 0})).await["class"], "changed");
    let foreign = Foreign::new(&machine);
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(
        (&status["applying"], &status["holder"]),
        (&json!(true), &json!("puppet")),
        "{status}"
    );
    let locks = ask(&puppet, "locks", json!({})).await.unwrap();
    assert_eq!(locks["held"], 1, "{locks}");
    let refused = run(&puppet, json!({"wait": 0})).await;
    assert_eq!(
        (&refused["state"], &refused["class"]),
        (&json!("refused"), &json!("locked")),
        "{refused}"
    );
    let id = Uuid::now_v7().to_string();
    let (outcome, ()) = tokio::join!(run(&puppet, json!({"run": id})), async {
        until(&puppet, &id, &["waiting_lock"]).await;
        drop(foreign);
    });
    assert_eq!(outcome["class"], "changed");
    assert_eq!(machine.calls(), 2);
}

#[tokio::test]
async fn waits_for_a_run_that_started_after_the_lock_check() {
    // The first call of Puppet finds a lock that was taken after our check. The second call runs longer than the check.
    let machine = Machine::new(
        "if [ ! -e \"$state/once\" ]; then touch \"$state/once\"; say err Puppet 'of the first'; \
         say notice Puppet 'Run of Puppet configuration client already in progress; skipping'; exit 1; fi; \
         sleep 0.5; say err Puppet 'of the second'; report changed 9 2 0",
    );
    let outcome = run(&machine.puppet(), json!({})).await;
    assert_eq!(outcome["class"], "changed", "{outcome}");
    assert_eq!(outcome["log"], json!(["err: Puppet: of the second"]));
    assert_eq!(machine.calls(), 2);
    let machine = Machine::new(
        "say notice Puppet 'Run of Puppet configuration client already in progress; skipping'; exit 1",
    );
    let outcome = run(&machine.puppet(), json!({"wait": 0})).await;
    assert_eq!((&outcome["state"], &outcome["class"]), (&json!("refused"), &json!("locked")));
}

const ENDLESS: &str =
    "lock; echo $$ >\"$state/pid\"; trap 'unlock; exit 0' TERM; while :; do sleep 0.05; done";
const DEAF: &str = "lock; echo $$ >\"$state/pid\"; trap '' TERM; while :; do sleep 0.05; done";

fn is_alive(machine: &Machine) -> bool {
    let pid = std::fs::read_to_string(machine.state("pid")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

#[tokio::test]
async fn cancelled_run_is_terminated_and_then_killed() {
    for behave in [ENDLESS, DEAF] {
        let machine = Machine::new(behave);
        let puppet = machine.puppet();
        let cx = context("runonce");
        let (answer, ()) = tokio::join!(ask_in(&puppet, &cx, json!({})), async {
            until_there(&machine.state("pid")).await;
            cx.cancel.cancel();
        });
        let error = answer.unwrap_err();
        assert_eq!(
            (&error.data["state"], &error.data["reason"]),
            (&json!("aborted"), &json!("cancelled"))
        );
        assert!(!is_alive(&machine), "the process group has ended");
    }
}

#[tokio::test]
async fn run_is_ended_at_its_timeout() {
    let mut machine = Machine::new(ENDLESS);
    machine.options.timeout = 1;
    let outcome = run(&machine.puppet(), json!({})).await;
    assert_eq!((&outcome["state"], &outcome["reason"]), (&json!("aborted"), &json!("timeout")));
    assert!(!is_alive(&machine));
}

#[tokio::test]
async fn run_is_refused_without_a_broker_for_permits() {
    let machine = Machine::new(CHANGED);
    let outcome = run(&machine.puppet(), json!({"limit": 1, "wait": 1})).await;
    assert_eq!(
        (&outcome["state"], &outcome["reason"]),
        (&json!("refused"), &json!("no_permit")),
        "{outcome}"
    );
    assert_eq!(machine.calls(), 0);
}

#[tokio::test]
async fn a2_8_server_override_is_refused_unless_allowed() {
    let mut machine = Machine::new(CHANGED);
    let input = json!({"server": "evil.example.net:8140", "tags": "a,b", "noop": false, "environment": "dev"});
    let refused = ask(&machine.puppet(), "runonce", input.clone()).await.unwrap_err();
    assert_eq!(refused.status, ReplyStatus::Other);
    assert!(refused.message.contains("allow_server_override"), "{}", refused.message);
    assert_eq!(machine.calls(), 0);
    machine.options.allow_server_override = true;
    ask(&machine.puppet(), "runonce", input).await.unwrap();
    let argv = machine.argv();
    for pair in [["--server", "evil.example.net"], ["--tags", "a,b"], ["--environment", "dev"]] {
        assert!(argv.windows(2).any(|found| found == pair), "{argv:?}");
    }
    assert!(argv.contains(&"--no-noop".to_owned()));
}

#[tokio::test]
async fn invalid_inputs_are_refused_before_a_run_is_created() {
    let machine = Machine::new(CHANGED);
    let puppet = machine.puppet();
    for input in [
        json!({"limit": 0}),
        json!({"limit": -3}),
        json!({"priority": 1000}),
        json!({"wait": -1}),
        json!({"splaylimit": 100_000}),
    ] {
        let refused = ask(&puppet, "runonce", input.clone()).await.unwrap_err();
        assert_eq!(refused.status, ReplyStatus::InvalidData, "{input}");
    }
    assert_eq!(ask(&puppet, "runs", json!({})).await.unwrap()["count"], 0);
}

#[tokio::test]
async fn progress_events_have_state_time_and_elapsed_time() {
    let machine = Machine::new(
        "say info Puppet \"Applying configuration version '7'\"; sleep 0.5; report changed 9 2 0",
    );
    let (sink, source) = progress::progress_channel();
    let mut cx = context("runonce");
    cx.progress = sink;
    ask_in(&machine.puppet(), &cx, json!({})).await.unwrap();
    source.close();
    let told = source.take_events(usize::MAX).await.unwrap();
    let states: Vec<&str> = told.iter().map(|event| event["state"].as_str().unwrap()).collect();
    assert!(states.ends_with(&["applying", "finished"]), "{states:?}");
    assert!(told.iter().all(|event| event["at"].is_u64() && event["elapsed"].is_f64()));
}

#[tokio::test]
async fn background_run_can_be_queried_later() {
    let machine = Machine::new("sleep 0.3; report changed 9 2 0");
    let puppet = machine.puppet();
    let begun = ask(&puppet, "runonce", json!({"background": true})).await.unwrap();
    let id = begun["run"].as_str().unwrap();
    let outcome = until(&puppet, id, &["finished"]).await;
    assert_eq!(outcome["class"], "changed");
}

#[tokio::test]
async fn run_continues_after_the_deadline_of_the_request() {
    let machine = Machine::new(
        "touch \"$state/begun\"; while [ ! -e \"$state/go\" ]; do sleep 0.05; done; report changed 9 2 0",
    );
    let puppet = machine.puppet();
    let mut cx = context("runonce");
    cx.deadline = tokio::time::Instant::now() + Duration::from_millis(3500);
    let error = ask_in(&puppet, &cx, json!({})).await.unwrap_err();
    assert!(error.message.contains("the request reached its deadline"), "{}", error.message);
    std::fs::write(machine.state("go"), "").unwrap();
    let outcome =
        until(&puppet, error.data["run"].as_str().unwrap(), &["finished", "aborted"]).await;
    assert_eq!(outcome["class"], "changed");
}

#[tokio::test]
async fn native_engine_can_replace_puppet() {
    let mut machine = Machine::new("exit 1");
    let catalog = machine.path("site.json");
    let motd = machine.path("motd");
    std::fs::write(
        &catalog,
        json!([{"type": "file", "title": motd, "content": "hello\n"}]).to_string(),
    )
    .unwrap();
    machine.options = Options {
        engine: crate::CatalogEngine::Native,
        catalog: Some(catalog.clone()),
        ..machine.options
    };
    let puppet = machine.puppet();
    let outcome = run(&puppet, json!({})).await;
    assert_eq!(
        (&outcome["class"], &outcome["changed"]),
        (&json!("changed"), &json!(1)),
        "{outcome}"
    );
    assert_eq!(std::fs::read_to_string(&motd).unwrap(), "hello\n");
    // Status, summary and report are those of the engine's run, as they would be of Puppet's.
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(status["last_class"], "changed", "{status:?}");
    assert!(status["lastrun"].as_u64().unwrap() > 1_700_000_000, "{status:?}");
    let summary = ask(&puppet, "last_run_summary", json!({"logs": true})).await.unwrap();
    let counts = (&summary["total_resources"], &summary["changed_resources"], &summary["class"]);
    assert_eq!(counts, (&json!(1), &json!(1), &json!("changed")), "{summary:?}");
    assert_eq!(summary["type_distribution"], json!({"File": 1}));
    assert_ne!(summary["logs"], json!([]));
    let report = ask(&puppet, "last_run_report", json!({"logs": false})).await.unwrap();
    assert_eq!((&report["status"], &report["class"]), (&json!("changed"), &json!("changed")));
    assert_eq!(report["transaction_uuid"], outcome["transaction_uuid"]);
    assert_eq!(report["events"][0]["resource"], format!("File[{}]", motd.display()));
    assert_eq!(run(&puppet, json!({})).await["class"], "clean");
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(status["last_class"], "clean");
    std::fs::write(&catalog, "{").unwrap();
    assert_eq!(run(&puppet, json!({})).await["class"], "compile_failed");
    let refused = ask(&puppet, "runonce", json!({"environment": "dev"})).await.unwrap_err();
    assert_eq!(refused.status, ReplyStatus::InvalidData);
    assert_eq!(machine.calls(), 0);
}
