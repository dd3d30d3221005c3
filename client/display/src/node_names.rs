//! Names nodes in few words: their number, the first of them.

use muster_base::count_text;
use muster_wire::identity::Identity;

/// Number of names in a sample.
const SAMPLE_SIZE: usize = 3;

/// `1 node`, `12 nodes`.
pub fn node_count_text(nodes: usize) -> String {
    count_text(nodes, "node", "nodes")
}

/// The first few names, and the number of the others.
pub fn list_sample_nodes<'a>(
    nodes: impl IntoIterator<Item = &'a Identity, IntoIter: ExactSizeIterator>,
) -> String {
    list_first_nodes(nodes, SAMPLE_SIZE, ", ")
}

/// The first `shown` names, and the number of the others.
pub fn list_first_nodes<'a>(
    nodes: impl IntoIterator<Item = &'a Identity, IntoIter: ExactSizeIterator>,
    shown: usize,
    separator: &str,
) -> String {
    let nodes = nodes.into_iter();
    let more = nodes.len().saturating_sub(shown);
    let names = nodes.take(shown).map(Identity::as_str).collect::<Vec<_>>().join(separator);
    match more {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
