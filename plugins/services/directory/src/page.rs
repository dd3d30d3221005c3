//! Pages of answers: as many nodes as fit into a message.

use std::collections::BTreeMap;

use muster_contract::directory::{DirectoryNodeRow, DirectoryShowOutput};
use serde::Serialize;

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

/// The row, and its bytes as JSON with the comma after it. A row that would not fit on a page has the reason in place of its values.
pub(crate) fn fit_row(row: DirectoryNodeRow) -> (DirectoryNodeRow, usize) {
    let bytes = json_bytes(&row);
    if bytes <= MAX_PAGE_BYTES {
        return (row, bytes);
    }
    let problem = Some(describe_excess(bytes));
    let row = DirectoryNodeRow { fields: BTreeMap::new(), document: None, problem, ..row };
    let bytes = json_bytes(&row);
    (row, bytes)
}

/// Takes the values out of an answer about one node that would not fit into a message.
pub(crate) fn fit_node(output: &mut DirectoryShowOutput) {
    let bytes = json_bytes(output);
    if bytes > MAX_PAGE_BYTES {
        (output.classes, output.ssh_host_keys) = (None, Vec::new());
        for (_, map) in output.maps_mut() {
            map.clear();
        }
        output.node.problem = Some(describe_excess(bytes));
    }
}

fn describe_excess(bytes: usize) -> String {
    format!(
        "its values have {bytes} bytes, an answer has at most {MAX_PAGE_BYTES}; ask for fewer fields, or exclude facts of the node with registration.excluded_facts"
    )
}

fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len() + 1)
}
