//! The nodes of a target, and how they were found.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_base::unix_millis_now;
use muster_calls::DiscoveryMethod;
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::report::{RequestStats, ResultGap};

/// The nodes of a target.
#[derive(Debug, Clone)]
pub struct Located {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// Those of them that have sent no heartbeat for two intervals, according to the directory.
    pub missing: BTreeSet<Identity>,
    /// Those of them under whose name two daemons run, according to the directory.
    pub cloned: BTreeSet<Identity>,
    /// How they were found.
    pub method: DiscoveryMethod,
    /// Whether no node's answer can have been lost.
    pub complete: bool,
    /// What each of them must still match when it gets a request.
    pub filter: NodeFilter,
    /// When the search began, in milliseconds since the epoch.
    pub started: Millis,
    /// How long it took.
    pub took: Duration,
}

impl Located {
    /// Nodes that were found in this way.
    pub(crate) fn new(method: DiscoveryMethod, nodes: BTreeSet<Identity>) -> Self {
        Self {
            nodes,
            missing: BTreeSet::new(),
            cloned: BTreeSet::new(),
            method,
            complete: true,
            filter: NodeFilter::default(),
            started: unix_millis_now(),
            took: Duration::ZERO,
        }
    }

    /// Named nodes, which need not be looked for.
    pub fn from_names(nodes: BTreeSet<Identity>) -> Self {
        Self::new(DiscoveryMethod::default(), nodes)
    }

    /// The statistics of a request to these nodes, before it is sent.
    pub fn request_stats(&self) -> RequestStats {
        RequestStats {
            started: self.started,
            discovering: self.took,
            gaps: (!self.complete).then_some(ResultGap::Discovery).into_iter().collect(),
            ..RequestStats::default()
        }
    }
}
