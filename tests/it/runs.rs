//! `rpc puppet` and `rpc permit` on nodes with a simulated Puppet and real permits: the limit, the report of each run,
//! and the state after the command is killed. The acceptance points A2.1 to A2.8 are those of the article's `runall`.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::command::describe_output;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::puppet::{SimulatedBehaviour, SimulatedFleet};
use muster_tests::tier::is_long;
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::SeedableRng;
use rand::rngs::StdRng;
use regex::Regex;
use serde_json::{Value, json};
use uuid::Uuid;

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

pub(crate) fn working(class: &'static str, work: u64) -> SimulatedBehaviour {
    SimulatedBehaviour { class, work: millis(work), ..SimulatedBehaviour::default() }
}

/// Runs `rpc`, validates its document, and returns it with the exit code.
pub(crate) async fn run_valid_json(fleet: &SimulatedFleet, arguments: &[&str]) -> (Value, i32) {
    let (document, exit) = fleet.rpc.run_json(arguments).await;
    let schema = document["schema"].as_str().unwrap_or_default().to_owned();
    check_schema(&schema, &document, SchemaMode::Strict).unwrap();
    (document, exit)
}

/// Runs `rpc` with `--jsonl`, validates the lines, and returns them with the exit code.
async fn run_valid_lines(fleet: &SimulatedFleet, arguments: &[&str]) -> (Vec<Value>, i32) {
    let output = fleet.rpc.run(&[arguments, &["--jsonl"]].concat()).await;
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let line = |line: &str| -> Value {
        let line =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", describe_output(&output)));
        check_schema("muster.puppet.runs.lines.v1", &line, SchemaMode::Strict).unwrap();
        line
    };
    (text.lines().map(line).collect(), output.status.code().unwrap())
}

fn names(value: &Value) -> Vec<&str> {
    let names = value.as_array().unwrap().iter();
    names.map(|name| name.as_str().unwrap()).collect()
}

/// How each node's run ended, as `node class`.
pub(crate) fn classes(document: &Value) -> Vec<String> {
    let nodes = document["nodes"].as_array().unwrap().iter();
    let class = |node: &Value| {
        let (name, class) = (node["node"].as_str().unwrap(), node["class"].as_str());
        format!("{name} {}", class.unwrap())
    };
    nodes.map(class).collect()
}

/// A2.1, A2.2: 47 nodes, as in the article, measured by the nodes' own records; `load permits` repeats it at length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_1_runs_never_exceed_the_limit_and_permits_are_reused_soon() {
    let fleet = SimulatedFleet::with_size(47).await;
    let more = if is_long() { &[(2, 2), (4, 4), (6, 16)][..] } else { &[] };
    for (seed, limit) in [(1, 1), (3, 4), (5, 16)].iter().chain(more).copied() {
        let mut rng = StdRng::seed_from_u64(seed);
        for node in fleet.nodes.values() {
            // Runs are short to keep the test short; the limit is reached only if no run ends while others are being
            // started.
            let scale = match limit {
                ..=2 => 1000,
                3..=4 => 100,
                _ => 25,
            };
            node.set_behaviour(SimulatedBehaviour::random(&mut rng, scale));
        }
        fleet.clear_records();
        fleet.run_all(&format!("seed{seed}"), limit).await;
        let stats = fleet.concurrency_stats();
        assert_eq!(stats.runs, 47, "seed {seed}");
        assert!(stats.highest <= limit, "seed {seed}: {} runs at once", stats.highest);
        assert_eq!(stats.highest, limit, "seed {seed}: the limit was never reached");
        if limit == 4 {
            // A loose bound: the machine may be loaded, and nodes are started by name, not the longest first.
            assert!(stats.makespan_ratio(limit).unwrap() < 2.0, "seed {seed}: {stats:?}");
        }
    }
}

