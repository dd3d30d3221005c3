//! Jobs on a disk: written, torn, resumed, found, pruned; and never open to others.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_wire::identity::Identity;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::entry::{End, Entry, Header, SCHEMA, Shaping};
use super::super::job::{Job, State};
use super::{JobError, KEPT, Store, new_id};
use crate::render::fixtures::reply;

const NOW: u64 = 1_767_225_600_000;

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn header(id: &str) -> Header {
    Header {
        schema: SCHEMA.to_owned(),
        id: id.to_owned(),
        name: None,
        started: NOW,
        collective: "muster".parse().unwrap(),
        agent: "service".to_owned(),
        action: "restart".to_owned(),
        read_only: false,
        inputs: Map::from_iter([("service".to_owned(), json!("httpd"))]),
        sensitive: BTreeSet::new(),
        digested: BTreeSet::new(),
        target: "all nodes".to_owned(),
        nodes: nodes(&["a", "b", "c", "d"]),
        shaping: Shaping::default(),
        retry_of: None,
    }
}

fn store(home: &Path) -> Store {
    Store::new(Some(home)).unwrap()
}

fn wave(names: &[&str]) -> Entry {
    Entry::Wave {
        number: 1,
        nodes: nodes(names),
    }
}

#[test]
fn a_killed_job_is_interrupted_and_tells_whom_to_ask_next() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin(header("20260101-000000-000001")).unwrap();
    journal.add(&wave(&["a", "b", "c"])).unwrap();
    journal.reply(&reply("a", 0, "OK", json!({}))).unwrap();
    journal
        .reply(&reply("b", 1, "no", json!({"x": 1})))
        .unwrap();
    journal.sync().unwrap();
    assert_eq!(store.load("2026").unwrap().state(), State::Running);
    assert!(matches!(
        store.resume("2026", NOW),
        Err(JobError::Running(_))
    ));
    assert!(matches!(store.forget("2026"), Err(JobError::Running(_))));
    drop(journal);

    let job = store.load("2026").unwrap();
    assert_eq!(
        (job.state(), job.state().word()),
        (State::Abandoned, "interrupted")
    );
    assert_eq!(job.failed(), nodes(&["b"]));
    assert_eq!(job.unanswered(), nodes(&["c"]));
    assert_eq!(job.bad(), nodes(&["b", "c"]));
    assert_eq!(job.never_asked(), nodes(&["d"]));
}

#[test]
fn a_request_is_known_by_its_job_and_its_nodes_until_they_answer() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin(header("20260101-000000-000001")).unwrap();
    for (names, request) in [(&["a", "b"], Some("r1")), (&["c", "d"], None)] {
        journal.add(&wave(names)).unwrap();
        if let Some(request) = request {
            let request = request.to_owned();
            journal.add(&Entry::Sent { request }).unwrap();
        }
    }
    journal.reply(&reply("a", 0, "OK", json!({}))).unwrap();
    drop(journal);
    drop(store.begin(header("20260102-000000-000002")).unwrap());
    let job = store.of_request("r1").unwrap().unwrap();
    assert_eq!(job.header.id, "20260101-000000-000001");
    assert!(store.of_request("r2").unwrap().is_none());
    let open: Vec<_> = job
        .open_waves()
        .into_iter()
        .map(|wave| (wave.request, wave.nodes))
        .collect();
    let expected = [
        (Some("r1".to_owned()), nodes(&["b"])),
        (None, nodes(&["c", "d"])),
    ];
    assert_eq!(open, expected);
}

#[test]
fn a_torn_end_is_cut_off_and_the_job_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin(header("20260101-000000-000001")).unwrap();
    journal.add(&wave(&["a"])).unwrap();
    drop(journal);
    let path = home.path().join("muster/jobs/20260101-000000-000001.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"kind\":\"result\",\"sender\":\"a\xff")
        .unwrap();
    assert_eq!(store.load("2026").unwrap().unanswered(), nodes(&["a"]));

    let (job, mut journal) = store.resume("20260101-000000-000001", NOW).unwrap();
    assert_eq!((job.damaged, job.asked), (0, nodes(&["a"])));
    journal.add(&wave(&["b", "c", "d"])).unwrap();
    let (how, time) = (End::Finished, NOW);
    journal.add(&Entry::End { how, time }).unwrap();
    drop(journal);
    let job = store.load("2026").unwrap();
    assert_eq!((job.damaged, job.state().word()), (0, "finished"));
    assert!(job.never_asked().is_empty());
}

