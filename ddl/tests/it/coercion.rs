//! Coercion of command-line words to typed values.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use muster_ddl::{AgentDdl, AttributeChecking, InputValidationError, builtin_agent};

use crate::support::{one_action, packages};

fn words(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect()
}

fn coerced(kind: &str, word: &str) -> Result<Value, InputValidationError> {
    let ddl = one_action(json!({"input": {"x": {"type": kind, "list": ["a"]}}})).unwrap();
    let values = ddl.find_action("act").unwrap().coerce_words(&words(&[("x", word)]))?;
    Ok(values.get("x").unwrap().clone())
}

#[test]
fn words_are_coerced_to_the_declared_type() {
    for (kind, word, value) in [
        ("string", "5", json!("5")),
        ("list", "a", json!("a")),
        ("integer", "-5", json!(-5)),
        ("integer", "18446744073709551615", json!(u64::MAX)),
        ("float", "2", json!(2.0)),
        ("number", "2", json!(2)),
        ("number", "2.5", json!(2.5)),
        ("array", "a, b,c", json!(["a", "b", "c"])),
        ("array", r#"["a", 1]"#, json!(["a", 1])),
        ("array", "", json!([])),
        ("hash", r#"{"a": {"b": 1}}"#, json!({"a": {"b": 1}})),
        ("any", "1.10", json!("1.10")),
        ("any", "[1]", json!([1])),
    ] {
        assert_eq!(coerced(kind, word).unwrap(), value, "{kind} {word}");
    }
    for yes in ["true", "TRUE", "yes", "Y", "t", "1"] {
        assert_eq!(coerced("boolean", yes).unwrap(), json!(true), "{yes}");
    }
    for no in ["false", "No", "n", "F", "0"] {
        assert_eq!(coerced("boolean", no).unwrap(), json!(false), "{no}");
    }
}

#[test]
fn invalid_words_are_refused() {
    for (kind, word) in [
        ("integer", "5.0"),
        ("integer", ""),
        ("float", "inf"),
        ("float", "NaN"),
        ("number", "five"),
        ("boolean", "maybe"),
        ("boolean", "10"),
        ("array", "[1"),
        ("hash", "a=b"),
        ("hash", "[1]"),
        ("any", "{"),
    ] {
        let error = coerced(kind, word).unwrap_err();
        assert!(
            matches!(error, InputValidationError::Invalid { .. }) && !error.is_missing(),
            "{error}"
        );
        assert!(error.to_string().contains("`x`"), "{error}");
    }
}

#[test]
fn undeclared_names_are_refused_with_a_suggestion_or_kept_as_strings() {
    let ddl = packages();
    let settings = ddl.find_action("settings").unwrap();
    let error = settings.coerce_words(&words(&[("levle", "3")])).unwrap_err();
    assert!(error.to_string().contains("did you mean `level`?"), "{error}");
    let error = settings.coerce_words(&words(&[("xyzzyxyzzy", "3")])).unwrap_err();
    assert!(error.to_string().contains("values, hosts, level"), "{error}");
    let open = one_action(json!({"additional_input": true})).unwrap();
    let values = open.find_action("act").unwrap().coerce_words(&words(&[("uid", "1000")])).unwrap();
    assert_eq!(Value::from(values), json!({"uid": "1000"}));
}

#[test]
fn lists_are_split_repeated_or_json() {
    let list = |text: &str| coerced("array", text).unwrap();
    assert_eq!(list("a\nb\n"), json!(["a", "b"]));
    assert_eq!(list(r#""a, b",c"#), json!(["a, b", "c"]));
    assert_eq!(list(r#"from="1,2",no-pty"#), json!([r#"from="1,2""#, "no-pty"]));
    assert!(coerced("array", r#"a",b"#).is_err());
    let ddl =
        one_action(json!({"input": {"x": {"type": "array"}, "y": {"type": "hash"}}})).unwrap();
    let act = ddl.find_action("act").unwrap();
    let given = words(&[("x", "a"), ("y.k", "v"), ("x", "[1]"), ("x", "b,c"), ("y.n.m", "[2]")]);
    let values = act.coerce_words(&given).unwrap();
    assert_eq!(Value::from(values), json!({"x": ["a", 1, "b", "c"], "y": {"k": "v", "n.m": [2]}}));
    let given = words(&[("y.k", "1"), ("y", "{\"n\":2}")]);
    let values = act.coerce_words(&given).unwrap();
    assert_eq!(Value::from(values), json!({"y": {"k": "1", "n": 2}}));
    for repeated in [[("y.k", "1"), ("y.k", "2")], [("y.k", "1"), ("y", "{\"k\":1}")]] {
        let error = act.coerce_words(&words(&repeated)).unwrap_err();
        assert!(matches!(error, InputValidationError::Repeated { .. }), "{error}");
    }
    assert!(act.coerce_words(&words(&[("x.k", "1")])).is_err(), "an array has no entries");
}

/// The inputs of `puppetral do` for these words, separated by blanks.
fn resource(line: &str) -> Result<Value, InputValidationError> {
    let ddl = puppetral();
    let given = line.split(' ').map(|word| word.split_once('=').unwrap());
    let given: Vec<(&str, &str)> = given.collect();
    Ok(ddl.find_action("do").unwrap().coerce_words(&words(&given))?.into())
}

fn puppetral() -> AgentDdl {
    AgentDdl::from_slice(builtin_agent("puppetral").unwrap().as_bytes()).unwrap()
}

#[test]
fn attributes_of_a_resource_are_converted_by_its_type() {
    for (line, expected) in [
        ("type=group members=a,b", json!({"type": "group", "members": ["a", "b"]})),
        ("type=Group members=", json!({"type": "Group", "members": []})),
        ("type=exec unless=[-f,x]", json!({"type": "exec", "unless": "[-f,x]"})),
        ("type=exec environment=A=1,2", json!({"type": "exec", "environment": "A=1,2"})),
        (
            "type=exec environment=A=1 environment=B=2",
            json!({"type": "exec", "environment": ["A=1", "B=2"]}),
        ),
        (
            r#"type=package install_options={"--a":"b"}"#,
            json!({"type": "package", "install_options": {"--a": "b"}}),
        ),
        ("type=user uid=7 groups=a", json!({"type": "user", "uid": "7", "groups": ["a"]})),
        ("type=tidy params.type=mtime", json!({"type": "tidy", "params": {"type": "mtime"}})),
        (r#"type=user params={"shell":"/bin/sh"}"#, json!({"type": "user", "shell": "/bin/sh"})),
        ("type=user params.shell=/bin/sh", json!({"type": "user", "shell": "/bin/sh"})),
        ("type=nagios_host x=a,b", json!({"type": "nagios_host", "x": "a,b"})),
        (
            r#"type=nagios_host x=["a"] y=1 y=2"#,
            json!({"type": "nagios_host", "x": ["a"], "y": ["1", "2"]}),
        ),
        ("undo=x", json!({"undo": "x"})),
    ] {
        assert_eq!(resource(line).unwrap(), expected, "{line}");
    }
    for line in
        ["type=user shell=/a params.shell=/b", r#"type=user shell=/a params={"shell":"/b"}"#]
    {
        assert!(resource(line).is_err(), "{line}");
    }
}

#[test]
fn words_complete_earlier_inputs() {
    let ddl = puppetral();
    let action = ddl.find_action("do").unwrap();
    let base = json!({"type": "sshkey", "name": "db", "params": {"type": "a"}, "key": "x"});
    let Value::Object(base) = base else { panic!("an object") };
    let given = words(&[("params.type", "b")]);
    let values = action.coerce_words_onto(&given, base.clone(), AttributeChecking::Strict).unwrap();
    assert_eq!(values["params"], json!({"type": "b"}));
    let given = words(&[("key", "y"), ("params.name", "x")]);
    let values = action.coerce_words_onto(&given, base.clone(), AttributeChecking::Strict).unwrap();
    let expected =
        json!({"type": "sshkey", "name": "db", "params": {"type": "a", "name": "x"}, "key": "y"});
    assert_eq!(Value::from(values), expected);
    let given = words(&[("keyy", "x")]);
    let error =
        action.coerce_words_onto(&given, base.clone(), AttributeChecking::Strict).unwrap_err();
    assert!(error.is_about_attributes() && error.to_string().contains("`key`"), "{error}");
    assert!(action.coerce_words_onto(&given, base, AttributeChecking::Off).is_ok());
}

#[test]
fn duplicate_names_are_refused() {
    let ddl = packages();
    let error = ddl
        .find_action("install")
        .unwrap()
        .coerce_words(&words(&[("package", "a"), ("package", "b")]));
    assert!(matches!(error, Err(InputValidationError::Repeated { .. })));
}

proptest! {
    #[test]
    fn values_round_trip_through_words(level in any::<i64>(), share in -1e9..1e9_f64, force in any::<bool>(), key in "[a-z]{1,5}", text in "\\PC{0,10}") {
        let ddl = packages();
        let settings = ddl.find_action("settings").unwrap();
        let values = json!({"values": {key: text.clone()}, "hosts": [text, level], "level": level, "share": share, "force": force});
        let values: Map<String, Value> = values.as_object().unwrap().clone();
        let written: Vec<_> = values.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let read = settings.coerce_words(&written).unwrap();
        prop_assert_eq!(&read, &values);
        prop_assert_eq!(settings.validate_input(&read).unwrap(), values);
    }

    #[test]
    fn coerced_values_have_the_declared_type(kind in "string|integer|float|number|boolean|array|hash|any", word in "\\PC{0,12}") {
        let ddl = one_action(json!({"input": {"x": {"type": kind}}})).unwrap();
        let act = ddl.find_action("act").unwrap();
        if let Ok(values) = act.coerce_words(&[("x".to_owned(), word)]) {
            prop_assert!(act.find_input("x").unwrap().check_value(values.get("x").unwrap()).is_ok());
        }
    }
}

/// An invalid document of the resource types would check nothing, without a message.
#[test]
fn document_of_the_resource_types_is_valid() {
    let types = muster_ddl::builtin_resource_types();
    assert!(types.contains_key("user") && types.contains_key("file"), "{:?}", types.keys());
    assert!(resource("type=user nme=rip").is_err());
}