/// Checks the log of the article's program line by line, and the concurrency report at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runall_prints_the_log_of_the_articles_program() {
    let fleet = SimulatedFleet::start(["dev1", "dev2", "dev3", "dev4", "dev5"]).await;
    let disabled = SimulatedBehaviour { disabled: Some("moving"), ..SimulatedBehaviour::default() };
    fleet.set_behaviour("dev5", disabled);
    for name in ["dev1", "dev2", "dev3", "dev4"] {
        fleet.set_behaviour(name, working("changed", 700));
    }
    let output = fleet.rpc.run(&["puppet", "runall", "2"]).await;
    // Not all nodes have run: Puppet is disabled on one.
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let log = String::from_utf8(output.stderr.clone()).unwrap();
    let stamp = Regex::new(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ (.*)$").unwrap();
    let messages: Vec<&str> =
        log.lines().filter_map(|line| Some(stamp.captures(line)?.get(1)?.as_str())).collect();
    assert_eq!(
        messages[..4],
        [
            "Running all machines with a concurrency of 2",
            "Discovering hosts to run",
            "Found 4 hosts",
            "dev5 skipped: disabled: moving"
        ]
    );
    let running = Regex::new(r"^Running (dev\d), concurrency is ([12])$").unwrap();
    let started_nodes: Vec<&str> =
        messages.iter().filter_map(|line| Some(running.captures(line)?.get(1)?.as_str())).collect();
    assert_eq!(started_nodes.len(), 4, "{log}");
    for node in started_nodes {
        assert!(messages.contains(&format!("{node} schedule status: OK").as_str()), "{log}");
        let ended = format!("{node}: changed: ended as changed");
        assert!(messages.contains(&ended.as_str()), "{log}");
    }
    assert!(messages.contains(&"Currently 2 nodes running, waiting"), "{log}");
    let summary = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert!(lines[1].starts_with("changed") && lines[1].ends_with('4'), "{summary}");
    assert!(lines[2].starts_with("skipped: disabled") && lines[2].ends_with("dev5"), "{summary}");
    assert!(
        summary.contains(
            "The limit of 2 was kept: nodes measured at most 2 runs at once, of all runs."
        )
    );
    assert_eq!(fleet.concurrency_stats().highest, 2);
}

/// A2.3: the command is killed during the rollout. The limit holds, the remaining nodes run when the rollout is
/// resumed, no node runs twice, and no permit is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_3_killed_rollout_resumes_and_no_node_runs_twice() {
    let fleet = SimulatedFleet::with_size(12).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("changed", 120));
    }
    let mut child =
        fleet.rpc.prepare_command(&["puppet", "runall", "2", "--job", "night"]).spawn().unwrap();
    await_state("half of the nodes have run", || {
        fleet.with_records(|records| records.spans.len() >= 5)
    })
    .await;
    child.kill().await.unwrap();
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    await_state("all requested runs have ended", || {
        fleet.with_records(|records| {
            records.running.is_empty() && records.spans.len() == records.run_counts.len()
        })
    })
    .await;
    let before = fleet.with_records(|records| records.run_counts.len());
    assert!(before < 12, "some nodes must be left for the resumed rollout");
    let (job, _) = run_valid_json(&fleet, &["job", "show", "night"]).await;
    assert_eq!(job["job"]["state"], "interrupted", "{job}");
    assert_eq!(job["runs"].as_object().unwrap().len(), 12);

    // `rpc do` would send requests without run ids.
    let other = fleet.rpc.run(&["do", "--resume", "night"]).await;
    assert_eq!(other.status.code(), Some(4), "{}", describe_output(&other));
    assert!(describe_output(&other).contains("rpc puppet runall --resume"));

    let (done, exit) = run_valid_json(&fleet, &["puppet", "runall", "--resume", "night"]).await;
    assert_eq!((exit, &done["ok"]), (0, &json!(12)), "{done}");
    assert_eq!(done["limit"], 2);
    assert_eq!(done["proof"]["runs"], 12);
    assert_eq!(done["proof"]["highest_concurrency"], 2);
    let nodes = done["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["earlier"] == true));
    assert!(nodes.iter().any(|node| node["earlier"].is_null()));
    fleet.with_records(|records| {
        assert!(records.run_counts.values().all(|times| *times == 1), "{records:?}");
        assert_eq!(records.run_counts.len(), 12);
    });
    assert_eq!(fleet.concurrency_stats().highest, 2, "by the nodes' own records");
    let (pools, _) = run_valid_json(&fleet, &["permit", "show", "puppet"]).await;
    let held: Vec<&Value> = pools["pools"].as_array().unwrap().iter().collect();
    assert!(
        held.iter().all(|pool| pool["holders"] == json!([]) && pool["waiting"] == json!([])),
        "{pools}"
    );
    let again = fleet.rpc.run(&["puppet", "runall", "--resume", "night"]).await;
    assert_eq!(again.status.code(), Some(1), "{}", describe_output(&again));
    assert!(describe_output(&again).contains("has no node that has not run yet"));
}

