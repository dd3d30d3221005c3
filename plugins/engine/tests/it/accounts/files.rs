//! Accounts of a scratch root: the content of the account files, and the events.

use std::path::Path;

use muster_engine::resource::ResourceValue;
use muster_system::command::CancelFlag;
use serde_json::json;

use super::node::{Node, words};

#[test]
fn creates_changes_and_removes_a_user() {
    for node in [Node::scratch(), (tempfile::tempdir().unwrap(), Node::memory())] {
        let node = &node.1;
        assert_eq!(
            node.apply("user", "rip", json!({"comment": "R.I. Pienaar", "password": "$1$xxx"})),
            ["ensure: created"]
        );
        let found = node.engine.find_state("user", "rip").unwrap();
        assert_eq!(found.get("uid"), Some(&ResourceValue::Int(1000)));
        assert_eq!(found.get("home"), Some(&ResourceValue::from("/home/rip")));
        assert_eq!(found.get("password"), Some(&ResourceValue::from("$1$xxx")));
        assert_eq!(node.text("/etc/passwd"), "rip:x:1000:1000:R.I. Pienaar:/home/rip:/bin/sh\n");
        assert_eq!(node.text("/etc/group"), "rip:x:1000:\n");
        assert_eq!(
            node.apply(
                "user",
                "rip",
                json!({"comment": "b", "uid": "1200", "expiry": "2030-12-31", "password_max_age": 90})
            ),
            [
                "uid: uid changed 1000 to 1200",
                "comment: comment changed 'R.I. Pienaar' to 'b'",
                "password_max_age: password_max_age changed -1 to 90",
                "expiry: defined 'expiry' as '2030-12-31'",
            ]
        );
        assert_eq!(
            node.apply("user", "rip", json!({"expiry": "absent"})),
            ["expiry: undefined 'expiry' from '2030-12-31'"]
        );
        assert_eq!(node.apply("user", "rip", json!({"ensure": "absent"})), ["ensure: removed"]);
        for file in ["/etc/passwd", "/etc/shadow", "/etc/group"] {
            assert_eq!(node.text(file), "", "{file}");
        }
    }
}

