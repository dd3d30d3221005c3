//! Accounts of a scratch root: homes, groups, refused values, failed writes, and concurrent requests.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use muster_engine::resource::ResourceValue;
use muster_system::fake::FakeSystem;
use serde_json::json;

use super::node::Node;

#[test]
fn home_is_created_from_the_skeleton_and_removed() {
    let (directory, node) = Node::scratch();
    node.write("/etc/skel/.profile", "hello", 0o640);
    node.write("/etc/skel/bin/tool", "x", 0o755);
    node.write("/etc/login.defs", "HOME_MODE 0710\n", 0o644);
    node.system.create_symlink(Path::new("bin/tool"), Path::new("/etc/skel/link")).unwrap();
    node.apply("user", "rip", json!({"uid": 4321, "managehome": true}));
    let home = directory.path().join("home/rip");
    let made = std::fs::metadata(&home).unwrap();
    assert_eq!(made.permissions().mode() & 0o7777, 0o710);
    assert_eq!(std::fs::read_to_string(home.join(".profile")).unwrap(), "hello");
    assert_eq!(std::fs::read_link(home.join("link")).unwrap(), Path::new("bin/tool"));
    let owned = |path: &str| std::fs::symlink_metadata(home.join(path)).unwrap().uid();
    if std::fs::metadata(directory.path()).unwrap().uid() == 0 {
        assert_eq!([owned(""), owned("bin/tool"), owned("link")], [4321; 3]);
    }
    node.apply("user", "rip", json!({"uid": 4322}));
    if std::fs::metadata(directory.path()).unwrap().uid() == 0 {
        assert_eq!([owned(""), owned("bin/tool"), owned("link")], [4322; 3]);
    }
    node.apply("user", "rip", json!({"ensure": "absent", "managehome": true}));
    assert!(!home.exists());
    assert!(home.parent().unwrap().exists());
}

#[test]
fn homes_of_the_system_or_of_others_are_not_removed() {
    let node = Node::memory();
    node.write("/etc/keep", "x", 0o644);
    node.write("/srv/both/inner/keep", "x", 0o644);
    for home in ["/", "/etc", "/home", "/usr/games", "/var/lib", "/srv/both"] {
        node.apply("user", "other", json!({"home": "/srv/both/inner"}));
        node.apply("user", "rip", json!({"home": home, "managehome": true}));
        node.apply("user", "rip", json!({"ensure": "absent", "managehome": true}));
    }
    assert_eq!(node.text("/etc/keep"), "x");
    assert_eq!(node.text("/srv/both/inner/keep"), "x");
}

#[test]
fn creates_changes_and_removes_a_group() {
    let node = Node::memory();
    assert_eq!(
        node.apply("group", "ops", json!({"gid": 3000, "members": ["b", "a"]})),
        ["ensure: created"]
    );
    assert_eq!(
        node.apply("group", "ops", json!({"members": ["c"]})),
        ["members: members changed ['a', 'b'] to ['a', 'b', 'c']"]
    );
    assert_eq!(
        node.apply("group", "ops", json!({"members": ["c"], "auth_membership": true})),
        ["members: members changed ['a', 'b', 'c'] to ['c']"]
    );
    node.apply("user", "rip", json!({"gid": "ops"}));
    assert_eq!(node.apply("group", "ops", json!({"gid": 3001})), ["gid: gid changed 3000 to 3001"]);
    assert_eq!(
        node.engine.find_state("user", "rip").unwrap().get("gid"),
        Some(&ResourceValue::Int(3001))
    );
    let error = node.error("group", "ops", json!({"ensure": "absent"}));
    assert!(error.contains("primary group of user 'rip'"), "{error}");
    node.apply("user", "rip", json!({"ensure": "absent"}));
    assert_eq!(node.apply("group", "ops", json!({"ensure": "absent"})), ["ensure: removed"]);
}

#[test]
fn invalid_values_are_refused_and_change_nothing() {
    let node = Node::memory();
    for (title, json) in [
        ("a:b", json!({})),
        ("-r", json!({})),
        ("x\ny", json!({})),
        ("rip", json!({"comment": "a:0:0"})),
        ("rip", json!({"comment": "a\nroot2:x:0:0"})),
        ("rip", json!({"home": "relative"})),
        ("rip", json!({"password": "a\nb"})),
        ("rip", json!({"uid": -1})),
        ("rip", json!({"uid": 4_294_967_295_u32})),
        ("rip", json!({"gid": "4294967295"})),
        ("rip", json!({"groups": ["a,b"]})),
        ("rip", json!({"groups": ["12"]})),
        ("rip", json!({"expiry": "2023-02-30"})),
        ("rip", json!({"membership": "all"})),
        ("rip", json!({"shel": "/bin/sh"})),
        ("rip", json!({"password_max_age": -2})),
    ] {
        let error = node.try_apply("user", title, json.clone()).unwrap_err();
        assert!(error.is_invalid(), "{json}: {error}");
    }
    assert!(node.try_apply("group", "x:y", json!({})).is_err());
    assert!(node.try_apply("group", "x", json!({"members": ["a:b"]})).is_err());
    assert_eq!(node.system.metadata(Path::new("/etc")).unwrap(), None);
}

#[test]
fn user_is_created_after_a_failed_write() {
    let system = FakeSystem::new().with_root("/scratch");
    let node = Node::new(system.clone());
    system.inject_failure("/etc/shadow", "write");
    let error = node.error("user", "rip", json!({"managehome": true}));
    assert!(error.contains("write the users and groups"), "{error}");
    assert!(node.engine.find_state("user", "rip").unwrap().is_absent());
    system.clear_failures();
    assert_eq!(node.apply("user", "rip", json!({"managehome": true})), ["ensure: created"]);
}

#[test]
fn hundred_concurrent_users_leave_valid_files() {
    let (_directory, node) = Node::scratch();
    node.apply("group", "all", json!({}));
    std::thread::scope(|scope| {
        for number in 0..100 {
            let node = &node;
            scope.spawn(move || {
                let name = format!("user{number}");
                let outcome = node
                    .try_apply("user", &name, json!({"groups": "all", "comment": name}))
                    .unwrap();
                assert!(outcome.error.is_none(), "{:?}", outcome.error);
            });
        }
    });
    let users = node.engine.list_instances("user").unwrap();
    assert_eq!(users.len(), 100);
    let uids: std::collections::BTreeSet<_> =
        users.iter().map(|(_, values)| values["uid"].clone()).collect();
    assert_eq!(uids.len(), 100);
    for (name, values) in &users {
        assert_eq!(values["comment"], ResourceValue::from(name.as_str()));
        assert_eq!(values["groups"], ResourceValue::List(vec!["all".to_owned()]));
    }
    assert_eq!(node.text("/etc/shadow").lines().count(), 100);
}
