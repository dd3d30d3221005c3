//! Machines that become nodes, or the host of the broker, over ssh. Starts no process.
//!
//! [`host`]: the machine that the user named. [`probe`]: what it says about itself. [`source`]: the package or program for it. [`script`]: what is
//! run on it. [`payload`]: the archive with all of that, which one ssh session receives.

pub(crate) mod file;
pub mod host;
pub mod payload;
pub mod probe;
pub mod script;
pub(crate) mod shell;
pub mod source;

pub use file::MachineFile;
