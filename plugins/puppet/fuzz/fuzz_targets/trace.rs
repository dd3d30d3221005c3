//! Puppet's log and a catalog: whatever they are, following them ends, and the same log in other pieces means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_puppet::wrapper::interpreter::{RefreshEvent, TraceInterpreter};
use muster_puppet::wrapper::relations::CatalogRelations;
use muster_puppet::wrapper::replay;
use muster_puppet::wrapper::trace::{TraceLine, TraceSplitter};

fn notes(lines: &[TraceLine], relations: &CatalogRelations) -> Vec<RefreshEvent> {
    let mut follower = TraceInterpreter::new(false);
    let mut notes: Vec<RefreshEvent> =
        lines.iter().filter_map(|line| follower.process_line(line, relations)).collect();
    notes.extend(follower.finish_run(relations));
    notes
}

fuzz_target!(|input: (&[u8], &[u8], usize)| {
    let (log, catalog, cut) = input;
    let catalog: serde_json::Value = serde_json::from_slice(catalog).unwrap_or_default();
    let relations = CatalogRelations::from_catalog(&catalog);
    let whole = TraceSplitter::default().push_bytes(log);
    let (before, after) = log.split_at(cut % (log.len() + 1));
    let mut lines = TraceSplitter::default();
    let mut pieces = lines.push_bytes(before);
    pieces.extend(lines.push_bytes(after));
    assert_eq!(whole, pieces);
    let _ = notes(&whole, &relations);
    if let Some(patched) = replay::add_replay_resource(catalog, &["Exec[x]".to_owned()]) {
        assert!(
            CatalogRelations::from_catalog(&patched)
                .notify_targets(&replay::replay_reference())
                .len()
                <= 1
        );
    }
});
