//! When a service is restarted, how often, and what is made of the outcome.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_tests::await_state;
use muster_tests::command::{describe_output, find_program};
use serde_json::{Value, json};

use super::{World, at};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_it_returns_at_once_and_restarts_within_a_second_of_the_runs_end() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let (mut answered, mut lags) = (Vec::new(), Vec::new());
    for round in 1..=3 {
        let before = world.pid();
        let run = world.puppet_runs();
        let begun = Instant::now();
        let asked = world.ask(&["stub.service"]);
        answered.push(begun.elapsed());
        assert!(asked.status.success(), "{}", describe_output(&asked));
        let waiting = world.reaches(&["waiting"]).await;
        let text = waiting["text"].as_str().unwrap();
        assert!(text.starts_with("waiting: Puppet is applying a catalog (process "), "{text}");
        assert_eq!((world.starts(), world.pid()), (round, before), "not before its end");
        let ended = run.ends();
        let cycle = world.reaches(&["ok"]).await;
        lags.push(at(&cycle, "restarting").saturating_sub(ended));
        assert_ne!(world.pid(), before);
        let text = format!("process {} in place of {before}", world.pid());
        assert_eq!(cycle["text"], json!(text));
    }
    // The best of some on a machine that may be busy with anything.
    let (answered, lag) = (answered.iter().min().unwrap(), lags.iter().min().unwrap());
    assert!(*answered < Duration::from_millis(500), "{answered:?}");
    assert!(*lag <= 1000, "{lags:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_stale_locks_and_disabled_agents_hold_nothing_up() {
    let world = World::new();
    let mut starts = 1;
    // Empty, garbage, gone, and alive but no Puppet: as real Puppet takes them.
    for stale in ["", "garbage", "999999999", "1"] {
        world.reaches(&["ok"]).await;
        fs::write(world.lock(), stale).unwrap();
        world.ask(&["stub"]);
        starts += 1;
        await_state("it is restarted", || world.starts() == starts).await;
    }
    world.reaches(&["ok"]).await;
    let reason = r#"{"disabled_message":"hand hacking"}"#;
    fs::write(world.path("puppet/agent_disabled.lock"), reason).unwrap();
    world.ask(&["stub"]);
    await_state("it is restarted", || world.starts() == starts + 1).await;
    let cycle = world.reaches(&["ok"]).await;
    let steps: Vec<_> =
        cycle["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(steps, ["requested", "locked", "restarting", "verifying", "ok"]);
    let apply = world.apply(&json!([]), &[]);
    assert!(
        describe_output(&apply).contains("hand hacking"),
        "runs are disabled: {}",
        describe_output(&apply)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_2_twenty_requests_during_a_run_are_one_restart() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let run = world.puppet_runs();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let asked = world.ask(&["stub"]);
                assert!(asked.status.success(), "{}", describe_output(&asked));
            });
        }
    });
    let cycle = world.reaches(&["waiting"]).await;
    assert_eq!(cycle["requests"], 20);
    await_state("the other workers are gone", || world.workers().len() == 1).await;
    run.ends();
    world.reaches(&["ok"]).await;
    await_state("the worker is gone", || world.workers().is_empty()).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_3_a_run_that_never_ends_is_a_timeout_unless_forced() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let _run = world.puppet_runs();
    world.ask(&["stub", "--deadline", "1"]);
    let cycle = world.reaches(&["timeout"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(
        text.starts_with("restart_timeout: not restarted, because Puppet is applying"),
        "{text}"
    );
    assert_eq!(world.starts(), 1);
    world.ask(&["stub", "--deadline", "1", "--force"]);
    world.reaches(&["ok"]).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_4_the_outcome_is_looked_at_and_not_believed() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    fs::write(world.path("root/refuses"), "").unwrap();
    world.ask(&["stub"]);
    let cycle = world.reaches(&["failed"]).await;
    let text = "`/etc/init.d/stub restart` ended with code 3: the configuration is wrong";
    assert_eq!(cycle["text"], text);
    fs::remove_file(world.path("root/refuses")).unwrap();
    // A script that says that all is well, and what it started ends at once.
    fs::write(world.path("root/hurts"), "").unwrap();
    world.ask(&["stub"]);
    let cycle = world.reaches(&["failed"]).await;
    assert_eq!(cycle["text"], "stub is not running after the restart");
    fs::remove_file(world.path("root/hurts")).unwrap();
    world.ask(&["ghost"]);
    let cycle = world.key_reaches("unit.ghost", &["failed"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(text.contains("/etc/init.d/ghost"), "{text}");

    // Commands are believed, unless there is a file that knows better.
    world.ask(&["--", "/bin/sh", "-c", "echo no >&2; exit 4"]);
    let keys = || {
        let names = fs::read_dir(world.path("state/restart")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let commands = names.filter(|name| name.starts_with("command."));
        let mut keys: Vec<_> =
            commands.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
        keys.sort();
        keys
    };
    let first = keys()[0].clone();
    let cycle = world.key_reaches(&first, &["failed"]).await;
    assert_eq!(cycle["text"], "`/bin/sh -c echo no >&2; exit 4` ended with code 4: no");
    world.ask(&["stub"]);
    world.reaches(&["ok"]).await;
    world.ask(&["--pidfile", "/run/stub.pid", "--", "/bin/true"]);
    let second = keys().into_iter().find(|key| *key != first).unwrap();
    let cycle = world.key_reaches(&second, &["failed"]).await;
    let text = format!("`/bin/true` is still process {}, as before", world.pid());
    assert_eq!(cycle["text"], json!(text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_6_no_run_begins_while_it_is_restarted() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    fs::write(world.path("root/hold"), "").unwrap();
    world.ask(&["stub"]);
    world.reaches(&["restarting"]).await;
    // A worker that is called as Puppet wants it holds Puppet's lock.
    let holder = fs::read_to_string(world.lock()).unwrap();
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap();
    assert_eq!(world.workers(), [holder.parse::<i32>().unwrap()]);
    assert_eq!(name.trim(), "rpcd-puppet");
    let apply = world.apply(&json!([]), &[]);
    assert_eq!(apply.status.code(), Some(1));
    assert!(
        describe_output(&apply).contains("another run is in progress"),
        "{}",
        describe_output(&apply)
    );
    // Who asks now asks for one more.
    world.ask(&["stub"]);
    let record = world.record("unit.stub");
    assert_eq!(record["next"]["requests"], 1, "{record:#}");
    fs::remove_file(world.path("root/hold")).unwrap();
    world.reaches(&["ok"]).await;
    assert_eq!(world.starts(), 3);
    assert!(!world.lock().exists());
    let apply = world.apply(&json!([]), &["--wait", "10"]);
    assert!(apply.status.success(), "{}", describe_output(&apply));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_7_the_worker_is_nobodys_and_its_end_ends_nothing() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let run = world.puppet_runs();
    world.ask(&["stub"]);
    world.reaches(&["waiting"]).await;
    let [worker] = world.workers()[..] else {
        panic!("{:?}", world.workers());
    };
    let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    let fields: Vec<i32> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .skip(1)
        .take(3)
        .map(|field| field.parse().unwrap())
        .collect();
    // Parent, group, session.
    let ours = i32::try_from(std::process::id()).unwrap();
    assert_ne!(fields[0], ours);
    assert_eq!((fields[1], fields[2]), (fields[2], fields[2]));
    assert_ne!(fields[2], nix::unistd::getsid(None).unwrap().as_raw());
    for stream in 0..3 {
        let open = fs::read_link(format!("/proc/{worker}/fd/{stream}")).unwrap();
        assert_eq!(open, Path::new("/dev/null"));
    }
    assert_eq!(fs::read_link(format!("/proc/{worker}/cwd")).unwrap(), Path::new("/"));
    run.ends();
    world.reaches(&["ok"]).await;
    await_state("the worker is gone", || world.workers().is_empty()).await;
    // The service writes to what it inherited from the restart, and lives.
    let tick = || fs::read_to_string(world.path("root/tick")).unwrap_or_default();
    for _ in 0..5 {
        let last = tick();
        await_state("the service goes on", || tick() != last).await;
    }
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x3_4_a_run_that_asks_five_times_for_a_restart_gets_one_after_its_end() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let ask = |number: usize| {
        let words = [
            find_program("rpcd").display().to_string(),
            "--config".to_owned(),
            world.path("none.toml").display().to_string(),
            "restart-when-idle".to_owned(),
            "--root".to_owned(),
            world.path("root").display().to_string(),
            "--state-dir".to_owned(),
            world.path("state").display().to_string(),
            "--puppet-state".to_owned(),
            world.path("puppet").display().to_string(),
            "stub".to_owned(),
        ];
        json!({"type": "exec", "title": format!("ask {number}"), "command": words, "refreshonly": true, "before": "Exec[long]"})
    };
    let mut catalog = vec![
        json!({"type": "file", "title": world.path("puppet.conf"), "ensure": "file", "content": "changed",
               "notify": (1..=5).map(|number| format!("Exec[ask {number}]")).collect::<Vec<_>>()}),
        json!({"type": "exec", "title": "long", "command": ["/bin/sh", "-c",
               format!("while ! grep -q waiting {0}; do sleep 0.05; done; cp {1} {2}", world.path("state/restart/unit.stub.json").display(),
                       world.path("root/log").display(), world.path("seen").display())]}),
    ];
    catalog.extend((1..=5).map(ask));
    let apply = world.apply(&Value::Array(catalog), &["--detailed-exitcodes"]);
    assert_eq!(apply.status.code(), Some(2), "{}", describe_output(&apply));
    let seen = fs::read_to_string(world.path("seen")).unwrap();
    assert_eq!(seen.lines().count(), 1, "not in the run that asked");
    let cycle = world.reaches(&["ok"]).await;
    assert_eq!((&cycle["requests"], world.starts()), (&json!(5), 2));
}
