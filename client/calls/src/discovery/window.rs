//! How long a broadcast waits.

use std::time::Duration;

/// Time limits of a broadcast with an unknown number of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryWindow {
    /// Wait for the first reply, measured from the request.
    pub initial_wait: Duration,
    /// Wait after the last reply, once there is one.
    pub quiet_time: Duration,
    /// Total wait after the request, even if replies still arrive.
    pub max_wait: Duration,
}

impl Default for DiscoveryWindow {
    fn default() -> Self {
        Self {
            initial_wait: Duration::from_secs(2),
            quiet_time: Duration::from_millis(300),
            max_wait: Duration::from_secs(10),
        }
    }
}
