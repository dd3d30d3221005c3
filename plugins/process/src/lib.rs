//! `process`: what runs on the machine, as `/proc` tells it. So far a data source, and no agent.
//!
//! Only reads, and signals nobody.

#![warn(missing_docs)]

mod data;
mod table;
#[cfg(test)]
mod tests;

use muster_api::{Data, DataError};

/// The data source `process`.
pub fn data_sources() -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::ProcessData)?])
}
