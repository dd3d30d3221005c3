//! A daemon that is killed: in each stage of the pipeline in which it can be held, and at fifty random moments under load. What was captured
//! of its requests comes again after each restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_client::{CallEvent, CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::rpcd::Rpcd;
use muster_tests::{await_state, poll_until_ok, simulate_delay};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::books::{Entry, Fate};
use super::rig::{NODE, Rig, ask_of};
use super::{BACK, note};

/// How long a caller waits for a daemon that is dead.
const WAIT: Duration = Duration::from_secs(2);
/// The same where many calls are lost.
const SHORT: Duration = Duration::from_millis(600);

/// Says that it runs, as soon as nobody holds it; and that it was asked.
const SLOW_SERVICE: &str = "#!/bin/sh\necho x > /asked\nwhile test -e /hold; do sleep 0.02; done\n";

/// Where a daemon is when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The request is in its socket.
    Received,
    /// It is looking up whether it is meant; the request is remembered.
    Matching,
    /// It is looking up whether the caller may.
    Authorising,
    /// The request waits for its turn.
    Queued,
    /// The action runs, and has changed the node.
    Running,
    /// The answer is with the caller.
    Answered,
}

struct Held {
    rig: Rig,
    node: Rpcd,
}

impl Held {
    async fn new() -> Self {
        let rig = Box::pin(Rig::new(
            "[limits.agents.tally]\nconcurrency = 1\n[paths]\nroot = \"../root\"\n",
        ))
        .await;
        rig.home.write("root/etc/init.d/stub", SLOW_SERVICE, 0o755);
        let policy = "allow\t*\tguarded\tservice('stub').running\nallow\t*\tstrike hold\t*\n";
        rig.home.write("policies/tally.policy", policy, 0o644);
        let node = rig.start().await;
        Self { rig, node }
    }

    fn hold(&self, held: bool) {
        for place in ["hold", "root/hold"] {
            let path = self.rig.home.path(place);
            if held {
                std::fs::write(path, "").unwrap();
            } else {
                let _ = std::fs::remove_file(path);
            }
        }
        let _ = std::fs::remove_file(self.rig.home.path("root/asked"));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.node.pid()), signal).unwrap();
    }

    /// Waits until the daemon is where the test wants it.
    async fn reached(&self, stage: Stage, (effects, captured): (usize, usize)) {
        let rig = &self.rig;
        match stage {
            Stage::Received => {
                await_state("it was sent", || rig.captured().len() > captured).await;
                rig.caller.bus.confirm_delivery().await.unwrap();
            }
            Stage::Matching | Stage::Authorising => {
                await_state("the service is asked", || rig.home.path("root/asked").exists()).await;
            }
            Stage::Queued => {
                let before = effects;
                poll_until_ok("one runs, and one waits", BACK, async || {
                    match (rig.at_work().await, rig.effects().len() - before) {
                        (2, 1) => Ok(()),
                        other => Err(other),
                    }
                })
                .await;
            }
            Stage::Running => {
                await_state("it is carried out", || rig.effects().len() > effects).await;
            }
            Stage::Answered => {}
        }
    }

    /// Has the daemon killed in this stage, and gives what the caller was told.
    async fn killed_in(&mut self, stage: Stage) -> Vec<Entry> {
        let (effects, captured) = (self.rig.effects().len(), self.rig.captured().len());
        self.hold(stage != Stage::Answered && stage != Stage::Received);
        if stage == Stage::Received {
            self.node.freeze().await;
        }
        let rig = &self.rig;
        let asking = async {
            match stage {
                Stage::Matching => {
                    whoever_has_the_service(rig).await;
                    Vec::new()
                }
                Stage::Queued => {
                    let second = async {
                        await_state("it is held", || rig.effects().len() > effects).await;
                        rig.ask("strike", WAIT).await
                    };
                    let (first, second) = tokio::join!(rig.ask("hold", WAIT), second);
                    vec![first, second]
                }
                Stage::Authorising => vec![rig.ask("guarded", WAIT).await],
                Stage::Running => vec![rig.ask("hold", WAIT).await],
                Stage::Received | Stage::Answered => vec![rig.ask("strike", WAIT).await],
            }
        };
        let killing = async {
            self.reached(stage, (effects, captured)).await;
            if stage != Stage::Answered {
                self.signal(Signal::SIGKILL);
            }
        };
        let (entries, ()) = tokio::join!(asking, killing);
        if stage == Stage::Answered {
            self.signal(Signal::SIGKILL);
        }
        await_state("it is dead", || !self.node.is_running()).await;
        self.hold(false);
        self.node = self.rig.start().await;
        entries
    }
}

