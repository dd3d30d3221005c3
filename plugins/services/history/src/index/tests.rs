//! Rows of records: who changed what, gaps, and runs.

use muster_contract::history::{HistoryKind, HistoryQueryInput, HistoryRow, HistoryRunsInput};
use muster_wire::history::{HistoryEvent, HistoryRecord, RunCause};
use muster_wire::identity::Identity;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::runs::MAX_RUN_BYTES;
use super::{HistoryIndex, IngestedMessage, OpenedBatch, RowCursor, RunCursor};

const NOW: u64 = 1_764_201_600_000;
const NODE: &str = "web1.acme.net";

struct World {
    _directory: TempDir,
    index: HistoryIndex,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let index = HistoryIndex::open(directory.path()).unwrap();
        Self { _directory: directory, index, revision: 0 }
    }

    /// Takes records of a segment, numbered from `first`.
    fn take(
        &mut self,
        segment: Uuid,
        previous: Option<Uuid>,
        first: u64,
        events: &[HistoryEvent],
    ) -> usize {
        let events: Vec<_> = events.iter().map(|event| (None, event.clone())).collect();
        self.take_numbered(segment, previous, first, &events)
    }

    /// The same with the number of each event in its run.
    fn take_numbered(
        &mut self,
        segment: Uuid,
        previous: Option<Uuid>,
        first: u64,
        events: &[(Option<u64>, HistoryEvent)],
    ) -> usize {
        self.revision += 1;
        let records = (first..).zip(events).map(|(seq, (number, event))| HistoryRecord {
            seq,
            time: NOW + seq,
            number: *number,
            event: event.clone(),
        });
        let batch = OpenedBatch {
            node: Identity::parse(NODE).unwrap(),
            segment,
            previous,
            records: records.collect(),
        };
        let message =
            IngestedMessage { revision: self.revision, time: NOW + 1000, batch: Some(batch) };
        self.index.ingest(&[message]).unwrap()
    }

    fn find(&self, input: &HistoryQueryInput) -> Vec<HistoryRow> {
        self.index.query(input, None, 100).unwrap().rows
    }
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no map"),
    }
}

fn request(id: Uuid, verdict: &str, who: &str) -> HistoryEvent {
    let line = json!({
        "verdict": verdict, "request": id, "caller": who, "agent": "puppetral", "action": "do",
        "statuscode": 0, "data": {"type": "file", "name": "/etc/motd", "content": {"bytes": 6, "sha256": "87298c"}},
    });
    HistoryEvent::Audit { refused: false, line: map(line) }
}

fn resource(run: Uuid, name: &str, status: &str) -> HistoryEvent {
    let has_changed = status == "success";
    let status = json!({
        "resource": name, "changed": has_changed, "failed": status == "failure",
        "events": [{
            "property": "content", "previous_value": "{sha256}aa", "desired_value": "{sha256}bb",
            "status": status, "message": "content changed '{sha256}aa' to '{sha256}bb'",
        }],
    });
    HistoryEvent::Resource { run, status: map(status) }
}

fn start(run: Uuid) -> HistoryEvent {
    let cause = RunCause {
        engine: "muster".to_owned(),
        caller: Some("rip".to_owned()),
        release: Some("r42".to_owned()),
        ..RunCause::default()
    };
    let report = json!({"host": NODE, "environment": "production", "noop": false});
    HistoryEvent::Start { run, cause, report: map(report) }
}

