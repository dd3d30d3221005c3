//! Hosts, mail aliases, ssh keys and cron jobs: a change affects one record of a file and keeps all other bytes. Also `notify`.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use muster_engine::providers::parsed_file::crontab::CrontabFormat;
use muster_engine::providers::parsed_file::{FileRecord, ParsedDocument, RecordFormat};
use muster_engine::resource::{ResourceValue, ResourceValues};
use muster_engine::types::host::HostsFormat;
use muster_engine::types::mailalias::AliasesFormat;
use muster_engine::types::ssh_authorized_key::AuthorizedKeysFormat;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Scratch, apply, converges, error, fake, messages, output};

const HOSTS: &str = "# the machine's own\n127.0.0.1   localhost  loghost  # here\n\n10.0.0.1\tdb\nnonsense\n::1 localhost";

#[test]
fn adds_changes_and_removes_a_host() {
    let scratch = Scratch::new();
    scratch.write("/etc/hosts", HOSTS);
    std::fs::set_permissions(scratch.path("/etc/hosts"), PermissionsExt::from_mode(0o640)).unwrap();
    let engine = &scratch.engine;
    let words = json!({"ip": "10.0.0.2", "host_aliases": ["web", "www"], "comment": "new"});
    assert_eq!(messages(&converges(engine, "host", "web1.example", words)), ["created"]);
    assert_eq!(
        scratch.text("/etc/hosts"),
        format!("{HOSTS}\n10.0.0.2\tweb1.example\tweb www\t# new\n")
    );
    let events =
        converges(engine, "host", "db", json!({"ip": "10.0.0.3", "host_aliases": "store"}));
    assert_eq!(
        messages(&events),
        ["ip changed '10.0.0.1' to '10.0.0.3'", "defined 'host_aliases' as 'store'"]
    );
    let events = converges(engine, "host", "db", json!({"host_aliases": []}));
    assert_eq!(messages(&events), ["undefined 'host_aliases' from store"]);
    assert!(scratch.text("/etc/hosts").contains("\n10.0.0.3\tdb\nnonsense\n::1 localhost\n"));
    assert_eq!(
        messages(&converges(engine, "host", "web1.example", json!({"ensure": "absent"}))),
        ["removed"]
    );
    converges(engine, "host", "db", json!({"ip": "10.0.0.1"}));
    assert_eq!(scratch.text("/etc/hosts"), format!("{HOSTS}\n"));
    let mode = std::fs::metadata(scratch.path("/etc/hosts")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
}

#[test]
fn creating_a_host_without_ip_fails() {
    let scratch = Scratch::new();
    let outcome = apply(&scratch.engine, "host", "db", json!({"comment": "x"}));
    assert_eq!(
        outcome.events[0].message,
        "change from 'absent' to 'present' failed: an entry needs `ip`"
    );
    assert!(!scratch.path("/etc/hosts").exists());
}

#[test]
fn mail_alias_is_written_to_the_target() {
    let scratch = Scratch::new();
    let words = || json!({"recipient": "rip@devco.net", "target": "/tmp/aliases"});
    assert_eq!(messages(&converges(&scratch.engine, "mailalias", "rip", words())), ["created"]);
    assert_eq!(scratch.text("/tmp/aliases"), "rip: rip@devco.net\n");
}

#[test]
fn mail_aliases_are_quoted_where_necessary() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/etc/aliases", "postmaster:    root,\n    admin\n# end\n");
    let found = engine.find_state("mailalias", "postmaster").unwrap();
    assert_eq!(
        found.get("recipient"),
        Some(&ResourceValue::List(vec!["root".to_owned(), "admin".to_owned()]))
    );
    let words = json!({"recipient": ["a-b+c@d.e", "|/bin/x -f \"y, z\"", "/var/mail/log"]});
    converges(engine, "mailalias", "robot", words);
    let line = "robot: a-b+c@d.e,\"|/bin/x -f \\\"y, z\\\"\",\"/var/mail/log\"\n";
    assert_eq!(
        scratch.text("/etc/aliases"),
        format!("postmaster:    root,\n    admin\n# end\n{line}")
    );
    let events = converges(engine, "mailalias", "robot", json!({"file": "/etc/robots"}));
    assert_eq!(events.len(), 2);
    assert!(scratch.text("/etc/aliases").ends_with("# end\nrobot: :include: /etc/robots\n"));
    let all = engine.list_instances("mailalias").unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].1["file"], ResourceValue::from("/etc/robots"));
}

