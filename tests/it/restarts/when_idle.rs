//! When a service is restarted, how often, and how the outcome is verified.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_tests::await_state;
use muster_tests::command::{describe_output, find_program};
use muster_tests::organisation::Organisation;
use serde_json::{Value, json};

use super::{RestartFixture, reached_at};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_returns_at_once_and_restarts_within_a_second_after_the_run() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let (mut response_times, mut lags) = (Vec::new(), Vec::new());
    for round in 1..=3 {
        let before = fixture.pid();
        let run = fixture.start_puppet_run();
        let started = Instant::now();
        let output = fixture.request_restart(&["stub.service"]);
        response_times.push(started.elapsed());
        assert!(output.status.success(), "{}", describe_output(&output));
        let waiting = fixture.await_cycle(&["waiting"]).await;
        let text = waiting["text"].as_str().unwrap();
        assert!(text.starts_with("waiting: Puppet is applying a catalog (process "), "{text}");
        assert_eq!(
            (fixture.start_count(), fixture.pid()),
            (round, before),
            "the service must not be restarted before the run has ended"
        );
        let ended = run.end();
        let cycle = fixture.await_cycle(&["ok"]).await;
        lags.push(reached_at(&cycle, "restarting").saturating_sub(ended));
        assert_ne!(fixture.pid(), before);
        let text = format!("process {} in place of {before}", fixture.pid());
        assert_eq!(cycle["text"], json!(text));
    }
    // The best of several rounds, because the machine may be busy.
    let (response_times, lag) = (response_times.iter().min().unwrap(), lags.iter().min().unwrap());
    assert!(*response_times < Duration::from_millis(500), "{response_times:?}");
    assert!(*lag <= 1000, "{lags:?}");
}

