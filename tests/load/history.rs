//! The index of the history at the size of a fleet: how fast it takes records, how fast it answers, and how large it is.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_contract::history::{HistoryKind, HistoryQueryInput, HistoryRunsInput};
use muster_history::index::{HistoryIndex, IngestedMessage, OpenedBatch};
use muster_wire::history::{HistoryEvent, HistoryRecord, RunCause};
use muster_wire::identity::Identity;
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::measure::millis;
use crate::process::proportional_memory;
use crate::report::{Figure, Section, Table, max, median};

const METHOD: &str = "Generated runs, one every half an hour and node: one in twenty changes two of ten resources, the others change nothing. Records go into the index as \
the service takes them, verified; without the broker. The floor is a table of SQLite that gets the JSON of each message. Queries run one after the other, \
each for another node, resource, person or day; the reply's way over the broker is not included.";

/// Runs of a node in a day.
const RUNS_PER_DAY: usize = 48;
/// One run in this many changes something.
const CHANGED_EVERY: usize = 20;
/// Messages that are stored together, as by the service.
const SHARE: usize = 256;
/// Times that each query is measured.
const QUERIES: usize = 40;
/// The first day of the generated data, in milliseconds since the epoch.
const BEGIN: u64 = 1_764_201_600_000;
const DAY: u64 = 86_400_000;
/// Permitted ratio of the time for a message to that of the floor.
const MAX_INGEST_RATIO: f64 = 20.0;

/// A run of generated data.
struct GeneratedRun {
    node: usize,
    number: usize,
    time: u64,
}

/// Measures with runs of this many nodes and days.
pub(crate) fn bench(nodes: usize, days: usize) -> Section {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let index = HistoryIndex::open(directory.path()).unwrap();
    let per_node = RUNS_PER_DAY * days;
    let mut section = Section::of(
        format!("A history of {nodes} nodes, {days} days with {} runs", nodes * per_node),
        METHOD,
    );
    let segments: Vec<Uuid> = (0..nodes).map(|_| Uuid::now_v7()).collect();
    let (mut taken, mut events, mut revision) = (Duration::ZERO, 0, 0);
    let mut share = Vec::with_capacity(SHARE);
    for number in 0..per_node {
        if number % RUNS_PER_DAY == 0 {
            eprintln!("history: day {} of {days}", number / RUNS_PER_DAY + 1);
            // As the service does from time to time.
            let day_ago = BEGIN + u64::try_from(number / RUNS_PER_DAY).unwrap() * DAY;
            while index.thin_unchanged(day_ago.saturating_sub(DAY), 2000).unwrap() == 2000 {}
        }
        for (node, segment) in segments.iter().enumerate() {
            let time =
                BEGIN + DAY * u64::try_from(number).unwrap() / u64::try_from(RUNS_PER_DAY).unwrap();
            revision += 1;
            share.push(message(&GeneratedRun { node, number, time }, *segment, revision));
            if share.len() == SHARE {
                events += take(&index, &mut share, &mut taken);
            }
        }
    }
    events += take(&index, &mut share, &mut taken);
    let rate = f64::from(u32::try_from(events).unwrap_or(u32::MAX)) / taken.as_secs_f64();
    let mut table = Table::new(["what", "value"]);
    let mut row = |name: &str, value: String| table.rows.push(vec![name.to_owned(), value]);
    row("events", events.to_string());
    row("events in a second", format!("{rate:.0}"));
    let size = directory_bytes(directory.path());
    row("index in MiB", format!("{}", size / 1024 / 1024));
    row("bytes for each run", format!("{}", size / u64::try_from(nodes * per_node).unwrap()));
    row(
        "memory of this process in MiB",
        format!("{}", proportional_memory(std::process::id()) / 1024 / 1024),
    );
    section.tables.push(table);
    section.tables.push(measure_queries(&index, nodes, days));
    section.figures.push(
        Figure::ratio("taking a message of a node x the floor", ratio_to_floor(directory.path()))
            .aim(MAX_INGEST_RATIO)
            .within(0.5),
    );
    section
}

fn take(index: &HistoryIndex, share: &mut Vec<IngestedMessage>, taken: &mut Duration) -> usize {
    let started = Instant::now();
    let events = index.ingest(share).unwrap();
    *taken += started.elapsed();
    share.clear();
    events
}

/// The message of one run.
fn message(run: &GeneratedRun, segment: Uuid, revision: u64) -> IngestedMessage {
    let events = run_events(run);
    let first = u64::try_from(run.number).unwrap() * 100 + 1;
    let records = (first..).zip(events).map(|(seq, event)| HistoryRecord {
        seq,
        time: run.time,
        number: Some(seq - first),
        event,
    });
    let batch = OpenedBatch {
        node: Identity::parse(&format!("node{}.example.net", run.node)).unwrap(),
        segment,
        previous: None,
        records: records.collect(),
    };
    IngestedMessage { revision, time: run.time + 60_000, batch: Some(batch) }
}

