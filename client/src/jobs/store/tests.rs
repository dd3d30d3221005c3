//! Stored jobs: writing, recovery of torn files, resuming, lookup, pruning and file modes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_wire::identity::Identity;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::entry::{JOB_LINES_SCHEMA, JobEnd, JobEntry, JobHeader, JobPacing, JobReply};
use super::super::job::{JobState, RequestOutcome, SavedJob};
use super::{JobStore, MAX_JOBS, SavedJobError, new_job_id};

const NOW: u64 = 1_767_225_600_000;

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn header(id: &str) -> JobHeader {
    JobHeader {
        filter: muster_filter::NodeFilter::default(),
        schema: JOB_LINES_SCHEMA.to_owned(),
        id: id.to_owned(),
        name: None,
        started: NOW,
        fleet: None,
        collective: "muster".parse().unwrap(),
        agent: "service".to_owned(),
        action: "restart".to_owned(),
        read_only: false,
        inputs: Map::from_iter([("service".to_owned(), json!("httpd"))]),
        sensitive: BTreeSet::new(),
        digested: BTreeSet::new(),
        target: "all nodes".to_owned(),
        nodes: nodes(&["a", "b", "c", "d"]),
        shaping: JobPacing::default(),
        retry_of: None,
    }
}

fn store(home: &Path) -> JobStore {
    JobStore::new(Some(home)).unwrap()
}

fn reply(node: &str, code: u8, message: &str, data: &Value) -> JobReply {
    serde_json::from_value(json!({
        "sender": node, "statuscode": code, "statusmsg": message, "took_ms": 3, "data": data,
    }))
    .unwrap()
}

fn wave(names: &[&str]) -> JobEntry {
    JobEntry::Wave { number: 1, nodes: nodes(names) }
}

#[test]
fn killed_job_is_interrupted_and_lists_unsuccessful_nodes() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin_job(header("20260101-000000-000001")).unwrap();
    journal.append_entry(&wave(&["a", "b", "c"])).unwrap();
    journal.append_reply(reply("a", 0, "OK", &json!({}))).unwrap();
    journal.append_reply(reply("b", 1, "no", &json!({"x": 1}))).unwrap();
    journal.sync().unwrap();
    assert_eq!(store.load_job("2026").unwrap().state(), JobState::Running);
    assert!(matches!(store.resume_job("2026", NOW), Err(SavedJobError::Running(_))));
    assert!(matches!(store.forget_job("2026"), Err(SavedJobError::Running(_))));
    drop(journal);

    let job = store.load_job("2026").unwrap();
    assert_eq!((job.state(), job.state().as_str()), (JobState::Abandoned, "interrupted"));
    assert_eq!(job.failed_nodes(), nodes(&["b"]));
    assert_eq!(job.unanswered_nodes(), nodes(&["c"]));
    assert_eq!(job.unsuccessful_nodes(), nodes(&["b", "c"]));
    assert_eq!(job.never_asked_nodes(), nodes(&["d"]));
    assert_eq!(job.outcome(), RequestOutcome::SomeFailed);
}

#[test]
fn outcome_follows_from_the_end_record_and_the_replies() {
    let outcome = |end, replies: &[(&str, u8)]| {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        let mut journal = store.begin_job(header("20260101-000000-000001")).unwrap();
        journal.append_entry(&wave(&["a", "b", "c", "d"])).unwrap();
        for (node, code) in replies {
            journal.append_reply(reply(node, *code, "", &json!({}))).unwrap();
        }
        journal.append_entry(&JobEntry::End { end, time: NOW }).unwrap();
        drop(journal);
        store.load_job("2026").unwrap().outcome()
    };
    let all_ok = [("a", 0), ("b", 0), ("c", 0), ("d", 0)];
    assert_eq!(outcome(JobEnd::Finished, &all_ok), RequestOutcome::Succeeded);
    assert_eq!(outcome(JobEnd::Finished, &all_ok[1..]), RequestOutcome::SomeFailed);
    assert_eq!(outcome(JobEnd::Finished, &[("a", 1)]), RequestOutcome::SomeFailed);
    assert_eq!(outcome(JobEnd::Finished, &[]), RequestOutcome::NoReplies);
    assert_eq!(outcome(JobEnd::Interrupted, &[]), RequestOutcome::SomeFailed);
    assert_eq!(outcome(JobEnd::Unattended, &[]), RequestOutcome::Succeeded);
}

#[test]
fn finds_job_by_request_and_lists_nodes_without_reply() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin_job(header("20260101-000000-000001")).unwrap();
    for (names, request) in [(&["a", "b"], Some("r1")), (&["c", "d"], None)] {
        journal.append_entry(&wave(names)).unwrap();
        if let Some(request) = request {
            let request = request.to_owned();
            journal.append_entry(&JobEntry::Sent { request }).unwrap();
        }
    }
    journal.append_reply(reply("a", 0, "OK", &json!({}))).unwrap();
    drop(journal);
    drop(store.begin_job(header("20260102-000000-000002")).unwrap());
    let job = store.find_by_request("r1").unwrap().unwrap();
    assert_eq!(job.header.id, "20260101-000000-000001");
    assert!(store.find_by_request("r2").unwrap().is_none());
    let open: Vec<_> =
        job.open_waves().into_iter().map(|wave| (wave.request, wave.nodes)).collect();
    let expected = [(Some("r1".to_owned()), nodes(&["b"])), (None, nodes(&["c", "d"]))];
    assert_eq!(open, expected);
}

