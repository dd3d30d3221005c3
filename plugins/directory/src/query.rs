//! Finds the nodes that match a filter: the index narrows, the evaluator decides.

use muster_filter::{EvaluationProgress, KnownLookups, NodeFilter, TruthValue};
use roaring::RoaringBitmap;

use crate::node_table::{NodeTable, StoredNode};

/// The nodes that match, by name.
pub type FoundNodes<'a> = Vec<&'a StoredNode>;

/// Why a filter cannot be answered from records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The filter reads a data source, which only the node has.
    #[error("the filter reads the data source `{0}`, which only nodes can evaluate")]
    NeedsNodes(String),
}

/// The nodes that match a filter, by name.
pub fn find_nodes<'a>(
    table: &'a NodeTable,
    filter: &NodeFilter,
) -> Result<FoundNodes<'a>, QueryError> {
    if let Some(select) = filter.select()
        && let Some(lookup) = select.data_lookups().first()
    {
        return Err(QueryError::NeedsNodes(lookup.source.clone()));
    }
    let mut found: FoundNodes<'a> = match candidates(table, filter) {
        None => table.iter().collect(),
        Some(numbers) => {
            let mut nodes: FoundNodes<'a> =
                numbers.iter().filter_map(|number| table.by_number(number)).collect();
            nodes.sort_unstable_by(|one, other| one.identity.cmp(&other.identity));
            nodes
        }
    };
    if !filter.is_empty() {
        let (wanted, known) = (filter.referenced_facts(), KnownLookups::default());
        found.retain(|node| {
            table.with_view(node, &wanted, |view| {
                matches!(
                    filter.evaluate(view, &known),
                    EvaluationProgress::Decided(TruthValue::True)
                )
            })
        });
    }
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
