//! Tests of the audit log through its public interface, with real files.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::ReplyStatus;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use muster_wire::audit::{
    AuditFinding, AuditKeyTrust, AuditNote, ChainVerification, ChainVerifier,
};
use muster_wire::sign::Signer;
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry, UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyKind, KeyPair, PublicKey, UserCredentials, UserRole};

mod losses;
mod zeros;

use super::{
    AuditLog, AuditLogError, AuditOptions, AuditRecord, AuditVerdict, MAX_QUEUED_LINES, RecordClass,
};
use crate::config::AuditConfig;

fn operator() -> KeyPair {
    KeyPair::from_raw(KeyKind::Operator, &[1; 32])
}

/// Options of an audit log for a node whose organisation has keys from fixed seeds.
fn options(path: &Path) -> AuditOptions {
    let key = |seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]);
    let (account, nodes) = (key(2), key(3));
    let node = KeyPair::from_raw(KeyKind::User, &[4; 32]);
    let template = UserRole::Node.permission_template(&[SubjectName::parse("muster").unwrap()]);
    let scope = ScopedKey::new(nodes.public_key(), UserRole::Node, template);
    let claims = AccountClaims::new(
        AccountLimits::default(),
        vec![SigningKeyEntry::Scoped(Box::new(scope))],
    );
    let validity = TokenValidity::without_end(1_700_000_000);
    let token =
        encode::issue_account_token("fleet", account.public_key(), claims, validity, &operator())
            .unwrap();
    let name = Identity::parse("db1.acme.net").unwrap();
    let user = UserClaims::new(account.public_key(), Vec::new());
    let jwt = encode::issue_user_token(&name, node.public_key(), user, validity, &nodes).unwrap();
    let signer = Signer::new(UserCredentials::new(&jwt, node).unwrap()).unwrap();
    AuditOptions::new(path.to_owned(), signer, token)
}

fn open(path: &Path, fail_closed: bool) -> Result<AuditLog, AuditLogError> {
    AuditLog::open(options_with(path, AuditConfig { fail_closed, ..AuditConfig::default() }))
}

/// The same options with other settings.
pub(super) fn options_with(path: &Path, settings: AuditConfig) -> AuditOptions {
    AuditOptions { settings, ..options(path) }
}

/// Verifies these files as one chain, in this order.
fn verify(files: &[&Path]) -> ChainVerification {
    verify_as(operator().public_key(), files)
}

fn verify_as(operator: PublicKey, files: &[&Path]) -> ChainVerification {
    let mut verifier = ChainVerifier::new(AuditKeyTrust::Operator(operator), Vec::new());
    for file in files {
        verifier.begin_next_file();
        let bytes = fs::read(file).unwrap();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let end = parts.next_back().unwrap();
        parts.for_each(|line| verifier.push_line(line));
        verifier.push_torn_end(end);
    }
    verifier.finish()
}

pub(super) fn record(action: &str) -> AuditRecord {
    let name = |text: &str| SubjectName::parse(text).unwrap();
    AuditRecord {
        class: RecordClass::Change,
        time: 1_767_225_599_007,
        verdict: AuditVerdict::Executed,
        request: Uuid::nil(),
        caller: Identity::parse("rip").unwrap(),
        caller_key: Some("UABC".to_owned()),
        caller_role: UserRole::Caller,
        collective: name("muster"),
        agent: name("service"),
        action: name(action),
        traceparent: None,
        data: Map::from_iter([("service".to_owned(), json!("line\nbreak"))]),
        rule: Some("service.policy:4".to_owned()),
        approval: None,
        schedule: None,
        status: Some(ReplyStatus::Ok),
        reason: None,
        took_ms: Some(12),
    }
}

/// The records of a file without the fields that the chain adds.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str::<Map<String, Value>>(line).unwrap())
        .filter(|line| !line.contains_key("audit"))
        .map(|mut line| {
            assert!(line.remove("seq").is_some() && line.remove("prev").is_some());
            Value::Object(line)
        })
        .collect()
}

