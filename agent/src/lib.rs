//! `rpcd`: the daemon on every node. It receives signed requests from the broker and replies to them.
//!
//! - [`pipeline`]: the stages of a request, one file per stage; start reading there.
//! - [`core`]: the state that the stages share. [`daemon`]: the request loop.
//! - [`assemble`]: builds a daemon from its configuration; [`agents`]: its agents. [`lifecycle`]: from start to shutdown.
//! - [`lookup`]: queries data sources for filters and policies.
//! - [`metrics`]: HTTP endpoints for monitoring.
//! - [`enrolment`]: how a machine without credentials becomes a node.
//! - [`apply`], [`motd`]: `rpcd apply` and `rpcd motd`, which need no daemon. [`restart`]: restarts of services and of the daemon, from the command line.
//! - `delivery`: settings and policies from a provisioner.
//! - [`virtual_nodes`]: many nodes in one process, with in-memory machines.
//! - [`external`]: agents that are added and removed while the daemon runs.
//! - [`config`], [`facts`], [`classes`], [`policy`], [`audit`], [`seen`], [`begun`]: the parts of a daemon.
//! - `lost`: answers what an earlier daemon left unanswered.

pub mod again;
mod again_tasks;
pub mod agents;
pub mod apply;
pub mod assemble;
pub mod audit;
pub mod begun;
mod broker_follow;
mod change_watch;
pub mod check;
mod check_tasks;
pub mod classes;
pub mod clock;
mod clone_tasks;
mod clone_watch;
pub mod config;
pub mod core;
pub mod counters;
mod credentials;
pub mod daemon;
mod delivery;
mod deployment;
pub mod enrolment;
mod events;
pub mod external;
pub mod facts;
mod files;
pub mod freshness;
pub mod health;
mod health_state;
pub mod journal;
pub mod lifecycle;
mod local_command;
pub mod log_limit;
mod login;
pub mod lookup;
mod lookup_limiter;
mod lost;
pub mod memory;
mod metrics;
pub mod motd;
mod node_handle;
pub mod node_state;
pub mod node_trust;
mod own_tokens;
mod pending_config;
pub mod pipeline;
pub mod policy;
mod presence;
pub mod registration;
pub mod reload;
mod request_metrics;
pub mod restart;
pub mod seen;
pub mod sent_replies;
mod services;
pub mod shared;
mod signals;
pub mod ssh_principals;
mod state_lock;
mod stored_requests;
pub mod terminal;
pub mod trust_sync;
mod upgrade;
mod upkeep;
pub mod virtual_nodes;
mod watchdog;
