//! Tests that `make test` leaves out: `make test-all` runs them.

mod pql;
mod puppetdb;
mod random_queries;