#[test]
fn records_are_single_lines_with_the_whole_decision() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("log/audit.log");
    let log = open(&path, true).unwrap();
    log.record_decision(&record("restart")).unwrap();
    let denied = AuditRecord {
        class: RecordClass::Refusal,
        verdict: AuditVerdict::Denied,
        status: Some(ReplyStatus::Other),
        reason: Some("denied"),
        took_ms: None,
        data: Map::new(),
        ..record("stop")
    };
    log.record_decision(&denied).unwrap();
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
    assert_eq!(written.len(), 1);
    let refusals = scratch.path().join("log/audit-refusals.log");
    let refused = lines(&refusals);
    assert_eq!(refused[0]["verdict"], "denied");
    assert_eq!(refused[0]["reason"], "denied");
    assert_eq!(refused[0]["statuscode"], 5);
    assert_eq!(refused.len(), 1);
    for path in [path, refusals] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o137, 0);
    }
}

#[test]
fn opening_appends_and_dropping_writes_queued_records() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    for _ in 0..2 {
        let log = open(&path, false).unwrap();
        for _ in 0..100 {
            log.record_decision(&record("restart")).unwrap();
        }
        drop(log);
    }
    assert_eq!(lines(&path).len(), 200);
}

#[test]
fn records_after_a_rotation_go_to_the_new_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let moved = scratch.path().join("audit.log.1");
    let log = open(&path, false).unwrap();
    log.record_decision(&record("first")).unwrap();
    fs::rename(&path, &moved).unwrap();
    log.record_decision(&record("second")).unwrap();
    log.reopen().unwrap();
    log.record_decision(&record("third")).unwrap();
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
fn many_refusals_without_a_caller_are_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = open(&path, false).unwrap();
    for _ in 0..10_000 {
        log.count_refusal("signature", Some("muster.service.restart.all"));
    }
    log.flush().unwrap();
    let written = lines(&scratch.path().join("audit-refusals.log"));
    assert!(written.len() < 10, "{written:?}");
    let count: u64 = written.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 10_000);
    assert_eq!(written[0]["verdict"], "refused");
    assert_eq!(written[0]["reason"], "signature");
    assert_eq!(written[0]["claimed"], "muster.service.restart.all");
}

/// A log on a pipe that is not read yet: the writer blocks in its first large write.
fn hanging(path: &Path, fail_closed: bool) -> (AuditLog, File) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let both = File::options().read(true).write(true).open(path).unwrap();
    (open(path, fail_closed).unwrap(), both)
}

/// A record larger than the buffer of a pipe.
fn large() -> AuditRecord {
    let data = Map::from_iter([("x".to_owned(), json!("x".repeat(200_000)))]);
    AuditRecord { data, ..record("large") }
}

#[test]
fn full_queue_counts_or_refuses_records_without_waiting() {
    for fail_closed in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pipe");
        let (log, mut pipe) = hanging(&path, fail_closed);
        log.record_decision(&large()).unwrap();
        let results: Vec<_> =
            (0..MAX_QUEUED_LINES + 10).map(|_| log.record_decision(&record("restart"))).collect();
        let refused = results.iter().filter(|result| result.is_err()).count() as u64;
        // The large line counts as queued until it is written.
        assert_eq!(log.lost_records(), 11);
        assert_eq!(refused, if fail_closed { log.lost_records() } else { 0 });
        let last = results.into_iter().last().unwrap();
        assert_eq!(matches!(last, Err(AuditLogError::Full)), fail_closed);

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
        assert!(written.contains("\"verdict\":\"lost\",\"count\":11"), "the loss is recorded");
    }
}

#[test]
fn failing_disk_refuses_records_with_fail_closed() {
    let full = Path::new("/dev/full");
    let log = open(full, true).unwrap();
    log.record_decision(&record("restart")).unwrap();
    // /dev/full cannot be flushed; a return of `flush` only means that the record before was attempted.
    let _ = log.flush();
    assert!(matches!(log.record_decision(&record("restart")), Err(AuditLogError::Failing(_))));
    assert!(log.lost_records() > 0);
    let log = open(full, false).unwrap();
    log.record_decision(&record("restart")).unwrap();
    let _ = log.flush();
    log.record_decision(&record("restart")).unwrap();
}

#[test]
fn returns_an_error_for_a_log_that_cannot_be_opened() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    let error = open(&scratch.path().join("file/audit.log"), false).unwrap_err();
    assert!(matches!(error, AuditLogError::File { .. }));
}

