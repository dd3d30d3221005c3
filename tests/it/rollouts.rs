//! Rollouts by the real `rpc`: killed and resumed, interrupted, and the exit codes.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::TestNode;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::worker_fixture::{WorkerFixture, senders};

fn process_id(child: &tokio::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap())
}

const ONE_BY_ONE: [&str; 4] = ["--batch", "1", "--batch-sleep", "0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_rollout_is_marked_interrupted_and_resumes() {
    let fixture = WorkerFixture::new(4, "").await;
    let blocked = fixture.gate.block("n2");
    let request = ["do", "work", "what=x", "token=s3cret"];
    let mut child =
        fixture.rpc.prepare_command(&[&request[..], &ONE_BY_ONE].concat()).spawn().unwrap();
    await_state("the second node is working", || fixture.gate.call_count("n2") == 1).await;
    child.kill().await.unwrap();

    let job = fixture.only_job().await;
    assert_eq!(job["job"]["state"], "interrupted", "{job}");
    assert_eq!(senders(&job), ["n1"]);
    assert_eq!(job["no_responses"], json!(["n2"]));
    assert_eq!(job["never_asked"], json!(["n3", "n4"]));
    let id = job["job"]["id"].as_str().unwrap().to_owned();
    let file = fixture.rpc.path(&format!("state/muster/jobs/{id}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    // A crash of the machine leaves an incomplete line.
    std::fs::write(&file, format!("{text}{{\"kind\":\"wave\",\"num")).unwrap();
    blocked.add_permits(8);

    // The secret was not stored; `rpc` must ask for it again, and there is no terminal.
    let resume = fixture.rpc.run(&["do", "--resume", &id]).await;
    assert_eq!(resume.status.code(), Some(1), "{}", describe_output(&resume));
    let (resumed, exit) =
        fixture.rpc.run_json(&["do", "--resume", &id, "work", "token=s3cret"]).await;
    // The agent's name requires its action or its inputs.
    assert_eq!(exit, 0, "{resumed}");
    assert_eq!(senders(&resumed), ["n3", "n4"]);
    assert_eq!(resumed["replies"][0]["data"], json!({"done": "x", "authorised": true}));
    assert_eq!(
        resumed["request_stats"]["requestids"].as_array().unwrap().len(),
        2,
        "the resumed rollout keeps its batches"
    );
    let job = fixture.only_job().await;
    assert_eq!(job["job"]["state"], "finished");
    assert_eq!(job["no_responses"], json!(["n2"]));
    assert_eq!(job["never_asked"], json!([]));
    let second_resume = fixture.rpc.run(&["do", "--resume", &id, "--yes"]).await;
    assert_eq!(second_resume.status.code(), Some(1), "{}", describe_output(&second_resume));

    let (retried, exit) =
        fixture.rpc.run_json(&["do", "work", "do", "token=s3cret", "--retry-failed", &id]).await;
    assert_eq!((senders(&retried), exit), (vec!["n2"], 0));
    let call_counts = ["n1", "n2", "n3", "n4"].map(|node| fixture.gate.call_count(node));
    assert_eq!(call_counts, [1, 2, 1, 1]);

    let (jobs, _) = fixture.rpc.run_json(&["job", "list"]).await;
    let retry = jobs["jobs"][0]["id"].as_str().unwrap();
    assert_eq!(fixture.rpc.run_json(&["job", "show", retry]).await.0["retry_of"], id);
    let other = fixture.rpc.run(&["do", "rpcutil", "ping", "--retry-failed", &id]).await;
    assert_eq!(other.status.code(), Some(4), "{}", describe_output(&other));
    let differ = fixture.rpc.run(&["job", "diff", &id, retry]).await;
    assert_eq!(differ.status.code(), Some(2), "{}", describe_output(&differ));
    let same = fixture.rpc.run(&["job", "diff", &id, &id]).await;
    assert_eq!(same.status.code(), Some(0), "{}", describe_output(&same));
    let forgotten = fixture.rpc.run(&["job", "forget", "--all"]).await;
    assert_eq!(forgotten.status.code(), Some(0));
    assert_eq!(fixture.rpc.run(&["job", "show", &id]).await.status.code(), Some(1));
}

/// Both fleets have nodes with the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_another_fleet_is_refused_and_unchanged() {
    let (own, other) = (WorkerFixture::new(3, "").await, WorkerFixture::new(3, "").await);
    let blocked = own.gate.block("n2");
    let request = ["do", "work", "what=x"];
    let mut child = own.rpc.prepare_command(&[&request[..], &ONE_BY_ONE].concat()).spawn().unwrap();
    await_state("the second node is working", || own.gate.call_count("n2") == 1).await;
    child.kill().await.unwrap();
    blocked.add_permits(8);
    let job = own.only_job().await;
    let id = job["job"]["id"].as_str().unwrap();
    let file = format!("state/muster/jobs/{id}.jsonl");
    let copy = other.rpc.path(&file);
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::copy(own.rpc.path(&file), &copy).unwrap();

    for arguments in [&["do", "--resume", id][..], &["do", "--retry-failed", id], &["cancel", id]] {
        let refused = other.rpc.run(arguments).await;
        let text = describe_output(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains("belongs to the fleet"), "{text}");
        let account = job["job"]["fleet"]["account"].as_str().unwrap();
        assert!(text.contains(account), "{text}");
    }
    assert_eq!(["n1", "n2", "n3"].map(|node| other.gate.call_count(node)), [0, 0, 0]);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(own.rpc.path(&file)).unwrap());
    let (resumed, exit) = own.rpc.run_json(&["do", "--resume", id]).await;
    assert_eq!((senders(&resumed), exit), (vec!["n3"], 0), "{resumed}");

    let list = describe_output(&own.rpc.run(&["job", "list"]).await);
    for part in ["JOB", "STARTED", "FLEET", "STATE", "RESULT", "REQUEST", "what=x", "2/3 ok"] {
        assert!(list.contains(part), "{part}: {list}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_rollout_lists_replied_running_and_unsent_nodes() {
    let fixture = WorkerFixture::new(3, "").await;
    let blocked = fixture.gate.block("n2");
    let request = ["do", "work", "what=x"];
    let child = fixture.rpc.prepare_command(&[&request[..], &ONE_BY_ONE].concat()).spawn().unwrap();
    await_state("the second node is working", || fixture.gate.call_count("n2") == 1).await;
    kill(process_id(&child), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    blocked.add_permits(8);
    assert_eq!(output.status.code(), Some(130), "{}", describe_output(&output));
    let text = describe_output(&output);
    for part in [
        "Replied before the request ended early:\n\n   n1\n",
        "No response from:\n\n   n2\n",
        "No request sent to:\n\n   n3\n",
        "Plan: work do on 3 nodes",
        "--resume",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(fixture.only_job().await["job"]["state"], "interrupted");
}

/// An ssh session that is lost ends `rpc` with SIGHUP, and a service manager ends it with SIGTERM. No node is asked after that, and the job can be resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_whose_terminal_is_lost_is_resumed() {
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let fixture = WorkerFixture::new(3, "").await;
        let blocked = fixture.gate.block("n2");
        let request = [&["do", "work", "what=x"][..], &ONE_BY_ONE].concat();
        let child = fixture.rpc.prepare_command(&request).spawn().unwrap();
        await_state("the second node is working", || fixture.gate.call_count("n2") == 1).await;
        kill(process_id(&child), signal).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{signal}: {}", describe_output(&output));
        let job = fixture.only_job().await;
        assert_eq!(job["job"]["state"], "interrupted", "{signal}");
        blocked.add_permits(8);
        let id = job["job"]["id"].as_str().unwrap();
        let (resumed, exit) = fixture.rpc.run_json(&["do", "--resume", id]).await;
        assert_eq!((senders(&resumed), exit), (vec!["n3"], 0), "{signal}: {resumed}");
    }
}

/// `nohup rpc ... &` continues when its terminal is lost.
#[expect(clippy::disallowed_types, reason = "runs the real program below nohup")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_under_nohup_continues_without_its_terminal() {
    let fixture = WorkerFixture::new(2, "").await;
    let blocked = fixture.gate.block("n1");
    let request = [&["do", "work", "what=x"][..], &ONE_BY_ONE].concat();
    let rpc = fixture.rpc.prepare_command(&request);
    let mut command = tokio::process::Command::new("nohup");
    command.arg(rpc.as_std().get_program()).args(rpc.as_std().get_args());
    for (name, value) in rpc.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_state("the first node is working", || fixture.gate.call_count("n1") == 1).await;
    kill(process_id(&child), Signal::SIGHUP).unwrap();
    blocked.add_permits(8);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert_eq!(fixture.gate.call_count("n2"), 1);
}

/// The job is stored with an hour between its batches; `--batch-sleep` replaces it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_takes_another_pause_between_batches() {
    let fixture = WorkerFixture::new(4, "").await;
    let blocked = fixture.gate.block("n1");
    let request = ["do", "work", "what=x", "--batch", "1", "--batch-sleep", "3600"];
    let child = fixture.rpc.prepare_command(&request).spawn().unwrap();
    await_state("the first node is working", || fixture.gate.call_count("n1") == 1).await;
    kill(process_id(&child), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", describe_output(&output));
    blocked.add_permits(8);
    let id = fixture.only_job().await["job"]["id"].as_str().unwrap().to_owned();
    let (resumed, exit) =
        fixture.rpc.run_json(&["do", "--resume", &id, "--batch-sleep", "0"]).await;
    assert_eq!((senders(&resumed), exit), (vec!["n2", "n3", "n4"], 0), "{resumed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_job_affects_the_nodes_that_got_its_requests() {
    let fixture = WorkerFixture::new(3, "").await;
    let _blocked = fixture.gate.block("n2");
    let request = ["do", "work", "what=x"];
    let command = [&request[..], &ONE_BY_ONE].concat();
    let child = fixture.rpc.prepare_command(&command).spawn().unwrap();
    await_state("the second node is working", || fixture.gate.call_count("n2") == 1).await;
    kill(process_id(&child), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let job = fixture.only_job().await;
    let id = job["job"]["id"].as_str().unwrap();
    let hint = format!("nodes continue; run `rpc cancel {id}` to stop them");
    assert!(describe_output(&output).contains(&hint), "{}", describe_output(&output));

    let filtered = fixture.rpc.run(&["cancel", id, "-F", "number=2"]).await;
    assert_eq!(filtered.status.code(), Some(4), "{}", describe_output(&filtered));
    let cancelled = fixture.rpc.run(&["cancel", id]).await;
    assert_eq!(cancelled.status.code(), Some(0), "{}", describe_output(&cancelled));
    for part in ["n2: cancelled work do of rip\n", "Cancelled on 1 of 1 node\n"] {
        assert!(describe_output(&cancelled).contains(part), "{}", describe_output(&cancelled));
    }
    // The id is that of the job's first request, which only n1 received; the whole job is cancelled, and nothing is
    // left of it.
    let first = job["requestids"][0].as_str().unwrap();
    let (second_resume, exit) = fixture.rpc.run_json(&["cancel", first]).await;
    assert_eq!((senders(&second_resume), exit), (vec!["n2"], 1), "{second_resume}");
    assert_eq!(second_resume["replies"][0]["data"]["outcome"], "not_running");
    let got_cancel = |node: &TestNode| {
        let records = node.audit_records();
        records.iter().any(|record| record["action"] == "cancel")
    };
    let cancelled_nodes: Vec<bool> = fixture.nodes.iter().map(got_cancel).collect();
    assert_eq!(cancelled_nodes, [false, true, false]);
    let unknown = fixture.rpc.run(&["cancel", "no-such-job"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{}", describe_output(&unknown));

    // A job without outstanding replies has nothing to cancel.
    let other = ["do", "work", "what=y", "-I", "n1", "--job", "other"];
    let done = fixture.rpc.run(&other).await;
    assert_eq!(done.status.code(), Some(0), "{}", describe_output(&done));
    let late = fixture.rpc.run(&["cancel", "other"]).await;
    assert_eq!(late.status.code(), Some(1), "{}", describe_output(&late));
    assert!(
        describe_output(&late).contains("Nothing left to cancel"),
        "{}",
        describe_output(&late)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_interruption_ends_the_command_at_once() {
    let fixture = WorkerFixture::new(1, "").await;
    let blocked = fixture.gate.block("n1");
    // More names than a pipe can buffer: the report of the first interruption blocks on the reader.
    let more: Vec<String> =
        (0..9000).map(|n| format!("z-a-name-that-is-quite-long-{n}.example.net")).collect();
    fixture.rpc.write("nodes", &format!("n1\n{}", more.join("\n")));
    let list = fixture.rpc.path("nodes");
    let request = ["do", "work", "what=x", "-j", "--nodes", list.to_str().unwrap()];
    let mut child =
        fixture.rpc.prepare_command(&[&request[..], &ONE_BY_ONE].concat()).spawn().unwrap();
    await_state("the first node is working", || fixture.gate.call_count("n1") == 1).await;
    kill(process_id(&child), Signal::SIGINT).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_u8().await.unwrap();
    kill(process_id(&child), Signal::SIGINT).unwrap();
    let status = child.wait().await.unwrap();
    blocked.add_permits(8);
    assert_eq!(status.signal(), Some(2), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_output_names_the_job_its_batches_and_the_stop() {
    let fixture = WorkerFixture::new(3, "").await;
    let limits = ["--max-failures", "0"];
    let request = [&["do", "work", "what=fail on n2"][..], &ONE_BY_ONE, &limits].concat();
    let output = fixture.rpc.run(&[&request[..], &["--jsonl"]].concat()).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["discovered", "job", "wave", "result", "wave", "result", "stopped", "summaries", "stats"]
    );
    let job = fixture.only_job().await["job"]["id"].clone();
    assert_eq!(lines[1], json!({"kind": "job", "id": job}));
    assert_eq!(lines[4], json!({"kind": "wave", "number": 2, "count": 3, "nodes": ["n2"]}));
    let message = "stopped: 1 node failed or did not reply (maximum 0)";
    let stop = json!({"why": "failures", "message": message});
    assert_eq!(
        lines[6],
        json!({"kind": "stopped", "why": "failures", "message": message, "job": job})
    );
    for line in &lines {
        check_schema("muster.request.lines.v1", line, SchemaMode::Strict).unwrap();
    }

    let (document, exit) = fixture.rpc.run_json(&request).await;
    assert_eq!((&document["stop"], exit), (&stop, 2), "{document}");
    let (jobs, _) = fixture.rpc.run_json(&["job", "list"]).await;
    assert_eq!(document["job"], jobs["jobs"][0]["id"], "{document}");
    check_schema("muster.request.v1", &document, SchemaMode::Strict).unwrap();
    // A query is neither stored nor a rollout.
    let (query, _) = fixture.rpc.run_json(&["do", "rpcutil", "ping"]).await;
    assert_eq!((query.get("job"), query.get("stop")), (None, None), "{query}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_reflect_the_outcome() {
    let fixture = WorkerFixture::new(2, "").await;
    fixture.rpc.write("some", "n1\ngone.example.net\n");
    fixture.rpc.write("gone", "gone.example.net\n");
    let (some, gone) = (fixture.rpc.path("some"), fixture.rpc.path("gone"));
    let (some, gone) = (some.to_str().unwrap(), gone.to_str().unwrap());
    let cases: &[(&[&str], i32)] = &[
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
        (&["do", "rpcutil", "ping", "--nodes", some, "--expect", "2"], 2),
        (&["ping", "--expect", "3"], 2),
        (&["do", "rpcutil", "ping", "--nodes", gone], 3),
        (&["ping", "--expect", "1", "-F", "number=9"], 3),
        (&["do", "work"], 4),
        (&["do", "wrok", "what=x"], 4),
        (&["do"], 4),
        (&["do", "work", "what=x", "--reply-to", "_R.UABC.else"], 4),
        (&["do", "work", "what=x", "--nr", "-j"], 4),
        (&["do", "rpcutil", "ping", "--expect", "0"], 4),
    ];
    for (arguments, exit) in cases {
        let output = fixture.rpc.run(arguments).await;
        assert_eq!(
            output.status.code(),
            Some(*exit),
            "rpc {arguments:?}: {}",
            describe_output(&output)
        );
    }
    let unreachable = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("amy"),
        "",
    );
    let text = std::fs::read_to_string(unreachable.path("rpc.toml")).unwrap();
    unreachable.write("rpc.toml", &text.replace(&fixture.server.url(), "nats://127.0.0.1:1"));
    let output = unreachable.run(&["do", "rpcutil", "ping"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
}