#[test]
fn change_of_a_request_names_its_sender() {
    let mut world = World::new();
    let (segment, id) = (Uuid::now_v7(), Uuid::now_v7());
    let events = [
        request(id, "started", "rip"),
        resource(id, "File[/etc/motd]", "success"),
        request(id, "executed", "rip"),
    ];
    assert_eq!(world.take(segment, None, 1, &events), 3);
    let input = HistoryQueryInput {
        resource: Some("File[/etc/motd]".to_owned()),
        ..HistoryQueryInput::default()
    };
    let [row] = &world.find(&input)[..] else { panic!("{:?}", world.find(&input)) };
    assert_eq!(row.who, Some("rip".into()));
    assert_eq!((&row.before, &row.after), (&Some("{sha256}aa".into()), &Some("{sha256}bb".into())));
    assert_eq!(row.request, Some(id.to_string().into()));
    // The record that the action has started gave way to its outcome.
    let all = world.find(&HistoryQueryInput::default());
    let found: Vec<_> = all.iter().map(|row| (row.kind.raw(), row.status.raw())).collect();
    assert_eq!(found, [("request", "executed"), ("change", "success")]);
    let inputs = "content=(6 bytes) name=/etc/motd type=file";
    assert_eq!(all[0].message, Some(inputs.into()));
    for (text, count) in [("motd", 2), ("bb \"", 1), ("nothing", 0), ("rip motd", 2)] {
        let input =
            HistoryQueryInput { text: Some(text.to_owned()), ..HistoryQueryInput::default() };
        assert_eq!(world.find(&input).len(), count, "{text}");
    }
    let of_type = |name: &str| HistoryQueryInput {
        resource_type: Some(name.to_owned()),
        ..HistoryQueryInput::default()
    };
    assert_eq!(world.find(&of_type("File")).len(), 1);
    assert_eq!(world.find(&of_type("Fil")).len(), 0);
}

