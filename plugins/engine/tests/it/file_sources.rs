//! `file`: sources, checksums, and backups of replaced content.

use std::os::unix::fs::PermissionsExt;

use muster_system::System;
use serde_json::json;

use crate::file::{ABC, ABD, mode};
use crate::support::{Scratch, apply, check, converges, error, fake, messages};

#[test]
fn backup_suffix_keeps_a_copy_of_the_replaced_file() {
    let scratch = Scratch::new();
    scratch.write("/tmp/x", "old");
    converges(&scratch.engine, "file", "/tmp/x", json!({"content": "new", "backup": ".bak"}));
    assert_eq!(
        (scratch.text("/tmp/x.bak").as_str(), scratch.text("/tmp/x").as_str()),
        ("old", "new")
    );
}

#[test]
fn file_follows_changes_of_its_source() {
    let scratch = Scratch::new();
    scratch.write("/tmp/from", "one");
    let words = || json!({"source": "/tmp/from"});
    converges(&scratch.engine, "file", "/tmp/to", words());
    assert_eq!(scratch.text("/tmp/to"), "one");
    scratch.write("/tmp/from", "two");
    converges(&scratch.engine, "file", "/tmp/to", words());
    assert_eq!(scratch.text("/tmp/to"), "two");
    let outcome = apply(&scratch.engine, "file", "/tmp/to", json!({"source": "/tmp/nothing"}));
    assert!(
        error(&outcome).contains("source(s) /tmp/nothing: nothing is there"),
        "{}",
        error(&outcome)
    );
}

#[test]
fn content_is_compared_by_the_given_checksum() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    let events = converges(engine, "file", "/tmp/x", json!({"content": "abc", "checksum": "md5"}));
    let abc = "{md5}900150983cd24fb0d6963f7d28e17f72";
    assert_eq!(messages(&events), [format!("defined content as '{abc}'")]);
    let events = converges(engine, "file", "/tmp/x", json!({"content": "abd", "checksum": "md5"}));
    assert_eq!(
        messages(&events),
        [format!("content changed '{abc}' to '{{md5}}4911e516e5aa21d327512e0c8b197616'")]
    );
}

#[test]
fn mtime_checksum_updates_only_older_copies() {
    let (system, engine) = fake();
    system.add_file("/srv/from", "one");
    let words = || json!({"source": "/srv/from", "checksum": "mtime"});
    let events = converges(&engine, "file", "/srv/to", words());
    assert_eq!(messages(&events), ["defined content as '{mtime}2023-11-14 22:13:20 UTC'"]);
    system.set_now(system.now() + std::time::Duration::from_mins(1));
    system.add_file("/srv/from", "two");
    system.set_now(system.now() + std::time::Duration::from_mins(1));
    let events = converges(&engine, "file", "/srv/to", words());
    assert_eq!(
        messages(&events),
        ["content changed '{mtime}2023-11-14 22:13:20 UTC' to '{mtime}2023-11-14 22:14:20 UTC'"]
    );
    assert_eq!(system.file_text("/srv/to"), "two");
}

#[test]
fn source_must_match_checksum_value() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/from", "abc");
    scratch.write("/tmp/to", "old");
    let sum = &ABC["{sha256}".len()..];
    let events = converges(
        engine,
        "file",
        "/tmp/to",
        json!({"source": "/tmp/from", "checksum_value": sum, "ensure": "file"}),
    );
    assert_eq!(events[0].property, "checksum_value");
    assert!(events[0].message.ends_with(&format!("to '{sum}'")), "{events:?}");
    scratch.write("/tmp/from", "something else");
    scratch.write("/tmp/to", "old");
    let outcome = apply(
        engine,
        "file",
        "/tmp/to",
        json!({"source": "/tmp/from", "checksum_value": sum, "ensure": "file"}),
    );
    assert!(
        error(&outcome).contains("did not match desired checksum; discarding changes"),
        "{}",
        error(&outcome)
    );
    assert_eq!(scratch.text("/tmp/to"), "old");
}

