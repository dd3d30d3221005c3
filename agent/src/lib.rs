//! `rpcd`: the daemon on every node. [`muster_node`] receives signed requests and replies to them; this crate adds plugins, services and commands.
//!
//! Its layers, from above; each imports only from those below it:
//!
//! - [`commands`]: the subcommands of `rpcd`, which need no daemon; `virtual_nodes`: many nodes in one process, with machines in memory.
//! - [`daemon`]: assembly, life cycle, checks, and the files that are delivered to the daemon.
//! - [`services`]: the plugins, central services, metrics, registration, events, logins, and other tasks beside requests.
//! - [`process`]: log, memory and terminal of the process.

pub mod commands;
pub mod daemon;
pub mod process;
pub mod services;