#[test]
fn records_are_taken_once_and_gaps_are_noted() {
    let mut world = World::new();
    let [first, second, lost, third] = std::array::from_fn(|_| Uuid::now_v7());
    let events: Vec<_> = (0..3).map(|_| request(Uuid::now_v7(), "executed", "rip")).collect();
    assert_eq!(world.take(first, None, 1, &events), 3);
    // Sent again, with one more.
    let more = [events.clone(), vec![request(Uuid::now_v7(), "executed", "rip")]].concat();
    assert_eq!(world.take(first, None, 1, &more), 1);
    let gaps = |world: &World| {
        let input =
            HistoryQueryInput { kind: Some(HistoryKind::Gap), ..HistoryQueryInput::default() };
        world
            .find(&input)
            .into_iter()
            .map(|row| row.message.unwrap().raw().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(gaps(&world), [""; 0]);
    // Two records of the segment are missing.
    assert_eq!(world.take(first, None, 7, &events[..1]), 1);
    assert_eq!(gaps(&world), ["2 records before this time are missing"]);
    assert_eq!(world.take(second, Some(first), 1, &events[..1]), 1);
    assert_eq!(gaps(&world).len(), 1);
    // A whole segment is missing.
    assert_eq!(world.take(third, Some(lost), 1, &events[..1]), 1);
    assert_eq!(gaps(&world).len(), 2);
    // An earlier segment changes nothing.
    assert_eq!(world.take(second, Some(first), 2, &events), 0);
    assert_eq!(world.index.progress().unwrap().0, 6);
}

#[test]
fn run_is_folded_when_it_ends_or_is_cut_off() {
    let mut world = World::new();
    let [segment, complete, cut] = std::array::from_fn(|_| Uuid::now_v7());
    let end = json!({"status": "changed", "transaction_completed": true, "noop": false});
    let events = [
        start(complete),
        resource(complete, "File[/etc/motd]", "success"),
        HistoryEvent::Log {
            run: complete,
            log: map(json!({"level": "notice", "message": "done"})),
        },
        HistoryEvent::End { run: complete, report: map(end) },
        start(cut),
        resource(cut, "File[/etc/hosts]", "failure"),
    ];
    world.take(segment, None, 1, &events);
    let (runs, more) = world.index.runs(&HistoryRunsInput::default(), None, 10).unwrap();
    assert!(!more);
    let found: Vec<_> =
        runs.iter().map(|run| (run.status.raw(), run.changed, run.failed)).collect();
    assert_eq!(found, [("running", 0, 0), ("changed", 1, 0)]);
    let (row, folded) = world.index.report(NODE, Some(&complete.to_string())).unwrap().unwrap();
    assert_eq!((row.who, row.release), (Some("rip".into()), Some("r42".into())));
    assert_eq!(folded.report["logs"][0]["message"], "done");
    assert_eq!(folded.report["resource_statuses"]["File[/etc/motd]"]["changed"], true);
    // The run that goes on has the events so far.
    let (_, folded) = world.index.report(NODE, None).unwrap().unwrap();
    assert!(
        !folded.is_complete && folded.report["resource_statuses"]["File[/etc/hosts]"].is_object()
    );
    let aborted = HistoryEvent::Aborted { run: cut, reason: "killed".to_owned() };
    world.take(segment, None, 7, &[aborted, resource(cut, "File[/etc/late]", "success")]);
    let (row, folded) = world.index.report(NODE, Some(&cut.to_string())).unwrap().unwrap();
    assert_eq!((row.status.raw(), row.failed), ("aborted", 1));
    assert_eq!(row.problem, Some("killed".into()));
    assert!(folded.report["resource_statuses"]["File[/etc/late]"].is_null());
    assert_eq!(folded.report["status"], "failed");
    let failed = HistoryRunsInput { failed: Some(true), ..HistoryRunsInput::default() };
    assert_eq!(world.index.runs(&failed, None, 10).unwrap().0.len(), 1);
}

#[test]
fn events_of_an_endless_run_are_bounded() {
    let mut world = World::new();
    let (segment, run) = (Uuid::now_v7(), Uuid::now_v7());
    world.take(segment, None, 1, &[start(run)]);
    let text = "x".repeat(15_000);
    let log = HistoryEvent::Log { run, log: map(json!({"level": "notice", "message": text})) };
    let logs = vec![log; 100];
    let rounds = MAX_RUN_BYTES / 15_000 / logs.len() + 2;
    for round in 0..rounds {
        world.take(segment, None, 2 + u64::try_from(round * logs.len()).unwrap(), &logs);
    }
    let last = 2 + u64::try_from(rounds * logs.len()).unwrap();
    let end = json!({"status": "unchanged", "transaction_completed": true});
    world.take(segment, None, last, &[HistoryEvent::End { run, report: map(end) }]);
    let (row, folded) = world.index.report(NODE, None).unwrap().unwrap();
    assert_eq!(row.status.raw(), "unchanged");
    assert!(row.problem.unwrap().raw().contains("left out"));
    let shown = folded.report["logs"].as_array().unwrap().len();
    assert!(shown < rounds * logs.len() && shown > 2000, "{shown}");
}

#[test]
fn pages_follow_each_other_and_old_rows_are_deleted() {
    let mut world = World::new();
    let events: Vec<_> = (0..25).map(|_| request(Uuid::now_v7(), "executed", "rip")).collect();
    world.take(Uuid::now_v7(), None, 1, &events);
    let (mut times, mut after) = (Vec::new(), None);
    loop {
        let input = HistoryQueryInput { after: after.clone(), ..HistoryQueryInput::default() };
        let page = world.index.query(&input, None, 10).unwrap();
        times.extend(page.rows.iter().map(|row| row.time));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<u64> = (1..=25).rev().map(|seq| NOW + seq).collect();
    assert_eq!(times, expected);
    assert_eq!(world.index.delete_before(NOW + 21).unwrap(), 20);
    assert_eq!(world.find(&HistoryQueryInput::default()).len(), 5);
    assert_eq!(world.index.oldest().unwrap(), Some(NOW + 21));
}

/// An event with its number in the run.
fn numbered(number: u64, event: HistoryEvent) -> (Option<u64>, HistoryEvent) {
    (Some(number), event)
}

#[test]
fn events_that_are_recorded_again_are_taken_once() {
    let mut world = World::new();
    let [first, second, run] = std::array::from_fn(|_| Uuid::now_v7());
    let log = |text: &str| HistoryEvent::Log { run, log: map(json!({"message": text})) };
    let begin = [
        numbered(0, start(run)),
        numbered(1, log("one")),
        numbered(2, resource(run, "File[/a]", "success")),
    ];
    world.take_numbered(first, None, 1, &begin);
    // The daemon was restarted, and read Puppet's log again.
    let again =
        [&begin[..], &[numbered(3, log("two")), numbered(4, resource(run, "File[/a]", "success"))]]
            .concat();
    world.take_numbered(second, Some(first), 1, &again);
    let end = HistoryEvent::End { run, report: map(json!({"status": "changed"})) };
    world.take_numbered(second, Some(first), 6, &[numbered(5, end.clone()), numbered(5, end)]);
    let (row, folded) = world.index.report(NODE, None).unwrap().unwrap();
    assert_eq!((row.status.raw(), row.changed), ("changed", 1));
    let logs = folded.report["logs"].as_array().unwrap();
    assert_eq!(
        logs.iter().map(|log| log["message"].as_str().unwrap()).collect::<Vec<_>>(),
        ["one", "two"]
    );
    // The later status of the resource replaces the earlier one.
    let changes =
        HistoryQueryInput { kind: Some(HistoryKind::Change), ..HistoryQueryInput::default() };
    assert_eq!(world.find(&changes).len(), 1);
    let words =
        HistoryQueryInput { text: Some("File /a".to_owned()), ..HistoryQueryInput::default() };
    assert_eq!(world.find(&words).len(), 1);
}

#[test]
fn run_that_was_taken_for_lost_goes_on_when_its_node_returns() {
    let mut world = World::new();
    let [segment, run] = std::array::from_fn(|_| Uuid::now_v7());
    world.take(segment, None, 1, &[start(run), resource(run, "File[/a]", "success")]);
    assert_eq!(world.index.going_on().unwrap(), [(run.to_string(), NODE.to_owned())]);
    world.index.mark_lost(&run.to_string(), NOW + 5, "the node is missing").unwrap();
    assert_eq!(world.index.going_on().unwrap(), []);
    let ends = HistoryQueryInput { kind: Some(HistoryKind::Run), ..HistoryQueryInput::default() };
    assert_eq!(world.find(&ends)[0].status.raw(), "aborted");
    let (row, folded) = world.index.report(NODE, None).unwrap().unwrap();
    assert_eq!((row.status.raw(), row.problem.unwrap().raw()), ("aborted", "the node is missing"));
    assert_eq!(folded.report["resource_statuses"].as_object().unwrap().len(), 1);
    let end = HistoryEvent::End { run, report: map(json!({"status": "changed"})) };
    world.take(segment, None, 3, &[resource(run, "File[/b]", "success"), end]);
    let (row, _) = world.index.report(NODE, None).unwrap().unwrap();
    assert_eq!((row.status.raw(), row.changed, row.problem), ("changed", 2, None));
    let found = world.find(&ends);
    assert_eq!(found.iter().map(|row| row.status.raw()).collect::<Vec<_>>(), ["changed"]);
}

#[test]
fn rows_are_followed_from_a_position_without_loss_or_repetition() {
    let mut world = World::new();
    let segment = Uuid::now_v7();
    let events = |count: usize| -> Vec<_> {
        (0..count).map(|_| request(Uuid::now_v7(), "executed", "rip")).collect()
    };
    world.take(segment, None, 1, &events(3));
    let mut position = world.index.query(&HistoryQueryInput::default(), None, 10).unwrap().position;
    let (mut first, mut times) = (4, Vec::new());
    for count in [0, 5, 1, 25, 10, 0] {
        world.take(segment, None, first, &events(count));
        first += u64::try_from(count).unwrap();
        loop {
            let input =
                HistoryQueryInput { from: Some(position.clone()), ..HistoryQueryInput::default() };
            let page = world.index.query(&input, None, 10).unwrap();
            position = page.position;
            times.extend(page.rows.iter().map(|row| row.time));
            if page.rows.is_empty() {
                break;
            }
        }
    }
    assert_eq!(times, (4..first).map(|seq| NOW + seq).collect::<Vec<_>>());
}

#[test]
fn drift_is_folded_over_the_last_runs() {
    let mut world = World::new();
    let segment = Uuid::now_v7();
    let end = |run: Uuid| HistoryEvent::End { run, report: map(json!({"status": "unchanged"})) };
    let [planned, changed, again, last] = std::array::from_fn(|_| Uuid::now_v7());
    let runs = [
        (planned, resource(planned, "File[/a]", "noop")),
        (changed, resource(changed, "File[/a]", "success")),
        (again, resource(again, "File[/a]", "noop")),
        (last, resource(last, "File[/a]", "noop")),
    ];
    let mut seq = 1;
    for (run, change) in runs {
        world.take(segment, None, seq, &[start(run), change, end(run)]);
        seq += 3;
    }
    let drift = world.index.drift(None).unwrap();
    let [row] = &drift.rows[..] else { panic!("{drift:?}") };
    assert_eq!(
        (row.resource.raw(), row.count, &row.nodes),
        ("File[/a]", 1, &vec![NODE.to_owned()])
    );
    // Since the run after the one that changed it.
    assert_eq!(row.since, NOW + 8);
    let other = Identity::parse("db1.acme.net").unwrap();
    assert_eq!(world.index.drift(Some(&[other])).unwrap().rows, []);
    let run = Uuid::now_v7();
    world.take(segment, None, seq, &[start(run), end(run)]);
    assert_eq!(world.index.drift(None).unwrap().rows, []);
}

#[test]
fn events_of_runs_without_changes_are_not_kept() {
    let mut world = World::new();
    let segment = Uuid::now_v7();
    let [unchanged, changed, last] = std::array::from_fn(|_| Uuid::now_v7());
    let mut seq = 1;
    for (run, status) in [(unchanged, "unchanged"), (changed, "changed"), (last, "unchanged")] {
        let end = HistoryEvent::End { run, report: map(json!({"status": status})) };
        world.take(segment, None, seq, &[start(run), resource(run, "File[/a]", "audit"), end]);
        seq += 3;
    }
    let resources = |world: &World, run: Uuid| {
        let (row, folded) = world.index.report(NODE, Some(&run.to_string())).unwrap().unwrap();
        assert_eq!(folded.report["status"], row.status.raw());
        folded.report["resource_statuses"].as_object().unwrap().len()
    };
    assert_eq!(world.index.thin_unchanged(NOW + 1000, 10).unwrap(), 1);
    assert_eq!([unchanged, changed, last].map(|run| resources(&world, run)), [0, 1, 1]);
    assert_eq!(world.index.thin_unchanged(NOW + 1000, 10).unwrap(), 0);
    assert_eq!(world.index.runs(&HistoryRunsInput::default(), None, 10).unwrap().0.len(), 3);
}

#[test]
fn full_disk_takes_a_message_as_a_whole_or_not_at_all() {
    let mut world = World::new();
    let segment = Uuid::now_v7();
    world.take(segment, None, 1, &[request(Uuid::now_v7(), "executed", "rip")]);
    let writer = world.index.write();
    let pages: i64 = writer.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    writer.pragma_update(None, "max_page_count", pages).unwrap();
    drop(writer);
    let events: Vec<_> = (0..500).map(|_| request(Uuid::now_v7(), "executed", "rip")).collect();
    let batch = |first: u64| OpenedBatch {
        node: Identity::parse(NODE).unwrap(),
        segment,
        previous: None,
        records: (first..)
            .zip(&events)
            .map(|(seq, event)| HistoryRecord {
                seq,
                time: NOW,
                number: None,
                event: event.clone(),
            })
            .collect(),
    };
    let message = || [IngestedMessage { revision: 2, time: NOW + 1000, batch: Some(batch(2)) }];
    world.index.ingest(&message()).unwrap_err();
    assert_eq!(
        (world.index.progress().unwrap().0, world.find(&HistoryQueryInput::default()).len()),
        (1, 1)
    );
    // The service reads the message again.
    world.index.write().pragma_update(None, "max_page_count", 1_000_000).unwrap();
    assert_eq!(world.index.ingest(&message()).unwrap(), 500);
    let gaps = HistoryQueryInput { kind: Some(HistoryKind::Gap), ..HistoryQueryInput::default() };
    assert_eq!(world.find(&gaps), []);
}

#[test]
fn ended_runs_are_read_in_the_order_of_their_arrival() {
    let mut world = World::new();
    let [segment, first, second, open] = std::array::from_fn(|_| Uuid::now_v7());
    let end = |run: Uuid| HistoryEvent::End { run, report: map(json!({"status": "unchanged"})) };
    let events = [start(second), start(first), start(open), end(second)];
    world.take(segment, None, 1, &events);
    let ids = |world: &World, after: Option<&RunCursor>| {
        let ended = world.index.ended_runs(after, 10).unwrap();
        ended.iter().map(|run| run.cursor.run.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&world, None), [second.to_string()]);
    let cursor = world.index.ended_runs(None, 10).unwrap()[0].cursor.clone();
    assert_eq!(world.index.count_ended_runs(Some(&cursor)).unwrap(), 0);
    // Its clock is behind.
    world.take(segment, None, 5, &[end(first), request(Uuid::now_v7(), "executed", "rip")]);
    assert_eq!(ids(&world, Some(&cursor)), [first.to_string()]);
    assert_eq!(world.index.count_ended_runs(Some(&cursor)).unwrap(), 1);
    // An index that was built again.
    let other: RunCursor =
        serde_json::from_value(json!({"taken": 1000, "run": Uuid::now_v7()})).unwrap();
    assert_eq!(ids(&world, Some(&other)), [second.to_string(), first.to_string()]);
}

#[test]
fn request_whose_action_failed_is_shown_as_failed() {
    let mut world = World::new();
    let line = json!({
        "verdict": "executed", "request": Uuid::now_v7(), "caller": "rip", "agent": "catalog", "action": "apply", "statuscode": 1,
    });
    world.take(Uuid::now_v7(), None, 1, &[HistoryEvent::Audit { refused: false, line: map(line) }]);
    let failed = HistoryQueryInput { failed: Some(true), ..HistoryQueryInput::default() };
    let [row] = &world.find(&failed)[..] else { panic!("{:?}", world.find(&failed)) };
    assert_eq!(row.status.raw(), "failed");
}

#[test]
fn rows_are_read_once_in_the_order_of_their_arrival() {
    let mut world = World::new();
    let begin = world.index.end_cursor().unwrap();
    let [segment, next] = std::array::from_fn(|_| Uuid::now_v7());
    let who = |world: &World, after: RowCursor, limit: usize| {
        let rows = world.index.taken_rows(after, limit).unwrap();
        let names = rows.iter().map(|row| row.row.who.clone().unwrap());
        let names: Vec<_> = names.map(|name| name.line().into_owned()).collect();
        (names, rows.last().map_or(after, |row| row.cursor))
    };
    let requests = |names: &[&str]| -> Vec<_> {
        names.iter().map(|name| request(Uuid::now_v7(), "executed", name)).collect()
    };
    world.take(segment, None, 1, &requests(&["a", "b", "c"]));
    // A page may end within a message.
    let (read, place) = who(&world, begin, 2);
    assert_eq!(read, ["a", "b"]);
    assert_eq!(world.index.count_taken_rows(place).unwrap(), 1);
    // The record of the start gives way to that of the outcome, which is taken later, also if it gets the same row.
    let last = Uuid::now_v7();
    world.take(segment, None, 4, &[request(last, "started", "d")]);
    let (read, place) = who(&world, place, 10);
    assert_eq!(read, ["c", "d"]);
    world.take(segment, None, 5, &[request(last, "executed", "e")]);
    let (read, place) = who(&world, place, 10);
    assert_eq!(read, ["e"]);
    // The bucket was created again.
    world.index.forget_revision().unwrap();
    world.revision = 0;
    assert_eq!(who(&world, place, 10).0, [""; 0]);
    world.take(next, Some(segment), 1, &requests(&["f"]));
    let (read, place) = who(&world, place, 10);
    assert_eq!((read, world.index.end_cursor().unwrap() > place), (vec!["f".to_owned()], true));
}
