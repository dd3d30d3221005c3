//! The directory: an index of what all nodes publish about themselves, which answers queries in milliseconds.
//!
//! An instance reads the records of the bucket `NODES`, verifies each signature once, and follows changes and heartbeats. It stores nothing: everything is
//! read again at its start. Any number of instances run beside each other; the broker delivers each request to one of them.
//!
//! Pure: [`FactValues`] stores each distinct value of a fact once, with the nodes that have it. [`NodeTable`] is the index of all nodes. [`NodeLiveness`]
//! decides which nodes are missing, by the clock of this instance alone. [`find_nodes`] narrows the nodes by the index and lets the one evaluator,
//! [`muster_filter`], decide. [`LastRuns`] decides whether the nodes that one waits for have run. I/O: [`DirectoryService`] follows the broker, [`BarrierService`]
//! reports to nodes that wait. The agent `directory` answers callers.

mod actions;
mod barrier_schedule;
mod barrier_service;
mod barriers;
mod counts;
mod fact_values;
mod http;
mod live;
mod liveness;
mod memory;
mod name_lists;
mod node_barrier;
mod node_set;
mod node_table;
mod page;
mod query;
mod record_opener;
mod selection;
mod service;
mod service_input;
mod state;
mod value_path;

pub use actions::{DirectoryOptions, build_agent};
pub use barrier_service::BarrierService;
pub use barriers::{BarrierVerdict, LastRuns};
pub use counts::DirectoryCounts;
pub use fact_values::FactValues;
pub use http::{
    DirectoryHttp, DirectoryHttpError, DirectoryHttpMetrics, DirectoryHttpOptions, MountedPages,
    PageMount, QueryTimes, TokenFileError, openapi_document,
};
pub use live::{ChangedNodes, NodeSnapshot, SelectedNode};
pub use liveness::{NodeLiveness, Presence};
pub use node_table::{NodeTable, StaleRecord, StoredNode};
pub use query::{FoundNodes, QueryError, find_nodes};
pub use record_opener::DirectoryContext;
pub use selection::not_ready;
pub use service::DirectoryService;
pub use state::DirectoryHandle;
pub use value_path::ValuePath;
