//! Reports a daemon to its machine: the presence file for restart commands, and the connection status for the service manager. Resumes pending
//! restarts at start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_agents::restart::{DaemonInstance, RestartStore};
use muster_api::base::error_chain;
use muster_bus::{Bus, BusEvent};
use muster_node::config::Config;
use muster_node::ground::signals::{CONNECTED_STATUS, notify_status};
use tokio::sync::broadcast::error::RecvError;

use crate::services::agents;

/// Writes the daemon's presence for commands that restart it or check its readiness.
pub(crate) struct PresenceWriter {
    store: RestartStore,
    instance: DaemonInstance,
}

impl PresenceWriter {
    /// Writes that the daemon has started and is not ready.
    pub(crate) async fn announce_start(store: RestartStore) -> Self {
        let presence = Self { store, instance: DaemonInstance::for_current_process() };
        presence.write_instance().await;
        presence
    }

    /// Follows the connection and writes whether the daemon is connected, for its lifetime. While it is connected, its subscriptions are active.
    pub(crate) async fn follow_connection(mut self, bus: Bus) {
        let mut events = bus.subscribe_events();
        loop {
            let ready = bus.is_connected();
            if ready != self.instance.ready {
                self.instance.ready = ready;
                self.write_instance().await;
            }
            // Any event triggers a check of the current state; a lagging receiver checks immediately.
            if let Err(RecvError::Closed) = events.recv().await {
                return;
            }
        }
    }

    async fn write_instance(&self) {
        let (store, instance) = (self.store.clone(), self.instance);
        let written = tokio::task::spawn_blocking(move || instance.write_to(&store)).await;
        if let Ok(Err(error)) = written {
            let error = error_chain(&error);
            tracing::error!(
                error,
                "cannot store the state of this daemon; its restarts cannot be verified"
            );
        }
    }
}

/// Reports the broker connection to the service manager, for `systemctl status`. `subscribed` is set by the lifecycle, which reports the first
/// connection itself: a connected daemon answers only once its subscriptions are confirmed.
pub(crate) async fn report_connection(bus: Bus, subscribed: Arc<AtomicBool>) {
    let mut events = bus.subscribe_events();
    loop {
        let problem = match events.recv().await {
            Err(RecvError::Closed) | Ok(BusEvent::Closed) => return,
            Ok(BusEvent::Refused(problem) | BusEvent::Unreachable(problem)) => Some(problem),
            Ok(_) | Err(RecvError::Lagged(_)) => None,
        };
        let status = match problem {
            _ if bus.is_connected() && subscribed.load(Ordering::Acquire) => {
                CONNECTED_STATUS.to_owned()
            }
            _ if bus.is_connected() => continue,
            Some(problem) => format!("not connected to the broker, retrying: {problem}"),
            None => "not connected to the broker, retrying".to_owned(),
        };
        notify_status(&status);
    }
}

/// Resumes restarts whose worker was ended with the machine or the daemon.
pub(crate) async fn resume_restarts(config: &Config) {
    let restarts = match agents::open_restarts(config) {
        Ok(restarts) => restarts,
        Err(error) => {
            let error = error_chain(&error);
            tracing::error!(error, "cannot resume requested restarts");
            return;
        }
    };
    match tokio::task::spawn_blocking(move || restarts.resume_pending()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(workers)) => tracing::info!(workers, "resuming requested restarts"),
        Ok(Err(error)) => {
            let error = error_chain(&error);
            tracing::error!(error, "cannot resume requested restarts");
        }
        Err(error) => tracing::error!(%error, "resuming requested restarts failed"),
    }
}
