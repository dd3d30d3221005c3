//! Booted Debian machines, each with its own systemd, journald, apt, disk and address, and the tutorial on three of them. The other tests with
//! machines are in [`crate::long::machines`]; `make machines` runs all.
//!
//! [`fleet::MachineFleet`] boots machines and cuts their power, [`organisation::OperatorHost`] is the operator's side with the
//! broker, and [`nodes::MachineNodes`] puts both together. A run without root or systemd-nspawn sets
//! `MUSTER_TESTS_WITHOUT=machines`, and the tests return at once.

pub(crate) mod apt_repository;
pub(crate) mod fleet;
pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod organisation;
mod tutorial;

use std::time::Duration;

/// How long nodes may take to answer after a boot or a fault.
pub(crate) const RECOVERY_TIMEOUT: Duration = Duration::from_mins(1);
