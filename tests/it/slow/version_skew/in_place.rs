//! A daemon that is replaced by one of the other version, and back, on the same files: requests that were seen, requests that run, and the audit log.

use muster_node::core::audit::RecordClass;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::program_version::ProgramVersion::{self, Earlier, Present};
use muster_wire::identity::SubjectName;
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::node_fixture::{TestCaller, to_object};
use crate::unanswered::{UnansweredFixture, assert_installed, stop};

/// An action that adds a line to a file.
fn line_request(caller: &TestCaller) -> Request {
    let mut request = caller.ping_request();
    request.agent = SubjectName::parse("puppetral").unwrap();
    request.action = SubjectName::parse("do").unwrap();
    request.data = to_object(exec("line", "echo x >> /tmp/lines"));
    request
}

fn exec(name: &str, script: &str) -> Value {
    json!({"type": "exec", "name": name, "command": script, "provider": "shell"})
}

/// Captured requests run once, none is reported as lost, and the audit log has each of them once and is intact, whichever version looks at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_daemon_repeats_nothing_and_loses_nothing() {
    let fixture = UnansweredFixture::new().await;
    let caller = &fixture.caller;
    let mut sent: Vec<Request> = Vec::new();
    let mut expected = Vec::new();
    for version in [Earlier, Present, Earlier, Present] {
        let mut node = fixture.start_version(version).await;
        for request in &sent {
            let subject = TestCaller::request_subject(request);
            let replies = caller.count_replies(&subject, caller.sign_request(request)).await;
            assert_eq!(replies, 0, "{version:?}");
        }
        let request = line_request(caller);
        let reply = caller.send(&request).await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{version:?}: {reply:?}");
        sent.push(request);
        expected.extend([("started".to_owned(), None), ("executed".to_owned(), None)]);
        stop(&mut node, Signal::SIGTERM).await;
        let lines = std::fs::read_to_string(fixture.file("lines")).unwrap();
        assert_eq!(lines, "x\n".repeat(sent.len()), "{version:?}");
        assert!(!node.log().contains("an earlier daemon had begun"), "{}", node.log());
        assert_eq!(fixture.audit_of_changes(), expected, "{version:?}");
    }
    verify_audit(&fixture).await;
}

/// Each version verifies the audit log that both have written.
async fn verify_audit(fixture: &UnansweredFixture) {
    let signer = fixture.organisation.caller("auditor");
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &signer, "");
    let state = fixture.home.path("state").display().to_string();
    for class in [RecordClass::Change, RecordClass::Refusal, RecordClass::Read] {
        let log = class.class_path(&fixture.home.path("audit.log")).display().to_string();
        for version in ProgramVersion::BOTH {
            let verify = ["audit", "verify", &log, "--state", &state, "--strict"];
            let output = rpc.prepare_version(version, &verify).output().await.unwrap();
            assert!(output.status.success(), "{version:?}: {}", describe_output(&output));
        }
    }
}

/// The next daemon says that a request was lost that ran when the other version was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_of_a_killed_daemon_is_reported_by_the_other_version() {
    for version in ProgramVersion::BOTH {
        let fixture = UnansweredFixture::new().await;
        let mut first = fixture.start_version(version).await;
        let failing = async {
            fixture.await_begun().await;
            fixture.kill_all(&mut first);
            fixture.start_version(version.other()).await
        };
        let script = "echo > /tmp/begun; while :; do sleep 0.1; done";
        let call = fixture.call("puppetral", "do", exec("wait", script));
        let (reply, _second) = tokio::join!(call, failing);
        let reply = reply.reply;
        let expected = (ReplyStatus::Other, Some(ReplyReason::Lost));
        assert_eq!((reply.statuscode, reply.reason), expected, "{version:?}");
    }
}

/// A package change that the earlier version began is finished by this one. In the other direction it is finished, too, and its request is reported as lost: the
/// earlier version looks for it under the id of the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_change_outlives_a_daemon_of_the_other_version() {
    for version in ProgramVersion::BOTH {
        let fixture = UnansweredFixture::new().await;
        let mut first = fixture.start_version(version).await;
        let replacing = async {
            fixture.await_begun().await;
            stop(&mut first, Signal::SIGTERM).await;
            let second = fixture.start_version(version.other()).await;
            std::fs::write(fixture.file("go"), "").unwrap();
            second
        };
        let (reply, _second) = tokio::join!(fixture.install(), replacing);
        let installed = || std::fs::read_to_string(fixture.file("line")).unwrap();
        muster_tests::await_state("the package is installed", || !installed().is_empty()).await;
        assert!(!fixture.file("interrupted").exists(), "{version:?}");
        if version == Earlier {
            let directory = fixture.home.path("state/package");
            muster_tests::await_state("the files of the change are removed", || {
                std::fs::read_dir(&directory).unwrap().count() == 1
            })
            .await;
            assert_installed(&fixture, &reply);
        } else {
            assert_eq!(reply.reply.reason, Some(ReplyReason::Lost), "{:?}", reply.reply);
        }
    }
}
