//! Counts the responses of the API, and the time of its queries. The number of series is bounded: pages and statuses are constants of the program.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_http::HttpStatus;

/// Number and total duration of the queries of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryTimes {
    /// Number of queries that were answered.
    pub count: u64,
    /// Their time, including the time that they waited for their turn.
    pub sum: Duration,
}

/// What the API has answered since the start.
#[derive(Debug, Default)]
pub struct DirectoryHttpMetrics {
    queries: Mutex<BTreeMap<&'static str, QueryTimes>>,
    responses: Mutex<BTreeMap<&'static str, u64>>,
}

impl DirectoryHttpMetrics {
    /// Answered queries, by page.
    pub fn queries(&self) -> BTreeMap<&'static str, QueryTimes> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Responses, by the code of their status.
    pub fn responses(&self) -> BTreeMap<&'static str, u64> {
        self.responses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record_query(&self, page: &'static str, time: Duration) {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let times = queries.entry(page).or_default();
        times.count += 1;
        times.sum += time;
    }

    pub(super) fn record_response(&self, status: HttpStatus) {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        *responses.entry(status.code()).or_default() += 1;
    }
}
