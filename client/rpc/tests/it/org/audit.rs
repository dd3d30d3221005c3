//! `rpc audit` on the log of a node with credentials from `rpc org`.

#![expect(clippy::disallowed_types, reason = "compresses a log")]

use std::fs;
use std::path::PathBuf;

use muster_wire::audit::{AuditHeader, ChainPosition};
use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;

use super::world::{World, talk};

const TIME: &str = "2026-01-31T23:59:59.123Z";

/// An organisation, its operator's key, and two files of its node's log.
struct Log {
    world: World,
    operator: String,
    files: [PathBuf; 2],
}

impl Log {
    fn new() -> Self {
        let world = World::new(&[]);
        world.ok(&["org", "add", "node", "web1.acme.net"]);
        let creds = fs::read_to_string(world.org().join("creds/nodes/web1.acme.net.creds"));
        let signer = Signer::new(UserCredentials::parse(&creds.unwrap()).unwrap()).unwrap();
        let account = fs::read_to_string(world.org().join("account.jwt")).unwrap();
        let shown = world.json(&["org", "show", "-j"]);
        let operator = shown["operator"]["key"].as_str().or(shown["operator"].as_str());
        let header = AuditHeader::new(
            signer_time(),
            TIME.to_owned(),
            signer.identity().clone(),
            signer.public_key(),
            signer.token().to_string(),
            account.trim().to_owned(),
        );
        let mut position = ChainPosition::START;
        let files = ["audit.log.1", "audit.log"].map(|name| {
            let mut bytes = Vec::new();
            position = position.append_mark(&header, &mut bytes).unwrap();
            for verdict in ["executed", "denied"] {
                let record = format!(
                    r#"{{"time":"{TIME}","verdict":"{verdict}","caller":"rip","agent":"service","action":"restart"}}"#
                );
                position = position.append_record(record.as_bytes(), &mut bytes).unwrap();
            }
            position = position.append_checkpoint(TIME, signer.identity(), signer.key_pair(), &mut bytes);
            let path = world.scratch.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        });
        Self { operator: operator.unwrap().to_owned(), world, files }
    }

    /// The arguments of a verification by the operator's key.
    fn verify(&self) -> Vec<&str> {
        let mut args = vec!["audit", "verify", "--operator", &self.operator];
        args.extend(self.files.iter().rev().map(|file| file.to_str().unwrap()));
        args
    }
}

/// The current time: the token must be valid at the header's time.
fn signer_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

/// A directory stands for the logs in it, in their order; other files in it are left out.
#[test]
fn directory_stands_for_its_logs() {
    let log = Log::new();
    let directory = log.world.scratch.path().join("logs");
    fs::create_dir(&directory).unwrap();
    for file in &log.files {
        fs::copy(file, directory.join(file.file_name().unwrap())).unwrap();
    }
    fs::write(directory.join("notes.txt"), "not a log\n").unwrap();
    let directory = directory.to_str().unwrap();
    let shown = log.world.ok(&["audit", "show", directory]);
    assert_eq!(shown.lines().count(), 4, "{shown}");
    let verified = log.world.ok(&["audit", "verify", "--operator", &log.operator, directory]);
    assert!(verified.contains("The log is intact."), "{verified}");
    let empty = log.world.scratch.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let refused = log.world.rpc(&["audit", "show", empty.to_str().unwrap()]);
    assert!(
        !refused.status.success() && talk(&refused).contains("is an audit log"),
        "{}",
        talk(&refused)
    );
}

