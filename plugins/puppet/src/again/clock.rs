//! The clock of waits: it begins with the wall clock and then follows the monotonic clock, so that no change of the wall clock moves a run.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use muster_api::base::{duration_millis, unix_millis_now};
use muster_api::wire::Millis;

/// A clock in milliseconds since the epoch that does not go back while the daemon lives. Clones are the same clock.
#[derive(Clone)]
pub struct SteadyClock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl SteadyClock {
    /// The wall clock now, and the monotonic clock from now on.
    pub fn system() -> Self {
        let (wall, start) = (unix_millis_now(), Instant::now());
        Self::from_function(move || wall.saturating_add(duration_millis(start.elapsed())))
    }

    /// A clock of a test.
    pub fn from_function(now: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Millis {
        (self.0)()
    }

    pub fn convert_wall_time(&self, time: Millis, wall_now: Millis) -> Millis {
        let now = self.now();
        if time >= wall_now {
            now.saturating_add(time - wall_now)
        } else {
            now.saturating_sub(wall_now - time)
        }
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SteadyClock").field(&self.now()).finish()
    }
}
