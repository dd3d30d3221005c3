//! Records survive the daemon, and are delivered once and in order.

use std::fs::{self, File};

use muster_api::HistorySink as _;
use muster_wire::history::{HistoryEvent, RunCause};
use serde_json::{Map, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::{HistoryJournal, MAX_SEGMENTS, SEGMENT_BYTES, list_segments, lock_mutex};

fn log(text: &str) -> HistoryEvent {
    let log = Map::from_iter([("message".to_owned(), json!(text))]);
    HistoryEvent::Log { run: Uuid::nil(), log }
}

fn open(directory: &TempDir) -> HistoryJournal {
    let journal = HistoryJournal::open(directory.path()).unwrap();
    journal.set_wanted(true);
    journal
}

/// Takes everything that waits: the segment, and the number and event of each record.
fn take_all(journal: &HistoryJournal) -> Vec<(Uuid, u64, HistoryEvent)> {
    let mut taken = Vec::new();
    while let Some(pending) = journal.read_pending().unwrap() {
        let records = pending.records.iter();
        taken.extend(records.map(|record| (pending.segment, record.seq, record.event.clone())));
        journal.confirm(&pending, pending.records.len());
        journal.store_position().unwrap();
    }
    taken
}

#[test]
fn records_are_delivered_once_and_in_order_across_daemons() {
    let directory = TempDir::new().unwrap();
    let first = open(&directory);
    first.record(None, log("one"));
    first.record(None, log("two"));
    let pending = first.read_pending().unwrap().unwrap();
    assert_eq!((pending.records.len(), pending.previous), (2, None));
    first.confirm(&pending, 1);
    first.store_position().unwrap();
    drop(first);
    let second = open(&directory);
    second.record(None, log("three"));
    let taken = take_all(&second);
    let found: Vec<_> = taken.iter().map(|(_, seq, event)| (*seq, event.clone())).collect();
    assert_eq!(found, [(2, log("two")), (1, log("three"))]);
    assert_eq!(take_all(&second), []);
    second.record(None, log("four"));
    assert_eq!(take_all(&second), [(taken[1].0, 2, log("four"))]);
    // The segment of the first daemon is gone.
    assert_eq!(list_segments(directory.path()).unwrap(), [taken[1].0]);
    let third = open(&directory);
    third.record(None, log("five"));
    assert_eq!(third.read_pending().unwrap().unwrap().previous, Some(taken[1].0));
}

#[test]
fn run_of_a_killed_daemon_is_closed_by_the_next_one() {
    let directory = TempDir::new().unwrap();
    let run = Uuid::now_v7();
    let first = open(&directory);
    let start = HistoryEvent::Start { run, cause: RunCause::default(), report: Map::new() };
    first.record(None, start.clone());
    drop(first);
    let events: Vec<_> =
        take_all(&open(&directory)).into_iter().map(|(_, _, event)| event).collect();
    let [found, HistoryEvent::Aborted { run: aborted, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((found, *aborted), (&start, run));
    assert_eq!(take_all(&open(&directory)), []);
}

/// Records are lost in a segment, at its end, and while no segment can be created.
#[test]
fn records_that_cannot_be_written_have_numbers() {
    let directory = TempDir::new().unwrap();
    let journal = open(&directory);
    journal.record(None, log("one"));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let swap = |file: File| {
        let mut state = lock_mutex(&journal.state);
        std::mem::replace(&mut state.current.as_mut().unwrap().file, file)
    };
    let disk = swap(full.try_clone().unwrap());
    journal.record(None, log("lost"));
    swap(disk);
    journal.record(None, log("two"));
    swap(full);
    journal.record(None, log("lost"));
    // The next segment begins, and its directory is not there at first.
    lock_mutex(&journal.state).current.as_mut().unwrap().bytes = SEGMENT_BYTES + 1;
    let moved = directory.path().with_extension("moved");
    fs::rename(directory.path(), &moved).unwrap();
    journal.record(None, log("lost"));
    fs::rename(&moved, directory.path()).unwrap();
    journal.record(None, log("three"));
    journal.record(None, log("four"));
    let taken = take_all(&journal).into_iter();
    let found: Vec<_> = taken.map(|(_, seq, event)| (seq, event)).collect();
    let expected = [(1, log("one")), (3, log("two")), (3, log("three")), (4, log("four"))];
    assert_eq!(found, expected);
}

#[test]
fn part_of_a_line_is_skipped() {
    let directory = TempDir::new().unwrap();
    let first = open(&directory);
    first.record(None, log("one"));
    let segment = list_segments(directory.path()).unwrap()[0];
    drop(first);
    let path = super::segment_path(directory.path(), segment);
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"seq\": 2, \"ti");
    fs::write(&path, text).unwrap();
    let second = open(&directory);
    second.record(None, log("two"));
    let events: Vec<_> = take_all(&second).into_iter().map(|(_, _, event)| event).collect();
    assert_eq!(events, [log("one"), log("two")]);
}

#[test]
fn undelivered_segments_are_bounded() {
    let directory = TempDir::new().unwrap();
    let journal = open(&directory);
    let text = "x".repeat(1000);
    let records = usize::try_from(SEGMENT_BYTES).unwrap() * (MAX_SEGMENTS + 2) / 1000;
    for _ in 0..records {
        journal.record(None, log(&text));
    }
    assert_eq!(list_segments(directory.path()).unwrap().len(), MAX_SEGMENTS);
    // The first one that is left names a segment that is gone.
    assert!(journal.read_pending().unwrap().unwrap().previous.is_some());
}

#[test]
fn nothing_is_recorded_for_a_fleet_without_a_history() {
    let directory = TempDir::new().unwrap();
    let journal = HistoryJournal::open(directory.path()).unwrap();
    journal.record(None, log("one"));
    assert!(list_segments(directory.path()).unwrap().is_empty());
}