#[test]
fn lines_are_chained_and_signed_by_the_node() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    for _ in 0..2 {
        let log = open(&path, true).unwrap();
        for _ in 0..30 {
            log.record_decision(&record("restart")).unwrap();
        }
        log.seal().unwrap();
        assert_eq!(log.status().waiting, 0);
    }
    let verdict = verify(&[&path]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    assert_eq!(verdict.notes, []);
    // Two openings, each with a header, 30 records and a checkpoint.
    assert_eq!((verdict.lines, verdict.unsigned), (64, 0));
    assert_eq!(verdict.node, Some(Identity::parse("db1.acme.net").unwrap()));
    let stranger = KeyPair::from_raw(KeyKind::Operator, &[9; 32]).public_key();
    assert!(matches!(verify_as(stranger, &[&path]).findings[0], AuditFinding::Untrusted { .. }));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"took_ms\":12", "\"took_ms\":13", 1)).unwrap();
    assert!(matches!(
        verify(&[&path]).findings[..],
        [AuditFinding::Altered { at }] if at.line == 2
    ));
}

#[test]
fn checkpoints_are_written_by_line_count_and_by_time() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let signed =
        |path: &Path| fs::read_to_string(path).unwrap().matches("\"audit\":\"checkpoint\"").count();
    let log = AuditLog::open(options_with(
        &path,
        AuditConfig { checkpoint_lines: 10, ..AuditConfig::default() },
    ))
    .unwrap();
    for _ in 0..10 {
        log.record_decision(&record("restart")).unwrap();
    }
    let until_signed = |count: usize| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while signed(&path) < count {
            assert!(std::time::Instant::now() < deadline, "never signed");
            std::thread::yield_now();
        }
    };
    until_signed(1);
    drop(log);
    let before = signed(&path);
    let log = AuditLog::open(options_with(
        &path,
        AuditConfig {
            checkpoint_every: std::time::Duration::from_millis(20),
            ..AuditConfig::default()
        },
    ))
    .unwrap();
    log.record_decision(&record("restart")).unwrap();
    until_signed(before + 1);
    drop(log);
    assert!(verify(&[&path]).is_intact());
}

#[test]
fn rotation_of_full_files_continues_the_chain() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let older = |number: u32| scratch.path().join(format!("audit.log.{number}"));
    let log = AuditLog::open(options_with(
        &path,
        AuditConfig { max_bytes: 8_000, keep: 3, fail_closed: true, ..AuditConfig::default() },
    ))
    .unwrap();
    for _ in 0..12 {
        for _ in 0..10 {
            log.record_decision(&record("restart")).unwrap();
        }
        log.flush().unwrap();
    }
    drop(log);
    assert!(older(3).exists() && !older(4).exists());
    let files = [older(3), older(2), older(1), path.clone()];
    let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let verdict = verify(&files);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    assert!(matches!(verdict.notes[..], [AuditNote::BeginsLate { .. }]));
    assert_eq!(verdict.unsigned, 0);
    assert!(matches!(
        verify(&[files[0], files[2], files[3]]).findings[..],
        [AuditFinding::Missing { .. }]
    ));
}

#[test]
fn reads_and_refusals_never_remove_records_of_changes() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = AuditLog::open(options_with(
        &path,
        AuditConfig { max_bytes: 8_000, keep: 2, fail_closed: true, ..AuditConfig::default() },
    ))
    .unwrap();
    log.record_decision(&record("restart")).unwrap();
    for class in [RecordClass::Read, RecordClass::Refusal] {
        for _ in 0..20 {
            for _ in 0..20 {
                log.record_decision(&AuditRecord { class, ..record("status") }).unwrap();
            }
            log.flush().unwrap();
        }
    }
    drop(log);
    let changes = lines(&path);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0]["action"], "restart");
    assert!(!scratch.path().join("audit.log.1").exists());
    // Each file is a chain of its own and is rotated.
    for name in ["audit-reads.log", "audit-refusals.log"] {
        let files = [format!("{name}.2"), format!("{name}.1"), name.to_owned()];
        let files = files.map(|name| scratch.path().join(name));
        let verdict = verify(&files.each_ref().map(AsRef::as_ref));
        assert!(verdict.is_intact(), "{:?}", verdict.findings);
        assert!(matches!(verdict.notes[..], [AuditNote::BeginsLate { .. }]));
    }
    assert!(verify(&[&path]).is_intact());
}

