//! `rpcd`: the daemon on every node. It receives signed requests from the broker and replies to them.
//!
//! Its layers, from above; each imports only from those below it:
//!
//! - [`commands`]: the subcommands of `rpcd`, which need no daemon; `virtual_nodes`: many nodes in one process, with machines in memory.
//! - [`daemon`]: assembly, life cycle, checks, and the files that are delivered to the daemon.
//! - [`services`]: the plugins, central services, metrics, registration, events, logins, and other tasks beside requests.
//! - [`process`]: log, memory and terminal of the process.
//! - [`pipeline`]: the stages of a request, one file per stage, and the loop that receives requests; start reading there.
//! - [`core`]: the state that the stages share: audit log, journals, counters, health.
//! - [`trust`]: whom the node trusts and how it proves who it is.
//! - [`config`]: reads and checks `rpcd.toml`.
//! - [`machine`]: facts, classes and the state of subsystems. [`ground`]: files, the clock, shared values, signals.

pub mod commands;
pub mod config;
pub mod core;
pub mod daemon;
pub mod ground;
pub mod machine;
pub mod pipeline;
pub mod process;
pub mod services;
pub mod trust;
