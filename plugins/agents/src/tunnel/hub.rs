//! The open tunnels of a node: limits, counters, and the tasks that carry them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use muster_api::wire::token::PublicKey;
use muster_bus::Bus;
use muster_bus::carrier::CarrierCounters;
use tokio_util::task::TaskTracker;

use crate::tunnel::options::TunnelOptions;

/// The tunnels of a node. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TunnelHub(Arc<HubState>);

#[derive(Debug, Default)]
struct HubState {
    bus: OnceLock<Bus>,
    /// The names of open tunnels by caller.
    open: Mutex<BTreeMap<PublicKey, Vec<String>>>,
    opened: AtomicU64,
    bytes: Arc<CarrierCounters>,
    tasks: TaskTracker,
}

/// Numbers of tunnels and bytes, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TunnelCounts {
    /// Tunnels that are open now.
    pub open: u64,
    /// Tunnels that were opened since the start.
    pub opened: u64,
    /// Bytes from ports of the node to callers.
    pub sent: u64,
    /// Bytes from callers to ports of the node.
    pub received: u64,
}

/// Why no further tunnel is opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TunnelLimit {
    #[error("{0} tunnels are open on this node; [plugins.tunnel] allows max_tunnels = {0}")]
    Node(usize),
    #[error(
        "{0} tunnels of this caller are open on this node; [plugins.tunnel] allows max_tunnels_per_caller = {0}"
    )]
    Caller(usize),
    #[error("the caller has a tunnel of this name already")]
    Name,
}

/// The place of an open tunnel. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct TunnelPlace {
    hub: TunnelHub,
    caller: PublicKey,
    tunnel: String,
    /// How many other tunnels were open when it was taken.
    pub(crate) others: usize,
}

impl TunnelHub {
    /// Tunnels can be opened from now on.
    pub fn connect(&self, bus: Bus) {
        let _ = self.0.bus.set(bus);
    }

    /// The tasks that carry tunnels. They end when the daemon leaves.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// The current numbers.
    pub fn counts(&self) -> TunnelCounts {
        let HubState { opened, bytes, .. } = &*self.0;
        TunnelCounts {
            open: self.lock_open().values().map(|names| names.len() as u64).sum(),
            opened: opened.load(Ordering::Relaxed),
            sent: bytes.sent.load(Ordering::Relaxed),
            received: bytes.received.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn bus(&self) -> Option<&Bus> {
        self.0.bus.get()
    }

    pub(crate) fn byte_counters(&self) -> Arc<CarrierCounters> {
        Arc::clone(&self.0.bytes)
    }

    pub(crate) fn count_opened(&self) {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a place within the limits.
    pub(crate) fn take_place(
        &self,
        caller: &PublicKey,
        tunnel: &str,
        options: &TunnelOptions,
    ) -> Result<TunnelPlace, TunnelLimit> {
        let mut open = self.lock_open();
        let others = open.values().map(Vec::len).sum();
        let own = open.get(caller).map(Vec::as_slice).unwrap_or_default();
        if own.iter().any(|name| name == tunnel) {
            return Err(TunnelLimit::Name);
        }
        if others >= options.max_tunnels {
            return Err(TunnelLimit::Node(options.max_tunnels));
        }
        if own.len() >= options.max_tunnels_per_caller {
            return Err(TunnelLimit::Caller(options.max_tunnels_per_caller));
        }
        open.entry(*caller).or_default().push(tunnel.to_owned());
        Ok(TunnelPlace { hub: self.clone(), caller: *caller, tunnel: tunnel.to_owned(), others })
    }

    fn lock_open(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Vec<String>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TunnelPlace {
    fn drop(&mut self) {
        let mut open = self.hub.lock_open();
        if let Some(names) = open.get_mut(&self.caller) {
            names.retain(|name| *name != self.tunnel);
            if names.is_empty() {
                open.remove(&self.caller);
            }
        }
    }
}
