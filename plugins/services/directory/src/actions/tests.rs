//! Answers about many nodes stay below the limit of a reply, and their pages have all nodes.

use muster_api::base::compare_natural;
use muster_filter::state::{MapField, NodeFacts};
use muster_wire::identity::SubjectName;
use muster_wire::node_record::{NodeContent, NodeRecord};
use serde::Serialize;
use serde_json::json;

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
        let name = format!("node{number}.a-long-name-of-a-datacenter.europe.acme.example.net");
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

#[test]
fn pages_fit_into_a_reply_and_have_all_nodes() {
    let (handle, start) = (large_directory(), Instant::now());
    let listed = |answer: &DirectoryListOutput| {
        (answer.nodes.iter().map(|row| row.node.clone()).collect(), answer.next.clone())
    };
    let (names, pages) = read_pages(|input| list(&handle, input, true, start).unwrap(), listed);
    assert_eq!(names.len(), NODES);
    assert!(names.is_sorted_by(|one, other| compare_natural(one, other).is_lt()));
    assert!(pages > 3, "{pages}");
    let found = |answer: &DirectoryFindOutput| (answer.nodes.clone(), answer.next.clone());
    let (found_names, _) = read_pages(|input| find(&handle, input, start).unwrap(), found);
    assert_eq!(found_names, names);

    // Missing nodes are in two lists.
    handle.write().listening = Some(start);
    let later = start + Duration::from_secs(200);
    let (found_names, pages) = read_pages(|input| find(&handle, input, later).unwrap(), found);
    assert_eq!((found_names, pages > 2), (names, true));
}

#[test]
fn shown_node_has_each_map_of_its_record() {
    let map_of = |field: MapField| json!({"name": field.as_str()});
    let content = MapField::ALL.into_iter().fold(NodeContent::default(), |content, field| {
        content.with_map(field, NodeFacts::from_value(map_of(field)).unwrap())
    });
    let name = Identity::parse("db1").unwrap();
    let record = NodeRecord::new(name.clone(), 1, &content, &content).unwrap();
    let handle = DirectoryHandle::default();
    handle.write().table.store(&record, content, 1, 2).unwrap();
    let shown = handle.read().show(&name, Instant::now()).unwrap();
    let shown = shown.maps().map(|(name, map)| (name, Value::Object(map.clone())));
    assert_eq!(shown.to_vec(), MapField::ALL.map(|field| (field.as_str(), map_of(field))).to_vec());
}

/// A4.5: by default, nodes that were not seen for 3,600 s are hidden; `stale` shows them. The age is that of the receiver's monotonic clock.
#[test]
fn a4_5_node_is_hidden_after_3600_seconds_of_silence_and_shown_on_request() {
    let (handle, start) = (DirectoryHandle::default(), Instant::now());
    let content = NodeContent { heartbeat_seconds: 60, ..NodeContent::default() };
    // The clock of one node is five hours ahead, and that of the other one shows 1970.
    for (name, time) in [("ahead", 5 * 3_600_000 + 1_000), ("behind", 1)] {
        let name = Identity::parse(name).unwrap();
        let record = NodeRecord::new(name.clone(), time, &content, &content).unwrap();
        let mut state = handle.write();
        let stored = state.table.store(&record, content.clone(), 1, 1_000).unwrap();
        stored.liveness.record_seen(start, 1_700_000_000_000);
        state.listening = Some(start);
    }
    let listed = |stale: Option<bool>, now: Instant| {
        let input = DirectoryQueryInput { stale, ..DirectoryQueryInput::default() };
        let answer = list(&handle, &input, true, now).unwrap();
        (answer.nodes.iter().map(|row| row.seen).collect::<Vec<_>>(), answer.stale)
    };
    for (seconds, hidden) in [(0, 0), (3_600, 0), (3_601, 2)] {
        let now = start + Duration::from_secs(seconds);
        assert_eq!(listed(Some(true), now), (vec![Some(seconds); 2], 0), "{seconds}");
        let shown = if hidden == 0 { vec![Some(seconds); 2] } else { Vec::new() };
        assert_eq!(listed(None, now), (shown, hidden), "{seconds}");
    }
    // A node that sends a heartbeat again is shown again.
    let (name, now) = (Identity::parse("behind").unwrap(), start + Duration::from_secs(3_601));
    handle.write().table.get_mut(&name).unwrap().liveness.record_seen(now, 1_700_000_000_000);
    assert_eq!(listed(None, now), (vec![Some(0)], 1));
}

/// Changes of a large fleet are read in several answers; each node is in one of them.
#[test]
fn changes_that_do_not_fit_into_a_reply_continue_at_the_cursor() {
    let handle = large_directory();
    let read = |cursor: Option<String>| DirectoryChangesInput {
        cursor,
        ..DirectoryChangesInput::default()
    };
    let first = answer_changes(&handle, &read(None)).unwrap();
    assert!(first.reset && first.nodes.is_empty());
    let names: Vec<Identity> =
        handle.read().table.iter().map(|node| node.identity.clone()).collect();
    for name in &names {
        handle.note_change(name);
    }
    handle.write().table.remove(names.first().unwrap());

    let (mut cursor, mut seen, mut answers) = (first.cursor, Vec::new(), 0);
    loop {
        let answer = answer_changes(&handle, &read(Some(cursor.clone()))).unwrap();
        assert!(!answer.reset);
        assert!(serde_json::to_string(&answer).unwrap().len() < DEFAULT_OUTPUT_BYTES);
        if answer.cursor == cursor {
            break;
        }
        seen.extend(answer.gone.into_iter().chain(answer.nodes.into_iter().map(|row| row.node)));
        (cursor, answers) = (answer.cursor, answers + 1);
    }
    assert!(answers > 3, "{answers}");
    assert_eq!(seen, names.iter().map(Identity::to_string).collect::<Vec<_>>());
}
