//! Validation of attributes: errors name the accepted values, and nothing is changed.

use muster_engine::EngineError;
use muster_engine::resource::ResourceValue;
use muster_engine::schema::{AttributeKind, METAPARAMETERS};
use muster_system::command::CancelFlag;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{check, fake, nothing};

#[test]
fn unknown_types_and_attributes_suggest_similar_names() {
    let (_, engine) = fake();
    let error = check(&engine, "mailalis", "x", nothing()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no resource type `mailalis`; did you mean `mailalias`?"
    );
    let error = check(&engine, "mailalias", "x", json!({"recipent": "y"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Mailalias[x] has no property or parameter `recipent`; did you mean `recipient`?"
    );
    assert!(error.is_invalid());
}

#[test]
fn invalid_values_are_refused_with_the_accepted_ones() {
    let (system, engine) = fake();
    for (kind, words, expected) in [
        ("host", json!({"ensure": "yes"}), "must be one of present, absent"),
        ("host", json!({"ip": "10.0.0.256"}), "must be an IPv4 or IPv6 address"),
        ("host", json!({"ip": ["1.2.3.4"]}), "is a list, must be a string"),
        ("host", json!({"ip": null}), "is null, must be a string"),
        ("host", json!({"target": "hosts"}), "must be an absolute path without `..`"),
        ("host", json!({"target": "/etc/../x"}), "must be an absolute path without `..`"),
        ("host", json!({"comment": "a\nb"}), "has several lines, must be one"),
        ("host", json!({"host_aliases": ["a", {}]}), "contains an object"),
        (
            "mailalias",
            json!({"recipient": "a", "file": "/x"}),
            "is given together with `recipient`",
        ),
        ("mailalias", json!({"recipient": "a\u{0}"}), "NUL"),
        ("cron", json!({"minute": 60}), "must be 0 to 59"),
        ("cron", json!({"weekday": "Mon-Fri"}), "must be 0 to 7"),
        ("cron", json!({"special": "daily", "hour": 2}), "is given together with `special`"),
        ("notify", json!({"withpath": "perhaps"}), "must be true or false"),
        ("package", json!({"ensure": ">1.0 <2.0"}), "version ranges are not supported"),
        ("service", json!({"enable": "manual"}), "must be one of true, false, mask"),
        ("host", json!({"require": "Package[x]"}), "cannot be used with a single resource"),
        ("host", json!({"noop": "maybe"}), "must be true or false"),
        (
            "ssh_authorized_key",
            json!({"user": "a", "key": "AAAA bob"}),
            "without key type and comment",
        ),
        ("ssh_authorized_key", json!({"key": "AAAA"}), "needs `user` or `target`"),
        (
            "ssh_authorized_key",
            json!({"user": "a", "options": "a,b"}),
            "must be options, each `word` or `word=\"value\"`",
        ),
    ] {
        let error = check(&engine, kind, "x", words.clone()).unwrap_err();
        assert!(error.is_invalid(), "{kind} {words}: {error}");
        assert!(error.to_string().contains(expected), "{kind} {words}: {error}");
    }
    assert_eq!(system.recorded_command_lines(), [""; 0]);
}

#[test]
fn metaparameters_are_accepted_and_noop_changes_nothing() {
    let (system, engine) = fake();
    let words =
        json!({"ip": "10.0.0.1", "noop": true, "tag": ["a"], "alias": "b", "loglevel": "notice"});
    let resource = check(&engine, "host", "db", words).unwrap();
    let outcome = engine.apply_resource(&resource, CancelFlag::default(), false);
    assert_eq!(outcome.events[0].message, "current_value 'absent', should be 'present' (noop)");
    assert!(!outcome.has_changed());
    assert_eq!(system.file_text("/etc/hosts"), "");
}

#[test]
fn numbers_and_booleans_are_converted_to_the_schemas_kind() {
    let (_, engine) = fake();
    let words = json!({"command": "/bin/true", "tries": "3", "timeout": 1.5, "returns": [0, 2], "refreshonly": "yes"});
    let resource = check(&engine, "exec", "x", words).unwrap();
    assert_eq!(resource.get("tries"), Some(&ResourceValue::Int(3)));
    assert_eq!(resource.get_text("timeout"), Some("1.5"));
    assert_eq!(resource.get_list("returns"), ["0", "2"]);
    assert!(resource.get_flag("refreshonly"));
}

#[test]
fn path_is_normalized_and_becomes_the_name() {
    let (_, engine) = fake();
    let resource = check(&engine, "file", "//tmp//x/", json!({"mode": "644"})).unwrap();
    assert_eq!((resource.name.as_str(), resource.get_text("mode")), ("/tmp/x", Some("0644")));
    assert_eq!(resource.reference(), "File[//tmp//x/]");
}

#[test]
fn every_attribute_of_every_type_is_documented() {
    let (_, engine) = fake();
    let names: Vec<&str> = engine.type_schemas().map(|schema| schema.type_name).collect();
    assert!(names.is_sorted());
    for schema in engine.type_schemas() {
        assert!(schema.find_attribute(schema.namevar).is_some(), "{}", schema.type_name);
        assert!(schema.attributes.iter().all(|attribute| !attribute.doc.is_empty()));
    }
}

/// What a caller knows about the types must not refuse what a node accepts.
#[test]
fn callers_accept_what_the_types_accept() {
    let document = muster_ddl::builtin_agent("puppetral").unwrap();
    let ddl = muster_ddl::AgentDdl::from_slice(document.as_bytes()).unwrap();
    let action = ddl.find_action("do").unwrap();
    let (_, engine) = fake();
    let mut accepted = 0;
    for schema in engine.type_schemas() {
        let type_name = schema.type_name;
        for attribute in schema.attributes.iter().chain(METAPARAMETERS) {
            let texts = [
                "",
                "true",
                "no",
                "5",
                "-1",
                "0.5",
                "/tmp/x",
                "/tmp/../x",
                "0644",
                "u+rw,go-w",
                "=",
                "absent",
                "present",
                "a,b",
                "[1]",
                "[ -f /x ]",
                "10.0.0.1",
                "every text, with commas",
                "\u{e4}",
            ];
            let words = match attribute.kind {
                AttributeKind::Word(words) | AttributeKind::WordOr(words) => words,
                _ => &[],
            };
            for text in texts.iter().chain(words) {
                // A text that begins with a bracket is a JSON array for a caller, and can be an item of one.
                let is_broken_array = attribute.comma_separated && *text == "[ -f /x ]";
                let checked = check(&engine, type_name, "/x", json!({ attribute.name: text }));
                if is_broken_array || checked.is_err() {
                    continue;
                }
                accepted += 1;
                let name = match attribute.name {
                    "type" | "name" | "noop" => format!("params.{}", attribute.name),
                    name => name.to_owned(),
                };
                let given = [("type", type_name), ("name", "x"), (name.as_str(), text)];
                let given = given.map(|(name, text)| (name.to_owned(), text.to_owned()));
                let coerced = action.coerce_words(&given).unwrap();
                let mut attributes = coerced.clone();
                attributes.retain(|name, _| !["type", "name", "params"].contains(&name.as_str()));
                if let Some(params) = coerced.get("params") {
                    attributes.extend(params.as_object().unwrap().clone());
                }
                let again = check(&engine, type_name, "/x", attributes.into());
                assert!(again.is_ok(), "{type_name} {name}={text}: {again:?}");
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}

proptest! {
    #[test]
    fn checking_never_panics(
        kind in "(cron|exec|file|host|mailalias|notify|package|service|ssh_authorized_key)",
        title in ".{0,20}",
        name in "(ensure|target|ip|recipient|minute|command|mode|path|options|key|user|content|timeout|umask)",
        word in ".{0,20}",
    ) {
        let (_, engine) = fake();
        let checked = check(&engine, &kind, &title, json!({ name: word }));
        prop_assert!(checked.as_ref().map_or_else(EngineError::is_invalid, |_| true));
    }
}
