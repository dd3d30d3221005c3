//! A journal of seen requests that is lost or damaged while the daemon is away: nothing that was captured before is carried out again, the
//! loss is reported, and new requests are answered. And a request for which there is no turn, in the audit log.

use std::time::Duration;

use muster_tests::await_state;
use muster_tests::rpcd::Rpcd;
use muster_wire::status::ReplyStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::rig::{NODE, Rig};

const WAIT: Duration = Duration::from_secs(10);

async fn end(mut node: Rpcd, signal: Signal) {
    kill(Pid::from_raw(node.pid()), signal).unwrap();
    await_state("it has ended", || !node.is_running()).await;
}

/// The messages of the node's findings about one check.
async fn findings(rig: &Rig, check: &str) -> Vec<String> {
    let answer = rig.other.ask(NODE, "rpcutil", "diagnose", json!({})).await;
    let found = answer.reply.data.get("findings").cloned();
    let found = found.unwrap();
    let found = found.as_array().unwrap().iter();
    let of_check = found.filter(|finding| finding["check"] == check);
    of_check.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_captured_before_a_journal_was_lost_is_not_carried_out_again() {
    // Clocks are the same here; the tolerance only delays the first new request.
    let rig = Box::pin(Rig::new("[requests]\nskew_seconds = 1\n")).await;
    let journal = rig.home.path("state/seen");
    let mut node = rig.start().await;
    let mut done = 0;
    for (number, (damage, told)) in [
        (None, "the journal of seen requests is lost"),
        (Some(""), "the journal of seen requests is lost"),
        (Some("damaged"), "1 records of the journal of seen requests are damaged"),
    ]
    .into_iter()
    .enumerate()
    {
        await_strike(&rig).await;
        done += 1;
        assert_eq!(rig.effects().len(), done, "{number}");
        let captured = rig.captured();
        // Stopped in order, so that the audit log's head record tells that a daemon has run here.
        end(node, Signal::SIGTERM).await;
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
        node = rig.start().await;
        // At once, while everything from before one skew after the start is refused; and again, when new questions are answered: each
        // of them is then known from the first time.
        rig.replay(&captured).await;
        muster_tests::poll_until_ok("new questions are answered", WAIT, async || {
            let stats = rig.other.ask(NODE, "rpcutil", "daemon_stats", json!({}));
            match stats.await.reply {
                reply if reply.statuscode == ReplyStatus::Ok => Ok(()),
                reply => Err(reply.statusmsg),
            }
        })
        .await;
        rig.replay(&captured).await;
        muster_tests::poll_until_ok("all have come again", WAIT, async || {
            match rig.counted("replayed").await {
                replayed if replayed >= captured.len() as u64 => Ok(()),
                replayed => Err(replayed),
            }
        })
        .await;
        rig.await_idle().await;
        assert_eq!(rig.effects().len(), done, "{told}");
        let found = findings(&rig, "journal").await;
        assert!(found.iter().any(|message| message.contains(told)), "{found:?}");
        assert!(node.log().contains(told), "{}", node.log());
    }
    await_strike(&rig).await;
    assert_eq!(rig.effects().len(), done + 1);

    // With its journal, the next daemon has nothing to report.
    end(node, Signal::SIGTERM).await;
    let _node = rig.start().await;
    assert_eq!(findings(&rig, "journal").await, Vec::<String>::new());
}

/// Asks for changes until one is carried out: a new request is refused for one skew after a loss.
async fn await_strike(rig: &Rig) {
    muster_tests::poll_until_ok("a change is carried out", WAIT, async || {
        let entry = rig.ask("strike", WAIT).await;
        let (_, answers) = entry.told();
        let reply = answers.values().next().unwrap().reply.clone();
        if reply.statuscode == ReplyStatus::Ok {
            return Ok(());
        }
        assert!(reply.statusmsg.contains("send it again"), "{}", reply.statusmsg);
        Err(reply.statusmsg)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_had_no_turn_is_on_record_as_refused() {
    let rig = Box::pin(Rig::new("[limits.agents.tally]\nconcurrency = 1\nqueue = 0\n")).await;
    let _node = rig.start().await;
    rig.home.write("hold", "", 0o644);
    let refusing = async {
        await_state("one is at work", || rig.effects().len() == 1).await;
        let refused = rig.ask("strike", WAIT).await;
        std::fs::remove_file(rig.home.path("hold")).unwrap();
        refused
    };
    let (held, refused) = tokio::join!(rig.ask("hold", WAIT), refusing);
    assert!(held.is_done());
    let reply = &refused.told().1.values().next().unwrap().reply;
    assert_eq!(reply.reason.as_ref().map(muster_wire::status::ReplyReason::as_str), Some("busy"));
    let of_request = |id: &str| {
        let text = std::fs::read_to_string(rig.home.path("audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines = lines.filter(|line: &Value| line["request"] == id);
        lines.map(|line| format!("{} {}", line["verdict"], line["reason"])).collect::<Vec<_>>()
    };
    let id = reply.request.to_string();
    await_state("its end is on record", || of_request(&id).len() == 2).await;
    assert_eq!(of_request(&id), ["\"started\" null", "\"refused\" \"busy\""]);
}
