//! The data sources of `rpcutil`: those that read memory, and the metadata of files.

pub(crate) mod fstat;
pub(crate) mod memory;
