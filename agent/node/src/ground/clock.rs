//! The wall clock as a replaceable value; request freshness depends on it.

use std::fmt;
use std::sync::Arc;

use muster_wire::Millis;

/// Returns the time in milliseconds since the epoch.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl WallClock {
    pub fn system() -> Self {
        Self::new(muster_base::unix_millis_now)
    }

    /// Any clock, for example a wrong one in tests.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time, in milliseconds since the epoch.
    pub fn now(&self) -> Millis {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
