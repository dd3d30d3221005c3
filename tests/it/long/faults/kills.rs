//! A killed daemon: in each stage of the pipeline in which it can be blocked, and at 50 random moments under load.
//! Captured requests are replayed after each restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_calls::{CallEvent, CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::rpcd::Rpcd;
use muster_tests::tier::repetitions;
use muster_tests::{await_state, poll_until_ok, simulate_delay};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::call_records::{CallRecord, CallResult};
use super::fixture::{FaultFixture, NODE, call_tally_as};
use super::{RECOVERY_TIMEOUT, print_figures};

/// How long a caller waits for a dead daemon.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for tests in which many calls are lost.
const SHORT_REPLY_TIMEOUT: Duration = Duration::from_millis(600);

/// Writes a file when it is queried, and reports that the service runs as soon as the file `hold` is removed.
const SLOW_SERVICE: &str = "#!/bin/sh\necho x > /asked\nwhile test -e /hold; do sleep 0.02; done\n";

/// The state of the daemon when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillPoint {
    /// The request is in the daemon's socket.
    Received,
    /// The filter is being evaluated; the request is stored in the journal.
    Matching,
    /// The policy is being evaluated.
    Authorising,
    /// The request waits in the queue.
    Queued,
    /// The action runs, and has changed the node.
    Running,
    /// The caller has the reply.
    Answered,
}

struct KillFixture {
    base: FaultFixture,
    node: Rpcd,
}

impl KillFixture {
    async fn new() -> Self {
        let base = Box::pin(FaultFixture::new(
            "[limits.agents.tally]\nconcurrency = 1\n[paths]\nroot = \"../root\"\n",
        ))
        .await;
        base.home.write("root/etc/init.d/stub", SLOW_SERVICE, 0o755);
        let policy = "allow\t*\tguarded\tservice('stub').running\nallow\t*\tstrike hold\t*\n";
        base.home.write("policies/tally.policy", policy, 0o644);
        let node = base.start().await;
        Self { base, node }
    }

    fn set_hold(&self, hold: bool) {
        for name in ["hold", "root/hold"] {
            let path = self.base.home.path(name);
            if hold {
                std::fs::write(path, "").unwrap();
            } else {
                let _ = std::fs::remove_file(path);
            }
        }
        let _ = std::fs::remove_file(self.base.home.path("root/asked"));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.node.pid()), signal).unwrap();
    }

    /// Waits until the daemon is in this state.
    async fn await_stage(&self, stage: KillPoint, (effects, captured): (usize, usize)) {
        let base = &self.base;
        match stage {
            KillPoint::Received => {
                await_state("the request was sent", || base.captured().len() > captured).await;
                base.caller.bus.confirm_delivery().await.unwrap();
            }
            KillPoint::Matching | KillPoint::Authorising => {
                await_state("the service is queried", || base.home.path("root/asked").exists())
                    .await;
            }
            KillPoint::Queued => {
                let before = effects;
                poll_until_ok("one request runs and one waits", RECOVERY_TIMEOUT, async || match (
                    base.running_count().await,
                    base.effects().len() - before,
                ) {
                    (2, 1) => Ok(()),
                    other => Err(other),
                })
                .await;
            }
            KillPoint::Running => {
                await_state("the request is executed", || base.effects().len() > effects).await;
            }
            KillPoint::Answered => {}
        }
    }

    /// Kills the daemon in this state; returns the records of the calls.
    async fn kill_in(&mut self, stage: KillPoint) -> Vec<CallRecord> {
        let (effects, captured) = (self.base.effects().len(), self.base.captured().len());
        self.set_hold(stage != KillPoint::Answered && stage != KillPoint::Received);
        if stage == KillPoint::Received {
            self.node.freeze().await;
        }
        let base = &self.base;
        let calls = async {
            match stage {
                KillPoint::Matching => {
                    call_nodes_with_the_service(base).await;
                    Vec::new()
                }
                KillPoint::Queued => {
                    let second = async {
                        await_state("the first request is running", || {
                            base.effects().len() > effects
                        })
                        .await;
                        base.call_tally("strike", REPLY_TIMEOUT).await
                    };
                    let (first, second) =
                        tokio::join!(base.call_tally("hold", REPLY_TIMEOUT), second);
                    vec![first, second]
                }
                KillPoint::Authorising => vec![base.call_tally("guarded", REPLY_TIMEOUT).await],
                KillPoint::Running => vec![base.call_tally("hold", REPLY_TIMEOUT).await],
                KillPoint::Received | KillPoint::Answered => {
                    vec![base.call_tally("strike", REPLY_TIMEOUT).await]
                }
            }
        };
        let kill_daemon = async {
            self.await_stage(stage, (effects, captured)).await;
            if stage != KillPoint::Answered {
                self.signal(Signal::SIGKILL);
            }
        };
        let (entries, ()) = tokio::join!(calls, kill_daemon);
        if stage == KillPoint::Answered {
            self.signal(Signal::SIGKILL);
        }
        await_state("the daemon has ended", || !self.node.is_running()).await;
        self.set_hold(false);
        self.node = self.base.start().await;
        entries
    }
}

