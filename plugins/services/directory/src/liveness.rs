//! Which nodes are missing: those that have sent neither a record nor a heartbeat for two intervals and a grace period.
//!
//! Only the clock of this instance counts, and it is monotonic: a node's wrong clock, or a step of the clock here, changes nothing. After its start, and after
//! a disconnection, an instance has received no heartbeats for some time, so that time does not count.

use std::time::Duration;

use muster_api::base::duration_millis;
use muster_wire::Millis;
use muster_wire::node_record::CLONE_HEARTBEATS;
use tokio::time::Instant;
use uuid::Uuid;

/// Time that a heartbeat may be late, by default, in seconds.
pub(crate) const DEFAULT_GRACE_SECONDS: u32 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Seen within two intervals and the grace period.
    Present,
    /// Not seen since this instance began to receive heartbeats, which is less than that time ago.
    Unknown,
    /// Not seen for two intervals and the grace period.
    Missing,
}

impl Presence {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Unknown => "unknown",
            Self::Missing => "missing",
        }
    }
}

#[derive(Debug, Clone)]
pub struct NodeLiveness {
    last_seen: Option<Instant>,
    /// The same by the wall clock of this instance, for people. A step of the clock changes no state.
    last_seen_time: Millis,
    interval: Duration,
    is_reported_missing: bool,
    runs: DaemonRuns,
}

/// Maximum number of daemons of one name that are distinguished.
const MAX_RUNS: usize = 16;

/// The daemons that have lately sent heartbeats under the name of a node, the newest heartbeat last.
#[derive(Debug, Clone, Default)]
struct DaemonRuns {
    runs: Vec<DaemonRun>,
    /// When a daemon was heard again after another one.
    interleaved: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct DaemonRun {
    boot: Uuid,
    /// The time in its last heartbeat, by its own clock.
    time: Millis,
    heard: Instant,
}

impl DaemonRuns {
    /// Notes a heartbeat. A daemon that was restarted is never heard again; of several that run, each is. Heartbeats that are not newer than the last one
    /// of their daemon, or much older than those of the others, are ignored: they may have been captured and sent again.
    fn note(&mut self, boot: Uuid, time: Millis, now: Instant, lifetime: Duration) {
        self.runs.retain(|run| now.saturating_duration_since(run.heard) <= lifetime);
        let newest = self.runs.iter().map(|run| run.time).max().unwrap_or(0);
        let place = self.runs.iter().position(|run| run.boot == boot);
        let known = place.and_then(|place| self.runs.get(place));
        let is_captured = known.is_some_and(|known| time <= known.time);
        if is_captured || time.saturating_add(duration_millis(lifetime)) < newest {
            return;
        }
        if let Some(place) = place {
            if place + 1 < self.runs.len() {
                self.interleaved = Some(now);
            }
            self.runs.remove(place);
        } else if self.runs.len() == MAX_RUNS {
            self.runs.remove(0);
        }
        self.runs.push(DaemonRun { boot, time, heard: now });
    }
}

impl NodeLiveness {
    /// A node that was not seen yet, with this interval between heartbeats.
    pub fn new(interval: Duration) -> Self {
        Self {
            last_seen: None,
            last_seen_time: 0,
            interval,
            is_reported_missing: false,
            runs: DaemonRuns::default(),
        }
    }

    /// Notes a heartbeat or a new record. Returns whether the node had been reported as missing.
    pub fn record_seen(&mut self, now: Instant, time: Millis) -> bool {
        (self.last_seen, self.last_seen_time) = (Some(now), time);
        std::mem::take(&mut self.is_reported_missing)
    }

    /// Notes which daemon sent a heartbeat, and the time in it.
    pub fn record_daemon(&mut self, boot: Uuid, time: Millis, now: Instant) {
        self.runs.note(boot, time, now, self.clone_lifetime());
    }

    /// Whether two daemons send heartbeats under this name, as of a machine and its copy.
    pub fn is_cloned(&self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        self.runs.interleaved.is_some_and(|at| since(at) <= self.clone_lifetime())
    }

    fn clone_lifetime(&self) -> Duration {
        self.interval.saturating_mul(CLONE_HEARTBEATS)
    }

    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    pub fn last_seen(&self) -> Option<Instant> {
        self.last_seen
    }

    /// When the node was last seen, by this instance's wall clock.
    pub fn last_seen_time(&self) -> Option<Millis> {
        self.last_seen.map(|_| self.last_seen_time)
    }