#[test]
fn file_with_a_tiny_size_limit_still_holds_records() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = AuditLog::open(AuditOptions {
        head: Some(scratch.path().join("audit.head")),
        ..options_with(&path, AuditConfig { max_bytes: 1, keep: 100, ..AuditConfig::default() })
    })
    .unwrap();
    for _ in 0..50 {
        log.record_decision(&record("restart")).unwrap();
        log.flush().unwrap();
    }
    drop(log);
    let made = fs::read_dir(scratch.path()).unwrap().count();
    assert!((3..40).contains(&made), "{made} files");
    // A head file that a crash left empty does not prevent the start.
    fs::write(scratch.path().join("audit.head"), "").unwrap();
    let log = AuditLog::open(AuditOptions {
        head: Some(scratch.path().join("audit.head")),
        ..options(&path)
    });
    drop(log.unwrap());
    assert!(verify(&[&path]).is_intact());
}

#[test]
fn chain_continues_after_the_log_was_moved_and_the_daemon_restarted() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let [first, second] = ["audit.log-1", "audit.log-2"].map(|name| scratch.path().join(name));
    let options = AuditOptions { head: Some(scratch.path().join("audit.head")), ..options(&path) };
    let log = AuditLog::open(options.clone()).unwrap();
    log.record_decision(&record("first")).unwrap();
    fs::rename(&path, &first).unwrap();
    log.reopen().unwrap();
    log.reopen().unwrap();
    log.record_decision(&record("second")).unwrap();
    drop(log);
    fs::rename(&path, &second).unwrap();
    drop(AuditLog::open(options.clone()).unwrap());
    let verdict = verify(&[&first, &second, &path]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    assert_eq!(verdict.notes, []);

    // The next daemon detects a log that was truncated, and the loss stays recorded.
    let text = fs::read_to_string(&path).unwrap();
    let header = text.lines().next().unwrap();
    fs::write(&path, format!("{header}\n")).unwrap();
    drop(AuditLog::open(options).unwrap());
    assert!(matches!(verify(&[&first, &second, &path]).findings[..], [AuditFinding::Lost { .. }]));
}

#[test]
fn torn_line_is_terminated_and_not_reported_as_tampering() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let log = open(&path, false).unwrap();
    log.record_decision(&record("restart")).unwrap();
    log.flush().unwrap();
    drop(log);
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len() - 1, whole.len() - 40, whole.len() - 400] {
        fs::write(&path, &whole[..cut]).unwrap();
        drop(open(&path, false).unwrap());
        let verdict = verify(&[&path]);
        assert!(verdict.is_intact(), "{:?}", verdict.findings);
        assert!(matches!(verdict.notes[..], [AuditNote::Torn { .. }]), "{:?}", verdict.notes);
    }
}

#[test]
fn file_without_a_chain_is_renamed_and_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    fs::write(&path, "{\"time\":\"2025\"}\n").unwrap();
    drop(open(&path, false).unwrap());
    assert!(verify(&[&path]).is_intact());
    let kept = fs::read_to_string(scratch.path().join("audit.log.1")).unwrap();
    assert_eq!(kept, "{\"time\":\"2025\"}\n");
}

#[test]
fn new_file_has_the_configured_mode_and_group() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("audit.log");
    let own = nix::unistd::Group::from_gid(nix::unistd::getegid()).unwrap();
    for mode in [0o600, 0o640, 0o644] {
        let options = options_with(
            &path,
            AuditConfig {
                mode,
                group: own.as_ref().map(|group| group.name.clone()),
                ..AuditConfig::default()
            },
        );
        drop(AuditLog::open(options).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        fs::remove_file(&path).unwrap();
    }
    let options = options_with(
        &path,
        AuditConfig { group: Some("no-such-group".to_owned()), ..AuditConfig::default() },
    );
    assert!(matches!(AuditLog::open(options), Err(AuditLogError::File { .. })));
}
