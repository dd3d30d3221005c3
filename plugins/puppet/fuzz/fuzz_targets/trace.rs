//! Puppet's log and a catalog: whatever they are, following them ends, and the same log in other pieces means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_puppet::wrapper::follow::{Follower, Note};
use muster_puppet::wrapper::relations::Relations;
use muster_puppet::wrapper::replay;
use muster_puppet::wrapper::trace::{Line, Lines};

fn notes(lines: &[Line], relations: &Relations) -> Vec<Note> {
    let mut follower = Follower::new(false);
    let mut notes: Vec<Note> = lines.iter().flat_map(|line| follower.hear(line, relations)).collect();
    notes.extend(follower.end(relations));
    notes
}

fuzz_target!(|input: (&[u8], &[u8], usize)| {
    let (log, catalog, cut) = input;
    let catalog: serde_json::Value = serde_json::from_slice(catalog).unwrap_or_default();
    let relations = Relations::of(&catalog);
    let whole = Lines::default().add(log);
    let (before, after) = log.split_at(cut % (log.len() + 1));
    let mut lines = Lines::default();
    let mut pieces = lines.add(before);
    pieces.extend(lines.add(after));
    assert_eq!(whole, pieces);
    let _ = notes(&whole, &relations);
    if let Some(patched) = replay::with(catalog, &["Exec[x]".to_owned()]) {
        assert!(Relations::of(&patched).targets(&replay::reference()).len() <= 1);
    }
});
