//! The actions of `rpcutil`, one module for each subject.

pub(crate) mod daemon;
pub(crate) mod ddl;
pub(crate) mod facts;
pub(crate) mod get_data;
pub(crate) mod inventory;
pub(crate) mod requests;

/// The version of the daemon. All crates of the workspace share it.
const VERSION: &str = env!("CARGO_PKG_VERSION");
