//! Automatic dependencies (autorequire), as in Puppet.

use serde_json::json;

use crate::support::{Others, autorequires, check, fake};

#[test]
fn types_depend_automatically_on_related_resources() {
    let (_, engine) = fake();
    let others = Others::of(
        &engine,
        [
            ("file", "/srv", json!({"ensure": "directory"})),
            ("file", "/srv/app", json!({"ensure": "directory"})),
            ("group", "staff", json!({"gid": 50})),
            ("user", "rip", json!({})),
        ],
    );
    for (kind, title, words, expected) in [
        (
            "file",
            "/srv/app/deep/x",
            json!({"owner": "rip", "group": "50"}),
            vec![("file", "/srv/app"), ("user", "rip")],
        ),
        (
            "file",
            "/srv/link",
            json!({"ensure": "/srv/app", "owner": "0", "group": "staff"}),
            vec![("file", "/srv"), ("file", "/srv/app"), ("group", "staff")],
        ),
        ("file", "/srv", json!({"ensure": "directory"}), vec![]),
        (
            "user",
            "rip",
            json!({"gid": "50", "groups": ["a", "b"]}),
            vec![("group", "staff"), ("group", "a"), ("group", "b")],
        ),
        ("user", "rip", json!({"gid": "51"}), vec![]),
        (
            "ssh_authorized_key",
            "k",
            json!({"user": "rip", "target": "/k"}),
            vec![("user", "rip"), ("file", "/k")],
        ),
        ("cron", "job", json!({"user": "rip", "command": "x"}), vec![("user", "rip")]),
        ("cron", "job", json!({"command": "x"}), vec![]),
        ("host", "h", json!({"ip": "10.0.0.1"}), vec![("file", "/etc/hosts")]),
        (
            "mailalias",
            "m",
            json!({"recipient": "x", "target": "/etc/mail"}),
            vec![("file", "/etc/mail")],
        ),
        (
            "exec",
            "/srv/app/run now",
            json!({"cwd": "/srv", "user": "rip"}),
            vec![("file", "/srv"), ("file", "/srv/app/run"), ("user", "rip")],
        ),
    ] {
        let resource = check(&engine, kind, title, words).unwrap();
        let found = autorequires(&resource, &others);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(kind, name)| (*kind, name.as_str())).collect();
        assert_eq!(found, expected, "{}", resource.reference());
    }
}