/// A2.5: the report states how each run ended, and the command succeeds only if all runs succeeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_5_reports_each_run_outcome_and_succeeds_only_if_all_do() {
    let ends = [
        ("n1", "clean"),
        ("n2", "changed"),
        ("n3", "failed"),
        ("n4", "failed+changed"),
        ("n5", "compile_failed"),
        ("n6", "killed"),
        ("n7", "locked"),
    ];
    let fleet = SimulatedFleet::start(ends.map(|(name, _)| name).into_iter().chain(["n8"])).await;
    for (name, class) in ends {
        fleet.set_behaviour(name, working(class, 10));
    }
    let disabled =
        SimulatedBehaviour { disabled: Some("hand hacking"), ..SimulatedBehaviour::default() };
    fleet.set_behaviour("n8", disabled);
    let (all, exit) = run_valid_json(&fleet, &["puppet", "runonce"]).await;
    assert_eq!(exit, 2);
    let mut expected: Vec<String> = ends.map(|(name, class)| format!("{name} {class}")).into();
    expected.push("n8 disabled".to_owned());
    assert_eq!(classes(&all), expected);
    assert_eq!((&all["ok"], &all["failed"]), (&json!(2), &json!(6)));
    assert_eq!(all["counts"]["disabled"], 1);

    let good = ["puppet", "runonce", "-I", "n1", "-I", "n2"];
    let (all, exit) = run_valid_json(&fleet, &good).await;
    assert_eq!((exit, &all["failed"]), (0, &json!(0)));
    let output = fleet.rpc.run(&["puppet", "runonce", "-I", "n2", "-I", "n5"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("n2: changed: ended as changed\n"), "{text}");
    assert!(text.contains("n5: compile_failed: something failed\n"), "{text}");
    // The filter matches no node; then Puppet is disabled on all selected nodes.
    let (_, exit) = run_valid_json(&fleet, &["puppet", "runonce", "-F", "site=moon"]).await;
    assert_eq!(exit, 1);
    let (none, exit) = run_valid_json(&fleet, &["puppet", "runall", "2", "-I", "n8"]).await;
    assert_eq!((exit, &none["disabled"]["n8"]), (2, &json!("hand hacking")));
    for limit in ["0", "-1", "many"] {
        let output = fleet.rpc.run(&["puppet", "runall", limit]).await;
        assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    }
}

