//! Any desired state is reached from any initial state in one apply: noop reports the same changes, and a second apply changes
//! nothing. Line-based files keep all other lines.

use muster_system::fake::FakeSystem;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value as Json, json};

use crate::support::{converges, fake};

/// A subset of the given attributes, each with one of its values.
fn words(choices: Vec<(&'static str, Vec<Json>)>) -> impl Strategy<Value = Json> {
    let many = 0..=choices.len();
    subsequence(choices, many).prop_flat_map(|chosen| {
        let values: Vec<_> = chosen
            .into_iter()
            .map(|(name, values)| select(values).prop_map(move |value| (name.to_owned(), value)))
            .collect();
        values.prop_map(|pairs| Json::Object(pairs.into_iter().collect::<Map<_, _>>()))
    })
}

fn merged(mut words: Json, more: &Json) -> Json {
    let more = more.as_object().unwrap().clone();
    words.as_object_mut().unwrap().extend(more);
    words
}

/// The initial state of a path.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    File(&'static str),
    Directory,
    Link(&'static str),
}

fn prepare(system: &FakeSystem, before: Before) {
    use muster_system::System;
    system.add_file("/etc/passwd", "root:x:0:0::/:\nrip:x:1000:1000::/:\n");
    system.add_file("/etc/group", "root:x:0:\nweb:x:33:\n");
    system.add_file("/srv/source", "from the source");
    system.add_file("/srv/other", "other");
    match before {
        Before::Nothing => {}
        Before::File(content) => system.add_file("/srv/x", content),
        Before::Directory => system.add_file("/srv/x/inner", "inner"),
        Before::Link(target) => system.create_symlink(target.as_ref(), "/srv/x".as_ref()).unwrap(),
    }
}

fn made() -> impl Strategy<Value = Json> {
    select(vec![
        json!({}),
        json!({"ensure": "present"}),
        json!({"ensure": "absent"}),
        json!({"ensure": "file"}),
        json!({"ensure": "directory"}),
        json!({"ensure": "/srv/other"}),
        json!({"content": ""}),
        json!({"content": "new"}),
        json!({"ensure": "present", "content": "new"}),
        json!({"content": "new", "checksum": "md5"}),
        json!({"content": "new", "checksum": "sha256lite"}),
        json!({"source": "/srv/source"}),
        json!({"source": ["/srv/none", "/srv/source"], "checksum": "sha512"}),
        json!({"source": "/srv/source", "checksum": "mtime"}),
        json!({"source": "/srv/source", "source_permissions": "use"}),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn files_converge_from_any_state(
        before in select(vec![
            Before::Nothing,
            Before::File(""),
            Before::File("old"),
            Before::File("new"),
            Before::Directory,
            Before::Link("/srv/other"),
            Before::Link("/srv/nowhere"),
        ]),
        made in made(),
        more in words(vec![
            ("mode", vec![json!("0600"), json!("0755"), json!("4711"), json!("u+x,go-w"), json!("a=r,u+w"), json!("g+X")]),
            ("owner", vec![json!("root"), json!("rip"), json!(1000), json!("7")]),
            ("group", vec![json!("web"), json!(0)]),
            ("replace", vec![json!(false), json!(true)]),
            ("links", vec![json!("follow"), json!("manage")]),
            ("backup", vec![json!(".bak"), json!("puppet"), json!(false)]),
        ]),
    ) {
        let (system, engine) = fake();
        prepare(&system, before);
        let words = merged(merged(made, &more), &json!({"force": true}));
        let follows = words.get("links") == Some(&json!("follow")) && words.get("ensure") != Some(&json!("absent"));
        converges(&engine, "file", "/srv/x", words);
        prop_assert!(follows || system.file_text("/srv/other") == "other");
    }

    #[test]
    fn hosts_converge_and_keep_other_lines(
        before in "(10\\.0\\.0\\.[1-9]\t(web|db|x)( [a-c]){0,2}\n|# [a-z ]{0,8}\n|\n|nonsense [a-z]{0,3}\n){0,8}",
        words in words(vec![
            ("ensure", vec![json!("present"), json!("absent")]),
            ("host_aliases", vec![json!([]), json!("a"), json!(["b", "c"])]),
            ("comment", vec![json!("note"), json!("")]),
        ]),
    ) {
        let (system, engine) = fake();
        system.add_file("/etc/hosts", &before);
        converges(&engine, "host", "web", merged(words, &json!({"ip": "10.0.0.7"})));
        let after = system.file_text("/etc/hosts");
        let others = |text: &str| -> Vec<String> {
            let own = |line: &&str| line.split_whitespace().nth(1) != Some("web");
            text.lines().filter(own).map(str::to_owned).collect()
        };
        prop_assert_eq!(others(&before), others(&after));
    }

    #[test]
    fn mounts_converge_and_keep_other_lines(
        before in "(/dev/[a-c] /(data|srv|x)/? (xfs|ext4)( ro| defaults( 0( 0)?)?)?\n|# [a-z ]{0,8}\n|\n|lonely\n){0,8}",
        is_mounted: bool,
        words in words(vec![
            ("ensure", vec![json!("defined"), json!("absent")]),
            ("options", vec![json!("ro"), json!("rw,noauto")]),
            ("pass", vec![json!(2)]),
        ]),
    ) {
        // At most one line for `/data`: of two lines with the same mount point only the first is read.
        prop_assume!(before.matches(" /data").count() <= 1);
        let (system, engine) = fake();
        system.script_output(&["umount"], crate::support::output(0, ""));
        system.add_file("/etc/fstab", &before);
        let absent = words.get("ensure") == Some(&json!("absent"));
        let mounted = is_mounted && !absent;
        system.add_file("/proc/self/mounts", if mounted { "a /data xfs rw 0 0\n" } else { "" });
        converges(&engine, "mount", "/data", merged(words, &json!({"device": "/dev/z", "fstype": "xfs"})));
        let others = |text: &str| -> Vec<String> {
            let own = |line: &&str| {
                line.split_whitespace().nth(1).map(|place| place.trim_end_matches('/')) != Some("/data")
            };
            text.lines().filter(own).map(str::to_owned).collect()
        };
        prop_assert_eq!(others(&before), others(&system.file_text("/etc/fstab")));
    }

    #[test]
    fn ssh_host_keys_converge_and_keep_other_lines(
        before in "((db|web)(,a)? ssh-(rsa|ed25519) [A-Z]{1,4}\n|\\|1\\|x ssh-rsa AAAA\n|# [a-z ]{0,8}\n|@revoked db ssh-rsa X\n){0,8}",
        words in words(vec![
            ("ensure", vec![json!("present"), json!("absent")]),
            ("host_aliases", vec![json!([]), json!(["a", "b"])]),
        ]),
    ) {
        let (system, engine) = fake();
        system.add_file("/etc/ssh/ssh_known_hosts", &before);
        converges(&engine, "sshkey", "db@rsa", merged(words, &json!({"key": "KEY"})));
        let others = |text: &str| -> Vec<String> {
            let own = |line: &&str| !line.starts_with("db ssh-rsa") && !line.starts_with("db,a");
            text.lines().filter(own).map(str::to_owned).collect()
        };
        let after = system.file_text("/etc/ssh/ssh_known_hosts");
        prop_assert!(others(&after).starts_with(&others(&before)) || others(&before) == others(&after));
    }
}