#[test]
fn hundred_concurrent_requests_leave_a_valid_file() {
    let scratch = Scratch::new();
    scratch.write("/etc/hosts", HOSTS);
    thread::scope(|scope| {
        for number in 0..100 {
            let engine = &scratch.engine;
            scope.spawn(move || {
                let outcome = apply(
                    engine,
                    "host",
                    &format!("h{number}"),
                    json!({"ip": format!("10.1.0.{number}")}),
                );
                assert!(outcome.error.is_none(), "{:?}", outcome.error);
            });
        }
    });
    let text = scratch.text("/etc/hosts");
    assert!(text.starts_with(HOSTS));
    let mut added: Vec<&str> = text[HOSTS.len() + 1..].lines().collect();
    added.sort_unstable();
    let mut expected: Vec<String> =
        (0..100).map(|number| format!("10.1.0.{number}\th{number}")).collect();
    expected.sort_unstable();
    assert_eq!(added, expected);
}

const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJ2hHq0m7mB2";

#[test]
fn ssh_key_is_written_with_owner_and_mode_of_the_user() {
    let (system, engine) = fake();
    system.add_file("/etc/passwd", "rip:x:1000:1001::/home/rip:/bin/sh\n");
    system.add_directory("/home/rip");
    let words = || json!({"user": "rip", "type": "ed25519", "key": KEY, "options": ["no-pty", "command=\"a, \\\"b\\\" c\""]});
    assert_eq!(
        messages(&converges(&engine, "ssh_authorized_key", "rip@laptop", words())),
        ["created"]
    );
    let path = "/home/rip/.ssh/authorized_keys";
    assert_eq!(
        system.file_text(path),
        format!("no-pty,command=\"a, \\\"b\\\" c\" ssh-ed25519 {KEY} rip@laptop\n")
    );
    for (path, mode) in [(path, 0o600), ("/home/rip/.ssh", 0o700)] {
        let found = muster_system::System::metadata(&system, path.as_ref()).unwrap().unwrap();
        assert_eq!((found.mode, found.uid, found.gid), (mode, 1000, 1001), "{path}");
    }
    let found = engine.find_state("ssh_authorized_key", "rip@laptop").unwrap();
    assert_eq!(
        (found.get("user"), found.get("type")),
        (Some(&ResourceValue::from("rip")), Some(&ResourceValue::from("ssh-ed25519")))
    );
    converges(
        &engine,
        "ssh_authorized_key",
        "rip@laptop",
        json!({"user": "rip", "ensure": "absent"}),
    );
    assert_eq!(system.file_text(path), "");
}

#[test]
fn ssh_key_is_not_written_through_a_symbolic_link() {
    let scratch = Scratch::new();
    scratch.write("/etc/passwd", "rip:x:1000:1001::/home/rip:/bin/sh\n");
    scratch.write("/home/rip/x", "");
    std::os::unix::fs::symlink("/etc", scratch.path("/home/rip/.ssh")).unwrap();
    let words = json!({"user": "rip", "type": "rsa", "key": KEY});
    let outcome = apply(&scratch.engine, "ssh_authorized_key", "k", words);
    assert!(error(&outcome).contains("is a symbolic link"), "{}", error(&outcome));
    let outcome = apply(
        &scratch.engine,
        "ssh_authorized_key",
        "k",
        json!({"user": "ghost", "type": "rsa", "key": KEY}),
    );
    assert!(error(&outcome).contains("user `ghost` does not exist"), "{}", error(&outcome));
}

