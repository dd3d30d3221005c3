//! The small agents that come with the daemon, a module each. An agent does not use another one; what two share is a module beside them.

pub mod catalog;
pub mod config;
mod engine_error;
pub mod filecopy;
pub mod filemgr;
pub mod motd;
pub mod nettest;
pub mod nrpe;
pub mod package;
pub mod path_policy;
pub mod process;
pub mod puppetral;
pub mod release;
pub mod restart;
pub mod rpcutil;
pub mod service;
pub mod shell;
pub mod ssh;
pub mod tunnel;
