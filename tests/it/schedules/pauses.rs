//! Schedules that are paused, removed or replaced while their Puppet runs wait for permits.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_puppet::permits::{Permit, PermitClient, PermitRequest};
use muster_tests::organisation::connect;
use muster_tests::puppet_daemons::prepare_puppet;
use muster_tests::{now, poll_until_ok};
use muster_wire::identity::SubjectName;
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::fixture::{ScheduleFixture, ScheduleNode};

/// A run waits for its permit as long as the interval.
const EVERY_SECONDS: u64 = 20;
const TIMEOUT: Duration = Duration::from_mins(3);

/// A node whose Puppet is a script, and a holder of the only permit of the pool.
struct BlockedRun {
    fleet: ScheduleFixture,
    _scheduler: ScheduleNode,
    _node: ScheduleNode,
    puppet: TempDir,
    holder: PermitClient,
    permit: Permit,
}

impl BlockedRun {
    /// Starts all, adds the schedule, and waits until its run waits for the permit.
    async fn start() -> Self {
        let fleet = ScheduleFixture::start().await;
        let signer = fleet.organisation.node("holder.example.net");
        let holder = PermitClient::new(signer.identity().clone());
        holder.connect(connect(&fleet.server, &signer).await);
        let request = PermitRequest::new(pool(), NonZeroU32::MIN, Uuid::now_v7(), TIMEOUT);
        let permit = holder.acquire_permit(request, &CancellationToken::new()).await.unwrap();
        let scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
        let puppet = tempfile::tempdir().unwrap();
        let config = prepare_puppet(puppet.path(), "web1.example.net");
        std::fs::write(puppet.path().join("behaviour"), "0 0 0\n").unwrap();
        let node = fleet.start_node_with("web1.example.net", "{\"role\":\"web\"}", &config);
        fleet.add("puppet", &spec()).await;
        let blocked = Self { fleet, _scheduler: scheduler, _node: node, puppet, holder, permit };
        blocked.await_waiting(1).await;
        blocked
    }

    async fn await_waiting(&self, count: usize) {
        poll_until_ok("runs that wait", TIMEOUT, async || {
            let (_, _, waiting) = self.holder.inspect_pool(&pool()).await.unwrap();
            if waiting.len() == count { Ok(()) } else { Err(waiting) }
        })
        .await;
    }

    async fn await_cancelled_turn(&self) {
        poll_until_ok("the turn is cancelled", TIMEOUT, async || {
            let history = self.fleet.call("history", &json!({"name": "puppet"})).await;
            let entries = history.data.get("entries").and_then(Value::as_array);
            let newest = entries.and_then(|entries| entries.first()).cloned().unwrap_or_default();
            let is_cancelled = newest.get("outcome") == Some(&json!("cancelled"));
            if is_cancelled { Ok(()) } else { Err(newest) }
        })
        .await;
    }
}

fn spec() -> Value {
    let filter = muster_filter::NodeFilter::default().with_words("role=web").unwrap();
    json!({
        "agent": "puppet", "action": "runonce", "every": EVERY_SECONDS,
        "pool": pool(), "limit": 1, "filter": filter,
    })
}

fn pool() -> SubjectName {
    SubjectName::parse("catalogs").unwrap()
}

/// The runs of the scripted Puppet.
fn times(puppet: &TempDir) -> String {
    std::fs::read_to_string(puppet.path().join("times")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_wait_for_a_permit_do_not_begin_after_a_pause() {
    let blocked = BlockedRun::start().await;
    let paused = blocked.fleet.call("pause", &json!({"all": true})).await;
    let paused_at = now();
    assert_eq!(paused.statuscode, ReplyStatus::Ok, "{}", paused.statusmsg.raw());
    blocked.await_waiting(0).await;
    assert!(now() <= paused_at + 1000, "the run waited {} ms", now() - paused_at);
    blocked.await_cancelled_turn().await;
    blocked.permit.release().await;
    assert_eq!(times(&blocked.puppet), "", "no run has begun");
}

/// Run by `make test-all`.
mod long {
    use super::{BlockedRun, ReplyStatus, json, spec, times};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_wait_for_a_permit_do_not_begin_after_the_schedule_is_removed() {
        let blocked = BlockedRun::start().await;
        blocked.fleet.call("remove", &json!({"name": "puppet"})).await;
        blocked.await_waiting(0).await;
        blocked.permit.release().await;
        assert_eq!(times(&blocked.puppet), "", "no run has begun");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_wait_for_a_permit_do_not_begin_after_the_schedule_is_replaced() {
        let blocked = BlockedRun::start().await;
        let text = blocked.fleet.grant("puppet", &spec()).sign(&blocked.fleet.author).unwrap();
        let added = blocked.fleet.call("add", &json!({"grant": text, "replace": true})).await;
        assert_eq!(added.statuscode, ReplyStatus::Ok, "{}", added.statusmsg.raw());
        blocked.await_cancelled_turn().await;
        assert_eq!(times(&blocked.puppet), "", "no run has begun");
    }
}