fn run_events(run: &GeneratedRun) -> Vec<HistoryEvent> {
    let id = Uuid::now_v7();
    let is_changed = (run.node * 7 + run.number).is_multiple_of(CHANGED_EVERY);
    let cause = RunCause {
        engine: "muster".to_owned(),
        caller: Some(format!("user{}", run.node % 50)),
        release: Some(format!("r{}", run.number / RUNS_PER_DAY)),
        ..RunCause::default()
    };
    let start = map(json!({"host": "node", "environment": "production", "noop": false}));
    let mut events = vec![HistoryEvent::Start { run: id, cause, report: start }];
    let resources = if is_changed { 10 } else { 0 };
    for resource in 0..resources {
        let number = (run.node + run.number * 13 + resource) % 5000;
        let change = json!({
            "property": "content", "previous_value": format!("{{sha256}}{number:064x}"),
            "desired_value": format!("{{sha256}}{:064x}", number + 1), "status": "success", "name": "content_changed",
            "message": format!("content changed to the version {number} of the template nginx"),
        });
        let changes = if resource < 2 { vec![change] } else { Vec::new() };
        events.push(HistoryEvent::Resource {
            run: id,
            status: map(json!({
                "resource": format!("File[/etc/app/{number}.conf]"), "resource_type": "File", "title": format!("/etc/app/{number}.conf"),
                "changed": !changes.is_empty(), "failed": false, "events": changes, "tags": ["file", "class", "app"],
            })),
        });
    }
    let status = if is_changed { "changed" } else { "unchanged" };
    let end = json!({"status": status, "transaction_completed": true, "metrics": {"resources": {"name": "resources", "values": [["total", "Total", 162]]}}});
    events.push(HistoryEvent::End { run: id, report: map(end) });
    events
}

fn map(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is no map") };
    map
}

fn measure_queries(index: &HistoryIndex, nodes: usize, days: usize) -> Table {
    let mut table = Table::new(["query", "median ms", "max"]);
    let mut measure = |name: &str, ask: &dyn Fn(usize) -> usize| {
        let (mut samples, mut found) = (Vec::new(), 0);
        for number in 0..QUERIES {
            let started = Instant::now();
            found += ask(number);
            samples.push(millis(started.elapsed()));
        }
        assert!(found > 0 || name.starts_with("drift"), "{name}");
        let times = [median(&samples), max(&samples)].map(|ms| format!("{ms:.1}"));
        table.rows.push([name.to_owned()].into_iter().chain(times).collect());
    };
    let rows = |input: HistoryQueryInput| index.query(&input, None, 200).unwrap().rows.len();
    let node = |number: usize| {
        Identity::parse(&format!("node{}.example.net", number * 37 % nodes)).unwrap()
    };
    let query = HistoryQueryInput::default;
    let resource = |number: usize| format!("File[/etc/app/{}.conf]", number * 97 % (nodes + 600));
    measure("a node", &|number| {
        index.query(&query(), Some(&[node(number)]), 200).unwrap().rows.len()
    });
    measure("a resource", &|number| {
        rows(HistoryQueryInput { resource: Some(resource(number)), ..query() })
    });
    measure("a person", &|number| {
        rows(HistoryQueryInput { who: Some(format!("user{number}")), ..query() })
    });
    measure("a day, changes only", &|number| {
        let since = BEGIN + DAY * u64::try_from(number % days).unwrap();
        let (kind, until) = (Some(HistoryKind::Change), Some(since + DAY));
        rows(HistoryQueryInput { since: Some(since), until, kind, changed: Some(true), ..query() })
    });
    measure("two words", &|number| {
        rows(HistoryQueryInput { text: Some(format!("nginx {number}")), ..query() })
    });
    measure("a frequent word", &|_| {
        rows(HistoryQueryInput { text: Some("template".to_owned()), ..query() })
    });
    measure("the last runs", &|_| {
        index.runs(&HistoryRunsInput::default(), None, 200).unwrap().0.len()
    });
    measure("the last report of a node", &|number| {
        usize::from(index.report(node(number).as_str(), None).unwrap().is_some())
    });
    measure("drift of all nodes", &|_| index.drift(None).unwrap().rows.len());
    table
}

/// Taking the messages of a day of 200 nodes, beside storing their JSON.
fn ratio_to_floor(directory: &Path) -> f64 {
    let (nodes, path) = (200, directory.join("compared"));
    let segments: Vec<Uuid> = (0..nodes).map(|_| Uuid::now_v7()).collect();
    let index = HistoryIndex::open(&path).unwrap();
    let mut floor = Connection::open(path.join("floor.db")).unwrap();
    floor.pragma_update(None, "journal_mode", "WAL").unwrap();
    floor
        .execute_batch("CREATE TABLE message (id INTEGER PRIMARY KEY, node TEXT, message TEXT)")
        .unwrap();
    let (mut taken, mut stored) = (Duration::ZERO, Duration::ZERO);
    for number in 0..RUNS_PER_DAY {
        let time = BEGIN + u64::try_from(number).unwrap() * 1_800_000;
        let run = |node| GeneratedRun { node, number, time };
        let revision = |node: usize| u64::try_from(number * nodes + node + 1).unwrap();
        let mut share: Vec<_> = segments
            .iter()
            .enumerate()
            .map(|(node, segment)| message(&run(node), *segment, revision(node)))
            .collect();
        let started = Instant::now();
        let transaction = floor.transaction().unwrap();
        for message in &share {
            let batch = message.batch.as_ref().unwrap();
            let text = serde_json::to_string(&batch.records).unwrap();
            let mut insert = transaction
                .prepare_cached("INSERT INTO message (node, message) VALUES (?1, ?2)")
                .unwrap();
            insert.execute([batch.node.as_str(), &text]).unwrap();
        }
        transaction.commit().unwrap();
        stored += started.elapsed();
        take(&index, &mut share, &mut taken);
    }
    taken.as_secs_f64() / stored.as_secs_f64()
}

fn directory_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}