/// Asks for a change of whoever runs the service; nobody is there any more who could answer.
async fn whoever_has_the_service(rig: &Rig) {
    let filter = NodeFilter::default().with_select("service('stub').running").unwrap();
    let mut call = RpcCall::new("tally", "strike", CallTarget::Filter(filter)).unwrap();
    call.wait = WAIT;
    let mut events = rig.caller.client.call(call);
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
async fn a_daemon_killed_in_any_stage_repeats_nothing_and_its_caller_knows() {
    let mut held = Held::new().await;
    // What happened before the kill, what the caller heard, and how often it is done in the end.
    for (stage, answered, done) in [
        (Stage::Received, 0, 1),
        (Stage::Matching, 0, 0),
        (Stage::Authorising, 0, 0),
        (Stage::Queued, 0, 1),
        (Stage::Running, 0, 1),
        (Stage::Answered, 1, 1),
    ] {
        let before = held.rig.effects().len();
        let seen = held.rig.captured().len();
        let entries = held.killed_in(stage).await;
        for entry in &entries {
            let (stats, _) = entry.told();
            assert_eq!((stats.ok, stats.missing.len()), (answered, 1 - answered), "{stage:?}");
        }
        // What was captured comes again, twice. The daemon knows all that it had taken in.
        let captured = held.rig.captured().split_off(seen);
        assert!(!captured.is_empty());
        for _ in 0..2 {
            held.rig.replay(&captured).await;
        }
        let repeated = u64::try_from(captured.len()).unwrap() * 2;
        let repeated = if stage == Stage::Received { repeated - 1 } else { repeated };
        held.rig.await_counted("replayed", repeated).await;
        held.rig.await_idle().await;
        let effects = held.rig.effects();
        assert_eq!(effects.len() - before, done, "{stage:?}");
        assert!(effects.values().all(|times| *times == 1), "{stage:?}: {effects:?}");
    }
}

/// Asks as fast as answers come, until it is over.
async fn asks_on(rig: &Rig, over: &AtomicBool) -> Vec<Entry> {
    let mut entries = Vec::new();
    while !over.load(Ordering::Acquire) {
        let entry = ask_of(&rig.caller.client, "strike", SHORT).await;
        if !entry.is_done() {
            // Nobody is there: a breath, so that not all of the work is for nothing.
            simulate_delay(Duration::from_millis(100)).await;
        }
        entries.push(entry);
    }
    entries
}

/// Kills the daemon at random moments, frozen before in some rounds, and has captured messages come again.
async fn fifty_kills(rig: &Rig, over: &AtomicBool) -> u64 {
    let seed = 20_261_122;
    note(&format!("seed {seed}"));
    let mut dice = StdRng::seed_from_u64(seed);
    let mut node = rig.start().await;
    let (mut repeated, mut from) = (0, 0);
    for round in 0..50 {
        let (so_far, more) = (rig.captured().len(), dice.random_range(0..9));
        await_state("it is asked", || rig.captured().len() >= so_far + more).await;
        simulate_delay(Duration::from_millis(dice.random_range(0..40))).await;
        let pid = Pid::from_raw(node.pid());
        if round % 3 == 0 {
            kill(pid, Signal::SIGSTOP).unwrap();
            simulate_delay(Duration::from_millis(dice.random_range(0..20))).await;
        }
        kill(pid, Signal::SIGKILL).unwrap();
        await_state("it is dead", || !node.is_running()).await;
        node = rig.start().await;
        let mut captured = rig.captured();
        let these = captured.split_off(from);
        from += these.len();
        // Only those of which something came are the ones that must not come again; but which they are only the node knows.
        rig.replay(&these).await;
        repeated += these.len() as u64;
    }
    over.store(true, Ordering::Release);
    rig.await_idle().await;
    repeated
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_at_random_moments_repeats_nothing_and_loses_nothing_untold() {
    let rig = Box::pin(Rig::new("")).await;
    let over = AtomicBool::new(false);
    let asking = futures_util::future::join_all((0..3).map(|_| asks_on(&rig, &over)));
    let (told, repeated) = tokio::join!(asking, fifty_kills(&rig, &over));
    let entries: Vec<Entry> = told.into_iter().flatten().collect();
    let effects = rig.effects();
    let twice: BTreeMap<_, _> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let mut known = BTreeSet::new();
    let (mut answered, mut missing) = (0, 0);
    for entry in &entries {
        let (stats, answers) = entry.told();
        known.insert(stats.request);
        assert_eq!(answers.len() + stats.missing.len(), 1, "{stats:?}");
        answered += stats.ok;
        missing += stats.missing.len();
        if stats.ok == 1 {
            assert_eq!(effects.get(&stats.request), Some(&1), "answered, and not done");
        }
    }
    assert!(effects.keys().all(|request| known.contains(request)));
    assert!(matches!(entries.last().map(|entry| &entry.fate), Some(Fate::Told { .. })));
    assert!(answered > 50, "{answered} answered, {missing} missing");
    note(&format!(
        "{NODE}: {answered} answered, {missing} told that nobody answers, {repeated} messages came again, {} done",
        effects.len()
    ));
}
