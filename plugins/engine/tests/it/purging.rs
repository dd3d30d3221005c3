//! `tidy`, `resources`, `filebucket` and `purge_ssh_keys`: which files and resources are removed, and which are kept.

use std::time::Duration;

use muster_engine::ResourceContext;
use muster_engine::resource::Resource;
use muster_system::System;
use muster_system::command::CancelFlag;
use muster_system::fake::FakeSystem;
use serde_json::json;

use crate::support::{Others, apply_all, check, fake, generate};

const DAY: Duration = Duration::from_hours(24);

fn titles(all: &[Resource]) -> Vec<&str> {
    all.iter().map(|resource| resource.title.as_str()).collect()
}

/// Adds files that are 10 days old and new files below `/tmp`.
fn aged(system: &FakeSystem) {
    system.add_file("/tmp/old.log", "x".repeat(100));
    system.add_file("/tmp/old/inner", "x");
    system.add_file("/tmp/mixed/old", "x");
    system.set_now(system.now() + 10 * DAY);
    system.add_file("/tmp/young.log", "x".repeat(5000));
    system.add_file("/tmp/mixed/young", "x");
}

fn tidied(words: serde_json::Value) -> Vec<String> {
    let (system, engine) = fake();
    aged(&system);
    let resource = check(&engine, "tidy", "/tmp", words).unwrap();
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let found = generate(&cx, &resource, &Others::default()).unwrap();
    titles(&found).into_iter().map(str::to_owned).collect()
}

#[test]
fn tidy_selects_by_age_or_size_and_restricts_by_pattern() {
    for (words, expected) in [
        (
            json!({"recurse": true, "age": "1w"}),
            vec!["/tmp/old.log", "/tmp/old/inner", "/tmp/mixed/old"],
        ),
        (json!({"recurse": 1, "age": "9"}), vec!["/tmp/old.log"]),
        (json!({"recurse": true, "age": "11d"}), vec![]),
        (json!({"recurse": true, "size": "4k"}), vec!["/tmp/young.log"]),
        (json!({"recurse": true, "size": "100b"}), vec!["/tmp/young.log", "/tmp/old.log"]),
        (
            json!({"recurse": true, "size": "4", "age": "1w", "matches": ["*.log"]}),
            vec!["/tmp/young.log", "/tmp/old.log"],
        ),
        (
            json!({"recurse": true, "age": "1w", "type": "mtime", "matches": "inner"}),
            vec!["/tmp/old/inner"],
        ),
        (json!({"age": "1w"}), vec![]),
    ] {
        assert_eq!(tidied(words.clone()), expected, "{words}");
    }
}

#[test]
fn tidy_removes_a_directory_only_with_all_its_contents() {
    let (system, engine) = fake();
    aged(&system);
    let words = json!({"recurse": true, "age": "1w", "rmdirs": true, "noop": false, "tag": "t"});
    let resource = check(&engine, "tidy", "/tmp", words).unwrap();
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let found = generate(&cx, &resource, &Others::default()).unwrap();
    assert_eq!(titles(&found), ["/tmp/old.log", "/tmp/old/inner", "/tmp/old", "/tmp/mixed/old"]);
    assert_eq!(found[2].get_list("require"), ["File[/tmp/old/inner]"]);
    assert_eq!(found[2].get_list("tag"), ["t"]);
    assert_eq!(apply_all(&engine, &found).len(), 4);
    assert!(system.metadata("/tmp/mixed/young".as_ref()).unwrap().is_some());
    assert!(system.metadata("/tmp/old".as_ref()).unwrap().is_none());
    assert!(generate(&cx, &resource, &Others::default()).unwrap().is_empty());
}

#[test]
fn files_of_the_catalog_are_not_tidied() {
    let (system, engine) = fake();
    aged(&system);
    let others = Others::of(&engine, [("file", "/tmp/old.log", json!({}))]);
    let words = json!({"recurse": 1, "age": "0"});
    let resource = check(&engine, "tidy", "/tmp", words).unwrap();
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let found = generate(&cx, &resource, &others).unwrap();
    assert_eq!(titles(&found), ["/tmp/young.log"]);
}

