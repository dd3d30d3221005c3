//! What a daemon leaves on the disk for those who restart it, and what it does at its start about restarts that others asked for.

use muster_api::system::error::error_chain;
use muster_bus::Bus;
use muster_restart::{DaemonInstance, RestartStore};
use tokio::sync::broadcast::error::RecvError;

use crate::agents;
use crate::config::Config;

/// Leaves word of this daemon for those who restart it, or who want to know whether it answers again.
pub(crate) struct PresenceWriter {
    store: RestartStore,
    instance: DaemonInstance,
}

impl PresenceWriter {
    /// Says that it is there, and not ready.
    pub(crate) async fn announce_start(store: RestartStore) -> Self {
        let presence = Self {
            store,
            instance: DaemonInstance::for_current_process(),
        };
        presence.write_instance().await;
        presence
    }

    /// Says whether the daemon is connected, as long as it lives. Its subscriptions stand whenever it is.
    pub(crate) async fn follow_connection(mut self, bus: Bus) {
        let mut events = bus.subscribe_events();
        loop {
            let ready = bus.is_connected();
            if ready != self.instance.ready {
                self.instance.ready = ready;
                self.write_instance().await;
            }
            // Whatever has happened, the next look says what there is; one that lags looks at once.
            if let Err(RecvError::Closed) = events.recv().await {
                return;
            }
        }
    }

    async fn write_instance(&self) {
        let (store, instance) = (self.store.clone(), self.instance);
        let told = tokio::task::spawn_blocking(move || instance.write_to(&store)).await;
        if let Ok(Err(error)) = told {
            let error = error_chain(&error);
            tracing::error!(error, "restarts of this daemon cannot be verified");
        }
    }
}

/// Goes on with restarts whose worker was ended with the machine, or with the daemon.
pub(crate) async fn resume_restarts(config: &Config) {
    let restarts = match agents::open_restarts(config) {
        Ok(restarts) => restarts,
        Err(error) => {
            let error = error_chain(&error);
            tracing::error!(error, "restarts that were asked for are not gone on with");
            return;
        }
    };
    match tokio::task::spawn_blocking(move || restarts.resume_pending()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(workers)) => tracing::info!(workers, "going on with restarts that were asked for"),
        Ok(Err(error)) => {
            let error = error_chain(&error);
            tracing::error!(error, "restarts that were asked for are not gone on with");
        }
        Err(error) => tracing::error!(%error, "going on with restarts broke off"),
    }
}
