//! Tests of the agent through its handlers, with real programs on this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::progress::{ProgressSource, progress_channel};
use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::identity::SubjectName;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::wire::token::{KeyKind, KeyPair, UserRole};
use muster_api::{ActionError, Agent, CallContext, CallSender};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::shell::{Options, build_agent};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent, and the directory that persists over restarts of the daemon.
struct Machine {
    agent: Agent,
    directory: tempfile::TempDir,
}

impl Machine {
    fn new(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let agent = build_agent(options, directory.path().join("jobs")).unwrap();
        Self { agent, directory }
    }

    /// Simulates a restart of the daemon: only the files remain.
    fn restart(&mut self) {
        self.agent = build_agent(Options::default(), self.directory.path().join("jobs")).unwrap();
    }

    fn context(action: &str) -> CallContext {
        let node = TestNode::named("dev1.example.net").unwrap();
        let system = Arc::new(RealSystem::new("/".into()));
        node.context("shell", action, system).unwrap()
    }

    async fn ask(&self, action: &str, input: Value) -> Result<Value, ActionError> {
        self.ask_in(&Self::context(action), action, input).await
    }

    async fn ask_in(
        &self,
        cx: &CallContext,
        action: &str,
        input: Value,
    ) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(cx, input).await?;
        Ok(Value::Object(declared.validate_output(&output).unwrap()))
    }

    async fn start(&self, script: &str) -> String {
        let started = self.ask("start", json!({ "script": script })).await;
        started.unwrap()["job"].as_str().unwrap().to_owned()
    }

    /// Repeats the call until the answer satisfies the condition.
    async fn until(&self, action: &str, input: Value, is: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(action, input.clone()).await.unwrap();
            if is(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{action} {input}: {answer}");
            tokio::task::yield_now().await;
        }
    }

    /// The whole content of a stream, after its end was reached.
    async fn printed(&self, job: &str, stream: &str) -> String {
        self.until(
            "tail",
            json!({"job": job, "stream": stream, "offset": i64::from(i32::MAX)}),
            |piece| piece["end"] == json!(true),
        )
        .await;
        let answer = self.ask("tail", json!({"job": job, "stream": stream}));
        answer.await.unwrap()["text"].as_str().unwrap().to_owned()
    }
}

fn exited(answer: &Value) -> bool {
    answer["state"] == json!("exited")
}

async fn told(source: &ProgressSource) -> Vec<Value> {
    source.close();
    let mut all = Vec::new();
    while let Some(events) = source.take_events(100_000).await {
        all.extend(events);
    }
    all
}

#[test]
fn environment_and_input_are_sensitive() {
    let agent = build_agent(Options::default(), "/nonexistent".into()).unwrap();
    assert!(!Options::default().enabled);
    for name in ["run", "start"] {
        let action = agent.ddl().find_action(name).unwrap();
        assert!(action.is_sensitive("env") && action.is_sensitive("stdin"));
    }
}

#[tokio::test]
async fn program_gets_arguments_directory_environment_and_input() {
    let machine = Machine::new(Options::default());
    let answer =
        machine.ask("run", json!({"command": ["printf", "%s|", "a b", "$HOME", "*"]})).await;
    assert_eq!(
        answer.unwrap(),
        json!({"exitcode": 0, "stdout": "a b|$HOME|*|", "stderr": "", "truncated": false})
    );
    let input = json!({"script": "pwd; echo $X; cat; echo oops >&2", "cwd": "/tmp", "env": {"X": "y"}, "stdin": "in"});
    let answer = machine.ask("run", input).await.unwrap();
    assert_eq!(answer["stdout"], json!("/tmp\ny\nin"));
    assert_eq!(answer["stderr"], json!("oops\n"));
}

#[tokio::test]
async fn failed_program_returns_its_output() {
    let machine = Machine::new(Options::default());
    let error =
        machine.ask("run", json!({"script": "echo half; echo why >&2; exit 3"})).await.unwrap_err();
    assert_eq!((error.status, error.message.as_str()), (ReplyStatus::Failed, "exited with code 3"));
    assert_eq!(
        json!(error.data),
        json!({"exitcode": 3, "stdout": "half\n", "stderr": "why\n", "truncated": false})
    );
    // There is no signal 127.
    for (script, message) in [
        ("exit 255", "exited with code 255"),
        ("exit 137", "exited with code 137, or was ended by signal 9"),
        ("kill -9 $$", "exited with code 137, or was ended by signal 9"),
    ] {
        let error = machine.ask("run", json!({ "script": script })).await.unwrap_err();
        assert_eq!(error.message, message, "{script}");
    }
    let error = machine.ask("run", json!({"command": ["/no/such/program"]})).await.unwrap_err();
    assert!(error.message.contains("/no/such/program"), "{}", error.message);
}

