//! A journal of seen requests that is lost or damaged while the daemon is stopped: captured requests are not executed
//! again, the loss is reported, and new requests are answered. Also the audit record of a request that was refused
//! because the queue was full.

use std::time::Duration;

use muster_tests::await_state;
use muster_tests::rpcd::Rpcd;
use muster_wire::status::ReplyStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::fixture::{FaultFixture, NODE};

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

async fn stop_daemon(mut node: Rpcd, signal: Signal) {
    kill(Pid::from_raw(node.pid()), signal).unwrap();
    await_state("the daemon has ended", || !node.is_running()).await;
}

/// The messages of the node's findings of one check.
async fn findings(fixture: &FaultFixture, check: &str) -> Vec<String> {
    let answer = fixture.other.call_action(NODE, "rpcutil", "diagnose", json!({})).await;
    let found = answer.reply.data.get("findings").cloned();
    let found = found.unwrap();
    let found = found.as_array().unwrap().iter();
    let of_check = found.filter(|finding| finding["check"] == check);
    of_check.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captured_requests_are_not_repeated_after_losing_the_journal() {
    // All clocks are equal here; a larger tolerance would only delay the first new request.
    let fixture = Box::pin(FaultFixture::new("[requests]\nskew_seconds = 1\n")).await;
    let journal = fixture.home.path("state/seen");
    let mut node = fixture.start().await;
    let mut done = 0;
    for (number, (damage, expected)) in [
        (None, "the journal of seen requests is lost"),
        (Some(""), "the journal of seen requests is lost"),
        (Some("damaged"), "the journal of seen requests has 1 record with damage"),
    ]
    .into_iter()
    .enumerate()
    {
        await_strike(&fixture).await;
        done += 1;
        assert_eq!(fixture.effects().len(), done, "{number}");
        let captured = fixture.captured();
        // A regular stop writes the head record of the audit log, which proves that a daemon has run here.
        stop_daemon(node, Signal::SIGTERM).await;
        match damage {
            None => std::fs::remove_file(&journal).unwrap(),
            Some("") => std::fs::write(&journal, "").unwrap(),
            Some(_) => {
                let mut bytes = std::fs::read(&journal).unwrap();
                let last = bytes.len() - 30;
                bytes[last] ^= 1;
                std::fs::write(&journal, bytes).unwrap();
            }
        }
        node = fixture.start().await;
        // Replayed at once, while everything from before one skew after the start is refused; and again when new
        // requests are answered: the replayed requests are then known from the first replay.
        fixture.replay(&captured).await;
        muster_tests::poll_until_ok("new requests are answered", REPLY_TIMEOUT, async || {
            let stats = fixture.other.call_action(NODE, "rpcutil", "daemon_stats", json!({}));
            match stats.await.reply {
                reply if reply.statuscode == ReplyStatus::Ok => Ok(()),
                reply => Err(reply.statusmsg.raw().to_owned()),
            }
        })
        .await;
        fixture.replay(&captured).await;
        muster_tests::poll_until_ok(
            "all replays are counted",
            REPLY_TIMEOUT,
            async || match fixture.read_counter("replayed").await {
                replayed if replayed >= captured.len() as u64 => Ok(()),
                replayed => Err(replayed),
            },
        )
        .await;
        fixture.await_idle().await;
        assert_eq!(fixture.effects().len(), done, "{expected}");
        let found = findings(&fixture, "journal").await;
        assert!(found.iter().any(|message| message.contains(expected)), "{found:?}");
        assert!(node.log().contains(expected), "{}", node.log());
    }
    await_strike(&fixture).await;
    assert_eq!(fixture.effects().len(), done + 1);

    // With an intact journal, the next daemon reports nothing.
    stop_daemon(node, Signal::SIGTERM).await;
    let _node = fixture.start().await;
    assert_eq!(findings(&fixture, "journal").await, Vec::<String>::new());
}

/// Sends changes until one is executed: after a loss, new requests are refused for one skew.
async fn await_strike(fixture: &FaultFixture) {
    muster_tests::poll_until_ok("a change is executed", REPLY_TIMEOUT, async || {
        let entry = fixture.call_tally("strike", REPLY_TIMEOUT).await;
        let (_, answers) = entry.finished();
        let reply = answers.values().next().unwrap().reply.clone();
        if reply.statuscode == ReplyStatus::Ok {
            return Ok(());
        }
        assert!(reply.statusmsg.raw().contains("send it again"), "{}", reply.statusmsg.raw());
        Err(reply.statusmsg.raw().to_owned())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_refused_by_a_full_queue_is_audited() {
    let fixture =
        Box::pin(FaultFixture::new("[limits.agents.tally]\nconcurrency = 1\nqueue = 0\n")).await;
    let _node = fixture.start().await;
    fixture.home.write("hold", "", 0o644);
    let send_refused = async {
        await_state("one request is running", || fixture.effects().len() == 1).await;
        let refused = fixture.call_tally("strike", REPLY_TIMEOUT).await;
        std::fs::remove_file(fixture.home.path("hold")).unwrap();
        refused
    };
    let (running, refused) = tokio::join!(fixture.call_tally("hold", REPLY_TIMEOUT), send_refused);
    assert!(running.is_done());
    let reply = &refused.finished().1.values().next().unwrap().reply;
    assert_eq!(reply.reason.as_ref().map(muster_wire::status::ReplyReason::as_str), Some("busy"));
    let audit_of_request = |id: &str| {
        let text = std::fs::read_to_string(fixture.home.path("audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines = lines.filter(|line: &Value| line["request"] == id);
        lines.map(|line| format!("{} {}", line["verdict"], line["reason"])).collect::<Vec<_>>()
    };
    let id = reply.request.to_string();
    await_state("its end is audited", || audit_of_request(&id).len() == 2).await;
    assert_eq!(audit_of_request(&id), ["\"started\" null", "\"refused\" \"busy\""]);
}