const CRONTAB: &str =
    "MAILTO=root\n# m h dom mon dow\n0 1 * * * /usr/bin/backup  --all\n@daily\t/usr/bin/daily\n";

#[test]
fn cron_job_is_marked_with_its_puppet_name() {
    let scratch = Scratch::new();
    scratch.write("/var/spool/cron/crontabs/root", CRONTAB);
    let engine = &scratch.engine;
    let words = json!({
        "command": "/bin/log rotate", "minute": [0, "30"], "hour": "*/2", "weekday": "Friday", "month": ["jan", "Feb"],
        "environment": ["PATH=/bin", "A=b"],
    });
    assert_eq!(messages(&converges(engine, "cron", "rotate logs", words)), ["created"]);
    let added = "# Puppet Name: rotate logs\nPATH=/bin\nA=b\n0,30 */2 * 1,2 5 /bin/log rotate\n";
    assert_eq!(scratch.text("/var/spool/cron/crontabs/root"), format!("{CRONTAB}{added}"));
    let events = converges(engine, "cron", "rotate logs", json!({"special": "daily"}));
    assert_eq!(messages(&events)[0], "defined 'special' as 'daily'");
    assert!(
        scratch.text("/var/spool/cron/crontabs/root").ends_with("A=b\n@daily /bin/log rotate\n")
    );
    converges(engine, "cron", "rotate logs", json!({"ensure": "absent"}));
    assert_eq!(scratch.text("/var/spool/cron/crontabs/root"), CRONTAB);
}

#[test]
fn unmanaged_cron_job_is_not_duplicated() {
    let scratch = Scratch::new();
    scratch.write("/var/spool/cron/crontabs/root", CRONTAB);
    let words = || json!({"command": "/usr/bin/backup  --all", "minute": 0, "hour": 1});
    assert!(converges(&scratch.engine, "cron", "backup", words()).is_empty());
    let found = scratch.engine.list_instances("cron").unwrap();
    let titles: Vec<&str> = found.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, ["unmanaged:/usr/bin/backup_--all", "unmanaged:/usr/bin/daily"]);
}

#[test]
fn crontab_installs_the_job_on_the_real_root() {
    let (system, engine) = fake();
    system.script_handler(&["crontab", "-u", "rip", "-"], |system, command| {
        system.add_file("/var/spool/cron/crontabs/rip", &command.stdin);
        output(0, "")
    });
    let events =
        converges(&engine, "cron", "x", json!({"command": "/bin/x", "user": "rip", "minute": 5}));
    assert_eq!(messages(&events), ["created"]);
    assert_eq!(
        system.file_text("/var/spool/cron/crontabs/rip"),
        "# Puppet Name: x\n5 * * * * /bin/x\n"
    );
    system.script_output(&["crontab"], output(1, "you are not allowed"));
    let outcome =
        apply(&engine, "cron", "y", json!({"command": "/bin/x", "minute": 6, "user": "rip"}));
    assert!(
        error(&outcome).contains("`crontab -u rip -` ended with code 1: you are not allowed"),
        "{}",
        error(&outcome)
    );
}

/// The lines that Debian's `crontab` puts in front of each file that it installs.
const INSTALLED_HEADER: &str = "# DO NOT EDIT THIS FILE - edit the master and reinstall.\n\
    # (- installed on Wed Nov 25 08:00:00 2026)\n\
    # (Cron version -- $Id: crontab.c,v 2.13 1994/01/17 03:20:37 vixie Exp $)\n";

#[test]
fn crontab_has_one_header_after_three_changes() {
    let (system, engine) = fake();
    system.script_handler(&["crontab", "-u", "rip", "-"], |system, command| {
        let content = [INSTALLED_HEADER.as_bytes(), &command.stdin].concat();
        system.add_file("/var/spool/cron/crontabs/rip", content);
        output(0, "")
    });
    // An earlier version left a second header.
    let old = format!("{INSTALLED_HEADER}{INSTALLED_HEADER}# mine\nPATH=/bin\n");
    system.add_file("/var/spool/cron/crontabs/rip", old);
    for minute in [5, 6, 7] {
        let job = json!({"command": "/bin/x", "user": "rip", "minute": minute});
        converges(&engine, "cron", "x", job);
    }
    assert_eq!(
        system.file_text("/var/spool/cron/crontabs/rip"),
        format!("{INSTALLED_HEADER}# mine\nPATH=/bin\n# Puppet Name: x\n7 * * * * /bin/x\n")
    );
}

