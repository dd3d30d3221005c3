//! Checks with the real `rpc` and `rpcd`: the agent `nrpe` runs plugins, and `rpc check` makes one result of all nodes.

#![expect(clippy::indexing_slicing, reason = "tests end by panic")]

mod agent;
mod fixture;
mod icinga;
mod icinga_server;
mod injection;
mod original;
mod output;
mod passive;
mod results;
mod schedule;
mod schedule_events;
mod schedule_fixture;
