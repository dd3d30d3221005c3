//! Answers about many nodes stay below the limit of a reply, and their pages have all nodes.

use muster_wire::identity::SubjectName;
use muster_wire::node_record::{NodeContent, NodeRecord};
use serde::Serialize;

use super::*;

const NODES: usize = 9000;
/// `limits.output_bytes` of the daemon, unless it is configured.
const DEFAULT_OUTPUT_BYTES: usize = 512 * 1024;

fn large_directory() -> DirectoryHandle {
    let handle = DirectoryHandle::default();
    let content = NodeContent {
        version: "0.1.0".to_owned(),
        collectives: vec![SubjectName::parse("muster").unwrap()],
        heartbeat_seconds: 60,
        ..NodeContent::default()
    };
    let mut state = handle.write();
    for number in 0..NODES {
        let name = format!("node{number:05}.a-long-name-of-a-datacenter.europe.acme.example.net");
        let name = Identity::parse(&name).unwrap();
        let record = NodeRecord::new(name, 1, &content, &content).unwrap();
        state.table.store(&record, content.clone(), 1, 2).unwrap();
    }
    drop(state);
    handle
}

/// All names, from as many pages as there are.
fn read_pages<T: Serialize>(
    mut page: impl FnMut(&DirectoryQueryInput) -> T,
    names: impl Fn(&T) -> (Vec<String>, Option<String>),
) -> (Vec<String>, usize) {
    let (mut input, mut all, mut pages) = (DirectoryQueryInput::default(), Vec::new(), 0);
    loop {
        let answer = page(&input);
        let bytes = serde_json::to_string(&answer).unwrap().len();
        assert!(bytes < DEFAULT_OUTPUT_BYTES, "{bytes}");
        let (names, next) = names(&answer);
        all.extend(names);
        pages += 1;
        let Some(next) = next else { return (all, pages) };
        input.after = Some(next);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_fit_into_a_reply_and_have_all_nodes() {
    let handle = large_directory();
    let listed = |answer: &DirectoryListOutput| {
        (answer.nodes.iter().map(|row| row.node.clone()).collect(), answer.next.clone())
    };
    let (names, pages) = read_pages(|input| list(&handle, input).unwrap(), listed);
    assert_eq!(names.len(), NODES);
    assert!(names.is_sorted() && pages > 3, "{pages}");
    let found = |answer: &DirectoryFindOutput| (answer.nodes.clone(), answer.next.clone());
    let (found_names, _) = read_pages(|input| find(&handle, input).unwrap(), found);
    assert_eq!(found_names, names);

    // Missing nodes are in two lists.
    handle.write().listening = Some(Instant::now());
    tokio::time::advance(Duration::from_secs(200)).await;
    let (found_names, pages) = read_pages(|input| find(&handle, input).unwrap(), found);
    assert_eq!((found_names, pages > 2), (names, true));
}

#[tokio::test(start_paused = true)]
async fn changes_that_do_not_fit_into_a_reply_are_refused() {
    let handle = large_directory();
    let state = handle.read();
    let rows = |count: usize| {
        let row = |node: &StoredNode| state.row(node, &[], Instant::now());
        let nodes = state.table.iter().take(count).map(row).collect();
        DirectoryChangesOutput { nodes, ..DirectoryChangesOutput::default() }
    };
    assert!(check_changes(rows(1000)).is_ok());
    let error = check_changes(rows(NODES)).unwrap_err();
    assert!(error.to_string().contains("add conditions, or request fewer fields"), "{error}");
}
