//! The type `motd_fragment`: files of fragments, their order, and what is refused.

use serde_json::json;

use crate::support::{Scratch, check, converges, messages};

const MOTD: &str = "/etc/muster/motd.d";

/// The names of the fragments of the message of the day, sorted.
fn fragments(scratch: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(scratch.path(MOTD)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn one_file_per_name_in_the_given_order() {
    let scratch = Scratch::new();
    let apply = |name: &str, words| converges(&scratch.engine, "motd_fragment", name, words);
    assert_eq!(messages(&apply("Apache Web Server", json!({}))), ["created"]);
    assert_eq!(fragments(&scratch), ["10_Apache Web Server"]);
    assert_eq!(
        scratch.text("/etc/muster/motd.d/10_Apache Web Server"),
        "    -- Apache Web Server\n"
    );
    let moved = apply("Apache Web Server", json!({"order": 5, "content": "web"}));
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert_eq!(fragments(&scratch), ["05_Apache Web Server"]);
    assert_eq!(scratch.text("/etc/muster/motd.d/05_Apache Web Server"), "web\n");
    // What others wrote under the same name goes, in any spelling of the order; other names stay.
    scratch.write("/etc/muster/motd.d/030_Apache Web Server", "old");
    scratch.write("/etc/muster/motd.d/30_Apache", "other");
    apply("Apache Web Server", json!({"order": 5, "content": "web"}));
    assert_eq!(fragments(&scratch), ["05_Apache Web Server", "30_Apache"]);
    apply("db", json!({"target": "prompt", "class": "mysql::master"}));
    let condition = "{% if \"mysql::master\" in classes %}\ndb\n{% endif %}\n";
    assert_eq!(scratch.text("/etc/muster/prompt.d/10_db"), condition);
    assert_eq!(scratch.engine.list_instances("motd_fragment").unwrap().len(), 3);
    apply("Apache Web Server", json!({"ensure": "absent"}));
    assert_eq!(fragments(&scratch), ["30_Apache"]);
}

#[test]
fn names_classes_and_orders_are_checked() {
    let scratch = Scratch::new();
    for (name, words) in [
        ("../x", json!({})),
        ("a\nb", json!({})),
        ("{{ x }}", json!({})),
        ("x.dpkg-old", json!({})),
        (" x", json!({})),
        ("x", json!({"order": -1})),
        ("x", json!({"order": 1_000_000})),
        ("x", json!({"class": "a\" in classes or true %}"})),
        ("x", json!({"class": ""})),
        ("x", json!({"content": "x".repeat(20_000)})),
        ("x", json!({"content": "{{ facts.os"})),
        ("x", json!({"content": "{% if true %}never ended"})),
        ("x", json!({"target": "shadow"})),
    ] {
        let checked = check(&scratch.engine, "motd_fragment", name, words.clone());
        assert!(checked.is_err(), "{name} {words}");
    }
}