#[test]
fn intact_log_passes_and_altered_lines_are_reported() {
    let log = Log::new();
    let text = log.world.ok(&log.verify());
    assert!(text.contains("The log is intact."), "{text}");
    assert!(text.contains("web1.acme.net"), "{text}");
    let document = log.world.json(&[&log.verify()[..], &["-j"]].concat());
    assert_eq!(document["lines"], 8);
    assert_eq!(document["signed"]["seq"], 7);
    let anchor = document["anchor"].as_str().unwrap();
    log.world.ok(&[&log.verify()[..], &["--strict", "--anchor", anchor]].concat());

    let bytes = fs::read_to_string(&log.files[0]).unwrap();
    fs::write(&log.files[0], bytes.replacen("denied", "executed", 1)).unwrap();
    let output = log.world.rpc(&log.verify());
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("audit.log.1:3: this line was altered"), "{text}");
    fs::write(&log.files[0], &bytes).unwrap();

    // A truncated end is detected with a known record of it.
    let whole = fs::read_to_string(&log.files[1]).unwrap();
    let cut: Vec<&str> = whole.split_inclusive('\n').take(3).collect();
    fs::write(&log.files[1], cut.concat()).unwrap();
    log.world.ok(&log.verify());
    for more in [vec!["--strict"], vec!["--anchor", anchor]] {
        let output = log.world.rpc(&[&log.verify()[..], &more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
}

/// `delaycompress` of logrotate: the newest rotated file is as it was, older ones are compressed.
#[test]
fn files_that_logrotate_compressed_are_verified() {
    let mut log = Log::new();
    let output = std::process::Command::new("gzip").arg(&log.files[0]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    log.files[0] = log.world.scratch.path().join("audit.log.1.gz");
    let document = log.world.json(&[&log.verify()[..], &["-j"]].concat());
    assert_eq!((&document["lines"], &document["signed"]["seq"]), (&8.into(), &7.into()));
    let shown = log.world.ok(&["audit", "show", log.files[0].to_str().unwrap()]);
    assert_eq!(shown.lines().count(), 2, "{shown}");

    // A cut file is an error, not the end of the log.
    let bytes = fs::read(&log.files[0]).unwrap();
    fs::write(&log.files[0], &bytes[..bytes.len() - 9]).unwrap();
    let output = log.world.rpc(&log.verify());
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains("damaged or incomplete"), "{}", talk(&output));
}

#[test]
fn verification_requires_a_trusted_key() {
    let log = Log::new();
    let file = log.files[1].to_str().unwrap();
    let missing = log.world.scratch.path().join("none");
    let missing = missing.to_str().unwrap();
    for (args, code, told) in [
        (vec!["-c", missing, "audit", "verify", file], 1, "cannot read"),
        (vec!["audit", "verify", "--operator", &log.operator, missing], 1, "cannot read"),
        (vec!["audit", "verify", "--anchor", "7", file], 4, "NUMBER:HASH"),
    ] {
        let output = log.world.rpc(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(talk(&output).contains(told), "{}", talk(&output));
    }
}

#[test]
fn records_are_shown_by_caller_agent_and_verdict() {
    let log = Log::new();
    let file = log.files[0].to_str().unwrap();
    let all = log.world.ok(&["audit", "show", file]);
    assert_eq!(all.lines().count(), 2, "{all}");
    let denied = log.world.ok(&["audit", "show", "--verdict", "denied", "--caller", "rip", file]);
    assert!(
        denied.contains("denied   rip          service.restart") && denied.lines().count() == 1,
        "{denied}"
    );
    let json = log.world.ok(&["audit", "show", "-j", "--agent", "puppetral", file]);
    assert_eq!(json, "");
}

#[test]
fn truncated_log_is_detected_by_the_head_record() {
    use muster_wire::audit::HeadRecord;
    let log = Log::new();
    let state = log.world.scratch.path().join("state");
    fs::create_dir(&state).unwrap();
    let whole = fs::read_to_string(&log.files[1]).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let last = ChainPosition::after_line(lines[lines.len() - 1].as_bytes()).unwrap();
    let anchor = muster_wire::audit::AuditAnchor { seq: last.next - 1, hash: last.prev };
    let head = HeadRecord {
        anchor,
        log: Some(fs::canonicalize(&log.files[1]).unwrap().display().to_string()),
    };
    fs::write(state.join("audit.head"), head.to_string()).unwrap();
    let mut args = log.verify();
    args.extend(["--state", state.to_str().unwrap()]);
    let verify = || {
        let output = log.world.rpc(&args);
        let text = String::from_utf8(output.stdout.clone()).unwrap() + &talk(&output);
        (output.status.code(), text)
    };
    let (code, text) = verify();
    assert_eq!(code, Some(0), "{text}");

    // Without the head record, a truncated log cannot be detected.
    let missing = format!("line number {}, the anchor, is missing", anchor.seq);
    let cut = format!("{}\n", lines[..lines.len() - 1].join("\n"));
    for shorter in [cut.as_str(), ""] {
        fs::write(&log.files[1], shorter).unwrap();
        if !shorter.is_empty() {
            log.world.ok(&log.verify());
        }
        let (code, text) = verify();
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&missing), "{text}");
    }
    // The current file is missing and only a rotated file is left.
    fs::remove_file(&log.files[1]).unwrap();
    let args: Vec<&str> = args.iter().copied().filter(|arg| !arg.ends_with("audit.log")).collect();
    let output = log.world.rpc(&args);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));

    // A missing head record is an error if its directory was given.
    fs::write(&log.files[1], &whole).unwrap();
    fs::remove_file(state.join("audit.head")).unwrap();
    let output = log.world.rpc(&args);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert!(talk(&output).contains("no head record"), "{}", talk(&output));
}
