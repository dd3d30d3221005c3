//! How much an agent may do at once, how much may wait, and how much it may answer.

use std::time::Duration;

/// The limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls that run at the same time.
    pub concurrency: usize,
    /// Calls that wait for their turn; the next one is told `busy`.
    pub queue: usize,
    /// Largest answer, as JSON, in bytes.
    pub output_bytes: usize,
    /// What a refused caller is told to wait before it asks again.
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