/// A2.6: a disconnected node and a hanging node are reported after the deadline; a slow node keeps its slot; other
/// nodes are not delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_6_gives_up_dead_nodes_but_not_slow_ones_without_delaying_others() {
    let mut fleet = SimulatedFleet::with_size(9).await;
    let [disconnected_node, hung, slow] = [1, 2, 3].map(|n| format!("node{n:03}.example.net"));
    let (hangs, is_slow) = (
        SimulatedBehaviour { unresponsive: true, ..SimulatedBehaviour::default() },
        SimulatedBehaviour { delay: Duration::from_secs(9), ..SimulatedBehaviour::default() },
    );
    fleet.set_behaviour(&hung, hangs);
    fleet.set_behaviour(&slow, is_slow);
    let all: Vec<&str> = fleet.nodes.keys().map(Identity::as_str).collect();
    fleet.rpc.write("all", &all.join("\n"));
    let disconnected = fleet.nodes.remove(&disconnected_node.parse::<Identity>().unwrap()).unwrap();
    drop(disconnected.node.stop_and_wait().await);
    let path = fleet.rpc.path("all").display().to_string();
    let (all, exit) = run_valid_json(
        &fleet,
        &["puppet", "runonce", "--concurrency", "2", "--nodes", &path, "--deadline", "6"],
    )
    .await;
    assert_eq!(exit, 2);
    let ended = classes(&all);
    assert_eq!(
        ended[..3],
        [
            format!("{disconnected_node} not_connected"),
            format!("{hung} no_answer"),
            format!("{slow} changed")
        ]
    );
    assert!(ended[3..].iter().all(|end| end.ends_with(" changed")), "{ended:?}");
    assert_eq!(all["nodes"][1]["message"], "no message was received from it for 6 s");
    fleet.with_records(|records| {
        let slow: Identity = slow.parse().unwrap();
        let start = |node: &Identity| {
            let run = records.spans.iter().find(|(owner, _)| owner == node);
            run.unwrap().1.start
        };
        let first = records.spans.iter().map(|(_, span)| span.start).min().unwrap();
        let others = records.spans.iter().filter(|(node, _)| *node != slow);
        let done = others.map(|(_, span)| span.end).max().unwrap();
        assert!(done < start(&slow), "the other nodes waited for the slow one");
        assert!(done - first < 5000, "the other nodes were delayed");
    });
}

/// A2.7: order by name, at random, or longest first; canaries run alone, and the rollout stops if they fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_7_rollout_follows_requested_order_batches_and_canaries() {
    let fleet = SimulatedFleet::with_size(8).await;
    let all: Vec<String> = fleet.nodes.keys().map(ToString::to_string).collect();
    for (position, node) in fleet.nodes.values().enumerate() {
        node.set_behaviour(working("changed", 10 + 20 * position as u64));
    }
    let order = async |more: &[&str]| {
        let (lines, exit) =
            run_valid_lines(&fleet, &[&["puppet", "runall", "4"], more].concat()).await;
        assert_eq!(exit, 0);
        let order = names(&lines[0]["nodes"]).join(" ");
        order.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(&[]).await, all, "by name");
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(order(&["--longest-first"]).await, reversed);
    let random_order = order(&["--random"]).await;
    let sorted: BTreeSet<&String> = random_order.iter().collect();
    assert_eq!(sorted.into_iter().cloned().collect::<Vec<_>>(), all);
    let others = [order(&["--random"]).await, order(&["--random"]).await];
    assert!(
        others.iter().any(|other| *other != random_order) || random_order != all,
        "three random orders are equal to the sorted one"
    );

    // Each batch ends before the next one starts.
    fleet.clear_records();
    order(&["--batch", "3"]).await;
    fleet.with_records(|records| {
        let position = |node: &Identity| all.iter().position(|name| name == node.as_str()).unwrap();
        let batch = |batch_number: usize| {
            let spans = records.spans.iter();
            spans.filter(move |(node, _)| position(node) / 3 == batch_number)
        };
        for number in 0..2 {
            let ended = batch(number).map(|(_, span)| span.end).max().unwrap();
            let began = batch(number + 1).map(|(_, span)| span.start).min().unwrap();
            assert!(ended <= began, "batch {number}: {records:?}");
        }
    });

    fleet.set_behaviour(&all[1], working("failed", 10));
    fleet.clear_records();
    let canary = ["puppet", "runall", "4", "--canary", "2"];
    let (stopped, exit) = run_valid_json(&fleet, &canary).await;
    assert_eq!(exit, 2);
    assert_eq!(names(&stopped["not_asked"]), all[2..]);
    let reason = "stopped: 1 of 2 canaries failed or did not reply (maximum 0)";
    assert_eq!(stopped["stopped"], reason);
    assert_eq!(fleet.with_records(|records| records.run_counts.len()), 2);
    let tolerant = [&canary[..], &["--max-failures", "50%"]].concat();
    let (all_ran, exit) = run_valid_json(&fleet, &tolerant).await;
    assert_eq!((exit, &all_ran["not_asked"]), (2, &json!([])));
    // A stopped rollout continues when it is resumed explicitly.
    let id = stopped["job"].as_str().unwrap();
    let (rest, exit) = run_valid_json(&fleet, &["puppet", "runall", "--resume", id]).await;
    assert_eq!((exit, &rest["ok"], &rest["failed"]), (2, &json!(7), &json!(1)));
}

