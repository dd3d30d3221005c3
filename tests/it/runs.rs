//! `rpc puppet` and `rpc permit` on nodes with a simulated Puppet and real permits: the cap, what is told of each run, and what is left
//! when the command is killed. The acceptance points are those of the article's `runall` (A2.1 to A2.8).

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::command::describe_output;
use muster_tests::published::{SchemaMode, check_schema};
use muster_tests::puppet::{SimulatedBehaviour, SimulatedFleet};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::SeedableRng;
use rand::rngs::StdRng;
use regex::Regex;
use serde_json::{Value, json};
use uuid::Uuid;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn working(class: &'static str, work: u64) -> SimulatedBehaviour {
    SimulatedBehaviour { class, work: ms(work), ..SimulatedBehaviour::default() }
}

/// A valid document, and the exit code.
pub(crate) async fn document(fleet: &SimulatedFleet, arguments: &[&str]) -> (Value, i32) {
    let (document, exit) = fleet.desk.run_json(arguments).await;
    let schema = document["schema"].as_str().unwrap_or_default().to_owned();
    check_schema(&schema, &document, SchemaMode::Strict).unwrap();
    (document, exit)
}

/// Valid lines of `--jsonl`, and the exit code.
async fn lines(fleet: &SimulatedFleet, arguments: &[&str]) -> (Vec<Value>, i32) {
    let output = fleet.desk.run(&[arguments, &["--jsonl"]].concat()).await;
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

/// A2.1, A2.2: 47 nodes as the article had them, by their own notes; `load permits` does it at length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_is_never_exceeded_and_no_permit_lies_idle_for_long() {
    let fleet = SimulatedFleet::with_size(47).await;
    for (seed, limit) in [(1, 1), (2, 2), (3, 4), (4, 4), (5, 16), (6, 16)] {
        let mut lots = StdRng::seed_from_u64(seed);
        for node in fleet.nodes.values() {
            // Short, to keep the test so; but many at once are reached only if nobody ends while others are let in.
            let scale = match limit {
                ..=2 => 1000,
                3..=4 => 100,
                _ => 25,
            };
            node.set_behaviour(SimulatedBehaviour::random(&mut lots, scale));
        }
        fleet.clear_records();
        fleet.run_all(&format!("seed{seed}"), limit).await;
        let proof = fleet.concurrency_stats();
        assert_eq!(proof.runs, 47, "seed {seed}");
        assert!(proof.highest <= limit, "seed {seed}: {} ran at once", proof.highest);
        assert_eq!(proof.highest, limit, "seed {seed}: the limit was never reached");
        if limit == 4 {
            // Loose, for a loaded machine, and because nodes have their turns by name and not the longest first.
            assert!(proof.makespan_ratio(limit).unwrap() < 2.0, "seed {seed}: {proof:?}");
        }
    }
}