#[test]
fn invalid_tidy_attributes_are_refused() {
    let (_, engine) = fake();
    for (words, expected) in [
        (json!({"age": "1y"}), "must be a number and s, m, h, d or w"),
        (json!({"size": "big"}), "must be a number and b, k, m, g or t"),
        (json!({"matches": "*"}), "requires `recurse`"),
        (json!({"recurse": "deep"}), "a number of levels"),
        (json!({"backup": ".bak"}), "only be stored in a filebucket"),
    ] {
        let error = check(&engine, "tidy", "/tmp", words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn hosts_absent_from_the_catalog_are_purged() {
    let (system, engine) = fake();
    system.add_file("/etc/hosts", "127.0.0.1 localhost\n10.0.0.1 db\n# kept\n10.0.0.2 web\n");
    let others = Others::of(
        &engine,
        [
            ("host", "localhost", json!({"ip": "127.0.0.1"})),
            ("host", "the web", json!({"name": "web", "ip": "10.0.0.2"})),
        ],
    );
    let words = json!({"purge": true});
    let resource = check(&engine, "resources", "host", words).unwrap();
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let found = generate(&cx, &resource, &others).unwrap();
    assert_eq!(apply_all(&engine, &found), ["Host[db]: removed"]);
    assert_eq!(system.file_text("/etc/hosts"), "127.0.0.1 localhost\n# kept\n10.0.0.2 web\n");
}

#[test]
fn system_users_and_excluded_uids_are_not_purged() {
    let purged = |words: serde_json::Value| {
        let (system, engine) = fake();
        let system = system.with_root("/scratch");
        system.add_file("/etc/login.defs", "# x\nUID_MIN\t\t 1000 # first\n");
        system.add_file(
            "/etc/passwd",
            "root:x:0:0::/:\nnobody:x:65534:1::/:\nweb:x:999:1::/:\nann:x:1000:1::/:\nbob:x:2000:1::/:\n",
        );
        let resource = check(&engine, "resources", "user", words).unwrap();
        let cx = ResourceContext::new(&system, CancelFlag::default());
        let found = generate(&cx, &resource, &Others::default()).unwrap();
        titles(&found).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(purged(json!({"purge": true})), ["ann", "bob"]);
    assert_eq!(purged(json!({"purge": true, "unless_uid": [2000, "7"]})), ["ann"]);
    assert_eq!(purged(json!({"purge": true, "unless_system_user": 1500})), ["bob"]);
    assert_eq!(purged(json!({"purge": true, "unless_system_user": false})).len(), 5);
    assert!(purged(json!({})).is_empty());
}

#[test]
fn cron_job_is_purged_from_its_own_crontab() {
    let (system, engine) = fake();
    let system = system.with_root("/scratch");
    system.add_file("/var/spool/cron/crontabs/ann", "# Puppet Name: old\n* * * * * /bin/true\n");
    let resource = check(&engine, "resources", "cron", json!({"purge": true})).unwrap();
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let found = generate(&cx, &resource, &Others::default()).unwrap();
    assert_eq!(found[0].get_text("target"), Some("ann"));
}

#[test]
fn types_that_cannot_be_listed_are_not_purged() {
    let (_, engine) = fake();
    for (name, expected) in [
        ("nothing", "there is no resource type `nothing`"),
        ("file", "cannot be purged"),
        ("exec", "cannot be purged"),
        ("ssh_authorized_key", "cannot be purged"),
    ] {
        let error = check(&engine, "resources", name, json!({"purge": true})).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn declared_bucket_is_used_by_files_of_the_same_run() {
    let (system, engine) = fake();
    let cx = ResourceContext::new(&system, CancelFlag::default()).with_bucket("/var/bucket");
    for (name, words) in [
        ("main", json!({"path": "/srv/bucket"})),
        ("far", json!({"path": false, "server": "puppet.example.com"})),
    ] {
        let bucket = check(&engine, "filebucket", name, words).unwrap();
        assert!(generate(&cx, &bucket, &Others::default()).unwrap().is_empty());
    }
    let types = muster_engine::types::builtin_types();
    let known = types.iter().find(|known| known.schema().type_name == "file").unwrap();
    for (bucket, place) in
        [("main", "/srv/bucket"), ("far", "/var/bucket"), ("puppet", "/var/bucket")]
    {
        system.add_file("/srv/x", bucket);
        let words = json!({"content": "new", "backup": bucket});
        let file = check(&engine, "file", "/srv/x", words).unwrap();
        let plan = known.plan(&file, &known.read_state(&cx.bind(&file)).unwrap());
        known.apply_change(&cx, &plan, &plan.changes[0]).unwrap();
        let sum =
            muster_engine::providers::digest::ChecksumKind::Sha256.hex_checksum(bucket.as_bytes());
        let kept =
            muster_engine::providers::bucket::fetch_content(&system, place.as_ref(), &sum).unwrap();
        assert_eq!(kept.as_deref(), Some(bucket.as_bytes()));
    }
}

#[test]
fn ssh_keys_absent_from_the_catalog_are_purged() {
    let (system, engine) = fake();
    let system = system.with_root("/scratch");
    system
        .add_file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n");
    system.add_file(
        "/home/ann/.ssh/authorized_keys",
        "# mine\nssh-rsa AAAA ann@laptop\nssh-rsa BBBB thief\nssh-ed25519 CCCC\n",
    );
    system.add_file("/srv/keys", "ssh-rsa DDDD other\n");
    let others = Others::of(
        &engine,
        [(
            "ssh_authorized_key",
            "ann@laptop",
            json!({"user": "ann", "type": "rsa", "key": "AAAA"}),
        )],
    );
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let purged = |words: serde_json::Value| {
        let user = check(&engine, "user", "ann", words).unwrap();
        generate(&cx, &user, &others).unwrap()
    };
    let found = purged(json!({"purge_ssh_keys": true, "tag": "t"}));
    assert_eq!(titles(&found), ["thief", "CCCC"]);
    assert_eq!(found[0].get_list("tag"), ["t"]);
    assert_eq!(
        apply_all(&engine, &found),
        ["Ssh_authorized_key[thief]: removed", "Ssh_authorized_key[CCCC]: removed"]
    );
    assert_eq!(
        system.file_text("/home/ann/.ssh/authorized_keys"),
        "# mine\nssh-rsa AAAA ann@laptop\n"
    );
    assert_eq!(titles(&purged(json!({"purge_ssh_keys": ["%h/none", "/srv/keys"]}))), ["other"]);
    assert!(purged(json!({"purge_ssh_keys": false})).is_empty());
    assert!(purged(json!({"purge_ssh_keys": true, "ensure": "absent"})).is_empty());
    let error = check(&engine, "user", "ann", json!({"purge_ssh_keys": "keys"})).unwrap_err();
    assert!(error.to_string().contains("must be true, false or paths"), "{error}");
}
