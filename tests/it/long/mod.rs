//! Tests that `make test` leaves out: `make test-all` runs them.

mod breakages;
mod clusters;
mod daemon_fleet;
mod endless_expressions;
pub(crate) mod faults;
mod kill_windows;
mod machines;
mod permit_store_faults;
mod permit_traffic;
mod puppetdb_sink;
mod puppetdb_source;
