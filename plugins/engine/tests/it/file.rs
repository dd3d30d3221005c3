//! `file`: content, modes, owners, links, validation, and refused attributes.

use std::os::unix::fs::PermissionsExt;

use muster_engine::resource::ResourceValue;
use serde_json::json;

use crate::support::{Scratch, apply, check, converges, error, fake, messages, nothing};

pub(crate) const ABC: &str =
    "{sha256}ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

pub(crate) const ABD: &str =
    "{sha256}a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9";

pub(crate) fn mode(scratch: &Scratch, path: &str) -> u32 {
    std::fs::symlink_metadata(scratch.path(path)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn creates_changes_and_removes_a_file() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    let events = converges(engine, "file", "/tmp/x", json!({"content": "abc", "mode": "0600"}));
    assert_eq!(messages(&events), [format!("defined content as '{ABC}'")]);
    assert_eq!((scratch.text("/tmp/x").as_str(), mode(&scratch, "/tmp/x")), ("abc", 0o600));
    let events = converges(engine, "file", "/tmp/x", json!({"content": "abd", "mode": "640"}));
    assert_eq!(
        messages(&events),
        [format!("content changed '{ABC}' to '{ABD}'"), "mode changed '0600' to '0640'".to_owned()]
    );
    assert_eq!((scratch.text("/tmp/x").as_str(), mode(&scratch, "/tmp/x")), ("abd", 0o640));
    let events = converges(engine, "file", "/tmp/x", json!({"ensure": "absent"}));
    assert_eq!(messages(&events), ["removed"]);
    assert!(!scratch.path("/tmp/x").exists());
}

#[test]
fn present_accepts_any_existing_entry() {
    let scratch = Scratch::new();
    converges(&scratch.engine, "file", "/tmp/d", json!({"ensure": "directory"}));
    assert!(converges(&scratch.engine, "file", "/tmp/d", json!({"ensure": "present"})).is_empty());
    let events = converges(&scratch.engine, "file", "/tmp/f", json!({"ensure": "present"}));
    assert_eq!(messages(&events), ["created"]);
    assert_eq!(scratch.text("/tmp/f"), "");
}

#[test]
fn directory_mode_adds_search_permission_where_read_is_set() {
    let scratch = Scratch::new();
    converges(&scratch.engine, "file", "/tmp/d", json!({"ensure": "directory", "mode": "0640"}));
    assert_eq!(mode(&scratch, "/tmp/d"), 0o750);
    converges(&scratch.engine, "file", "/tmp/d", json!({"mode": "0444"}));
    assert_eq!(mode(&scratch, "/tmp/d"), 0o555);
}

#[test]
fn links_are_created_retargeted_and_not_followed() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/a", "keep");
    let events = converges(engine, "file", "/tmp/l", json!({"ensure": "/tmp/a"}));
    assert_eq!(messages(&events), ["created"]);
    let events = converges(engine, "file", "/tmp/l", json!({"target": "b", "mode": "0600"}));
    assert_eq!(messages(&events), ["target changed '/tmp/a' to 'b'"]);
    assert_eq!(std::fs::read_link(scratch.path("/tmp/l")).unwrap().to_str(), Some("b"));
    let events = converges(engine, "file", "/tmp/l", json!({"ensure": "file", "content": "abc"}));
    assert_eq!(messages(&events), [format!("defined content as '{ABC}'")]);
    assert_eq!((scratch.text("/tmp/a").as_str(), scratch.text("/tmp/l").as_str()), ("keep", "abc"));
}

#[test]
fn directory_is_removed_only_with_force() {
    let scratch = Scratch::new();
    scratch.write("/tmp/d/inner", "x");
    for words in [json!({"ensure": "absent"}), json!({"content": "x"}), json!({"ensure": "/x"})] {
        let outcome = apply(&scratch.engine, "file", "/tmp/d", words);
        assert!(error(&outcome).contains("use 'force' to override"), "{}", error(&outcome));
    }
    assert_eq!(scratch.text("/tmp/d/inner"), "x");
    converges(&scratch.engine, "file", "/tmp/d", json!({"ensure": "absent", "force": true}));
    assert!(!scratch.path("/tmp/d").exists());
}

#[test]
fn replace_false_keeps_existing_content() {
    let scratch = Scratch::new();
    scratch.write("/tmp/x", "mine");
    assert!(
        converges(&scratch.engine, "file", "/tmp/x", json!({"content": "new", "replace": false}))
            .is_empty()
    );
    assert_eq!(scratch.text("/tmp/x"), "mine");
    converges(&scratch.engine, "file", "/tmp/y", json!({"content": "new", "replace": false}));
    assert_eq!(scratch.text("/tmp/y"), "new");
}

#[test]
fn content_rejected_by_validate_cmd_is_not_installed() {
    let scratch = Scratch::new();
    scratch.write("/tmp/x", "good\n");
    let words = |content: &str| json!({"content": content, "validate_cmd": "/bin/grep -q good %"});
    let outcome = apply(&scratch.engine, "file", "/tmp/x", words("bad\n"));
    assert!(
        outcome.events[0].message.contains("failed: `validate_cmd` rejected the new content"),
        "{:?}",
        outcome.events
    );
    assert_eq!(scratch.text("/tmp/x"), "good\n");
    converges(&scratch.engine, "file", "/tmp/x", words("good again\n"));
    let left: Vec<_> = std::fs::read_dir(scratch.path("/tmp")).unwrap().collect();
    assert_eq!(left.len(), 1, "a staging file was left behind");
}

