//! What every other layer uses: files, the clock, shared values, and the messages to the service manager.

pub mod clock;
pub(crate) mod files;
pub mod shared;
pub(crate) mod signals;
pub(crate) mod watchdog;
