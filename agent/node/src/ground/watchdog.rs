//! The service manager's watchdog (`WatchdogSec=`): `WATCHDOG=1` is sent only while every loop that must not stop still turns.
//!
//! A timer of its own would also run while requests are no longer received, for example because a lock is never released. So
//! each loop holds a `LoopPulse` and ticks it beside its other events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior};

use crate::ground::signals::notify_systemd;

/// Pulses within the time limit of the service manager. A notification needs one of each loop: two or three fit into the limit.
const PULSES_PER_LIMIT: u32 = 6;

#[derive(Debug)]
pub struct LoopMonitor {
    /// The time between pulses; none without a watchdog.
    period: Option<Duration>,
    loops: Mutex<Vec<Weak<AtomicBool>>>,
}

/// Held by one loop; dropped when the loop has ended, which is then no longer watched.
#[derive(Debug)]
pub(crate) struct LoopPulse {
    interval: Option<Interval>,
    turned: Arc<AtomicBool>,
}

impl LoopMonitor {
    /// A monitor for the time limit that the service manager has set in the environment, if any.
    pub fn from_environment() -> Arc<Self> {
        Self::with_limit(sd_notify::watchdog_enabled())
    }

    /// A monitor that does nothing, for daemons inside another process.
    pub(crate) fn without_watchdog() -> Arc<Self> {
        Self::with_limit(None)
    }

    fn with_limit(limit: Option<Duration>) -> Arc<Self> {
        let period = limit.map(|limit| (limit / PULSES_PER_LIMIT).max(Duration::from_millis(1)));
        Arc::new(Self { period, loops: Mutex::default() })
    }

    pub(crate) fn watch_loop(&self) -> LoopPulse {
        let turned = Arc::new(AtomicBool::new(true));
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.push(Arc::downgrade(&turned));
        let interval = self.period.map(|period| {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        LoopPulse { interval, turned }
    }

    /// Notifies the service manager, as long as all loops turn. Returns at once without a watchdog.
    pub async fn notify_while_turning(self: Arc<Self>) {
        self.run(|| notify_systemd(&[NotifyState::Watchdog])).await;
    }

    async fn run(&self, mut notify: impl FnMut()) {
        let Some(period) = self.period else { return };
        let mut is_reported = false;
        loop {
            if self.have_all_turned() {
                notify();
                is_reported = false;
            } else if !is_reported {
                tracing::debug!(
                    "a loop has not turned since the last notification of the watchdog"
                );
                is_reported = true;
            }
            tokio::time::sleep(period).await;
        }
    }

    /// Whether each loop has turned since this was last true.
    fn have_all_turned(&self) -> bool {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|turned| turned.strong_count() > 0);
        let turned: Vec<_> = loops.iter().filter_map(Weak::upgrade).collect();
        let all = turned.iter().all(|turned| turned.load(Ordering::Acquire));
        if all {
            for turned in turned {
                turned.store(false, Ordering::Release);
            }
        }
        all
    }
}

impl LoopPulse {
    /// Waits for the time of the next pulse and records it; never returns without a watchdog. Cancel safe.
    pub(crate) async fn tick(&mut self) {
        match &mut self.interval {
            Some(interval) => {
                interval.tick().await;
                self.turned.store(true, Ordering::Release);
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn all_loops_must_turn_between_two_notifications() {
        let monitor = LoopMonitor::with_limit(Some(LIMIT));
        assert!(monitor.period.is_some_and(|period| period * 3 <= LIMIT), "three chances");
        let (mut turning, mut hanging) = (monitor.watch_loop(), monitor.watch_loop());
        assert!(monitor.have_all_turned(), "a new loop counts as turned once");
        turning.tick().await;
        assert!(!monitor.have_all_turned());
        hanging.tick().await;
        assert!(monitor.have_all_turned());
        turning.tick().await;
        assert!(!monitor.have_all_turned());
        // A loop that has ended is not watched.
        drop(hanging);
        assert!(monitor.have_all_turned());
    }

    #[tokio::test]
    async fn notifications_are_sent_while_a_loop_turns() {
        let monitor = LoopMonitor::with_limit(Some(LIMIT));
        let mut pulse = monitor.watch_loop();
        let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
        tokio::select! {
            () = monitor.run(|| sent.send(()).unwrap()) => panic!("the loop of notifications ended"),
            () = async { loop { pulse.tick().await } } => {}
            () = async {
                for _ in 0..3 {
                    received.recv().await;
                }
            } => {}
        }
    }

    #[tokio::test]
    async fn nothing_runs_without_a_watchdog() {
        let monitor = LoopMonitor::with_limit(None);
        let mut pulse = monitor.watch_loop();
        assert!(tokio::time::timeout(LIMIT, pulse.tick()).await.is_err());
        monitor.run(|| panic!("a notification without a watchdog")).await;
    }
}
