//! Replies of external programs in special cases: scripts for the interface of `MCollective`, and cancelled programs.

use std::time::Duration;

use muster_tests::await_state;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Value, json};

use crate::external::AgentFixture;

/// A script for the interface of `MCollective`.
pub(crate) const MCOLLECTIVE_SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys
request = json.load(open(os.environ["MCOLLECTIVE_REQUEST_FILE"]))
said = "%s %s" % (request["action"], request["data"]["process_results"])
reply = {"said": said, "count": len(request["uniqid"])}
text = request["data"].get("text")
assert sys.argv[1:] == [os.environ["MCOLLECTIVE_REQUEST_FILE"], os.environ["MCOLLECTIVE_REPLY_FILE"]]
if text == "no reply":
    sys.exit(0)
json.dump(None if text == "null" else reply, open(os.environ["MCOLLECTIVE_REPLY_FILE"], "w"))
if text == "that":
    sys.stderr.write("not with " + request["data"]["text"])
    sys.exit(3)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcollective_scripts_reply_with_file_exit_code_and_stderr() {
    let fixture = AgentFixture::with_rogue_agent(json!({}), |_| {}).await;
    let good = fixture.call_default("script").await;
    assert_eq!(Value::Object(good.data), json!({"said": "script True", "count": 32}));
    let failed = fixture.call("script", json!({"text": "that"}), Duration::from_secs(30)).await;
    assert_eq!(
        (failed.status, failed.message.as_str(), failed.data["said"].clone()),
        (ReplyStatus::MissingData, "not with that", json!("script True"))
    );
    for text in ["no reply", "null"] {
        let empty = fixture.call("script", json!({"text": text}), Duration::from_secs(30)).await;
        assert_eq!(
            (empty.status, Value::Object(empty.data)),
            (ReplyStatus::Ok, json!({"said": "nothing"})),
            "{text}"
        );
    }
    let mut context = AgentFixture::context("script", Duration::from_secs(30));
    context.reply_wanted = false;
    let unwanted = fixture.dispatch(context, json!({})).await;
    assert_eq!(unwanted.data["said"], json!("script False"));
}

/// What a program replies after TERM, before it is killed, is the reply of the cancelled request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_program_can_reply_within_its_grace_period() {
    // The program writes to its own directory, which the user of the tests may do.
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let options = json!({"agents": {"rogue": {"user": own}}});
    let fixture = AgentFixture::with_rogue_agent(options, |_| {}).await;
    let begun = fixture.directory.path().join("begun");
    let call_and_cancel = async |action: &str| {
        let context = AgentFixture::context(action, Duration::from_mins(1));
        let cancel = context.cancel.clone();
        let call = fixture.dispatch(context, json!({}));
        let cancel_call = async {
            await_state("the program runs", || begun.exists()).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(call, cancel_call);
        std::fs::remove_file(&begun).unwrap();
        outcome
    };
    let replied = call_and_cancel("trapped").await;
    assert_eq!(
        (replied.status, &replied.data["said"]),
        (ReplyStatus::Ok, &json!("stopped early")),
        "{replied:?}"
    );
    let failed = call_and_cancel("trapfail").await;
    assert_eq!(failed.reason, Some(ReplyReason::Cancelled), "{failed:?}");
    assert_eq!(
        (failed.message.as_str(), &failed.data["count"]),
        ("half done", &json!(1)),
        "{failed:?}"
    );
    let silent = call_and_cancel("untrapped").await;
    assert_eq!(silent.reason, Some(ReplyReason::Cancelled), "{silent:?}");
    assert!(silent.data.is_empty(), "{silent:?}");
}
