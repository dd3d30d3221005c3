//! Limits of an agent: concurrency, queue length and output size.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls that run at the same time.
    pub concurrency: usize,
    /// Calls that may wait; further calls are rejected with `busy`.
    pub queue: usize,
    /// Maximum size of a reply, in bytes of JSON.
    pub output_bytes: usize,
    /// The retry delay that a rejected caller receives.
    pub retry_after: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            concurrency: 10,
            queue: 100,
            output_bytes: 512 * 1024,
            retry_after: Duration::from_secs(5),
        }
    }
}