#[test]
fn nobody_else_can_read_a_job() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    drop(store.begin(header("20260101-000000-000001")).unwrap());
    let mode = |path: &str| {
        let found = fs::metadata(home.path().join(path)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("muster/jobs"), 0o700);
    assert_eq!(mode("muster/jobs/20260101-000000-000001.jsonl"), 0o600);
}

#[test]
fn jobs_are_found_by_id_beginning_or_name_and_nowhere_else() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    assert!(store.list().unwrap().0.is_empty());
    for (id, name) in [
        ("20260101-000000-00000a", Some("patch")),
        ("20260102-000000-00000b", Some("patch")),
        ("20260102-000000-00000c", None),
    ] {
        let name = name.map(|name| name.parse().unwrap());
        drop(store.begin(Header { name, ..header(id) }).unwrap());
    }
    let found = |reference| store.load(reference).unwrap().header.id;
    assert_eq!(found("20260101"), "20260101-000000-00000a");
    assert_eq!(found("patch"), "20260102-000000-00000b");
    assert!(matches!(
        store.load("20260102"),
        Err(JobError::Ambiguous { found, .. }) if found.len() == 2
    ));
    for nothing in ["", "../../etc/passwd", "/etc/passwd", "pat", "2027"] {
        assert!(
            matches!(
                store.load(nothing),
                Err(JobError::Unknown(_) | JobError::Ambiguous { .. })
            ),
            "{nothing}"
        );
    }
    assert_eq!(store.forget("20260101").unwrap(), "20260101-000000-00000a");
    assert_eq!(store.list().unwrap().0.len(), 2);
}

#[test]
fn too_many_and_too_old_jobs_go_but_none_that_is_running() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let held = store.begin(header("20260101-000000-000000")).unwrap();
    for n in 1..=KEPT + 5 {
        drop(
            store
                .begin(header(&format!("20260101-000000-{n:06x}")))
                .unwrap(),
        );
    }
    let jobs = store.list().unwrap().0;
    assert!(jobs.len() <= KEPT + 1, "{}", jobs.len());
    assert!(jobs.iter().any(|job| job.header.id == held.id()));
    drop(held);
    let later = Header {
        started: NOW + 200 * 24 * 3_600_000,
        ..header("20260720-000000-000000")
    };
    drop(store.begin(later).unwrap());
    assert_eq!(store.list().unwrap().0.len(), 1);
}

#[test]
fn outputs_that_are_too_large_are_left_out_and_said_to_be() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin(header("20260101-000000-000001")).unwrap();
    let large = json!({"text": "x".repeat(100_000)});
    journal.reply(&reply("a", 0, "OK", large)).unwrap();
    drop(journal);
    let job = store.load("2026").unwrap();
    let answer = job.replies.values().next().unwrap();
    assert!(answer.data.is_empty() && answer.data_omitted.unwrap() > 100_000);
}

#[test]
fn ids_sort_by_time() {
    let (early, late) = (new_id(NOW), new_id(NOW + 1));
    assert!(
        early < late && early.starts_with("20260101-000000-"),
        "{early}"
    );
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let first = serde_json::to_vec(&Entry::Job(Box::new(header("1")))).unwrap();
        let text = [first.as_slice(), b"\n", &bytes].concat();
        prop_assert!(Job::read(&text).is_some());
        let _ = Job::read(&bytes);
    }

    #[test]
    fn wherever_a_file_is_torn_nobody_is_asked_twice(cut in 0_usize..400) {
        let entries = [
            Entry::Job(Box::new(header("1"))),
            wave(&["a", "b"]),
            Entry::Sent { request: "r".to_owned() },
            wave(&["c", "d"]),
        ];
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for entry in &entries {
            bytes.extend(serde_json::to_vec(entry).unwrap());
            bytes.push(b'\n');
            ends.push(bytes.len());
        }
        let cut = cut.clamp(ends[0], bytes.len());
        let job = Job::read(&bytes[..cut]).unwrap();
        prop_assert_eq!(job.asked.contains(&"a".parse().unwrap()), cut + 1 >= ends[1]);
        prop_assert_eq!(job.asked.contains(&"c".parse().unwrap()), cut + 1 >= ends[3]);
        prop_assert_eq!(job.never_asked().len() + job.asked.len(), 4);
    }
}
