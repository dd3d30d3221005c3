//! `rpcd`: the daemon on every node. It takes signed requests from the broker, and answers them.
//!
//! - [`pipeline`]: one request's way, one file per stage: begin reading there.
//! - [`core`]: what the stages share. [`daemon`]: the loop around them.
//! - [`assemble`]: from configuration to a daemon; [`agents`]: which agents it has. [`lifecycle`]: from its start to its end.
//! - [`lookup`]: asks data sources what an expression needs to know, for the pipeline and for policies.
//! - [`metrics`]: how it is, over HTTP, for those who watch machines.
//! - [`enrolment`]: how a machine without credentials becomes a node.
//! - [`apply`]: `rpcd apply`, which needs no daemon. [`restart`]: of services and of the daemon, from the command line.
//! - [`virtual_nodes`]: many nodes in one process, whose machines are in memory.
//! - [`external`]: agents that come and go while the daemon runs.
//! - [`config`], [`facts`], [`classes`], [`policy`], [`audit`], [`seen`]: what a daemon is made of.

pub mod agents;
pub mod apply;
pub mod assemble;
pub mod audit;
pub mod classes;
pub mod clock;
pub mod config;
pub mod core;
pub mod counters;
pub mod daemon;
pub mod enrolment;
pub mod external;
pub mod facts;
pub mod health;
pub mod lifecycle;
mod listing;
pub mod log_limit;
pub mod lookup;
pub mod memory;
pub mod metrics;
pub mod pipeline;
pub mod policy;
mod presence;
pub mod renewal;
pub mod restart;
pub mod seen;
mod services;
mod state_lock;
pub mod terminal;
pub mod trust_sync;
pub mod virtual_nodes;