#[test]
fn torn_last_record_is_removed_and_the_job_continues() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin_job(header("20260101-000000-000001")).unwrap();
    journal.append_entry(&wave(&["a"])).unwrap();
    drop(journal);
    let path = home.path().join("muster/jobs/20260101-000000-000001.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"kind\":\"result\",\"sender\":\"a\xff").unwrap();
    assert_eq!(store.load_job("2026").unwrap().unanswered_nodes(), nodes(&["a"]));

    let (job, mut journal) = store.resume_job("20260101-000000-000001", NOW).unwrap();
    assert_eq!((job.damaged, job.requested_nodes), (0, nodes(&["a"])));
    journal.append_entry(&wave(&["b", "c", "d"])).unwrap();
    let (end, time) = (JobEnd::Finished, NOW);
    journal.append_entry(&JobEntry::End { end, time }).unwrap();
    drop(journal);
    let job = store.load_job("2026").unwrap();
    assert_eq!((job.damaged, job.state().as_str()), (0, "finished"));
    assert!(job.never_asked_nodes().is_empty());
}

#[test]
fn job_files_are_private() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    drop(store.begin_job(header("20260101-000000-000001")).unwrap());
    let mode = |path: &str| {
        let found = fs::metadata(home.path().join(path)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("muster/jobs"), 0o700);
    assert_eq!(mode("muster/jobs/20260101-000000-000001.jsonl"), 0o600);
}

#[test]
fn finds_jobs_by_id_prefix_or_name() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    assert!(store.list_jobs().unwrap().0.is_empty());
    for (id, name) in [
        ("20260101-000000-00000a", Some("patch")),
        ("20260102-000000-00000b", Some("patch")),
        ("20260102-000000-00000c", None),
    ] {
        let name = name.map(|name| name.parse().unwrap());
        drop(store.begin_job(JobHeader { name, ..header(id) }).unwrap());
    }
    let found = |reference| store.load_job(reference).unwrap().header.id;
    assert_eq!(found("20260101"), "20260101-000000-00000a");
    assert_eq!(found("patch"), "20260102-000000-00000b");
    assert!(matches!(
        store.load_job("20260102"),
        Err(SavedJobError::Ambiguous { found, .. }) if found.len() == 2
    ));
    for nothing in ["", "../../etc/passwd", "/etc/passwd", "pat", "2027"] {
        assert!(
            matches!(
                store.load_job(nothing),
                Err(SavedJobError::Unknown(_) | SavedJobError::Ambiguous { .. })
            ),
            "{nothing}"
        );
    }
    assert_eq!(store.forget_job("20260101").unwrap(), "20260101-000000-00000a");
    assert_eq!(store.list_jobs().unwrap().0.len(), 2);
}

#[test]
fn prunes_excess_and_old_jobs_but_no_running_job() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let held = store.begin_job(header("20260101-000000-000000")).unwrap();
    for n in 1..=MAX_JOBS + 5 {
        drop(store.begin_job(header(&format!("20260101-000000-{n:06x}"))).unwrap());
    }
    let jobs = store.list_jobs().unwrap().0;
    assert!(jobs.len() <= MAX_JOBS + 1, "{}", jobs.len());
    assert!(jobs.iter().any(|job| job.header.id == held.job_id()));
    drop(held);
    let later =
        JobHeader { started: NOW + 200 * 24 * 3_600_000, ..header("20260720-000000-000000") };
    drop(store.begin_job(later).unwrap());
    assert_eq!(store.list_jobs().unwrap().0.len(), 1);
}

#[test]
fn oversized_outputs_are_omitted_and_marked() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut journal = store.begin_job(header("20260101-000000-000001")).unwrap();
    let large = json!({"text": "x".repeat(100_000)});
    journal.append_reply(reply("a", 0, "OK", &large)).unwrap();
    drop(journal);
    let job = store.load_job("2026").unwrap();
    let answer = job.replies.values().next().unwrap();
    assert!(answer.data.is_empty() && answer.data_omitted.unwrap() > 100_000);
}

#[test]
fn ids_sort_by_time() {
    let (early, late) = (new_job_id(NOW), new_job_id(NOW + 1));
    assert!(early < late && early.starts_with("20260101-000000-"), "{early}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let first = serde_json::to_vec(&JobEntry::Job(Box::new(header("1")))).unwrap();
        let text = [first.as_slice(), b"\n", &bytes].concat();
        prop_assert!(SavedJob::from_bytes(&text).is_some());
        let _ = SavedJob::from_bytes(&bytes);
    }

    #[test]
    fn torn_file_never_repeats_a_request_to_a_node(cut in 0_usize..400) {
        let entries = [
            JobEntry::Job(Box::new(header("1"))),
            wave(&["a", "b"]),
            JobEntry::Sent { request: "r".to_owned() },
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
        let job = SavedJob::from_bytes(&bytes[..cut]).unwrap();
        prop_assert_eq!(job.requested_nodes.contains(&"a".parse().unwrap()), cut + 1 >= ends[1]);
        prop_assert_eq!(job.requested_nodes.contains(&"c".parse().unwrap()), cut + 1 >= ends[3]);
        prop_assert_eq!(job.never_asked_nodes().len() + job.requested_nodes.len(), 4);
    }
}