#[test]
fn first_existing_source_determines_the_kind_of_file() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/second", "abc");
    let words = || json!({"source": ["/tmp/first", "file:///tmp/second"]});
    let events = converges(engine, "file", "/tmp/to", words());
    assert_eq!(messages(&events), [format!("defined content as '{ABC}'")]);
    scratch.write("/tmp/first", "abd");
    let events = converges(engine, "file", "/tmp/to", words());
    assert_eq!(messages(&events), [format!("content changed '{ABC}' to '{ABD}'")]);
    std::fs::create_dir(scratch.path("/tmp/dir")).unwrap();
    let events = converges(engine, "file", "/tmp/todir", json!({"source": "/tmp/dir"}));
    assert_eq!(messages(&events), ["created"]);
    assert!(scratch.path("/tmp/todir").is_dir());
    std::os::unix::fs::symlink("second", scratch.path("/tmp/link")).unwrap();
    converges(engine, "file", "/tmp/tolink", json!({"source": "/tmp/link"}));
    assert!(scratch.path("/tmp/tolink").is_symlink());
    converges(engine, "file", "/tmp/tofile", json!({"source": "/tmp/link", "links": "follow"}));
    assert!(!scratch.path("/tmp/tofile").is_symlink());
    assert_eq!(scratch.text("/tmp/tofile"), "abc");
}

#[test]
fn source_permissions_copy_the_mode_of_the_source() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/from", "abc");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(scratch.path("/tmp/from"), private).unwrap();
    let words = |word: &str| json!({"source": "/tmp/from", "source_permissions": word});
    converges(engine, "file", "/tmp/to", words("use_when_creating"));
    assert_eq!(mode(&scratch, "/tmp/to"), 0o600);
    let public = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(scratch.path("/tmp/from"), public).unwrap();
    assert!(converges(engine, "file", "/tmp/to", words("use_when_creating")).is_empty());
    let events = converges(engine, "file", "/tmp/to", words("use"));
    assert_eq!(messages(&events), ["mode changed '0600' to '0644'"]);
}

#[test]
fn links_follow_changes_the_target_of_a_link() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/real", "old");
    std::os::unix::fs::symlink("real", scratch.path("/tmp/link")).unwrap();
    let words = json!({"content": "abc", "mode": "0600", "links": "follow"});
    converges(engine, "file", "/tmp/link", words);
    assert!(scratch.path("/tmp/link").is_symlink());
    assert_eq!((scratch.text("/tmp/real").as_str(), mode(&scratch, "/tmp/real")), ("abc", 0o600));
}

#[test]
fn filebucket_stores_and_restores_replaced_content() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/x", "abc");
    let resource =
        check(engine, "file", "/tmp/x", json!({"content": "new", "backup": "puppet"})).unwrap();
    let outcome =
        engine.apply_resource(&resource, muster_system::command::CancelFlag::default(), false);
    let sum = &ABC["{sha256}".len()..];
    assert_eq!(outcome.log, [format!("Filebucketed /tmp/x to puppet with sum {sum}")]);
    let place = format!("/var/lib/muster/clientbucket/b/a/7/8/1/6/b/f/{sum}");
    assert_eq!(scratch.text(&format!("{place}/contents")), "abc");
    assert_eq!(scratch.text(&format!("{place}/paths")), "/tmp/x\n");
    assert_eq!(mode(&scratch, &format!("{place}/contents")), 0o440);
    scratch.write("/tmp/y", "abc");
    converges(engine, "file", "/tmp/y", json!({"ensure": "absent", "backup": "puppet"}));
    assert_eq!(scratch.text(&format!("{place}/paths")), "/tmp/x\n/tmp/y\n");
    let events = converges(engine, "file", "/tmp/x", json!({"content": ABC, "backup": "puppet"}));
    assert!(events[0].message.ends_with(&format!("to '{ABC}'")));
    assert_eq!(scratch.text("/tmp/x"), "abc");
    let outcome = apply(engine, "file", "/tmp/x", json!({"content": "newer", "backup": "main"}));
    assert!(
        error(&outcome).contains("Could not find filebucket main specified in backup"),
        "{}",
        error(&outcome)
    );
    assert_eq!(scratch.text("/tmp/x"), "abc");
}

#[test]
fn directory_is_backed_up_before_force_removes_it() {
    let scratch = Scratch::new();
    scratch.write("/tmp/d/sub/inner", "abc");
    let words = json!({"ensure": "absent", "force": true, "backup": ".old"});
    converges(&scratch.engine, "file", "/tmp/d", words);
    assert!(!scratch.path("/tmp/d").exists());
    assert_eq!(scratch.text("/tmp/d.old/sub/inner"), "abc");
}
