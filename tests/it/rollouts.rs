//! Rollouts by the real `rpc`: killed and resumed, interrupted, confirmed, answered by nobody; and what its exit code says.

#![expect(
    clippy::indexing_slicing,
    reason = "documents are indexed; tests end by panic"
)]

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use muster_api::{Action, ActionError, Agent, Context};
use muster_tests::await_state;
use muster_tests::command::{Command, told};
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;

use crate::shaping::STAGES;

/// Which node has begun how often, and who may not end yet.
#[derive(Default)]
struct Gate {
    begun: Mutex<BTreeMap<String, usize>>,
    held: Mutex<Option<(String, Arc<Semaphore>)>>,
    total: AtomicUsize,
}

impl Gate {
    /// From now on this node's actions wait for the semaphore.
    fn hold(&self, node: &str) -> Arc<Semaphore> {
        let semaphore = Arc::new(Semaphore::new(0));
        *self.held.lock().unwrap() = Some((node.to_owned(), Arc::clone(&semaphore)));
        semaphore
    }

    fn begun(&self, node: &str) -> usize {
        self.begun.lock().unwrap().get(node).copied().unwrap_or(0)
    }

    fn held(&self, node: &str) -> Option<Arc<Semaphore>> {
        let held = self.held.lock().unwrap();
        let (name, semaphore) = held.as_ref()?;
        (name == node).then(|| Arc::clone(semaphore))
    }
}

/// Changes nothing but counts as a change; may be held up.
struct Work(Arc<Gate>);

#[derive(Deserialize)]
struct Given {
    what: String,
    token: Option<String>,
}

#[derive(Serialize)]
struct Done {
    done: String,
    authorised: bool,
}

impl Action for Work {
    const NAME: &'static str = "do";
    type Input = Given;
    type Output = Done;
    async fn run(&self, cx: &Context, given: Given) -> Result<Done, ActionError> {
        let node = cx.node.identity().to_string();
        *self
            .0
            .begun
            .lock()
            .unwrap()
            .entry(node.clone())
            .or_default() += 1;
        self.0.total.fetch_add(1, Ordering::Relaxed);
        if let Some(held) = self.0.held(&node) {
            tokio::select! {
                // A semaphore is closed by nobody here.
                permit = held.acquire() => permit.unwrap().forget(),
                () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
            }
        }
        if given.what == format!("fail on {node}") {
            return Err(ActionError::failed("it did not work"));
        }
        let authorised = given.token.as_deref() == Some("s3cret");
        Ok(Done {
            done: given.what,
            authorised,
        })
    }
}

fn schema() -> Value {
    let input = |optional: bool| json!({"prompt": "p", "description": "d", "type": "string", "validation": ".", "maxlength": 200, "optional": optional});
    let mut secret = input(true);
    secret["sensitive"] = json!(true);
    json!({
        "default_action": "do",
        "metadata": {"name": "work", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u", "timeout": 600},
        "actions": [{"action": "do", "description": "d", "display": "always",
                     "input": {"what": input(false), "token": secret},
                     "output": {"done": {"description": "d", "display_as": "Done", "type": "string"},
                                "authorised": {"description": "d", "display_as": "Authorised", "type": "boolean"}}}],
    })
}

/// A fleet of workers, and a desk.
struct World {
    organisation: Organisation,
    server: NatsServer,
    nodes: Vec<TestNode>,
    gate: Arc<Gate>,
    desk: Command,
}

impl World {
    async fn new(nodes: usize, more: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.broker().await;
        let gate = Arc::new(Gate::default());
        let mut running = Vec::new();
        for n in 1..=nodes {
            let mut blueprint = Blueprint::new(organisation.node(&format!("n{n}")));
            blueprint.facts = json!({"number": n});
            let agent = Agent::builder(&schema().to_string()).unwrap();
            blueprint.agents = vec![agent.action(Work(Arc::clone(&gate))).build().unwrap()];
            running.push(TestNode::start(&organisation, &server, blueprint).await);
        }
        let desk = Command::new(&server, &organisation, &organisation.caller("rip"), more);
        desk.add_schema("work", &schema());
        Self {
            organisation,
            server,
            nodes: running,
            gate,
            desk,
        }
    }

    /// The only job, in full.
    async fn job(&self) -> Value {
        let (jobs, _) = self.desk.document(&["job", "list"]).await;
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
        let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
        self.desk.document(&["job", "show", &id]).await.0
    }
}

fn senders(document: &Value) -> Vec<&str> {
    let replies = document["replies"].as_array().unwrap();
    let mut senders: Vec<_> = replies
        .iter()
        .map(|one| one["sender"].as_str().unwrap())
        .collect();
    senders.sort_unstable();
    senders
}

fn pid(child: &tokio::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap())
}

