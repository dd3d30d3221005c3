//! Detects a clone: another daemon with the name and the key of this one, as on a machine that was copied with its keys. A daemon receives the heartbeats of
//! its own name; those of a clone have another boot id.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_api::FindingLevel;
use muster_api::base::error_chain;
use muster_bus::{Bus, NewEvent};
use muster_wire::Millis;
use muster_wire::node_record::NodeHeartbeat;
use muster_wire::sign::open_heartbeat;
use muster_wire::subject;
use muster_wire::token::scope;
use serde_json::{Map, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::config::{Config, RegistrationConfig};
use crate::core::DaemonCore;
use crate::shared::lock_mutex;

/// Kind of the event that reports a clone.
const NODE_CLONED: &str = "node_cloned";
/// Heartbeats that a clone may miss before it counts as gone.
const MISSED_HEARTBEATS: u32 = 3;
/// The check of the findings about clones.
const CLONE_CHECK: &str = "clone";

/// What one daemon knows of a clone.
#[derive(Debug)]
pub(crate) struct CloneWatch {
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
    pub(crate) fn new(started: Millis) -> Self {
        Self {
            boot: Uuid::now_v7(),
            started,
            yields_to_older: AtomicBool::new(false),
            other: Mutex::new(None),
        }
    }

    /// Identifies the run of this daemon. Later starts have greater ids.
    pub(crate) fn boot(&self) -> Uuid {
        self.boot
    }

    /// Notes a heartbeat of this node's name. It counts for `lifetime`. Returns the boot id of a clone that was not known.
    fn note_heartbeat(
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

    /// Whether a clone runs.
    pub(crate) fn is_cloned(&self) -> bool {
        self.current(Instant::now()).is_some()
    }

    /// Whether this daemon leaves all requests to a clone that was started earlier.
    pub(crate) fn yields(&self) -> bool {
        self.yields_to_older.load(Ordering::Relaxed)
            && self.current(Instant::now()).is_some_and(|other| other.boot < self.boot)
    }
}

/// Receives the heartbeats of this node's name for the lifetime of the daemon.
pub(crate) fn spawn_clone_watch(
    core: &Arc<DaemonCore>,
    bus: &Bus,
    config: &Config,
) -> JoinHandle<()> {
    tokio::spawn(watch_clones(Arc::clone(core), bus.clone(), config.registration.clone()))
}

async fn watch_clones(core: Arc<DaemonCore>, bus: Bus, config: RegistrationConfig) {
    if !config.enabled {
        return;
    }
    core.clones.yields_to_older.store(config.yield_to_older, Ordering::Relaxed);
    // An organisation that was not pushed by this version does not permit the subscription.
    while !is_permitted(&core) {
        sleep(config.heartbeat).await;
    }
    let subject = subject::heartbeat(core.identity().as_str());
    let Ok(mut heartbeats) = bus.subscribe(&subject).await else { return };
    let mut was_cloned = false;
    loop {
        tokio::select! {
            message = heartbeats.next() => {
                let Some(message) = message else { return };
                receive_heartbeat(&core, &bus, message.payload(), config.heartbeat).await;
            }
            () = sleep(config.heartbeat) => {}
        }
        let is_cloned = core.clones.is_cloned();
        if was_cloned && !is_cloned {
            core.health.set_findings(CLONE_CHECK, FindingLevel::Error, &[]);
            tracing::info!(
                "no other daemon with the name and key of this node is running any more"
            );
        }
        was_cloned = is_cloned;
    }
}

fn is_permitted(core: &DaemonCore) -> bool {
    let (trust, key) = (core.trust.get(), core.signer.claims().iss);
    trust.template_of_key(&key).is_some_and(scope::permits_own_heartbeats)
}

async fn receive_heartbeat(core: &DaemonCore, bus: &Bus, payload: &[u8], interval: Duration) {
    let now = core.clock.now();
    let opened = open_heartbeat(payload, core.identity(), &core.trust.get(), &core.tokens, now);
    let Ok(heartbeat) = opened else { return };
    let lifetime = interval * MISSED_HEARTBEATS;
    let Some(boot) = core.clones.note_heartbeat(&heartbeat, Instant::now(), lifetime) else {
        return;
    };
    let node = core.identity();
    let which = if boot < core.clones.boot { "earlier" } else { "later" };
    let text = format!(
        "another daemon with the name and key of {node} is running, which was started {which}: a copy of the machine?"
    );
    tracing::error!(%boot, "{text}");
    core.health.set_findings(CLONE_CHECK, FindingLevel::Error, std::slice::from_ref(&text));
    let data = Map::from_iter([("node".to_owned(), json!(node))]);
    let event = NewEvent { kind: NODE_CLONED, text, data, time: now };
    if let Err(error) = bus.publish_event(&core.signer, event).await {
        let error = error_chain(&error);
        tracing::warn!(error, "cannot publish the event about another daemon");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::identity::Identity;
    use muster_wire::node_record::NodeHeartbeat;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::{CloneWatch, Ordering};

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
        watch.yields_to_older.store(true, Ordering::Relaxed);
        assert!(note(earlier));
        assert!(!note(Uuid::now_v7()), "a daemon that was started later");
    }
}
