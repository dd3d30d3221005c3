//! The audit log through its public door, on a disk.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_wire::identity::{Identity, Name};
use muster_wire::status::Status;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{AuditError, AuditLog, Outcome, QUEUE, Record};

fn record(action: &str) -> Record {
    let name = |text: &str| Name::parse(text).unwrap();
    Record {
        time: 1_767_225_599_007,
        verdict: Outcome::Executed,
        request: Uuid::nil(),
        caller: Identity::parse("rip").unwrap(),
        caller_key: Some("UABC".to_owned()),
        collective: name("muster"),
        agent: name("service"),
        action: name(action),
        traceparent: None,
        data: Map::from_iter([("service".to_owned(), json!("line\nbreak"))]),
        rule: Some("service.policy:4".to_owned()),
        status: Some(Status::Ok),
        reason: None,
        took_ms: Some(12),
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_record_is_one_line_with_everything_that_was_decided() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("log/audit.log");
    let log = AuditLog::open(&path, true).unwrap();
    log.record(&record("restart")).unwrap();
    let denied = Record {
        verdict: Outcome::Denied,
        status: Some(Status::Other),
        reason: Some("denied"),
        took_ms: None,
        data: Map::new(),
        ..record("stop")
    };
    log.record(&denied).unwrap();
    log.flush().unwrap();
    let written = lines(&path);
    assert_eq!(
        written[0],
        json!({
            "time": "2025-12-31T23:59:59.007Z", "verdict": "executed",
            "request": "00000000-0000-0000-0000-000000000000", "caller": "rip", "caller_key": "UABC",
            "collective": "muster", "agent": "service", "action": "restart",
            "data": {"service": "line\nbreak"}, "rule": "service.policy:4", "statuscode": 0, "took_ms": 12,
        })
    );
    assert_eq!(written[1]["verdict"], "denied");
    assert_eq!(written[1]["reason"], "denied");
    assert_eq!(written[1]["statuscode"], 5);
    assert_eq!(written.len(), 2);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o137, 0);
}

#[test]
fn what_is_there_is_kept_and_dropping_writes_what_waits() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    for _ in 0..2 {
        let log = AuditLog::open(&path, false).unwrap();
        for _ in 0..100 {
            log.record(&record("restart")).unwrap();
        }
        drop(log);
    }
    assert_eq!(lines(&path).len(), 200);
}

#[test]
fn after_rotation_lines_go_to_the_new_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let moved = scratch.path().join("audit.log.1");
    let log = AuditLog::open(&path, false).unwrap();
    log.record(&record("first")).unwrap();
    fs::rename(&path, &moved).unwrap();
    log.record(&record("second")).unwrap();
    log.reopen().unwrap();
    log.record(&record("third")).unwrap();
    log.flush().unwrap();
    let actions = |path: &Path| {
        lines(path)
            .iter()
            .map(|line| line["action"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(actions(&moved), ["first", "second"]);
    assert_eq!(actions(&path), ["third"]);
}

#[test]
fn a_flood_without_a_caller_is_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = AuditLog::open(&path, false).unwrap();
    for _ in 0..10_000 {
        log.refuse("signature", Some("muster.service.restart.all"));
    }
    log.flush().unwrap();
    let written = lines(&path);
    assert!(written.len() < 10, "{written:?}");
    let count: u64 = written
        .iter()
        .map(|line| line["count"].as_u64().unwrap())
        .sum();
    assert_eq!(count, 10_000);
    assert_eq!(written[0]["verdict"], "refused");
    assert_eq!(written[0]["reason"], "signature");
    assert_eq!(written[0]["claimed"], "muster.service.restart.all");
}

/// A log on a pipe that nobody reads yet: the writer hangs in its first large write.
fn hanging(path: &Path, fail_closed: bool) -> (AuditLog, File) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let both = File::options().read(true).write(true).open(path).unwrap();
    (AuditLog::open(path, fail_closed).unwrap(), both)
}

/// Larger than what a pipe holds.
fn large() -> Record {
    let data = Map::from_iter([("x".to_owned(), json!("x".repeat(200_000)))]);
    Record {
        data,
        ..record("large")
    }
}

#[test]
fn a_full_queue_is_counted_or_refuses_and_never_waits() {
    for fail_closed in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pipe");
        let (log, mut pipe) = hanging(&path, fail_closed);
        log.record(&large()).unwrap();
        let results: Vec<_> = (0..QUEUE + 10)
            .map(|_| log.record(&record("restart")))
            .collect();
        let refused = results.iter().filter(|result| result.is_err()).count() as u64;
        // The large line has a place until it is written.
        assert_eq!(log.lost(), 11);
        assert_eq!(refused, if fail_closed { log.lost() } else { 0 });
        let last = results.into_iter().last().unwrap();
        assert_eq!(matches!(last, Err(AuditError::Full)), fail_closed);

        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            let mut part = vec![0; 65_536];
            while !read.ends_with(b"\"end\"}\n") {
                let count = pipe.read(&mut part).unwrap();
                read.extend_from_slice(&part[..count]);
            }
            String::from_utf8(read).unwrap()
        });
        log.reopen().unwrap();
        drop(log);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .map(|mut file| {
                std::io::Write::write_all(&mut file, b"{\"x\":\"end\"}\n").unwrap();
            })
            .unwrap();
        let written = reader.join().unwrap();
        assert!(
            written.contains("\"verdict\":\"lost\",\"count\":11"),
            "the loss is on record"
        );
    }
}

#[test]
fn a_disk_that_refuses_stops_what_fails_closed() {
    let full = Path::new("/dev/full");
    let log = AuditLog::open(full, true).unwrap();
    log.record(&record("restart")).unwrap();
    // The device cannot be flushed; the answer only says that the line before was tried.
    let _ = log.flush();
    assert!(matches!(
        log.record(&record("restart")),
        Err(AuditError::Failing(_))
    ));
    assert!(log.lost() > 0);
    let log = AuditLog::open(full, false).unwrap();
    log.record(&record("restart")).unwrap();
    let _ = log.flush();
    log.record(&record("restart")).unwrap();
}

#[test]
fn a_log_that_cannot_be_opened_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    let error = AuditLog::open(&scratch.path().join("file/audit.log"), false).unwrap_err();
    assert!(matches!(error, AuditError::File { .. }));
}
