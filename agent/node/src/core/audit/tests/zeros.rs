//! Logs that end with NUL bytes: a power cut on a file system with delayed allocation leaves zeros where unsynced bytes were.

use std::fs;
use std::path::Path;

use muster_wire::audit::{AuditFinding, AuditNote};
use muster_wire::limits::MAX_AUDIT_LINE_BYTES;

use super::{AuditLog, AuditOptions, lines, open, options, record, verify};

/// A log with this many records, synced and closed.
fn write_records(path: &Path, count: usize) -> Vec<u8> {
    let log = open(path, false).unwrap();
    for _ in 0..count {
        log.record_decision(&record("restart")).unwrap();
    }
    log.flush().unwrap();
    drop(log);
    fs::read(path).unwrap()
}

/// Appends zeros to the first bytes of a log, and lets a daemon continue it with one record.
fn continue_after_zeros(path: &Path, kept: &[u8], zeros: usize) {
    fs::write(path, [kept, &vec![0; zeros]].concat()).unwrap();
    let log = open(path, false).unwrap();
    log.record_decision(&record("after")).unwrap();
    log.flush().unwrap();
}

#[test]
fn chain_continues_after_zeros_and_loses_no_line_before_them() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let whole = write_records(&path, 3);
    for (kept, zeros) in [
        (whole.len(), 1),
        (whole.len(), 4096),
        (whole.len(), 9 * 1024 * 1024),
        (whole.len() - 1, 4096),
        (whole.len() - 40, 70_000),
    ] {
        continue_after_zeros(&path, &whole[..kept], zeros);
        let verdict = verify(&[&path]);
        assert_eq!(verdict.findings, [], "{kept} {zeros}");
        let bytes = fs::read(&path).unwrap();
        let complete = whole[..kept].iter().rposition(|byte| *byte == b'\n').unwrap();
        assert_eq!(&bytes[..=complete], &whole[..=complete], "{kept} {zeros}");
        assert!(bytes.windows(7).any(|part| part == b"\"after\""), "{kept} {zeros}");
        assert!(!scratch.path().join("audit.log.1").exists(), "{kept} {zeros}");
        let found = match &verdict.notes[..] {
            [AuditNote::Torn { zeros, .. }] => *zeros,
            notes => panic!("{kept} {zeros}: {notes:?}"),
        };
        // Of more zeros than a line can have, the daemon removes the rest.
        let torn = kept - complete - 1;
        assert_eq!(found, zeros.min(MAX_AUDIT_LINE_BYTES - torn) as u64, "{kept} {zeros}");
    }
}

#[test]
fn verification_states_how_many_zeros_and_when_the_power_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let whole = write_records(&path, 2);
    fs::write(&path, [&whole[..], &[0; 300]].concat()).unwrap();
    let verdict = verify(&[&path]);
    assert_eq!(verdict.findings, []);
    let checkpoint = verdict.signed.unwrap().time;
    assert_eq!(
        verdict.notes[0].to_string(),
        format!(
            "300 bytes of zeros at the end, from a power cut or a system crash after {checkpoint}; no daemon has continued the log since"
        )
    );
    continue_after_zeros(&path, &whole, 300);
    let verdict = verify(&[&path]);
    let [AuditNote::Torn { before, .. }] = &verdict.notes[..] else {
        panic!("{:?}", verdict.notes);
    };
    assert_eq!(
        verdict.notes[0].to_string(),
        format!(
            "300 bytes of zeros at the end, from a power cut or a system crash between {checkpoint} and {before}; the daemon continued the log"
        )
    );
}

#[test]
fn file_of_zeros_is_begun_again_and_continues_the_older_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let older = scratch.path().join("audit.log.1");
    write_records(&path, 2);
    fs::rename(&path, &older).unwrap();
    continue_after_zeros(&path, b"", 4096);
    let verdict = verify(&[&older, &path]);
    assert_eq!((verdict.findings, verdict.notes), (vec![], vec![]));
    assert_eq!(lines(&path).len(), 1);
}

/// A signed line that is gone is still a finding: zeros excuse only what was not synced.
#[test]
fn signed_line_that_became_zeros_is_a_finding() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let options = AuditOptions { head: Some(scratch.path().join("audit.head")), ..options(&path) };
    let log = AuditLog::open(options.clone()).unwrap();
    log.record_decision(&record("restart")).unwrap();
    log.seal().unwrap();
    drop(log);
    let whole = fs::read(&path).unwrap();
    let kept = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&path, [&whole[..kept], &vec![0; whole.len() - kept]].concat()).unwrap();
    drop(AuditLog::open(options).unwrap());
    let verdict = verify(&[&path]);
    assert!(matches!(verdict.findings[..], [AuditFinding::Lost { .. }]), "{:?}", verdict.findings);
}
