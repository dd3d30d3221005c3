//! Tests on booted Debian machines, each with its own systemd, journald, apt, disk and address: `make machines`.
//!
//! [`fleet::MachineFleet`] boots machines and cuts their power, [`organisation::OperatorHost`] is the operator's side with the
//! broker, and [`nodes::MachineNodes`] puts both together. A run without root or systemd-nspawn sets
//! `MUSTER_TESTS_WITHOUT=machines`, and the tests return at once.

mod again_runs;
mod apt_repository;
mod boot;
mod checks;
mod daemon_findings;
mod duplicates;
mod engine_findings;
pub(crate) mod fleet;
mod icinga;
mod install;
pub(crate) mod load;
mod motd;
mod network;
pub(crate) mod nodes;
mod observe;
pub(crate) mod organisation;
mod power_cuts;
mod puppet_runs;
mod resource_cases;
mod resources;
mod scheduled_runs;
mod service_refreshes;
mod shortages;
mod ssh;
mod ssh_certificates;
mod ssh_via_bus;
mod systemd;
mod tutorial;
mod unit_states;

use std::time::Duration;

/// How long nodes may take to answer after a boot or a fault.
pub(crate) const RECOVERY_TIMEOUT: Duration = Duration::from_mins(1);