#[tokio::test]
async fn timed_out_or_cancelled_program_returns_its_output() {
    let machine = Machine::new(Options::default());
    let script = json!({"script": "echo begun; exec sleep 600", "timeout": 1});
    let error = machine.ask("run", script).await.unwrap_err();
    assert!(matches!(error.reason, Some(ReplyReason::Timeout { .. })), "{error:?}");
    assert_eq!(error.data["stdout"], json!("begun\n"));

    let mut cx = Machine::context("run");
    let (sink, source) = progress_channel();
    cx.progress = sink;
    let asked = machine.ask_in(&cx, "run", json!({"script": "echo begun; exec sleep 600"}));
    let taking_back = async {
        let events = source.take_events(1000).await.unwrap();
        assert_eq!(events, [json!({"stream": "stdout", "line": "begun"})]);
        cx.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(asked, taking_back);
    let error = answer.unwrap_err();
    assert_eq!(error.reason, Some(ReplyReason::Cancelled));
    assert_eq!(error.data["stdout"], json!("begun\n"));
}

#[tokio::test]
async fn invalid_inputs_are_refused_before_a_program_starts() {
    let machine = Machine::new(Options::default());
    for input in [
        json!({}),
        json!({"command": ["true"], "script": "true"}),
        json!({"command": []}),
        json!({"command": [""]}),
        json!({"script": "true", "cwd": "tmp"}),
        json!({"script": "true", "env": {"A=B": "x"}}),
        json!({"script": "true", "user": "no-such-user"}),
    ] {
        for action in ["run", "start"] {
            let error = machine.ask(action, input.clone()).await.unwrap_err();
            assert_eq!(error.status, ReplyStatus::InvalidData, "{input}: {error:?}");
        }
    }
    for job in ["0", "ffff"] {
        let error = machine.ask("status", json!({ "job": job })).await.unwrap_err();
        assert_eq!(error.message, format!("this node has no job {job}"));
    }
    assert_eq!(machine.ask("list", json!({})).await.unwrap()["jobs"], json!([]));
}

#[tokio::test]
async fn job_survives_a_restart_of_the_daemon() {
    let mut machine = Machine::new(Options::default());
    let gate = machine.directory.path().join("gate");
    let script = format!(
        "echo begun; until test -e {}; do sleep 0.05; done; echo done; echo bad >&2; exit 3",
        gate.display()
    );
    let job = machine.start(&script).await;
    let id = json!({ "job": job });
    machine.until("tail", json!({ "job": job }), |piece| piece["text"] == json!("begun\n")).await;
    machine.restart();
    let status = machine.ask("status", id.clone()).await.unwrap();
    assert_eq!((&status["state"], &status["exitcode"]), (&json!("running"), &Value::Null));
    assert_eq!(status["caller"], json!("tester"));
    assert_eq!(machine.ask("list", json!({})).await.unwrap()["running"], json!(1));

    std::fs::write(&gate, "").unwrap();
    let status = machine.until("status", id.clone(), exited).await;
    assert_eq!((&status["exitcode"], &status["signal"]), (&json!(3), &Value::Null));
    assert_eq!(machine.printed(&job, "stdout").await, "begun\ndone\n");
    assert_eq!(machine.printed(&job, "stderr").await, "bad\n");
    let last = machine.ask("tail", json!({"job": job, "offset": -5})).await.unwrap();
    assert_eq!(last["text"], json!("done\n"));
    let killed = machine.ask("kill", id).await.unwrap();
    assert_eq!((&killed["ended"], &killed["state"]), (&json!(false), &json!("exited")));
}

#[tokio::test]
async fn kill_ends_a_job_with_its_children() {
    let machine = Machine::new(Options::default());
    let gentle = machine.start("sleep 600 & echo $!; wait").await;
    let stubborn = machine.start("trap '' TERM; echo begun; while :; do sleep 1; done").await;
    let begun = |answer: &Value| answer["text"].as_str().unwrap().ends_with('\n');
    let child = machine.until("tail", json!({ "job": gentle }), begun).await;
    let child = child["text"].as_str().unwrap().trim().to_owned();
    machine.until("tail", json!({ "job": stubborn }), begun).await;

    let ended = machine.ask("kill", json!({ "job": gentle, "grace": 60 })).await.unwrap();
    assert_eq!(ended, json!({"ended": true, "state": "exited", "exitcode": 143, "signal": 15}));
    let end = Instant::now() + PATIENCE;
    while let Ok(stat) = std::fs::read_to_string(format!("/proc/{child}/stat")) {
        if stat.contains(") Z ") {
            break;
        }
        assert!(Instant::now() < end, "{stat}");
        tokio::task::yield_now().await;
    }
    let ended = machine.ask("kill", json!({ "job": stubborn, "grace": 1 })).await.unwrap();
    assert_eq!(ended, json!({"ended": true, "state": "killed", "exitcode": null, "signal": 9}));
    let status = machine.ask("status", json!({ "job": stubborn })).await.unwrap();
    assert_eq!(status["state"], json!("killed"));
}

#[tokio::test]
async fn spool_is_bounded_without_affecting_the_program() {
    let machine = Machine::new(Options { spool_bytes: 1000, ..Options::default() });
    let job = machine.start("head -c 3000000 /dev/zero | tr '\\0' x; echo ok >&2").await;
    let status = machine.until("status", json!({ "job": job }), exited).await;
    assert_eq!(status["exitcode"], json!(0));
    assert_eq!(machine.printed(&job, "stdout").await, "x".repeat(1000));
    assert_eq!(machine.printed(&job, "stderr").await, "ok\n");
}

#[tokio::test]
async fn job_limit_removes_ended_jobs_only() {
    let machine = Machine::new(Options { jobs: 2, ..Options::default() });
    let first = machine.start("true").await;
    machine.printed(&first, "stdout").await;
    let second = machine.start("sleep 600").await;
    let third = machine.start("sleep 600").await;
    assert!(machine.ask("status", json!({ "job": first })).await.is_err());
    let full = machine.ask("start", json!({"script": "true"})).await.unwrap_err();
    assert_eq!(full.message, "2 jobs are already running; [plugins.shell] allows 2");
    for job in [second, third] {
        machine.ask("kill", json!({ "job": job })).await.unwrap();
    }
}

#[tokio::test]
async fn tail_follows_a_job_line_by_line() {
    let machine = Machine::new(Options::default());
    let job = machine.start("echo one; sleep 0.3; echo two; printf end").await;
    let mut cx = Machine::context("tail");
    let (sink, source) = progress_channel();
    cx.progress = sink;
    let input = json!({"job": job, "follow": true});
    let answer = machine.ask_in(&cx, "tail", input).await.unwrap();
    assert_eq!(answer, json!({"text": "", "offset": 11, "end": true}));
    let line = |line: &str| json!({"stream": "stdout", "line": line});
    assert_eq!(told(&source).await, [line("one"), line("two"), line("end")]);
}

#[tokio::test]
async fn environment_and_input_are_not_written_to_disk() {
    let machine = Machine::new(Options::default());
    let input = json!({"script": "cat; echo $TOKEN | wc -c", "env": {"TOKEN": "hunter2"}, "stdin": "hunter3"});
    let started = machine.ask("start", input).await.unwrap();
    let job = started["job"].as_str().unwrap().to_owned();
    assert_eq!(machine.printed(&job, "stdout").await, "hunter38\n");
    let directory = machine.directory.path().join("jobs").join(&job);
    assert_eq!(mode(&directory), 0o700);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "stdout" {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("hunter"), "{}: {text}", path.display());
        }
    }
    let status = machine.ask("status", json!({ "job": job })).await.unwrap();
    assert!(!status.to_string().contains("hunter"));
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn job_is_visible_only_to_the_caller_that_started_it() {
    let machine = Machine::new(Options::default());
    let gate = machine.directory.path().join("gate");
    let script = format!("echo secret; until test -e {}; do sleep 0.05; done", gate.display());
    let job = machine.start(&script).await;
    let other = |action: &str| {
        let mut cx = Machine::context(action);
        cx.caller = muster_api::wire::identity::Identity::parse("mallory").unwrap();
        cx
    };
    // A service with the caller's name.
    let service = |action: &str| {
        let sender = CallSender {
            key: KeyPair::from_raw(KeyKind::User, &[7; 32]).public_key(),
            role: UserRole::Service,
            rights: Vec::new(),
            collective: SubjectName::parse("muster").unwrap(),
            token_issued_at: 0,
            token_expires: None,
        };
        CallContext { sender: Some(sender), ..Machine::context(action) }
    };
    for action in ["status", "tail", "kill"] {
        for cx in [other(action), service(action)] {
            let refused = machine.ask_in(&cx, action, json!({ "job": job })).await;
            let message = refused.unwrap_err().message;
            assert_eq!(message, format!("this node has no job {job}"), "{action}");
        }
    }
    for cx in [other("list"), service("list")] {
        let listed = machine.ask_in(&cx, "list", json!({})).await.unwrap();
        assert_eq!((&listed["jobs"], &listed["running"]), (&json!([]), &json!(0)));
    }
    // The caller's own calls succeed, and the refused `kill` did not end the job.
    let status = machine.ask("status", json!({ "job": job })).await.unwrap();
    assert_eq!(status["state"], json!("running"));
    std::fs::write(&gate, "").unwrap();
    machine.until("status", json!({ "job": job }), exited).await;
}