/// Calls the nodes that run the service; the daemon is killed before it can reply.
async fn call_nodes_with_the_service(base: &FaultFixture) {
    let filter = NodeFilter::default().with_select("service('stub').running").unwrap();
    let mut call = RpcCall::new("tally", "strike", CallTarget::Filter(filter)).unwrap();
    call.wait = REPLY_TIMEOUT;
    let mut events = base.caller.client.call(call);
    loop {
        match events.next().await.unwrap() {
            CallEvent::Finished(stats) => {
                return assert_eq!(stats.response_count(), 0, "{stats:?}");
            }
            CallEvent::Reply(answer) => panic!("{answer:?}"),
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_killed_in_any_stage_repeats_nothing() {
    let mut fixture = KillFixture::new().await;
    // Stage of the kill, number of replies, and number of executions at the end.
    for (stage, answered, done) in [
        (KillPoint::Received, 0, 1),
        (KillPoint::Matching, 0, 0),
        (KillPoint::Authorising, 0, 0),
        (KillPoint::Queued, 0, 1),
        (KillPoint::Running, 0, 1),
        (KillPoint::Answered, 1, 1),
    ] {
        let before = fixture.base.effects().len();
        let seen = fixture.base.captured().len();
        let entries = fixture.kill_in(stage).await;
        for entry in &entries {
            let (stats, _) = entry.finished();
            assert_eq!((stats.ok, stats.missing.len()), (answered, 1 - answered), "{stage:?}");
        }
        // Captured requests are replayed twice. The daemon detects all that it had received before the kill.
        let captured = fixture.base.captured().split_off(seen);
        assert!(!captured.is_empty());
        for _ in 0..2 {
            fixture.base.replay(&captured).await;
        }
        let repeated = u64::try_from(captured.len()).unwrap() * 2;
        let repeated = if stage == KillPoint::Received { repeated - 1 } else { repeated };
        fixture.base.await_counter("replayed", repeated).await;
        fixture.base.await_idle().await;
        let effects = fixture.base.effects();
        assert_eq!(effects.len() - before, done, "{stage:?}");
        assert!(effects.values().all(|times| *times == 1), "{stage:?}: {effects:?}");
    }
}

/// Sends calls one after the other until `finished` is set.
async fn call_until_over(base: &FaultFixture, finished: &AtomicBool) -> Vec<CallRecord> {
    let mut entries = Vec::new();
    while !finished.load(Ordering::Acquire) {
        let entry = call_tally_as(&base.caller.client, "strike", SHORT_REPLY_TIMEOUT).await;
        if !entry.is_done() {
            // The daemon is not running; the pause avoids useless calls.
            simulate_delay(Duration::from_millis(100)).await;
        }
        entries.push(entry);
    }
    entries
}

/// Kills the daemon at random moments, after freezing it in some rounds, and replays the captured messages.
async fn kill_again_and_again(base: &FaultFixture, finished: &AtomicBool) -> u64 {
    let seed = 20_261_122;
    print_figures(&format!("seed {seed}"));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut node = base.start().await;
    let (mut repeated, mut from) = (0, 0);
    for round in 0..repetitions(50) {
        let (so_far, more) = (base.captured().len(), rng.random_range(0..9));
        await_state("requests are sent", || base.captured().len() >= so_far + more).await;
        simulate_delay(Duration::from_millis(rng.random_range(0..40))).await;
        let pid = Pid::from_raw(node.pid());
        if round % 3 == 0 {
            kill(pid, Signal::SIGSTOP).unwrap();
            simulate_delay(Duration::from_millis(rng.random_range(0..20))).await;
        }
        kill(pid, Signal::SIGKILL).unwrap();
        await_state("the daemon has ended", || !node.is_running()).await;
        node = base.start().await;
        let mut captured = base.captured();
        let new_messages = captured.split_off(from);
        from += new_messages.len();
        // Only executed requests must not run again, but only the node knows which these are; so all are replayed.
        base.replay(&new_messages).await;
        repeated += new_messages.len() as u64;
    }
    finished.store(true, Ordering::Release);
    base.await_idle().await;
    repeated
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_killed_at_random_moments_repeats_nothing_and_loses_nothing_silently() {
    let base = Box::pin(FaultFixture::new("")).await;
    let finished = AtomicBool::new(false);
    let calls = futures_util::future::join_all((0..3).map(|_| call_until_over(&base, &finished)));
    let (results, repeated) = tokio::join!(calls, kill_again_and_again(&base, &finished));
    let entries: Vec<CallRecord> = results.into_iter().flatten().collect();
    let effects = base.effects();
    let twice: BTreeMap<_, _> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let mut known = BTreeSet::new();
    let (mut answered, mut missing) = (0, 0);
    for entry in &entries {
        let (stats, answers) = entry.finished();
        known.insert(stats.request);
        assert_eq!(answers.len() + stats.missing.len(), 1, "{stats:?}");
        answered += stats.ok;
        missing += stats.missing.len();
        if stats.ok == 1 {
            assert_eq!(effects.get(&stats.request), Some(&1), "answered but not executed");
        }
    }
    assert!(effects.keys().all(|request| known.contains(request)));
    assert!(matches!(entries.last().map(|entry| &entry.result), Some(CallResult::Finished { .. })));
    assert!(answered > repetitions(50), "{answered} answered, {missing} missing");
    print_figures(&format!(
        "{NODE}: {answered} answered, {missing} reported as missing, {repeated} messages replayed, {} executed",
        effects.len()
    ));
}