/// The runs of the agent `puppet` use the directory of `[plugins.puppet] vardir`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_run_below_a_configured_vardir_delays_the_restart() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let vardir = fixture.path("root/srv/puppet");
    fs::create_dir_all(vardir.join("state")).unwrap();
    let config = fixture.path("rpcd.toml");
    let operator = Organisation::new(&["muster"]).trust().operator_key();
    let text = format!(
        "identity = \"web1.acme.net\"\n[broker]\nurls = [\"nats://127.0.0.1\"]\n[trust]\noperator = \"{operator}\"\n[paths]\nroot = \"{}\"\nstate = \"{}\"\n[plugins.puppet]\nvardir = \"/srv/puppet\"\n",
        fixture.path("root").display(),
        fixture.path("state").display()
    );
    fs::write(&config, text).unwrap();
    let run = fixture.start_puppet_run_in(&vardir.join("state"));
    let mut command = std::process::Command::new(find_program("rpcd"));
    command.arg("--config").arg(&config).args(["restart-when-idle", "stub"]);
    let output = command.output().unwrap();
    let text = describe_output(&output);
    assert!(output.status.success() && !text.contains("ignored"), "{text}");
    fixture.await_cycle(&["waiting"]).await;
    assert_eq!(fixture.start_count(), 1);
    run.end();
    fixture.await_cycle(&["ok"]).await;
    assert_eq!(fixture.start_count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_stale_locks_and_disabled_agents_do_not_delay_restarts() {
    let fixture = RestartFixture::new();
    let mut starts = 1;
    // Empty, garbage, a missing process, and a running process that is not Puppet; the real Puppet treats these as
    // stale.
    for stale in ["", "garbage", "999999999", "1"] {
        fixture.await_cycle(&["ok"]).await;
        fs::write(fixture.lock_path(), stale).unwrap();
        fixture.request_restart(&["stub"]);
        starts += 1;
        await_state("the service is restarted", || fixture.start_count() == starts).await;
    }
    fixture.await_cycle(&["ok"]).await;
    let reason = r#"{"disabled_message":"hand hacking"}"#;
    fs::write(fixture.path("puppet/agent_disabled.lock"), reason).unwrap();
    fixture.request_restart(&["stub"]);
    await_state("the service is restarted", || fixture.start_count() == starts + 1).await;
    let cycle = fixture.await_cycle(&["ok"]).await;
    let steps: Vec<_> =
        cycle["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(steps, ["requested", "locked", "restarting", "verifying", "ok"]);
    let apply = fixture.apply(&json!([]), &[]);
    assert!(
        describe_output(&apply).contains("hand hacking"),
        "runs must be disabled: {}",
        describe_output(&apply)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_2_twenty_requests_during_a_run_cause_one_restart() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let run = fixture.start_puppet_run();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let output = fixture.request_restart(&["stub"]);
                assert!(output.status.success(), "{}", describe_output(&output));
            });
        }
    });
    let cycle = fixture.await_cycle(&["waiting"]).await;
    assert_eq!(cycle["requests"], 20);
    await_state("the other workers have ended", || fixture.workers().len() == 1).await;
    run.end();
    fixture.await_cycle(&["ok"]).await;
    await_state("the worker has ended", || fixture.workers().is_empty()).await;
    assert_eq!(fixture.start_count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_3_endless_run_is_a_timeout_unless_forced() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let _run = fixture.start_puppet_run();
    fixture.request_restart(&["stub", "--deadline", "1"]);
    let cycle = fixture.await_cycle(&["timeout"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(
        text.starts_with("restart_timeout: not restarted, because Puppet is applying"),
        "{text}"
    );
    assert_eq!(fixture.start_count(), 1);
    fixture.request_restart(&["stub", "--deadline", "1", "--force"]);
    fixture.await_cycle(&["ok"]).await;
    assert_eq!(fixture.start_count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_4_outcome_is_verified() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    fs::write(fixture.path("root/refuses"), "").unwrap();
    fixture.request_restart(&["stub"]);
    let cycle = fixture.await_cycle(&["failed"]).await;
    let text = "`/etc/init.d/stub restart` ended with code 3: the configuration is wrong";
    assert_eq!(cycle["text"], text);
    fs::remove_file(fixture.path("root/refuses")).unwrap();
    // The script reports success, but the process that it started ends at once.
    fs::write(fixture.path("root/hurts"), "").unwrap();
    fixture.request_restart(&["stub"]);
    let cycle = fixture.await_cycle(&["failed"]).await;
    assert_eq!(cycle["text"], "stub is not running after the restart");
    fs::remove_file(fixture.path("root/hurts")).unwrap();
    fixture.request_restart(&["ghost"]);
    let cycle = fixture.await_key_cycle("unit.ghost", &["failed"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(text.contains("/etc/init.d/ghost"), "{text}");

    // The exit code of a command decides, unless a pid file is given.
    fixture.request_restart(&["--", "/bin/sh", "-c", "echo no >&2; exit 4"]);
    let keys = || {
        let names = fs::read_dir(fixture.path("state/restart")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let commands = names.filter(|name| name.starts_with("command."));
        let mut keys: Vec<_> =
            commands.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
        keys.sort();
        keys
    };
    let first = keys()[0].clone();
    let cycle = fixture.await_key_cycle(&first, &["failed"]).await;
    assert_eq!(cycle["text"], "`/bin/sh -c echo no >&2; exit 4` ended with code 4: no");
    fixture.request_restart(&["stub"]);
    fixture.await_cycle(&["ok"]).await;
    fixture.request_restart(&["--pidfile", "/run/stub.pid", "--", "/bin/true"]);
    let second = keys().into_iter().find(|key| *key != first).unwrap();
    let cycle = fixture.await_key_cycle(&second, &["failed"]).await;
    let text = format!("`/bin/true` is still process {}, as before", fixture.pid());
    assert_eq!(cycle["text"], json!(text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_6_no_run_starts_during_a_restart() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    fs::write(fixture.path("root/hold"), "").unwrap();
    fixture.request_restart(&["stub"]);
    fixture.await_cycle(&["restarting"]).await;
    // The worker has the process name that Puppet expects, and holds Puppet's lock.
    let holder = fs::read_to_string(fixture.lock_path()).unwrap();
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap();
    assert_eq!(fixture.workers(), [holder.parse::<i32>().unwrap()]);
    assert_eq!(name.trim(), "rpcd-puppet");
    let apply = fixture.apply(&json!([]), &[]);
    assert_eq!(apply.status.code(), Some(1));
    assert!(
        describe_output(&apply).contains("another run is in progress"),
        "{}",
        describe_output(&apply)
    );
    // A request during the restart causes one more restart.
    fixture.request_restart(&["stub"]);
    let record = fixture.record("unit.stub");
    assert_eq!(record["next"]["requests"], 1, "{record:#}");
    fs::remove_file(fixture.path("root/hold")).unwrap();
    fixture.await_cycle(&["ok"]).await;
    assert_eq!(fixture.start_count(), 3);
    assert!(!fixture.lock_path().exists());
    let apply = fixture.apply(&json!([]), &["--wait", "10"]);
    assert!(apply.status.success(), "{}", describe_output(&apply));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_7_worker_is_detached_and_its_end_affects_no_process() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let run = fixture.start_puppet_run();
    fixture.request_restart(&["stub"]);
    fixture.await_cycle(&["waiting"]).await;
    let [worker] = fixture.workers()[..] else {
        panic!("{:?}", fixture.workers());
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
    // Parent, process group, session.
    let own_pid = i32::try_from(std::process::id()).unwrap();
    assert_ne!(fields[0], own_pid);
    assert_eq!((fields[1], fields[2]), (fields[2], fields[2]));
    assert_ne!(fields[2], nix::unistd::getsid(None).unwrap().as_raw());
    for stream in 0..3 {
        let open = fs::read_link(format!("/proc/{worker}/fd/{stream}")).unwrap();
        assert_eq!(open, Path::new("/dev/null"));
    }
    assert_eq!(fs::read_link(format!("/proc/{worker}/cwd")).unwrap(), Path::new("/"));
    run.end();
    fixture.await_cycle(&["ok"]).await;
    await_state("the worker has ended", || fixture.workers().is_empty()).await;
    // The service writes to the output that it inherited from the restart, and keeps running.
    let tick = || fs::read_to_string(fixture.path("root/tick")).unwrap_or_default();
    for _ in 0..5 {
        let last = tick();
        await_state("the service keeps running", || tick() != last).await;
    }
    assert_eq!(fixture.start_count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x3_4_five_requests_in_a_run_cause_one_restart_after_it() {
    let fixture = RestartFixture::new();
    fixture.await_cycle(&["ok"]).await;
    let request_resource = |number: usize| {
        let arguments = [
            find_program("rpcd").display().to_string(),
            "--config".to_owned(),
            fixture.path("none.toml").display().to_string(),
            "restart-when-idle".to_owned(),
            "--root".to_owned(),
            fixture.path("root").display().to_string(),
            "--state-dir".to_owned(),
            fixture.path("state").display().to_string(),
            "--puppet-state".to_owned(),
            fixture.path("puppet").display().to_string(),
            "stub".to_owned(),
        ];
        json!({"type": "exec", "title": format!("ask {number}"), "command": arguments, "refreshonly": true, "before": "Exec[long]"})
    };
    let mut catalog = vec![
        json!({"type": "file", "title": fixture.path("puppet.conf"), "ensure": "file", "content": "changed",
               "notify": (1..=5).map(|number| format!("Exec[ask {number}]")).collect::<Vec<_>>()}),
        json!({"type": "exec", "title": "long", "command": ["/bin/sh", "-c",
               format!("while ! grep -q waiting {0}; do sleep 0.05; done; cp {1} {2}", fixture.path("state/restart/unit.stub.json").display(),
                       fixture.path("root/log").display(), fixture.path("seen").display())]}),
    ];
    catalog.extend((1..=5).map(request_resource));
    let apply = fixture.apply(&Value::Array(catalog), &["--detailed-exitcodes"]);
    assert_eq!(apply.status.code(), Some(2), "{}", describe_output(&apply));
    let seen = fs::read_to_string(fixture.path("seen")).unwrap();
    assert_eq!(seen.lines().count(), 1, "the service must not be restarted during the run");
    let cycle = fixture.await_cycle(&["ok"]).await;
    assert_eq!((&cycle["requests"], fixture.start_count()), (&json!(5), 2));
}