#[test]
fn notify_logs_its_message_on_each_run() {
    let (_, engine) = fake();
    for _ in 0..2 {
        let outcome = apply(&engine, "notify", "hello", json!({"withpath": true}));
        assert_eq!(messages(&outcome.events), ["defined 'message' as 'hello'"]);
        assert_eq!(outcome.log, ["Notify[hello]: hello"]);
    }
}

const FORMATS: [&dyn RecordFormat; 4] =
    [&HostsFormat, &AliasesFormat, &AuthorizedKeysFormat, &CrontabFormat];

/// Files with valid lines of all formats and with invalid lines, with or without a final newline.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just(b"# a comment".to_vec()),
        Just(Vec::new()),
        Just(b"# Puppet Name: job".to_vec()),
        Just(b"A=b".to_vec()),
        Just(b"@daily /bin/x".to_vec()),
        Just(b"  continued, line".to_vec()),
        Just(b"\xff\xfe not text".to_vec()),
        "(10\\.0\\.0\\.[1-9]|::1)[ \t]+h[a-c]([ \t]+[a-c]){0,2}( # x)?"
            .prop_map(String::into_bytes),
        "[a-c]+ ?: ?[a-c\",@|/]{1,9}".prop_map(String::into_bytes),
        "(no-pty )?ssh-rsa AAAA[a-c]{0,3}".prop_map(String::into_bytes),
        "[0-9*,/]{1,3} [0-9*]{1,2} \\* \\* \\* /bin/[a-c]".prop_map(String::into_bytes),
        any::<Vec<u8>>(),
    ];
    (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ends)| {
        let mut bytes = lines.join(&b'\n');
        if ends {
            bytes.push(b'\n');
        }
        bytes
    })
}

/// A record with the required values of all formats.
fn record() -> FileRecord {
    let text = |value: &str| ResourceValue::from(value);
    let values = [
        ("ip", text("10.9.9.9")),
        ("recipient", ResourceValue::List(vec!["r@x".to_owned()])),
        ("type", text("ssh-rsa")),
        ("key", text("AAAAnew")),
        ("command", text("/bin/new")),
    ];
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value));
    FileRecord { name: "newcomer".to_owned(), values: values.collect::<ResourceValues>() }
}

proptest! {
    #[test]
    fn rendering_reproduces_any_file(bytes in lines()) {
        for format in FORMATS {
            prop_assert_eq!(ParsedDocument::parse(format, &bytes).render(), bytes.clone(), "{:?}", format);
        }
    }

    #[test]
    fn adding_and_removing_keeps_all_other_bytes(bytes in lines()) {
        for format in FORMATS {
            let mut document = ParsedDocument::parse(format, &bytes);
            document.put(None, record()).unwrap();
            let added = document.render();
            prop_assert!(added.starts_with(&bytes), "{:?}", format);
            let added: Vec<_> =
                document.records().filter(|(_, record)| record.name == "newcomer").map(|(at, _)| at).collect();
            document.remove(&added);
            let mut ended = bytes.clone();
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                ended.push(b'\n');
            }
            prop_assert_eq!(document.render(), ended, "{:?}", format);
        }
    }

    #[test]
    fn rendered_record_parses_to_the_same_record(bytes in lines()) {
        for format in FORMATS {
            for (_, record) in ParsedDocument::parse(format, &bytes).records() {
                let Ok(line) = format.render(record) else { continue };
                let again = ParsedDocument::parse(format, line.as_bytes());
                let found: Vec<&FileRecord> = again.records().map(|(_, record)| record).collect();
                prop_assert_eq!(found, [record], "{:?}: {:?}", format, line);
            }
        }
    }
}
