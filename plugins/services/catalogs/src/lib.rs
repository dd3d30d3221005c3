//! Catalogs that are compiled before a node asks for them.
//!
//! - [`compiler`]: Puppet's own compiler in a sandbox, a process for each compile. [`pool`]: those of this host, by code.
//! - [`inputs`]: what a compile read, each with a digest. [`check`]: a node is compiled again only if one of them changed. [`input_check`]: tries it.
//! - [`catalog`]: a catalog in its stored form, named by its hash. [`record`]: the last compile of a node.
//! - [`releases`]: lists of catalogs under a name, and which node has which.
//! - [`code`]: commits and their checkouts. [`queries`]: answers of the directory.
//! - [`queue`]: the nodes that wait. [`worker`]: compiles them. [`service`]: follows what changes. [`actions`]: the agent `compiler`.

pub mod actions;
pub mod catalog;
pub mod check;
pub mod code;
pub mod compiler;
pub mod handle;
pub mod input_check;
pub mod inputs;
pub mod options;
pub mod pool;
pub mod queries;
pub mod queue;
pub mod record;
pub mod releases;
pub mod service;
pub mod worker;
