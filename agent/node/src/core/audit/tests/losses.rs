//! Full disks: which actions are refused, and that lost records are counted, also after a restart.

use std::fs;
use std::path::Path;

use muster_wire::audit::AuditFinding;
use serde_json::json;

use super::{
    AuditConfig, AuditLog, AuditLogError, AuditOptions, lines, open, options, options_with, record,
    verify,
};

#[tokio::test]
async fn root_access_starts_only_with_its_record() {
    let full = Path::new("/dev/full");
    let log = open(full, false).unwrap();
    for _ in 0..2 {
        let refused = log.record_start(&record("restart"), true).await;
        assert!(matches!(refused, Err(AuditLogError::Failing(_))), "{refused:?}");
        log.record_start(&record("restart"), false).await.unwrap();
    }
    let settings = AuditConfig { fail_closed_root: false, ..AuditConfig::default() };
    let log = AuditLog::open(options_with(full, settings)).unwrap();
    log.record_start(&record("restart"), true).await.unwrap();

    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = open(&path, false).unwrap();
    for count in 1..4 {
        log.record_start(&record("restart"), true).await.unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.matches("\"action\":\"restart\"").count(), count, "{written}");
    }
}

/// After a full disk and a restart, the log says how many records are missing, and so does its verification.
#[test]
fn lost_records_survive_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let with_head = |path: &Path| AuditOptions {
        head: Some(scratch.path().join("audit.head")),
        ..options(path)
    };
    let log = AuditLog::open(with_head(Path::new("/dev/full"))).unwrap();
    for _ in 0..3 {
        log.record_decision(&record("restart")).unwrap();
    }
    // The files cannot be flushed; the return means that the records were attempted.
    let _ = log.flush();
    drop(log);
    let path = scratch.path().join("audit.log");
    for _ in 0..2 {
        let log = AuditLog::open(with_head(&path)).unwrap();
        log.record_decision(&record("restart")).unwrap();
        log.seal().unwrap();
    }
    let written = lines(&path);
    let lost: Vec<_> = written.iter().filter(|line| line["verdict"] == "lost").collect();
    assert_eq!((lost.len(), lost[0]["count"].as_u64()), (1, Some(3)), "{written:#?}");
    let verdict = verify(&[&path]);
    let found = serde_json::to_value(&verdict.findings).unwrap();
    assert_eq!(found[0]["finding"], "unrecorded", "{found}");
    assert_eq!((found.as_array().unwrap().len(), &found[0]["count"]), (1, &json!(3)));
}

/// Limits the size of files. The limit applies to the whole process; nextest runs each test in a process of its own.
#[test]
fn full_disk_refuses_records_and_leaves_whole_lines() {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    // The log's thread inherits the mask: a write beyond the limit returns an error instead of ending the process.
    SigSet::from(Signal::SIGXFSZ).thread_block().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = open(&path, true).unwrap();
    log.record_decision(&record("restart")).unwrap();
    log.flush().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let (soft, hard) = nix::sys::resource::getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, size + 100, hard).unwrap();
    log.record_decision(&record("restart")).unwrap();
    log.flush().unwrap();
    let refused = log.record_decision(&record("restart"));
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    assert!(matches!(refused, Err(AuditLogError::Failing(_))));
    log.flush().unwrap();
    let _ = log.record_decision(&record("after"));
    log.flush().unwrap();
    log.record_decision(&record("after")).unwrap();
    drop(log);
    let verdict = verify(&[&path]);
    let is_loss = |finding: &AuditFinding| matches!(finding, AuditFinding::Unrecorded { .. });
    assert!(verdict.findings.iter().all(is_loss), "{:?}", verdict.findings);
    assert!(lines(&path).iter().any(|line| line["verdict"] == "lost"));
}