    /// The state of the node, if this instance has received heartbeats without an interruption since `listening`, and one may be late by `grace`.
    pub fn presence(&self, now: Instant, listening: Instant, grace: Duration) -> Presence {
        let tolerance = self.interval * 2 + grace;
        let silent_since = self.last_seen.map_or(listening, |heard| heard.max(listening));
        let is_silent = now.saturating_duration_since(silent_since) > tolerance;
        match self.last_seen {
            _ if is_silent => Presence::Missing,
            Some(heard) if now.saturating_duration_since(heard) <= tolerance => Presence::Present,
            _ => Presence::Unknown,
        }
    }

    /// Whether the node has become missing and was not reported yet.
    pub fn report_missing(&mut self, now: Instant, listening: Instant, grace: Duration) -> bool {
        let is_new =
            !self.is_reported_missing && self.presence(now, listening, grace) == Presence::Missing;
        self.is_reported_missing |= is_new;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_mins(1);
    const DEFAULT_GRACE: Duration = Duration::from_secs(30);

    #[test]
    fn node_is_missing_after_two_intervals_and_the_grace_period() {
        let start = Instant::now();
        let mut node = NodeLiveness::new(INTERVAL);
        assert_eq!(node.presence(start, start, DEFAULT_GRACE), Presence::Unknown);
        node.record_seen(start, 0);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(node.presence(at(150), start, DEFAULT_GRACE), Presence::Present);
        assert_eq!(node.presence(at(151), start, DEFAULT_GRACE), Presence::Missing);
        assert!(node.report_missing(at(151), start, DEFAULT_GRACE));
        assert!(
            !node.report_missing(at(152), start, DEFAULT_GRACE),
            "a missing node is reported once"
        );
        assert!(node.record_seen(at(160), 0));
        assert_eq!(node.presence(at(161), start, DEFAULT_GRACE), Presence::Present);
    }

    #[test]
    fn no_node_is_missing_after_an_interruption_of_this_instance() {
        let start = Instant::now();
        let mut node = NodeLiveness::new(INTERVAL);
        node.record_seen(start, 0);
        let at = |seconds| start + Duration::from_secs(seconds);
        // Disconnected from 10 s to 1,000 s.
        let listening = at(1000);
        assert_eq!(node.presence(at(1001), listening, DEFAULT_GRACE), Presence::Unknown);
        assert!(!node.report_missing(at(1150), listening, DEFAULT_GRACE));
        assert_eq!(node.presence(at(1151), listening, DEFAULT_GRACE), Presence::Missing);
    }

    #[test]
    fn daemon_that_is_heard_again_after_another_one_is_a_clone() {
        let (start, [one, other, third]) = (Instant::now(), [1, 2, 3].map(Uuid::from_u128));
        let mut node = NodeLiveness::new(INTERVAL);
        // Restarts.
        for (boot, time) in [(one, 1), (one, 2), (other, 3), (third, 4), (third, 5)] {
            node.record_daemon(boot, time, start);
        }
        assert!(!node.is_cloned(start));
        node.record_daemon(other, 3, start);
        assert!(!node.is_cloned(start), "a heartbeat that was sent again");
        // Three machines with one key.
        for (boot, time) in [(one, 6), (other, 7), (third, 8)] {
            node.record_daemon(boot, time, start);
        }
        assert!(node.is_cloned(start + INTERVAL * 3));
        assert!(!node.is_cloned(start + INTERVAL * 4), "all but one were stopped");
    }

    /// A run is forgotten after some time, and its captured heartbeats are older than those of the present one then.
    #[test]
    fn captured_heartbeats_of_a_forgotten_run_are_ignored() {
        let (start, [gone, present]) = (Instant::now(), [1, 2].map(Uuid::from_u128));
        let (later, minute) = (start + INTERVAL * 9, 60_000);
        let mut node = NodeLiveness::new(INTERVAL);
        node.record_daemon(gone, minute, start);
        node.record_daemon(present, minute * 9, later);
        node.record_daemon(gone, minute, later);
        node.record_daemon(present, minute * 10, later);
        assert!(!node.is_cloned(later));
        assert_eq!(node.runs.runs.len(), 1);
    }

    #[test]
    fn node_that_was_never_heard_of_is_missing_in_the_end() {
        let start = Instant::now();
        let mut node = NodeLiveness::new(INTERVAL);
        assert_eq!(
            node.presence(start + Duration::from_secs(150), start, DEFAULT_GRACE),
            Presence::Unknown
        );
        assert!(node.report_missing(start + Duration::from_secs(151), start, DEFAULT_GRACE));
    }
}