const SLOWLY: [&str; 4] = ["--batch", "1", "--batch-sleep", "0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_that_was_killed_is_interrupted_and_goes_on_where_it_was() {
    let world = World::new(4, "").await;
    let held = world.gate.hold("n2");
    let request = ["do", "work", "what=x", "token=s3cret"];
    let mut child = world
        .desk
        .prepared(&[&request[..], &SLOWLY].concat())
        .spawn()
        .unwrap();
    await_state("the second node is at work", || world.gate.begun("n2") == 1).await;
    child.kill().await.unwrap();

    let job = world.job().await;
    assert_eq!(job["job"]["state"], "interrupted", "{job}");
    assert_eq!(senders(&job), ["n1"]);
    assert_eq!(job["no_responses"], json!(["n2"]));
    assert_eq!(job["never_asked"], json!(["n3", "n4"]));
    let id = job["job"]["id"].as_str().unwrap().to_owned();
    let file = world.desk.path(&format!("state/muster/jobs/{id}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    // As a crash of the whole machine would leave it.
    std::fs::write(&file, format!("{text}{{\"kind\":\"wave\",\"num")).unwrap();
    held.add_permits(8);

    // A secret was not kept: it is asked for again, and there is nobody to ask.
    let resume = world.desk.run(&["do", "--resume", &id]).await;
    assert_eq!(resume.status.code(), Some(1), "{}", told(&resume));
    let (resumed, exit) = world
        .desk
        .document(&["do", "--resume", &id, "work", "token=s3cret"])
        .await;
    // The agent's name needs an action beside it, or its inputs do.
    assert_eq!(exit, 0, "{resumed}");
    assert_eq!(senders(&resumed), ["n3", "n4"]);
    assert_eq!(
        resumed["replies"][0]["data"],
        json!({"done": "x", "authorised": true})
    );
    assert_eq!(
        resumed["request_stats"]["requestids"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "in its own batches"
    );
    let job = world.job().await;
    assert_eq!(job["job"]["state"], "finished");
    assert_eq!(job["no_responses"], json!(["n2"]));
    assert_eq!(job["never_asked"], json!([]));
    let again = world.desk.run(&["do", "--resume", &id, "--yes"]).await;
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));

    let (retried, exit) = world
        .desk
        .document(&["do", "work", "do", "token=s3cret", "--retry-failed", &id])
        .await;
    assert_eq!((senders(&retried), exit), (vec!["n2"], 0));
    let begun = ["n1", "n2", "n3", "n4"].map(|node| world.gate.begun(node));
    assert_eq!(begun, [1, 2, 1, 1]);

    let (jobs, _) = world.desk.document(&["job", "list"]).await;
    let retry = jobs["jobs"][0]["id"].as_str().unwrap();
    assert_eq!(
        world.desk.document(&["job", "show", retry]).await.0["retry_of"],
        id
    );
    let other = world
        .desk
        .run(&["do", "rpcutil", "ping", "--retry-failed", &id])
        .await;
    assert_eq!(other.status.code(), Some(4), "{}", told(&other));
    let differ = world.desk.run(&["job", "diff", &id, retry]).await;
    assert_eq!(differ.status.code(), Some(2), "{}", told(&differ));
    let same = world.desk.run(&["job", "diff", &id, &id]).await;
    assert_eq!(same.status.code(), Some(0), "{}", told(&same));
    let forgotten = world.desk.run(&["job", "forget", "--all"]).await;
    assert_eq!(forgotten.status.code(), Some(0));
    assert_eq!(
        world.desk.run(&["job", "show", &id]).await.status.code(),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_says_who_answered_who_is_at_work_and_who_was_never_asked() {
    let world = World::new(3, "").await;
    let held = world.gate.hold("n2");
    let request = ["do", "work", "what=x"];
    let child = world
        .desk
        .prepared(&[&request[..], &SLOWLY].concat())
        .spawn()
        .unwrap();
    await_state("the second node is at work", || world.gate.begun("n2") == 1).await;
    kill(pid(&child), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    held.add_permits(8);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let said = told(&output);
    for part in [
        "Asked and answered before it ended early:\n\n   n1\n",
        "No response from:\n\n   n2\n",
        "Never asked:\n\n   n3\n",
        "Plan: work do on 3 nodes",
        "--resume",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(world.job().await["job"]["state"], "interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_job_is_taken_back_on_the_nodes_that_it_had_asked() {
    let world = World::new(3, "").await;
    let _held = world.gate.hold("n2");
    let request = ["do", "work", "what=x"];
    let command = [&request[..], &SLOWLY].concat();
    let child = world.desk.prepared(&command).spawn().unwrap();
    await_state("the second node is at work", || world.gate.begun("n2") == 1).await;
    kill(pid(&child), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let job = world.job().await;
    let id = job["job"]["id"].as_str().unwrap();
    let hint = format!("nodes go on; `rpc cancel {id}` stops them");
    assert!(told(&output).contains(&hint), "{}", told(&output));

    let filtered = world.desk.run(&["cancel", id, "-F", "number=2"]).await;
    assert_eq!(filtered.status.code(), Some(4), "{}", told(&filtered));
    let cancelled = world.desk.run(&["cancel", id]).await;
    assert_eq!(cancelled.status.code(), Some(0), "{}", told(&cancelled));
    for part in [
        "n2: cancelled work do of rip\n",
        "Cancelled on 1 of 1 nodes",
    ] {
        assert!(told(&cancelled).contains(part), "{}", told(&cancelled));
    }
    // By the id of its first request, which only n1 was asked: all of the job is meant, and nothing is left of it.
    let first = job["requestids"][0].as_str().unwrap();
    let (again, exit) = world.desk.document(&["cancel", first]).await;
    assert_eq!((senders(&again), exit), (vec!["n2"], 1), "{again}");
    assert_eq!(again["replies"][0]["data"]["outcome"], "not_running");
    let asked_to_cancel = |node: &TestNode| {
        let records = node.audit();
        records.iter().any(|record| record["action"] == "cancel")
    };
    let asked: Vec<bool> = world.nodes.iter().map(asked_to_cancel).collect();
    assert_eq!(asked, [false, true, false]);
    let unknown = world.desk.run(&["cancel", "no-such-job"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{}", told(&unknown));

    // A job whose nodes have all answered has nobody to ask.
    let other = ["do", "work", "what=y", "-I", "n1", "--job", "other"];
    let done = world.desk.run(&other).await;
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let late = world.desk.run(&["cancel", "other"]).await;
    assert_eq!(late.status.code(), Some(1), "{}", told(&late));
    assert!(told(&late).contains("Nothing is left"), "{}", told(&late));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_interruption_ends_it_at_once() {
    let world = World::new(1, "").await;
    let held = world.gate.hold("n1");
    // More names than a pipe takes: whoever reports all of them waits for the reader.
    let more: Vec<String> = (0..9000)
        .map(|n| format!("z-a-name-that-is-quite-long-{n}.example.net"))
        .collect();
    world
        .desk
        .write("nodes", &format!("n1\n{}", more.join("\n")));
    let list = world.desk.path("nodes");
    let request = [
        "do",
        "work",
        "what=x",
        "-j",
        "--nodes",
        list.to_str().unwrap(),
    ];
    let mut child = world
        .desk
        .prepared(&[&request[..], &SLOWLY].concat())
        .spawn()
        .unwrap();
    await_state("the first node is at work", || world.gate.begun("n1") == 1).await;
    kill(pid(&child), Signal::SIGINT).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_u8().await.unwrap();
    kill(pid(&child), Signal::SIGINT).unwrap();
    let status = child.wait().await.unwrap();
    held.add_permits(8);
    assert_eq!(status.signal(), Some(2), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_tell_the_truth() {
    let world = World::new(2, "").await;
    world.desk.write("some", "n1\ngone.example.net\n");
    world.desk.write("gone", "gone.example.net\n");
    let (some, gone) = (world.desk.path("some"), world.desk.path("gone"));
    let (some, gone) = (some.to_str().unwrap(), gone.to_str().unwrap());
    let table: &[(&[&str], i32)] = &[
        (&["do", "rpcutil", "ping"], 0),
        (&["rpcutil", "ping"], 0),
        (&["ping"], 0),
        (&["find"], 0),
        (&["do", "rpcutil", "ping", "--expect", "1"], 0),
        (&["ping", "--expect", "2"], 0),
        (&["do", "work", "what=x", "--nr"], 0),
        (&["do", "rpcutil", "ping", "-F", "number=9"], 1),
        (&["ping", "-F", "number=9"], 1),
        (&["find", "-F", "number=9"], 1),
        (&["do", "work", "what=x", "--nr", "-F", "number=9"], 1),
        (&["do", "--resume", "20200101"], 1),
        (&["do", "work", "what=fail on n1"], 2),
        (&["do", "work", "what=fail on n1", "-j"], 2),
        (&["do", "work", "what=fail on n1", "--jsonl"], 2),
        (&["do", "work", "what=fail on n1", "--canary", "1"], 2),
        (&["do", "work", "what=fail on n1", "-I", "n1"], 2),
        (&["do", "rpcutil", "ping", "--nodes", some], 2),
        (
            &["do", "rpcutil", "ping", "--nodes", some, "--expect", "2"],
            2,
        ),
        (&["ping", "--expect", "3"], 2),
        (&["do", "rpcutil", "ping", "--nodes", gone], 3),
        (&["ping", "--expect", "1", "-F", "number=9"], 3),
        (&["do", "work"], 4),
        (&["do", "wrok", "what=x"], 4),
        (&["do"], 4),
        (
            &["do", "work", "what=x", "--reply-to", "_INBOX.somebody.else"],
            4,
        ),
        (&["do", "work", "what=x", "--nr", "-j"], 4),
        (&["do", "rpcutil", "ping", "--expect", "0"], 4),
    ];
    for (arguments, exit) in table {
        let output = world.desk.run(arguments).await;
        assert_eq!(
            output.status.code(),
            Some(*exit),
            "rpc {arguments:?}: {}",
            told(&output)
        );
    }
    let unreachable = Command::new(
        &world.server,
        &world.organisation,
        &world.organisation.caller("amy"),
        "",
    );
    let text = std::fs::read_to_string(unreachable.path("rpc.toml")).unwrap();
    unreachable.write(
        "rpc.toml",
        &text.replace(&world.server.url(), "nats://127.0.0.1:1"),
    );
    let output = unreachable.run(&["do", "rpcutil", "ping"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_answers_is_sent_and_done() {
    let world = World::new(2, "").await;
    let output = world
        .desk
        .run(&["do", "work", "what=x", "--no-results"])
        .await;
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        said.starts_with("Request sent with id: 0"),
        "{}",
        told(&output)
    );
    await_state("both are done", || {
        world.gate.total.load(Ordering::Relaxed) == 2
    })
    .await;
    assert_eq!(world.job().await["job"]["state"], "unattended");
}

/// A request that nobody waits for once went to everybody, whatever its filter said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_answers_keeps_its_filter() {
    let world = World::new(3, "").await;
    for filter in ["-F number=2", "-F number=4", "-S number=2"] {
        let arguments: Vec<&str> = ["do", "work", "what=x", "--nr"]
            .into_iter()
            .chain(filter.split(' '))
            .collect();
        let output = world.desk.run(&arguments).await;
        let expected = i32::from(filter.ends_with('4'));
        assert_eq!(output.status.code(), Some(expected), "{}", told(&output));
    }
    // Nodes take requests in their order: when all have answered this one, those before it have been taken too.
    let (_, code) = world.desk.document(&["do", "work", "what=x"]).await;
    assert_eq!(code, 0);
    // A search and a request each time; the second node twice more.
    let passed: Vec<u64> = world
        .nodes
        .iter()
        .map(|node| node.core.counted().passed)
        .collect();
    assert_eq!(passed, [2, 6, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_waited_for_who_cannot_confirm() {
    let world = World::new(2, "confirm_above = 0").await;
    // No terminal: as ever, unless the configuration insists.
    assert_eq!(
        world
            .desk
            .run(&["do", "work", "what=x"])
            .await
            .status
            .code(),
        Some(0)
    );
    let strict = Command::new(
        &world.server,
        &world.organisation,
        &world.organisation.caller("amy"),
        "confirm = \"always\"",
    );
    strict.add_schema("work", &schema());
    let before = world.gate.total.load(Ordering::Relaxed);
    let refused = strict.run(&["do", "work", "what=x"]).await;
    assert_eq!(refused.status.code(), Some(4), "{}", told(&refused));
    assert!(told(&refused).contains("--yes"), "{}", told(&refused));
    assert_eq!(world.gate.total.load(Ordering::Relaxed), before);
    assert_eq!(
        strict
            .run(&["do", "work", "what=x", "--yes"])
            .await
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        strict.run(&["do", "rpcutil", "ping"]).await.status.code(),
        Some(0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_terminal_many_nodes_are_changed_only_after_a_yes() {
    let world = World::new(2, "confirm_above = 1").await;
    for (answer, exit, done) in [("n\n", 1, 0), ("\n", 1, 0), ("y\n", 0, 2)] {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let slave = || std::process::Stdio::from(terminal.slave.try_clone().unwrap());
        let mut command = world.desk.prepared(&["do", "work", "what=x", "--np"]);
        let child = command.stdin(slave()).stderr(slave()).spawn().unwrap();
        nix::unistd::write(&terminal.master, answer.as_bytes()).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{answer:?}: {}",
            told(&output)
        );
        assert_eq!(world.gate.total.load(Ordering::Relaxed), done, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_request_shows_every_stage_here_and_there() {
    let world = World::new(1, "").await;
    let (document, exit) = world
        .desk
        .document(&["do", "work", "what=x", "--trace"])
        .await;
    assert_eq!(exit, 0);
    let stages = document["replies"][0]["trace"]["stages"]
        .as_array()
        .unwrap();
    let names: Vec<&str> = stages
        .iter()
        .map(|stage| stage["stage"].as_str().unwrap())
        .collect();
    assert_eq!(names, STAGES);
    let here = &document["request_stats"]["trace"];
    for stage in ["discover_us", "sign_us", "publish_us"] {
        assert!(here[stage].as_u64().is_some(), "{here}");
    }
    assert!(here["traceparent"].as_str().unwrap().starts_with("00-"));

    let text = told(&world.desk.run(&["do", "work", "what=x", "--trace"]).await);
    for stage in STAGES.iter().chain(&[
        "discover",
        "sign",
        "publish",
        "network",
        "verify here",
        "total",
    ]) {
        assert!(text.contains(&format!("\n   {stage} ")), "{stage}: {text}");
    }
    let pinged = told(&world.desk.run(&["ping", "--trace"]).await);
    assert!(
        pinged.contains("\n   authorise ") && pinged.contains("\n   network "),
        "{pinged}"
    );

    // Whoever started us has a trace already.
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut command = world
        .desk
        .prepared(&["do", "work", "what=x", "--trace", "-j"]);
    let output = command.env("TRACEPARENT", given).output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["request_stats"]["trace"]["traceparent"], given);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explaining_shows_what_would_be_sent_and_sends_nothing() {
    let world = World::new(1, "").await;
    let request = [
        "explain",
        "work",
        "do",
        "what=x",
        "token=s3cret",
        "-F",
        "number=1",
    ];
    let (document, exit) = world.desk.document(&request).await;
    assert_eq!(exit, 0);
    assert_eq!(
        document["discovery"]["subjects"],
        json!(["muster.rpcutil.ping.all"])
    );
    let sent = &document["requests"][0];
    assert_eq!(
        sent["subjects"],
        json!(["muster.work.do.node.each-node-that-is-found"])
    );
    assert_eq!(
        sent["allowed_by"],
        "muster.*.> (from muster.{{tag(agent)}}.> in the scope)"
    );
    assert_eq!(sent["body"]["data"]["what"], "x");
    assert_eq!(document["caller"]["role"], "caller");
    let signed = format!("{}{}", "6d75737465722e726571756573742e763100", "7b");
    assert!(
        sent["signed_hex"].as_str().unwrap().starts_with(&signed),
        "{sent}"
    );
    assert!(!document.to_string().contains("s3cret"), "{document}");

    let named = told(
        &world
            .desk
            .run(&["explain", "work", "do", "what=x", "-I", "n1", "-v"])
            .await,
    );
    assert!(named.contains("muster.work.do.node.n1"), "{named}");
    assert!(!named.contains("First"), "{named}");
    for stage in ["decode", "verify", "authorise", "journal", "reply"] {
        assert!(named.contains(&format!("\n   {stage}")), "{stage}: {named}");
    }
    // Who may ask for nothing but `rpcutil` is told what the broker would do.
    let user = world
        .organisation
        .user(muster_wire::token::Role::Caller, "eve", &["agent:rpcutil"]);
    let narrow = Command::new(&world.server, &world.organisation, &user, "");
    narrow.add_schema("work", &schema());
    let (document, _) = narrow
        .document(&["explain", "work", "do", "what=x", "-I", "n1"])
        .await;
    assert!(document["requests"][0]["allowed_by"].is_null());
    assert_eq!(world.gate.total.load(Ordering::Relaxed), 0);
}
