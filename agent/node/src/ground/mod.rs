//! What every other layer uses: files, the clock, shared values, and the messages to the service manager.

pub mod clock;
pub mod files;
pub mod shared;
pub mod signals;
pub mod watchdog;
