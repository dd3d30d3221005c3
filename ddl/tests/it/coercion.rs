//! Coercion of command-line words to typed values.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use muster_ddl::InputValidationError;

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