#[test]
fn shadow_is_private_and_passwords_are_redacted() {
    let node = Node::memory();
    node.apply("user", "rip", json!({"password": "$6$secret-one"}));
    let shadow = node.system.metadata(Path::new("/etc/shadow")).unwrap().unwrap();
    assert_eq!(shadow.mode, 0o600);
    assert_eq!(node.text("/etc/shadow"), "rip:$6$secret-one:19675::::::\n");
    let wanted = json!({"password": "$6$secret-two", "comment": "x"});
    let resource = node.engine.check_resource("user", "rip", &words(wanted)).unwrap();
    let planned = node.engine.apply_resource(&resource, CancelFlag::default(), true);
    assert!(node.text("/etc/shadow").contains("secret-one"));
    let outcome = node.engine.apply_resource(&resource, CancelFlag::default(), false);
    assert_eq!(planned.events.len(), outcome.events.len());
    for told in [format!("{planned:?}"), format!("{outcome:?}")] {
        assert!(!told.contains("secret"), "{told}");
    }
    let password = outcome.events.iter().find(|event| event.property == "password").unwrap();
    assert_eq!(password.message, "changed [redacted] to [redacted]");
    let error = node.error("user", "rip", json!({"password": "secret:three"}));
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn unmanaged_lines_of_account_files_are_kept() {
    let (_directory, node) = Node::scratch();
    node.write(
        "/etc/passwd",
        "# people\nroot:x:0:0:root:/root:/bin/sh\nold:x:1007:100::/home/old:/bin/sh\n+::::::\n",
        0o644,
    );
    node.write("/etc/shadow", "root:*:1:0:99999:7:::\nold:!:1::::::\n", 0o640);
    node.write("/etc/group", "root:x:0:\nusers:x:100:\nwheel:x:10:old\naudio:x:29:\n", 0o644);
    node.write("/etc/gshadow", "root:*::\nusers:!::\nwheel:!:old:old\naudio:!::\n", 0o640);
    node.write("/etc/login.defs", "PASS_MAX_DAYS 99999\nPASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n", 0o644);
    node.apply("user", "rip", json!({"groups": ["wheel", "audio"], "shell": "/bin/zsh"}));
    assert_eq!(
        node.text("/etc/passwd"),
        "# people\nroot:x:0:0:root:/root:/bin/sh\nold:x:1007:100::/home/old:/bin/sh\nrip:x:1008:1008::/home/rip:/bin/zsh\n+::::::\n"
    );
    assert_eq!(
        node.text("/etc/group"),
        "root:x:0:\nusers:x:100:\nwheel:x:10:old,rip\naudio:x:29:rip\nrip:x:1008:\n"
    );
    assert_eq!(
        node.text("/etc/gshadow"),
        "root:*::\nusers:!::\nwheel:!:old:old,rip\naudio:!::rip\nrip:!::\n"
    );
    let shadow = node.text("/etc/shadow");
    let rip = shadow.lines().find(|line| line.starts_with("rip:")).unwrap();
    assert!(rip.starts_with("rip:!:") && rip.ends_with(":0:99999:7:::"), "{rip}");
    assert_eq!(node.system.metadata(Path::new("/etc/shadow")).unwrap().unwrap().mode, 0o640);
    node.apply("user", "old", json!({"ensure": "absent"}));
    node.apply("user", "rip", json!({"ensure": "absent"}));
    assert_eq!(node.text("/etc/passwd"), "# people\nroot:x:0:0:root:/root:/bin/sh\n+::::::\n");
    assert_eq!(node.text("/etc/shadow"), "root:*:1:0:99999:7:::\n");
    assert_eq!(node.text("/etc/group"), "root:x:0:\nusers:x:100:\nwheel:x:10:\naudio:x:29:\n");
    assert_eq!(node.text("/etc/gshadow"), "root:*::\nusers:!::\nwheel:!::\naudio:!::\n");
}

#[test]
fn membership_is_minimum_by_default() {
    let node = Node::memory();
    for group in ["a", "b", "c"] {
        node.apply("group", group, json!({}));
    }
    node.apply("user", "rip", json!({"groups": "a"}));
    assert_eq!(
        node.apply("user", "rip", json!({"groups": ["b"]})),
        ["groups: groups changed a to 'a,b'"]
    );
    assert_eq!(
        node.apply("user", "rip", json!({"groups": ["c", "b"], "membership": "inclusive"})),
        ["groups: groups changed a,b to 'b,c'"]
    );
    let error = node.error("user", "rip", json!({"groups": ["nobodys"]}));
    assert!(error.contains("group 'nobodys' does not exist"), "{error}");
    node.apply("user", "rip", json!({"groups": [], "membership": "inclusive"}));
    assert_eq!(node.engine.find_state("user", "rip").unwrap().get("groups"), None);
}

#[test]
fn primary_group_is_given_by_name_or_id() {
    let node = Node::memory();
    node.apply("group", "staff", json!({"gid": 50}));
    node.apply("user", "rip", json!({"gid": "staff"}));
    assert_eq!(
        node.engine.find_state("user", "rip").unwrap().get("gid"),
        Some(&ResourceValue::Int(50))
    );
    assert!(node.apply("user", "rip", json!({"gid": "50"})).is_empty());
    node.apply("group", "other", json!({"gid": "51"}));
    assert_eq!(
        node.apply("user", "rip", json!({"gid": "other"})),
        ["gid: gid changed 50 to 'other'"]
    );
    assert_eq!(node.apply("user", "rip", json!({"gid": 50})), ["gid: gid changed 51 to 50"]);
    assert!(node.error("user", "rip", json!({"gid": 77})).contains("does not exist"));
    assert!(node.error("user", "new", json!({"gid": "none"})).contains("does not exist"));
    assert!(node.engine.find_state("user", "new").unwrap().is_absent());
}

#[test]
fn ids_are_unique_unless_allowdupe_is_set() {
    let node = Node::memory();
    node.apply("user", "a", json!({"uid": 7}));
    assert!(node.error("user", "b", json!({"uid": 7})).contains("UID 7 already exists"));
    node.apply("user", "b", json!({"uid": 7, "allowdupe": true}));
    node.apply("user", "daemon", json!({"system": true}));
    assert_eq!(
        node.engine.find_state("user", "daemon").unwrap().get("uid"),
        Some(&ResourceValue::Int(999))
    );
    assert!(node.error("group", "c", json!({"gid": 7})).contains("GID 7 already exists"));
    node.apply("group", "c", json!({"gid": 7, "allowdupe": "true"}));
}
