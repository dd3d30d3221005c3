//! Receives the heartbeats of this node's own name, and reports a clone of the node.

use std::sync::Arc;
use std::time::Duration;

use muster_api::FindingLevel;
use muster_api::base::error_chain;
use muster_bus::{Bus, NewEvent};
use muster_node::config::{Config, RegistrationConfig};
use muster_node::core::DaemonCore;
use muster_wire::node_record::CLONE_HEARTBEATS;
use muster_wire::sign::open_heartbeat;
use muster_wire::subject;
use muster_wire::token::scope;
use serde_json::{Map, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Kind of the event that reports a clone.
const NODE_CLONED: &str = "node_cloned";
/// The check of the findings about clones.
const CLONE_CHECK: &str = "clone";

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
    core.clones.set_yielding(config.yield_to_older);
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
    let (trust, key) = (core.trust.account.get(), core.trust.signer.claims().iss);
    trust.template_of_key(&key).is_some_and(scope::permits_own_heartbeats)
}

async fn receive_heartbeat(core: &DaemonCore, bus: &Bus, payload: &[u8], interval: Duration) {
    let now = core.now();
    let opened = open_heartbeat(
        payload,
        core.identity(),
        &core.trust.account.get(),
        &core.trust.tokens,
        now,
    );
    let Ok(heartbeat) = opened else { return };
    let lifetime = interval * CLONE_HEARTBEATS;
    let Some(boot) = core.clones.note_heartbeat(&heartbeat, Instant::now(), lifetime) else {
        return;
    };
    let node = core.identity();
    let which = if boot < core.clones.boot() { "earlier" } else { "later" };
    let text = format!(
        "another daemon with the name and key of {node} is running, which was started {which}: a copy of the machine?"
    );
    tracing::error!(%boot, "{text}");
    core.health.set_findings(CLONE_CHECK, FindingLevel::Error, std::slice::from_ref(&text));
    let data = Map::from_iter([("node".to_owned(), json!(node))]);
    let event = NewEvent { kind: NODE_CLONED, text, data, time: now };
    if let Err(error) = bus.publish_event(&core.trust.signer, event).await {
        let error = error_chain(&error);
        tracing::warn!(error, "cannot publish the event about another daemon");
    }
}
