//! Records of files that people and other programs write, too: several records of one name, comments and continuation lines inside a record.

use serde_json::{Value as Json, json};

use crate::support::{Scratch, check, converges, messages};

const CRONTAB: &str = "/var/spool/cron/crontabs/root";

fn change(
    path: &str,
    before: &str,
    (kind, title, words): (&str, &str, Json),
) -> (Vec<String>, String) {
    let scratch = Scratch::new();
    scratch.write(path, before);
    let events = converges(&scratch.engine, kind, title, words);
    let messages = messages(&events).into_iter().map(str::to_owned).collect();
    (messages, scratch.text(path))
}

fn unchanged(path: &str, before: &str, resource: (&str, &str, Json)) {
    assert_eq!(change(path, before, resource), (Vec::new(), before.to_owned()));
}

#[test]
fn comment_between_marker_and_job_belongs_to_others() {
    let before =
        "# Puppet Name: backup\n# nightly\n\nMAILTO=root\n# or later\n0 1 * * * /bin/backup\n";
    let job = |minute: u32| {
        ("cron", "backup", json!({"command": "/bin/backup", "minute": minute, "hour": 1}))
    };
    unchanged(CRONTAB, before, job(0));
    let (events, text) = change(CRONTAB, before, job(5));
    assert_eq!(events, ["minute changed ['0'] to ['5']"]);
    let others = "# nightly\n\n# or later\n";
    let record = "# Puppet Name: backup\nMAILTO=root\n5 1 * * * /bin/backup\n";
    assert_eq!(text, format!("{others}{record}"));
    let absent = ("cron", "backup", json!({"ensure": "absent"}));
    assert_eq!(change(CRONTAB, before, absent), (vec!["removed".to_owned()], others.to_owned()));
}

#[test]
fn marker_without_a_job_does_not_take_the_job_of_another() {
    let before =
        "# Puppet Name: gone\n# Puppet Name: backup\n0 1 * * * /bin/backup\n0 2 * * * /bin/other\n";
    let absent = ("cron", "backup", json!({"ensure": "absent"}));
    let (_, text) = change(CRONTAB, before, absent);
    assert_eq!(text, "0 2 * * * /bin/other\n");
    unchanged(CRONTAB, "# Puppet Name: gone\nA=b\n", ("cron", "gone", json!({"ensure": "absent"})));
}

#[test]
fn only_the_matching_job_of_two_without_markers_is_removed() {
    let before = "0 1 * * * /bin/x\n0 2 * * * /bin/x\n";
    let words =
        |ensure: &str| json!({"ensure": ensure, "command": "/bin/x", "minute": 0, "hour": 2});
    unchanged(CRONTAB, before, ("cron", "x", words("present")));
    let (_, text) = change(CRONTAB, before, ("cron", "x", words("absent")));
    assert_eq!(text, "0 1 * * * /bin/x\n");
    // As in Puppet, only the given times must match.
    unchanged(CRONTAB, before, ("cron", "x", json!({"command": "/bin/x", "minute": 0})));
    let settings = json!({"command": "/bin/x", "environment": ["A=1", "B=2"]});
    unchanged(CRONTAB, "# Puppet Name: x\nB=2\nA=1\n* * * * * /bin/x\n", ("cron", "x", settings));
}

#[test]
fn matching_record_of_several_is_the_one() {
    let hosts = "127.0.0.1 localhost\n::1 localhost # v6\n";
    for ip in ["127.0.0.1", "::1"] {
        unchanged("/etc/hosts", hosts, ("host", "localhost", json!({"ip": ip})));
    }
    let (events, text) =
        change("/etc/hosts", hosts, ("host", "localhost", json!({"ip": "127.0.0.2"})));
    assert_eq!(events, ["ip changed '::1' to '127.0.0.2'"]);
    assert_eq!(text, "127.0.0.1 localhost\n127.0.0.2\tlocalhost\t# v6\n");
    let absent = ("host", "localhost", json!({"ensure": "absent"}));
    assert_eq!(change("/etc/hosts", hosts, absent).1, "");
}

#[test]
fn continued_and_quoted_aliases_are_one_record() {
    let before = "\"root\": a,\n  # why\n\n\tb\n# next\nx: y\n";
    let alias = |recipients: Json| ("mailalias", "root", json!({"recipient": recipients}));
    unchanged("/etc/aliases", before, alias(json!(["a", "b"])));
    let (_, text) = change("/etc/aliases", before, alias(json!(["c"])));
    assert_eq!(text, "  # why\n\nroot: c\n# next\nx: y\n");
}

#[test]
fn swap_space_is_managed_by_its_name() {
    let before = "/dev/a none swap sw 0 0\n/dev/b none swap sw 0 0\n";
    for (name, device) in [("none", "/dev/a"), ("none", "/dev/b")] {
        let swap =
            json!({"ensure": "defined", "device": device, "fstype": "swap", "options": "sw"});
        unchanged("/etc/fstab", before, ("mount", name, swap));
    }
    let swap = json!({"ensure": "defined", "device": "/dev/c", "fstype": "swap"});
    let (_, text) = change("/etc/fstab", before, ("mount", "swap", swap));
    assert_eq!(text, format!("{before}/dev/c\tswap\tswap\tdefaults\t0\t0\n"));
    let scratch = Scratch::new();
    assert!(check(&scratch.engine, "mount", "a\tb", json!({})).is_err());
}

#[test]
fn key_without_options_loses_them_as_in_puppet() {
    let path = "/tmp/keys";
    let key = json!({"target": path, "type": "ssh-rsa", "key": "AAAA"});
    let (events, text) =
        change(path, "no-pty ssh-rsa AAAA me\n", ("ssh_authorized_key", "me", key));
    assert_eq!(events, ["undefined 'options' from ['no-pty']"]);
    assert_eq!(text, "ssh-rsa AAAA me\n");
}

/// As in Puppet, of which the page "Differences from Puppet" says where it removes more.
#[test]
fn comment_after_a_changed_record_stays_in_a_hosts_file_only() {
    let hosts = "192.0.2.1 web1 www # the old one\n127.0.0.1 localhost # loop\n";
    let (_, text) = change("/etc/hosts", hosts, ("host", "web1", json!({"ip": "192.0.2.2"})));
    assert_eq!(text, "192.0.2.2\tweb1\twww\t# the old one\n127.0.0.1 localhost # loop\n");
    let fstab = "/dev/sda1 / ext4 defaults 0 1 # root\n/dev/sdb1 /srv ext4 defaults 0 2 # data\n";
    let mount = |options: &str| {
        let words = json!({"ensure": "defined", "device": "/dev/sdb1", "fstype": "ext4", "options": options, "pass": "2"});
        ("mount", "/srv", words)
    };
    unchanged("/etc/fstab", fstab, mount("defaults"));
    let (_, text) = change("/etc/fstab", fstab, mount("noatime"));
    let changed = "/dev/sdb1\t/srv\text4\tnoatime\t0\t2\n";
    assert_eq!(text, format!("/dev/sda1 / ext4 defaults 0 1 # root\n{changed}"));
    let aliases = "root: admin # unread\npostmaster: root\n";
    let words = json!({"recipient": "anna"});
    let (_, text) = change("/etc/aliases", aliases, ("mailalias", "root", words));
    assert_eq!(text, "root: anna\npostmaster: root\n");
}