/// The log that people know, line by line, and the proof at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runall_tells_what_the_articles_program_told() {
    let fleet = SimulatedFleet::start(["dev1", "dev2", "dev3", "dev4", "dev5"]).await;
    let disabled = SimulatedBehaviour { disabled: Some("moving"), ..SimulatedBehaviour::default() };
    fleet.set_behaviour("dev5", disabled);
    for name in ["dev1", "dev2", "dev3", "dev4"] {
        fleet.set_behaviour(name, working("changed", 700));
    }
    let output = fleet.desk.run(&["puppet", "runall", "2"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let log = String::from_utf8(output.stderr.clone()).unwrap();
    let stamp = Regex::new(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ (.*)$").unwrap();
    let words: Vec<&str> =
        log.lines().filter_map(|line| Some(stamp.captures(line)?.get(1)?.as_str())).collect();
    assert_eq!(
        words[..4],
        [
            "Running all machines with a concurrency of 2",
            "Discovering hosts to run",
            "Found 4 hosts",
            "dev5 skipped: disabled: moving"
        ]
    );
    let running = Regex::new(r"^Running (dev\d), concurrency is ([12])$").unwrap();
    let begun: Vec<&str> =
        words.iter().filter_map(|line| Some(running.captures(line)?.get(1)?.as_str())).collect();
    assert_eq!(begun.len(), 4, "{log}");
    for node in begun {
        assert!(words.contains(&format!("{node} schedule status: OK").as_str()), "{log}");
        let ended = format!("{node}: changed: ended as changed");
        assert!(words.contains(&ended.as_str()), "{log}");
    }
    assert!(words.contains(&"Currently 2 nodes running, waiting"), "{log}");
    let summary = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert!(lines[1].starts_with("changed") && lines[1].ends_with('4'), "{summary}");
    assert!(lines[2].starts_with("skipped: disabled") && lines[2].ends_with("dev5"), "{summary}");
    assert!(
        summary.contains("The limit of 2 was kept: by the nodes' clocks, at most 2 ran at once")
    );
    assert_eq!(fleet.concurrency_stats().highest, 2);
}

/// A2.3: the command is killed half-way. The cap holds, whoever was not asked runs later, nobody runs twice, and no permit is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_rollout_is_finished_by_another_and_nobody_runs_twice() {
    let fleet = SimulatedFleet::with_size(12).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("changed", 120));
    }
    let mut child =
        fleet.desk.prepare_command(&["puppet", "runall", "2", "--job", "night"]).spawn().unwrap();
    await_state("half of the nodes have run", || {
        fleet.with_records(|notes| notes.spans.len() >= 5)
    })
    .await;
    child.kill().await.unwrap();
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    await_state("those who were asked have run", || {
        fleet.with_records(|notes| {
            notes.running.is_empty() && notes.spans.len() == notes.begun.len()
        })
    })
    .await;
    let before = fleet.with_records(|notes| notes.begun.len());
    assert!(before < 12, "the rest was to be left for later");
    let (job, _) = document(&fleet, &["job", "show", "night"]).await;
    assert_eq!(job["job"]["state"], "interrupted", "{job}");
    assert_eq!(job["runs"].as_object().unwrap().len(), 12);

    // Another command for requests would ask for runs of no identity.
    let other = fleet.desk.run(&["do", "--resume", "night"]).await;
    assert_eq!(other.status.code(), Some(4), "{}", describe_output(&other));
    assert!(describe_output(&other).contains("rpc puppet runall --resume"));

    let (done, exit) = document(&fleet, &["puppet", "runall", "--resume", "night"]).await;
    assert_eq!((exit, &done["ok"]), (0, &json!(12)), "{done}");
    assert_eq!(done["limit"], 2);
    assert_eq!(done["proof"]["runs"], 12);
    assert_eq!(done["proof"]["highest_concurrency"], 2);
    let nodes = done["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["earlier"] == true));
    assert!(nodes.iter().any(|node| node["earlier"].is_null()));
    fleet.with_records(|notes| {
        assert!(notes.begun.values().all(|times| *times == 1), "{notes:?}");
        assert_eq!(notes.begun.len(), 12);
    });
    assert_eq!(fleet.concurrency_stats().highest, 2, "by the nodes' own notes");
    let (pools, _) = document(&fleet, &["permit", "show", "puppet"]).await;
    let held: Vec<&Value> = pools["pools"].as_array().unwrap().iter().collect();
    assert!(
        held.iter().all(|pool| pool["holders"] == json!([]) && pool["waiting"] == json!([])),
        "{pools}"
    );
    let again = fleet.desk.run(&["puppet", "runall", "--resume", "night"]).await;
    assert_eq!(again.status.code(), Some(1), "{}", describe_output(&again));
    assert!(describe_output(&again).contains("has no node that has not run yet"));
}

/// A2.5: what is told is how the run ended, and only runs that all succeeded are a success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_end_of_a_run_is_told_apart_and_only_success_is_one() {
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
    let (all, exit) = document(&fleet, &["puppet", "runonce"]).await;
    assert_eq!(exit, 2);
    let mut expected: Vec<String> = ends.map(|(name, class)| format!("{name} {class}")).into();
    expected.push("n8 disabled".to_owned());
    assert_eq!(classes(&all), expected);
    assert_eq!((&all["ok"], &all["failed"]), (&json!(2), &json!(6)));
    assert_eq!(all["counts"]["disabled"], 1);

    let good = ["puppet", "runonce", "-I", "n1", "-I", "n2"];
    let (all, exit) = document(&fleet, &good).await;
    assert_eq!((exit, &all["failed"]), (0, &json!(0)));
    let output = fleet.desk.run(&["puppet", "runonce", "-I", "n2", "-I", "n5"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("n2: changed: ended as changed\n"), "{text}");
    assert!(text.contains("n5: compile_failed: something failed\n"), "{text}");
    // Nobody is there at all; and Puppet is disabled everywhere.
    let (_, exit) = document(&fleet, &["puppet", "runonce", "-F", "site=moon"]).await;
    assert_eq!(exit, 1);
    let (none, exit) = document(&fleet, &["puppet", "runall", "2", "-I", "n8"]).await;
    assert_eq!((exit, &none["disabled"]["n8"]), (1, &json!("hand hacking")));
    for limit in ["0", "-1", "many"] {
        let output = fleet.desk.run(&["puppet", "runall", limit]).await;
        assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    }
}

