//! What a daemon knows of its clone: another daemon with its name and key, as on a machine that was copied. The heartbeats of a clone have another boot id.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_wire::Millis;
use muster_wire::node_record::NodeHeartbeat;
use tokio::time::Instant;
use uuid::Uuid;

use crate::ground::shared::lock_mutex;

#[derive(Debug)]
pub struct CloneWatch {
    boot: Uuid,
    /// When this daemon started. Heartbeats from before are those of the last one.
    started: Millis,
    yields_to_older: AtomicBool,
    other: Mutex<Option<OtherDaemon>>,
}

#[derive(Debug, Clone, Copy)]
struct OtherDaemon {
    boot: Uuid,
    /// The time in its last heartbeat, by its clock.
    time: Millis,
    until: Instant,
}

impl CloneWatch {
    pub fn new(started: Millis) -> Self {
        Self {
            boot: Uuid::now_v7(),
            started,
            yields_to_older: AtomicBool::new(false),
            other: Mutex::new(None),
        }
    }

    /// Identifies the run of this daemon. Later starts have greater ids.
    pub fn boot(&self) -> Uuid {
        self.boot
    }

    /// Sets whether this daemon leaves all requests to a clone that was started earlier.
    pub fn set_yielding(&self, yields: bool) {
        self.yields_to_older.store(yields, Ordering::Relaxed);
    }

    /// Notes a heartbeat of this node's name. It counts for `lifetime`. Returns the boot id of a clone that was not known.
    pub fn note_heartbeat(
        &self,
        heartbeat: &NodeHeartbeat,
        now: Instant,
        lifetime: Duration,
    ) -> Option<Uuid> {
        let (boot, time) = (heartbeat.boot, heartbeat.time);
        let mut other = lock_mutex(&self.other);
        let known = other.filter(|known| known.boot == boot);
        // One that was captured and is sent again proves nothing.
        let is_old = time < self.started || known.is_some_and(|known| time <= known.time);
        if boot == self.boot || is_old {
            return None;
        }
        let was_cloned = other.is_some_and(|other| now < other.until);
        *other = Some(OtherDaemon { boot, time, until: now + lifetime });
        (!was_cloned).then_some(boot)
    }

    fn current(&self, now: Instant) -> Option<OtherDaemon> {
        lock_mutex(&self.other).filter(|other| now < other.until)
    }

    pub fn is_cloned(&self) -> bool {
        self.current(Instant::now()).is_some()
    }

    /// Whether this daemon leaves all requests to a clone that was started earlier.
    pub fn yields(&self) -> bool {
        self.yields_to_older.load(Ordering::Relaxed)
            && self.current(Instant::now()).is_some_and(|other| other.boot < self.boot)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::identity::Identity;
    use muster_wire::node_record::NodeHeartbeat;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::CloneWatch;

    const LIFETIME: Duration = Duration::from_mins(3);
    const STARTED: u64 = 1_000_000;

    fn heartbeat(boot: Uuid, time: u64) -> NodeHeartbeat {
        let sender = Identity::parse("web1.acme.net").unwrap();
        NodeHeartbeat { sender, time, digest: String::new(), boot }
    }

    #[test]
    fn only_new_heartbeats_of_another_boot_are_those_of_a_clone() {
        let (earlier, watch, now) = (Uuid::now_v7(), CloneWatch::new(STARTED), Instant::now());
        let note = |boot, time| watch.note_heartbeat(&heartbeat(boot, time), now, LIFETIME);
        assert_eq!(note(watch.boot(), STARTED + 1), None, "its own");
        assert_eq!(note(earlier, STARTED - 1), None, "of the last daemon");
        assert!(!watch.is_cloned());
        assert_eq!(note(earlier, STARTED + 1), Some(earlier));
        assert_eq!(note(earlier, STARTED + 2), None, "known");
        assert!(watch.is_cloned());
        let later = now + LIFETIME;
        assert!(watch.current(later).is_none(), "gone");
        let again = |time| watch.note_heartbeat(&heartbeat(earlier, time), later, LIFETIME);
        assert_eq!(again(STARTED + 2), None, "captured and sent again");
        assert_eq!(again(STARTED + 3), Some(earlier));
    }

    #[test]
    fn later_daemon_yields_if_configured() {
        let earlier = Uuid::now_v7();
        let watch = CloneWatch::new(STARTED);
        let note = |boot| {
            watch.note_heartbeat(&heartbeat(boot, STARTED + 1), Instant::now(), LIFETIME);
            watch.yields()
        };
        assert!(!note(earlier));
        watch.set_yielding(true);
        assert!(note(earlier));
        assert!(!note(Uuid::now_v7()), "a daemon that was started later");
    }
}