#[test]
fn owners_are_compared_by_id_and_reported_by_name() {
    let (system, engine) = fake();
    system
        .add_file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nrip:x:1000:1000::/home/rip:/bin/sh\n");
    system.add_file("/etc/group", "root:x:0:\nweb:x:33:\n");
    system.add_file("/srv/x", "x");
    assert!(
        converges(&engine, "file", "/srv/x", json!({"owner": "0", "group": "root"})).is_empty()
    );
    let events = converges(&engine, "file", "/srv/x", json!({"owner": "rip", "group": "33"}));
    assert_eq!(
        messages(&events),
        ["owner changed 'root' to 'rip'", "group changed 'root' to '33'"]
    );
    let found = engine.find_state("file", "/srv/x").unwrap();
    assert_eq!(
        (found.get("owner"), found.get("group")),
        (Some(&ResourceValue::from("rip")), Some(&ResourceValue::from("web")))
    );
    let outcome = apply(&engine, "file", "/srv/x", json!({"owner": "ghost"}));
    assert!(error(&outcome).contains("Could not find user ghost"));
}

#[test]
fn find_returns_all_properties() {
    let scratch = Scratch::new();
    scratch.write("/tmp/x", "abc");
    let found = scratch.engine.find_state("file", "/tmp/x").unwrap();
    assert_eq!(found.get("content"), Some(&ResourceValue::from(ABC)));
    assert_eq!(found.get("ensure"), Some(&ResourceValue::from("file")));
    for name in ["owner", "group", "mode"] {
        assert!(found.get(name).is_some(), "{name}");
    }
    assert!(scratch.engine.find_state("file", "/tmp/none").unwrap().is_absent());
}

#[test]
fn missing_file_without_ensure_is_not_created() {
    let scratch = Scratch::new();
    assert!(converges(&scratch.engine, "file", "/tmp/none", json!({"mode": "0600"})).is_empty());
    let outcome = apply(&scratch.engine, "file", "/no/such/dir/x", json!({"content": "x"}));
    assert!(
        error(&outcome).contains("parent directory /no/such/dir does not exist"),
        "{}",
        error(&outcome)
    );
}

#[test]
fn invalid_attributes_are_refused() {
    let (_, engine) = fake();
    for (words, expected) in [
        (
            json!({"source": "https://example.com/x"}),
            "must be a path on the node or a `puppet:` URL",
        ),
        (json!({"source": "relative"}), "must be a path on the node"),
        (json!({"mode": "u+q"}), "octal such as `0644` or symbolic"),
        (json!({"mode": 644}), "must be permission bits as a string"),
        (json!({"recurse": "sideways"}), "must be one of true, false, remote"),
        (json!({"recurse": "remote"}), "which needs a `source`"),
        (json!({"recurselimit": -1}), "must be 0 or more"),
        (json!({"backup": "./x"}), "must be a suffix without `/`"),
        (json!({"checksum": "crc"}), "must be one of sha256"),
        (json!({"checksum": "mtime", "content": "x"}), "which cannot be used to compare `content`"),
        (json!({"checksum": "none", "source": "/x"}), "which cannot be used to compare `source`"),
        (json!({"checksum_value": "abc", "source": "/x"}), "must be a sha256 checksum"),
        (json!({"ensure": "directory", "content": "x"}), "which cannot have `content`"),
        (json!({"content": "x", "source": "/y"}), "is given together with `content`"),
        (json!({"ensure": "link"}), "needs `target`"),
        (json!({"ensure": "sideways"}), "must be present, absent, file, directory, link or a path"),
    ] {
        let error = check(&engine, "file", "/tmp/x", words).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
    }
    assert!(
        check(&engine, "file", "relative", nothing())
            .unwrap_err()
            .to_string()
            .contains("an absolute path")
    );
}

#[test]
fn failed_property_does_not_stop_the_others() {
    let (system, engine) = fake();
    system.add_file("/srv/x", "x");
    system.inject_failure("/srv/x", "write");
    let outcome = apply(&engine, "file", "/srv/x", json!({"content": "y", "mode": "0600"}));
    assert_eq!(outcome.events.len(), 2);
    assert!(outcome.events[0].message.contains("failed: writing /srv/x"), "{:?}", outcome.events);
    assert_eq!(outcome.events[1].message, "mode changed '0644' to '0600'");
    assert!(outcome.error.is_some());
}

#[test]
fn symbolic_modes_apply_to_the_current_mode() {
    let scratch = Scratch::new();
    let engine = &scratch.engine;
    scratch.write("/tmp/x", "x");
    converges(engine, "file", "/tmp/x", json!({"mode": "0644"}));
    let events = converges(engine, "file", "/tmp/x", json!({"mode": "u+x,go-r"}));
    assert_eq!(messages(&events), ["mode changed '0644' to '0700' (u+x,go-r)"]);
    assert_eq!(events[0].desired_value, ResourceValue::from("u+x,go-r"));
    assert_eq!(mode(&scratch, "/tmp/x"), 0o700);
    converges(engine, "file", "/tmp/d", json!({"ensure": "directory", "mode": "g+w"}));
    assert_eq!(mode(&scratch, "/tmp/d"), 0o775);
    converges(engine, "file", "/tmp/new", json!({"content": "x", "mode": "o="}));
    assert_eq!(mode(&scratch, "/tmp/new"), 0o640);
}

#[test]
fn staging_location_and_validate_replacement_are_used() {
    let scratch = Scratch::new();
    let words = json!({
        "content": "100% good",
        "validate_cmd": "/bin/grep -q '100% good' FILE",
        "validate_replacement": "FILE",
        "staging_location": "/var/trial",
    });
    converges(&scratch.engine, "file", "/tmp/x", words);
    assert_eq!(scratch.text("/tmp/x"), "100% good");
    assert!(!scratch.path("/var/trial").exists());
}