/// A2.6: a node that is gone and one that hangs are told after a stated time; a slow one keeps its place; nobody else waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_given_up_a_slow_one_is_not_and_the_others_do_not_wait() {
    let mut fleet = SimulatedFleet::with_size(9).await;
    let [gone, hung, slow] = [1, 2, 3].map(|n| format!("node{n:03}.example.net"));
    let (hangs, is_slow) = (
        SimulatedBehaviour { unresponsive: true, ..SimulatedBehaviour::default() },
        SimulatedBehaviour { delay: Duration::from_secs(9), ..SimulatedBehaviour::default() },
    );
    fleet.set_behaviour(&hung, hangs);
    fleet.set_behaviour(&slow, is_slow);
    let all: Vec<&str> = fleet.nodes.keys().map(Identity::as_str).collect();
    fleet.desk.write("all", &all.join("\n"));
    let leaving = fleet.nodes.remove(&gone.parse::<Identity>().unwrap()).unwrap();
    drop(leaving.node.stop_and_wait().await);
    let path = fleet.desk.path("all").display().to_string();
    let (all, exit) = document(
        &fleet,
        &["puppet", "runonce", "--concurrency", "2", "--nodes", &path, "--deadline", "6"],
    )
    .await;
    assert_eq!(exit, 2);
    let ended = classes(&all);
    assert_eq!(
        ended[..3],
        [format!("{gone} not_connected"), format!("{hung} no_answer"), format!("{slow} changed")]
    );
    assert!(ended[3..].iter().all(|end| end.ends_with(" changed")), "{ended:?}");
    assert_eq!(all["nodes"][1]["message"], "no message was received from it for 6 s");
    fleet.with_records(|notes| {
        let slow: Identity = slow.parse().unwrap();
        let start = |node: &Identity| {
            let of = notes.spans.iter().find(|(of, _)| of == node);
            of.unwrap().1.start
        };
        let first = notes.spans.iter().map(|(_, span)| span.start).min().unwrap();
        let others = notes.spans.iter().filter(|(node, _)| *node != slow);
        let done = others.map(|(_, span)| span.end).max().unwrap();
        assert!(done < start(&slow), "the others waited for the slow one");
        assert!(done - first < 5000, "the others waited for somebody");
    });
}

