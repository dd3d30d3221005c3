//! Tests of the refreshes that the ledger derives from a run, with logs and catalogs recorded from Puppet 7.23.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use crate::wrapper::interpreter::{RefreshEvent, TraceInterpreter};
use crate::wrapper::relations::CatalogRelations;
use crate::wrapper::trace::{TraceLine, TraceSplitter};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn lines() -> Vec<TraceLine> {
    TraceSplitter::default().push_bytes(&fixture("containers.jsonl"))
}

fn relations() -> CatalogRelations {
    let catalog: Value = serde_json::from_slice(&fixture("containers.json")).unwrap();
    CatalogRelations::from_catalog(&catalog)
}

/// The resources that are owed a refresh if the run ends after these lines.
fn owed(lines: &[TraceLine]) -> BTreeSet<String> {
    let relations = relations();
    let mut follower = TraceInterpreter::new(false);
    let mut notes: Vec<RefreshEvent> =
        lines.iter().filter_map(|line| follower.process_line(line, &relations)).collect();
    notes.extend(follower.finish_run(&relations));
    let mut owed = BTreeSet::new();
    for note in notes {
        match note {
            RefreshEvent::Owed { target, .. } => drop(owed.insert(target)),
            RefreshEvent::Refreshed { target } => drop(owed.remove(&target)),
            RefreshEvent::Failed { .. } | RefreshEvent::NotRefreshed { .. } => {}
        }
    }
    owed
}

fn names(owed: &BTreeSet<String>) -> Vec<&str> {
    owed.iter().map(String::as_str).collect()
}

fn after(message: &str, source: &str) -> usize {
    let found = lines()
        .iter()
        .position(|line| line.message.starts_with(message) && line.source.ends_with(source));
    found.unwrap() + 1
}

#[test]
fn m2_failed_refresh_is_owed_and_noop_owes_nothing() {
    // The refresh of Z failed. b2 is in noop and notifies no resource. The other targets were refreshed.
    assert_eq!(names(&owed(&lines())), ["Exec[Z]"]);
}

#[test]
fn m28_refresh_is_owed_when_killed_before_during_or_after_the_change() {
    let lines = lines();
    // The file is being evaluated: it may have been changed.
    let before = after("Starting to evaluate", "File[/srv/w/a]");
    assert!(owed(&lines[..before]).contains("Class[Foo]"));
    let between = after("defined content", "File[/srv/w/a]/ensure");
    assert!(owed(&lines[..between]).contains("Class[Foo]"));
    let scheduled = after("Scheduling refresh of Class[Foo]", "File[/srv/w/a]");
    assert!(owed(&lines[..scheduled]).contains("Class[Foo]"));
    // The class has forwarded the event, so the member is owed the refresh instead of the class.
    let passed = after("Scheduling refresh of Exec[m]", "Class[Foo]") + 1;
    assert!(owed(&lines[..passed]).contains("Exec[m]"));
    assert!(!owed(&lines[..passed]).contains("Class[Foo]"));
    let done = after("Triggered 'refresh' from 1 event", "Exec[m]");
    assert!(!owed(&lines[..done]).contains("Exec[m]"));
}

#[test]
fn change_inside_a_class_is_owed_to_the_targets_of_the_class() {
    let lines = lines();
    // b was changed, and the run is killed before its class is completed. No line schedules the refresh of Y.
    let changed = after("Evaluated in", "File[/srv/w/b]");
    assert_eq!(names(&owed(&lines[..changed])), ["Exec[Y]"]);
}

#[test]
fn refresh_is_owed_after_a_class_dropped_its_events() {
    let mut lines = lines();
    let at = lines.iter().position(|line| line.message == "Scheduling refresh of Exec[Y]").unwrap();
    lines[at].message = "Unscheduling all events on Class[Bar]".to_owned();
    lines.retain(|line| !(line.source.ends_with("Exec[Y]") || line.source.ends_with("Exec[Z]")));
    assert_eq!(names(&owed(&lines)), ["Exec[Y]"]);
}

#[test]
fn noop_run_owes_nothing() {
    let relations = relations();
    let mut follower = TraceInterpreter::new(true);
    let notes: Vec<RefreshEvent> =
        lines().iter().filter_map(|line| follower.process_line(line, &relations)).collect();
    assert!(notes.is_empty() && follower.finish_run(&relations).is_empty());
}

proptest! {
    /// For each cut of the log: a target that was scheduled and not refreshed is owed.
    #[test]
    fn no_scheduled_refresh_is_lost_at_any_cut(cut in 0_usize..60) {
        let lines = lines();
        let lines = &lines[..cut.min(lines.len())];
        let owed = owed(lines);
        let mut expected: BTreeSet<&str> = BTreeSet::new();
        for line in lines {
            if line.source.ends_with("File[/srv/w/b2]") {
                continue;
            }
            if let Some(target) = line.message.strip_prefix("Scheduling refresh of ") {
                expected.insert(target);
            }
            if line.message.starts_with("Triggered") || line.message.starts_with("Evaluated") && !line.source.starts_with('/') {
                let name = line.source.rsplit('/').next().unwrap();
                expected.remove(name);
            }
        }
        for target in expected {
            prop_assert!(owed.contains(target), "{target} is lost");
        }
    }
}
