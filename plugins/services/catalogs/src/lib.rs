//! Catalogs that are compiled before a node asks for them.
//!
//! - [`compiler`]: Puppet's own compiler in a sandbox, a process for each compile.
//! - [`inputs`]: what a compile read, each with a digest. A node is compiled again only if one of them changed.
//! - [`catalog`]: a catalog in its stored form, named by its hash.

pub mod catalog;
pub mod compiler;
pub mod inputs;