/// A2.7: by name, by lot, or the longest first; canaries alone, and no further when they fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_batches_and_canaries_are_as_asked_for() {
    let fleet = SimulatedFleet::with_size(8).await;
    let all: Vec<String> = fleet.nodes.keys().map(ToString::to_string).collect();
    for (place, node) in fleet.nodes.values().enumerate() {
        node.set_behaviour(working("changed", 10 + 20 * place as u64));
    }
    let order = async |more: &[&str]| {
        let (lines, exit) = lines(&fleet, &[&["puppet", "runall", "4"], more].concat()).await;
        assert_eq!(exit, 0);
        let order = names(&lines[0]["nodes"]).join(" ");
        order.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(&[]).await, all, "by name");
    let backwards: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(order(&["--longest-first"]).await, backwards);
    let drawn = order(&["--random"]).await;
    let sorted: BTreeSet<&String> = drawn.iter().collect();
    assert_eq!(sorted.into_iter().cloned().collect::<Vec<_>>(), all);
    let others = [order(&["--random"]).await, order(&["--random"]).await];
    assert!(others.iter().any(|other| *other != drawn) || drawn != all, "three draws are alike");

    // Each batch has ended before the next one begins.
    fleet.clear_records();
    order(&["--batch", "3"]).await;
    fleet.with_records(|notes| {
        let place = |node: &Identity| all.iter().position(|name| name == node.as_str()).unwrap();
        let batch = |wanted: usize| {
            let spans = notes.spans.iter();
            spans.filter(move |(node, _)| place(node) / 3 == wanted)
        };
        for number in 0..2 {
            let ended = batch(number).map(|(_, span)| span.end).max().unwrap();
            let began = batch(number + 1).map(|(_, span)| span.start).min().unwrap();
            assert!(ended <= began, "batch {number}: {notes:?}");
        }
    });

    fleet.set_behaviour(&all[1], working("failed", 10));
    fleet.clear_records();
    let canary = ["puppet", "runall", "4", "--canary", "2"];
    let (stopped, exit) = document(&fleet, &canary).await;
    assert_eq!(exit, 2);
    assert_eq!(names(&stopped["not_asked"]), all[2..]);
    let reason = "stopped: 1 of 2 canaries failed or did not reply (maximum 0)";
    assert_eq!(stopped["stopped"], reason);
    assert_eq!(fleet.with_records(|notes| notes.begun.len()), 2);
    let tolerant = [&canary[..], &["--max-failures", "50%"]].concat();
    let (all_ran, exit) = document(&fleet, &tolerant).await;
    assert_eq!((exit, &all_ran["not_asked"]), (2, &json!([])));
    // What was stopped goes on when somebody wants it in spite of that.
    let id = stopped["job"].as_str().unwrap();
    let (rest, exit) = document(&fleet, &["puppet", "runall", "--resume", id]).await;
    assert_eq!((exit, &rest["ok"], &rest["failed"]), (2, &json!(7), &json!(1)));
}

/// A2.8: what a run is told arrives as it was given, and no server but the configured one is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_arrive_as_given_and_another_server_is_refused() {
    let fleet = SimulatedFleet::start(["n1"]).await;
    let given = [
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
    let (_, exit) = document(&fleet, &given).await;
    assert_eq!(exit, 0);
    let mut asked = fleet.with_records(|notes| Value::from(notes.asked[0].1.clone()));
    let run = asked.as_object_mut().unwrap().remove("run").unwrap();
    assert!(Uuid::parse_str(run.as_str().unwrap()).is_ok());
    assert_eq!(
        asked,
        json!({"noop": true, "tags": "motd,ntp", "skip_tags": "slow", "environment": "testing", "splay": false, "splaylimit": 30,
               "ignoreschedules": true, "use_cached_catalog": true, "priority": 3, "pool": "night", "wait": 90, "limit": 1})
    );
    let (refused, exit) = document(&fleet, &["puppet", "runonce", "--server", "evil"]).await;
    assert_eq!((exit, &refused["nodes"][0]["class"]), (2, &json!("refused")));
    // What its schema does not allow is sent to nobody.
    let before = fleet.with_records(|notes| notes.asked.len());
    let odd = ["puppet", "runonce", "--tags", "a;reboot"];
    assert_eq!(fleet.desk.run(&odd).await.status.code(), Some(4));
    assert_eq!(fleet.with_records(|notes| notes.asked.len()), before);
}

/// Ctrl-C asks nobody else, and those who were asked are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_rollout_waits_for_those_who_were_asked() {
    let fleet = SimulatedFleet::with_size(8).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("clean", 400));
    }
    let child = fleet.desk.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("the first one has run", || fleet.with_records(|notes| !notes.spans.is_empty()))
        .await;
    let process = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(process, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = document["not_asked"].as_array().unwrap().len();
    let ran = document["nodes"].as_array().unwrap().len();
    assert!(left > 0 && ran > 0 && left + ran == 8, "{document}");
    assert_eq!(document["counts"], json!({"clean": ran}));
    assert_eq!(document["stopped"], "interrupted: no further requests are sent");
    assert_eq!(fleet.with_records(|notes| notes.spans.len()), ran);
    assert!(describe_output(&output).contains("rpc puppet runall --resume"));
}

/// `--rerun` begins anew, with the nodes that are there then, until somebody ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_that_repeats_itself_begins_anew() {
    let fleet = SimulatedFleet::with_size(2).await;
    let child =
        fleet.desk.prepare_command(&["puppet", "runall", "2", "--rerun", "0.2"]).spawn().unwrap();
    await_state("each has run three times", || {
        fleet.with_records(|notes| {
            notes.begun.len() == 2 && notes.begun.values().all(|times| *times >= 3)
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
