//! Conditions on other nodes: parsed when a run is asked for, and described for the node's record and for people. Pure, apart from the last report of
//! missing nodes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use muster_api::filter::{NodeFilter, SelectExpression};
use muster_contract::again::{AgainBarrierRow, WaitingBarrier};
use uuid::Uuid;

use crate::again::plan::barrier::{BarrierCondition, RunBarrier};
use crate::again::plan::request::PendingRun;

pub const MAX_QUERY_BYTES: usize = 512;
/// Longest filter of a condition in its JSON form, in bytes. A record has room for all conditions of a node.
const MAX_FILTER_BYTES: usize = 2 * MAX_QUERY_BYTES;
/// Longest time for which a condition is waited for, in seconds.
pub const MAX_TIMEOUT_SECONDS: u64 = 86_400;

#[derive(Debug, thiserror::Error)]
pub enum ConditionError {
    #[error("the query {query:?} is not valid")]
    Query {
        query: String,
        #[source]
        source: muster_api::filter::FilterError,
    },
    /// It is too long for the node's record.
    #[error("the query has more than {MAX_QUERY_BYTES} bytes, or control characters")]
    Text,
    #[error("the query reads the data source `{0}`, which the directory does not have")]
    DataSource(String),
    #[error("the timeout is {0} s; it must be between 1 and {MAX_TIMEOUT_SECONDS} s")]
    Timeout(u64),
}

impl BarrierCondition {
    /// Parses a query: an expression as for `rpc find -S`, or a query document, which begins with a brace.
    pub fn parse(query: &str, timeout_seconds: u64) -> Result<Self, ConditionError> {
        if query.len() > MAX_QUERY_BYTES || query.chars().any(char::is_control) {
            return Err(ConditionError::Text);
        }
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout_seconds) {
            return Err(ConditionError::Timeout(timeout_seconds));
        }
        let none = NodeFilter::default();
        let is_document = query.trim_start().starts_with('{');
        let parsed = if is_document { none.with_query(query) } else { none.with_select(query) };
        let filter =
            parsed.map_err(|source| ConditionError::Query { query: query.to_owned(), source })?;
        let lookups = filter.select().map(SelectExpression::data_lookups).unwrap_or_default();
        if let Some(lookup) = lookups.first() {
            return Err(ConditionError::DataSource(lookup.source.clone()));
        }
        // Serialising a filter cannot fail: its keys are strings.
        let filter = serde_json::to_string(&filter).unwrap_or_default();
        if filter.len() > MAX_FILTER_BYTES {
            return Err(ConditionError::Text);
        }
        Ok(Self { query: query.to_owned(), filter, timeout: timeout_seconds * 1000 })
    }
}

/// The nodes that conditions wait for, as the directory reported them last. Not on disk: the directory reports them again.
#[derive(Debug, Default)]
pub(crate) struct MissingNodes(Mutex<HashMap<Uuid, (u64, Vec<String>)>>);

impl MissingNodes {
    /// Remembers a report, and forgets those of other conditions than `open`.
    pub(crate) fn note(&self, id: Uuid, count: u64, nodes: Vec<String>, open: &[Uuid]) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.insert(id, (count, nodes));
        reports.retain(|id, _| open.contains(id));
    }

    pub(crate) fn of(&self, id: Uuid) -> Option<(u64, Vec<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// The conditions that a pending run waits for, for the node's record.
pub(crate) fn waiting_barriers(pending: &PendingRun) -> Vec<WaitingBarrier> {
    let row = |barrier: &RunBarrier| {
        let filter = barrier.condition.filter.clone();
        Some(WaitingBarrier { id: barrier.id.to_string(), filter, after: barrier.after? })
    };
    pending.open_barriers().filter_map(row).collect()
}

/// The conditions that a pending run waits for, for people.
pub(crate) fn describe_barriers(
    pending: &PendingRun,
    missing: &MissingNodes,
) -> Vec<AgainBarrierRow> {
    let row = |barrier: &RunBarrier| {
        let (count, nodes) = missing.of(barrier.id).unzip();
        AgainBarrierRow {
            id: barrier.id.to_string(),
            query: barrier.condition.query.clone(),
            after: barrier.after,
            expires: barrier.expires,
            missing: count,
            missing_nodes: nodes.into_iter().flatten().map(Into::into).collect(),
        }
    };
    pending.open_barriers().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_expressions_or_documents_without_data_sources() {
        for query in ["gluster", "cluster=blue and gluster::server", "{classes: gluster}", "{}"] {
            let condition = BarrierCondition::parse(query, 60).unwrap();
            let filter: NodeFilter = serde_json::from_str(&condition.filter).unwrap();
            assert_eq!(filter.is_empty(), query == "{}", "{query}");
            assert_eq!((condition.query.as_str(), condition.timeout), (query, 60_000));
        }
        for (query, problem) in [
            ("", "is not valid"),
            ("a and", "is not valid"),
            ("{classes:", "is not valid"),
            ("fstat('/etc/hosts').md5=/^ab/", "data source `fstat`"),
            ("a\nb", "control characters"),
            (&"a or ".repeat(300), "more than 512 bytes"),
        ] {
            let error = BarrierCondition::parse(query, 60).unwrap_err().to_string();
            assert!(error.contains(problem), "{query:?}: {error}");
        }
        for timeout in [0, MAX_TIMEOUT_SECONDS + 1] {
            assert!(BarrierCondition::parse("a", timeout).is_err());
        }
    }
}
