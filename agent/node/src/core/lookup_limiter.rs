//! Limits the queries of data sources that requests cause.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum number of requests with running queries.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Maximum number of requests with waiting or running queries.
const MAX_ADMITTED_REQUESTS: usize = 256;

/// Limits the requests with running and with waiting queries.
#[derive(Debug)]
pub(crate) struct LookupLimiter {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Default for LookupLimiter {
    fn default() -> Self {
        Self {
            admitted: Arc::new(Semaphore::new(MAX_ADMITTED_REQUESTS)),
            running: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
        }
    }
}

impl LookupLimiter {
    /// Admits one request, if a permit is free. Never waits.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.admitted).try_acquire_owned().ok()
    }

    /// Waits until fewer than the maximum of requests have running queries.
    pub(crate) async fn enter_running(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.running).acquire_owned().await
    }
}