/// A2.8: options of a run arrive unchanged, and another server than the configured one is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_options_arrive_unchanged_and_another_server_is_refused() {
    let fleet = SimulatedFleet::start(["n1"]).await;
    let arguments = [
        "puppet",
        "runall",
        "1",
        "--noop",
        "--tags",
        "motd,ntp",
        "--skip-tags",
        "slow",
        "--environment",
        "testing",
        "--no-splay",
        "--splaylimit",
        "30",
        "--ignoreschedules",
        "--use-cached-catalog",
        "--priority",
        "3",
        "--pool",
        "night",
        "--wait",
        "90",
    ];
    let (_, exit) = run_valid_json(&fleet, &arguments).await;
    assert_eq!(exit, 0);
    let mut input = fleet.with_records(|records| Value::from(records.inputs[0].1.clone()));
    let run = input.as_object_mut().unwrap().remove("run").unwrap();
    let rollout = input.as_object_mut().unwrap().remove("rollout").unwrap();
    Uuid::parse_str(rollout.as_str().unwrap()).unwrap();
    assert!(Uuid::parse_str(run.as_str().unwrap()).is_ok());
    assert_eq!(
        input,
        json!({"noop": true, "tags": "motd,ntp", "skip_tags": "slow", "environment": "testing", "splay": false, "splaylimit": 30,
               "ignoreschedules": true, "use_cached_catalog": true, "priority": 3, "pool": "night", "wait": 90, "limit": 1})
    );
    let (refused, exit) = run_valid_json(&fleet, &["puppet", "runonce", "--server", "evil"]).await;
    assert_eq!((exit, &refused["nodes"][0]["class"]), (2, &json!("refused")));
    // Input that violates the schema is not sent.
    let before = fleet.with_records(|records| records.inputs.len());
    let odd = ["puppet", "runonce", "--tags", "a;reboot"];
    assert_eq!(fleet.rpc.run(&odd).await.status.code(), Some(4));
    assert_eq!(fleet.with_records(|records| records.inputs.len()), before);
}

/// Ctrl-C: no further nodes are started, and the command waits for the running ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_rollout_waits_for_running_nodes() {
    let fleet = SimulatedFleet::with_size(8).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("clean", 400));
    }
    let child = fleet.rpc.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("the first node has run", || {
        fleet.with_records(|records| !records.spans.is_empty())
    })
    .await;
    let process = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(process, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let remaining = document["not_asked"].as_array().unwrap().len();
    let ran = document["nodes"].as_array().unwrap().len();
    assert!(remaining > 0 && ran > 0 && remaining + ran == 8, "{document}");
    assert_eq!(document["counts"], json!({"clean": ran}));
    assert_eq!(document["stopped"], "interrupted: no further requests are sent");
    assert_eq!(fleet.with_records(|records| records.spans.len()), ran);
    assert!(describe_output(&output).contains("rpc puppet runall --resume"));
}

/// `--rerun` repeats the rollout, with the nodes that are connected then, until the command is interrupted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rerun_repeats_the_rollout() {
    let fleet = SimulatedFleet::with_size(2).await;
    let child =
        fleet.rpc.prepare_command(&["puppet", "runall", "2", "--rerun", "0.2"]).spawn().unwrap();
    await_state("each node has run three times", || {
        fleet.with_records(|records| {
            records.run_counts.len() == 2 && records.run_counts.values().all(|times| *times >= 3)
        })
    })
    .await;
    let process = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(process, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert!(
        describe_output(&output).matches("Running all machines with a concurrency of 2").count()
            >= 3,
        "{}",
        describe_output(&output)
    );
}
