//! Pages of answers: as many nodes as fit into a message.

use muster_contract::directory::DirectoryNodeRow;

use crate::query::FoundNodes;

/// Most bytes of the rows of a page as JSON: an answer stays below the broker's limit for a message.
pub(crate) const MAX_PAGE_BYTES: usize = 384 * 1024;
/// Quotes and comma of a name in a list.
pub(crate) const JSON_NAME_BYTES: usize = 3;

/// A page of the nodes that match, and what is not on it.
pub(crate) struct NodePage<'a> {
    pub(crate) nodes: FoundNodes<'a>,
    pub(crate) total: usize,
    pub(crate) stale: usize,
    pub(crate) next: Option<String>,
}

impl NodePage<'_> {
    /// Moves the nodes after the first ones to the next page.
    pub(crate) fn cut(&mut self, count: usize) {
        if count < self.nodes.len() {
            self.nodes.truncate(count);
            self.next = self.nodes.last().map(|last| last.identity.to_string());
        }
    }
}

/// How many values of these sizes fit on a page, at least one.
pub(crate) fn count_fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let fits = |size: &usize| {
        total += size;
        total <= MAX_PAGE_BYTES
    };
    sizes.take_while(fits).count().max(1)
}

/// Bytes of a row as JSON, with the comma after it.
pub(crate) fn row_bytes(row: &DirectoryNodeRow) -> usize {
    serde_json::to_string(row).map_or(0, |text| text.len() + 1)
}
