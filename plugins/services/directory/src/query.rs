//! Finds the nodes that match a filter: the index narrows, the evaluator decides.

use muster_filter::{EvaluationProgress, KnownLookups, NodeFilter, TruthValue};
use roaring::RoaringBitmap;

use crate::node_table::{NodeTable, StoredNode, WantedValues};

/// The nodes that match, by name.
pub type FoundNodes<'a> = Vec<&'a StoredNode>;

/// Why a filter cannot be answered from records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the filter reads the data source `{0}`, which only nodes can evaluate")]
    NeedsNodes(String),
}

/// A filter that is evaluated on records.
pub(crate) struct RecordFilter<'f> {
    filter: &'f NodeFilter,
    /// What it reads; nothing else is decoded.
    wanted: WantedValues,
}

impl<'f> RecordFilter<'f> {
    /// Fails if the filter reads a data source.
    pub(crate) fn new(filter: &'f NodeFilter) -> Result<Self, QueryError> {
        match filter.data_source() {
            Some(source) => Err(QueryError::NeedsNodes(source.to_owned())),
            None => Ok(Self {
                filter,
                wanted: WantedValues::new(|field| filter.referenced_values(field)),
            }),
        }
    }

    pub(crate) fn matches(&self, table: &NodeTable, node: &StoredNode) -> bool {
        self.filter.is_empty()
            || table.with_view(node, &self.wanted, |view| {
                let known = KnownLookups::default();
                let progress = self.filter.evaluate(view, &known);
                matches!(progress, EvaluationProgress::Decided(TruthValue::True))
            })
    }
}

/// The nodes that match a filter, by name.
pub fn find_nodes<'a>(
    table: &'a NodeTable,
    filter: &NodeFilter,
) -> Result<FoundNodes<'a>, QueryError> {
    let record_filter = RecordFilter::new(filter)?;
    let mut found: FoundNodes<'a> = match candidates(table, filter) {
        None => table.iter().collect(),
        Some(numbers) => {
            let mut nodes: FoundNodes<'a> =
                numbers.iter().filter_map(|number| table.by_number(number)).collect();
            nodes.sort_unstable_by(|one, other| one.identity.cmp(&other.identity));
            nodes
        }
    };
    found.retain(|node| record_filter.matches(table, node));
    Ok(found)
}

/// The nodes for which all necessary conditions may hold; `None` if there is no such condition.
fn candidates(table: &NodeTable, filter: &NodeFilter) -> Option<RoaringBitmap> {
    let mut narrowed: Option<RoaringBitmap> = None;
    for condition in filter.necessary_conditions() {
        let nodes = table.nodes_for(&condition);
        narrowed = Some(match narrowed {
            Some(before) => before & nodes,
            None => nodes,
        });
    }
    narrowed
}
