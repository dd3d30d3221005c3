//! Scheduled checks of a real daemon: states, restarts, filters, broken files, acknowledgements and maintenance.

use muster_system::process::ProcessStat;
use muster_tests::await_state;
use serde_json::{Value, json};

use super::schedule_fixture::{NODE, ScheduleFleet, entry};

/// Hard state, type of the last state, and attempts.
fn states(row: &Value) -> Value {
    json!([row["state"], row["current"], row["state_type"], row["attempt"]])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_are_soft_then_hard_and_recoveries_are_immediate() {
    let fleet = ScheduleFleet::start(&entry("x", "max_attempts = 3\nnotes = \"text\"")).await;
    let row = fleet.await_row("x", "the check is planned", |row| row["check"] == "x").await;
    assert_eq!(states(&row), json!([null, null, "hard", 0]));
    assert!(row["next_check"].as_u64().is_some() && row["notes"] == "text", "{row}");
    for (code, expected) in [
        (0, json!(["ok", "ok", "hard", 1])),
        (2, json!(["ok", "critical", "soft", 1])),
        (0, json!(["ok", "ok", "hard", 1])),
        (2, json!(["ok", "critical", "soft", 1])),
        (1, json!(["ok", "warning", "soft", 2])),
        (2, json!(["critical", "critical", "hard", 3])),
        (1, json!(["warning", "warning", "hard", 3])),
        (3, json!(["unknown", "unknown", "hard", 3])),
        (0, json!(["ok", "ok", "hard", 1])),
    ] {
        let row = fleet.trigger(code).await;
        assert_eq!(states(&row), expected, "{code}");
        assert_eq!(row["output"], json!(format!("state {code}")));
        assert_eq!(row["perfdata"], json!(format!("x={code};1;2")));
    }
    let (status, message, _) = fleet.call("trigger", &["check=unheard_of"]).await;
    assert_eq!((status, message.as_str()), (1, "this node has no scheduled check unheard_of"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_run_by_themselves_at_most_a_limited_number_at_a_time() {
    let script = "dir=${0%/*}; mkdir -p $dir/running; : > $dir/running/$$; ls $dir/running | wc -l >> $dir/counts\n\
                  sleep 0.2; rm $dir/running/$$; echo done";
    let entries: String =
        (0..8).map(|n| entry(&format!("x{n}"), "interval = 1\nsplay = false")).collect();
    let fleet = ScheduleFleet::start_with(&entries, script).await;
    let counts = fleet.node.path("plugins/counts");
    await_state("each check has run several times", || {
        std::fs::read_to_string(&counts).unwrap_or_default().lines().count() >= 24
    })
    .await;
    let counts = std::fs::read_to_string(counts).unwrap();
    let most = counts.lines().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert!(most.is_some_and(|most| most <= 2), "{counts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_survive_a_kill_and_no_check_runs_twice_at_once() {
    let mut fleet = ScheduleFleet::start(&entry("x", "max_attempts = 1")).await;
    fleet.trigger(2).await;
    let comment = "comment=a; \"b\" $(c)\u{1b}[2J";
    let (status, message, _) = fleet.call("acknowledge", &["check=x", comment]).await;
    assert_eq!(status, 0, "{message}");
    let (status, message, _) = fleet.call("maintenance", &["check=x", "seconds=3600"]).await;
    assert_eq!(status, 0, "{message}");
    let before = fleet.await_row("x", "it is acknowledged", |row| row["state"] == "critical").await;
    assert_eq!(before["acknowledgement"]["author"], json!("rip"));
    // A check that runs when the daemon is killed is ended by the next one.
    fleet.set_result("mkdir $dir/lock || exit 3; echo $$ > $dir/pid; sleep 600");
    let running = fleet.fleet.rpc.prepare_command(&["do", "nrpe", "trigger", "check=x"]).spawn();
    await_state("the check runs", || fleet.node.path("plugins/pid").exists()).await;
    let pid = std::fs::read_to_string(fleet.node.path("plugins/pid")).unwrap();
    fleet.kill_and_restart().await;
    drop(running.unwrap().wait_with_output().await);
    let stat = std::path::Path::new("/proc").join(pid.trim()).join("stat");
    await_state("the left check has ended", || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        ProcessStat::parse(&text).is_none_or(|stat| stat.state == 'Z')
    })
    .await;
    let after = fleet.await_row("x", "its state is known", |row| row["state"] == "critical").await;
    for key in ["since", "acknowledgement", "maintenance", "output", "attempt", "next_check"] {
        assert_eq!(after[key], before[key], "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_interval_is_made_up_for_after_a_restart_and_a_damaged_file_is_reported() {
    let mut fleet = ScheduleFleet::start(&entry("x", "interval = \"1h\"\nsplay = false")).await;
    fleet.await_row("x", "it has run", |row| row["state"] == "ok").await;
    assert_eq!(fleet.runs(), 1);
    let path = fleet.node.path("state/checks/states.json");
    let read_book = || {
        let text = std::fs::read(&path).unwrap_or_default();
        serde_json::from_slice::<Value>(&text).unwrap_or_default()
    };
    await_state("the state is on disk", || {
        read_book().pointer("/records/x/next_check").is_some_and(Value::is_number)
    })
    .await;
    fleet.node.daemon.kill_and_wait();
    // The next run was due while the daemon was down.
    let mut book = read_book();
    book["records"]["x"]["next_check"] = json!(1_000_000);
    std::fs::write(&path, book.to_string()).unwrap();
    fleet.node.daemon = fleet.node.daemon.home().clone().start();
    await_state("it runs again", || fleet.runs() == 2).await;
    fleet.node.daemon.kill_and_wait();
    std::fs::write(&path, "{\"version\": 1, \"rec").unwrap();
    fleet.node.daemon = fleet.node.daemon.home().clone().start();
    await_state("the damage is reported", || {
        let log = fleet.node.daemon.log();
        log.contains("states.json: it is damaged") && log.contains("states.json.damaged")
    })
    .await;
    fleet.fleet.await_nodes(1).await;
    let (_, _, data) = fleet.call("checks", &[]).await;
    assert!(
        data["problems"][0].as_str().is_some_and(|text| text.contains("it is damaged")),
        "{data}"
    );
    await_state("it begins again", || fleet.runs() == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgement_ends_with_the_problem_by_time_or_by_a_caller() {
    let fleet = ScheduleFleet::start(&entry("x", "max_attempts = 1")).await;
    fleet.trigger(0).await;
    let acknowledge = ["check=x", "comment=known"];
    let (status, message, _) = fleet.call("acknowledge", &acknowledge).await;
    assert_eq!((status, message.as_str()), (1, "x has no problem to acknowledge"));
    fleet.trigger(1).await;
    let (_, _, data) = fleet.call("acknowledge", &acknowledge).await;
    assert_eq!(data["checks"][0]["acknowledgement"]["comment"], json!("known"));
    let is_acknowledged = |row: &Value| !row["acknowledgement"].is_null();
    assert!(is_acknowledged(&fleet.trigger(2).await), "it is sticky");
    assert!(!is_acknowledged(&fleet.trigger(0).await), "it ends with the problem");
    fleet.trigger(2).await;
    fleet.call("acknowledge", &[&acknowledge[..], &["seconds=1"]].concat()).await;
    fleet.await_row("x", "it has expired", |row| !is_acknowledged(row)).await;
    fleet.call("acknowledge", &acknowledge).await;
    let (_, _, data) = fleet.call("unacknowledge", &["check=x"]).await;
    assert!(!is_acknowledged(&data["checks"][0]));
    let (status, message, _) = fleet.call("unacknowledge", &["check=x"]).await;
    assert_eq!((status, message.as_str()), (1, "x is not acknowledged"));
    for seconds in ["0", "999999999"] {
        let (status, message, _) =
            fleet.call("maintenance", &[&format!("seconds={seconds}")]).await;
        assert_eq!(status, 4, "{seconds}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_applies_where_its_filter_matches() {
    let schedule = entry("here", "filter = \"role=web\"")
        + &entry("there", "select = \"role=db or (not role=web)\"")
        + &entry("class", "filter = \"apache\"")
        + &entry("off", "enabled = false");
    let fleet = ScheduleFleet::start(&schedule).await;
    let names = async || {
        let (_, _, data) = fleet.call("checks", &[]).await;
        let rows = data["checks"].as_array().unwrap().clone();
        rows.iter().map(|row| row["check"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    muster_tests::poll_until_ok("there", std::time::Duration::from_mins(1), async || {
        let names = names().await;
        if names == ["there"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    fleet.node.write("facts.d/role.json", "{\"role\": \"web\"}");
    fleet.node.write("classes.txt", "apache\n");
    fleet.reload();
    muster_tests::poll_until_ok("here", std::time::Duration::from_mins(1), async || {
        let names = names().await;
        if names == ["class", "here"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    let (_, _, data) = fleet.call("checks", &["check=here"]).await;
    assert_eq!(data["checks"][0]["check"], json!("here"), "{NODE}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_file_is_reported_and_stops_no_other() {
    let fleet = ScheduleFleet::start(&entry("x", "")).await;
    fleet.await_row("x", "it is planned", |row| row["check"] == "x").await;
    fleet.node.write("checks.d/b.toml", &entry("y", "intervall = 5"));
    let row = fleet.trigger(0).await;
    assert_eq!(row["state"], json!("ok"));
    let problem = |data: &Value| data["problems"][0].as_str().unwrap_or_default().to_owned();
    muster_tests::poll_until_ok("the problem", std::time::Duration::from_mins(1), async || {
        let (_, _, data) = fleet.call("checks", &[]).await;
        let problem = problem(&data);
        let has_all = ["b.toml: check `y`: unknown field `intervall`", "; none of its checks run"];
        if has_all.iter().all(|part| problem.contains(part)) { Ok(()) } else { Err(problem) }
    })
    .await;
    // A file that breaks later keeps its checks; a reload reads it at once.
    fleet.node.write("checks.d/b.toml", "");
    fleet.node.write("checks.d/a.toml", "[[checks]\n");
    fleet.reload();
    muster_tests::poll_until_ok(
        "the other problem",
        std::time::Duration::from_mins(1),
        async || {
            let (_, _, data) = fleet.call("checks", &[]).await;
            let problem = problem(&data);
            let is_expected = problem.contains("a.toml: it is not TOML: ")
                && problem.ends_with("; its checks run as before");
            if is_expected { Ok(()) } else { Err(problem) }
        },
    )
    .await;
    assert_eq!(fleet.trigger(2).await["current"], json!("critical"));
    let (document, _) = fleet.fleet.rpc.run_json(&["doctor"]).await;
    assert!(document.to_string().contains("a.toml: it is not TOML"), "{document}");
}
