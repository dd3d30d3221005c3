//! Inputs of actions: conversion of words, types, lengths, lists and validators.

use muster_ddl::AgentDdl;
use serde_json::{Map, Value, json};

use super::Agreement::{self, Different, Equal};
use super::{Comparison, compare};

const SIGNS: &str = "shell-safe refuses all signs that a shell interprets, not seven of them";

fn one_action(input: &Value) -> AgentDdl {
    let action = json!({"action": "act", "description": "Act", "input": input});
    let document = json!({"metadata": {"name": "one"}, "actions": [action]});
    AgentDdl::from_slice(document.to_string().as_bytes()).unwrap()
}

/// `valid` or `invalid`.
fn verdict<T, E>(result: &Result<T, E>) -> String {
    if result.is_ok() { "valid" } else { "invalid" }.to_owned()
}

/// Whether an input with these keys accepts a value.
fn accept(keys: &Value, value: &Value) -> String {
    let given = Map::from_iter([("x".to_owned(), value.clone())]);
    verdict(&one_action(&json!({"x": keys})).find_action("act").unwrap().validate_input(&given))
}

fn compare_values(subject: &str, cases: Vec<(Value, Value, bool, Agreement)>) {
    let asked = cases.into_iter().map(|(keys, value, choria, expected)| Comparison {
        question: format!("{value} for {keys}"),
        choria: if choria { "valid" } else { "invalid" }.to_owned(),
        muster: Ok(accept(&keys, &value)),
        expected,
    });
    compare(subject, &asked.collect::<Vec<_>>());
}

#[test]
fn values_are_validated_as_in_choria() {
    let kind = |name: &str| json!({"type": name});
    let long = json!({"type": "string", "maxlength": 12});
    let list = json!({"type": "list", "list": ["red", "blue"]});
    compare_values(
        "values of inputs",
        vec![
            (kind("integer"), json!(3), true, Equal),
            (kind("integer"), json!("b"), false, Equal),
            (kind("integer"), json!(3.5), false, Equal),
            (kind("number"), json!(3), true, Equal),
            (kind("number"), json!(3.5), true, Equal),
            (kind("number"), json!("b"), false, Equal),
            (kind("float"), json!(3.5), true, Equal),
            (kind("float"), json!("b"), false, Equal),
            (long.clone(), json!("good day"), true, Equal),
            (long, json!("a much longer text"), false, Equal),
            (json!({"type": "string", "maxlength": 0}), json!("a much longer text"), true, Equal),
            (kind("boolean"), json!(true), true, Equal),
            (kind("boolean"), json!(false), true, Equal),
            (kind("boolean"), json!("maybe"), false, Equal),
            (list.clone(), json!("red"), true, Equal),
            (list.clone(), json!("blue"), true, Equal),
            (list.clone(), json!("green"), false, Equal),
            (list, json!(false), false, Equal),
            (kind("hash"), json!("good day"), false, Equal),
            (kind("Hash"), json!({"good": "day"}), true, Equal),
            (kind("array"), json!("good day"), false, Equal),
            (kind("Array"), json!(["good", "day"]), true, Equal),
        ],
    );
}

#[test]
fn validators_accept_and_refuse_as_in_choria() {
    let case = |validator: &str, text: &str, valid: bool, expected| {
        let keys = json!({"type": "string", "validation": validator, "maxlength": 90});
        (keys, json!(text), valid, expected)
    };
    let (v4, v6) = ("192.0.2.7", "2001:db8:4002:807::200e");
    let mut cases = vec![
        case("ipv4address", v4, true, Equal),
        case("ipv4address", v6, false, Equal),
        case("ipv6address", v6, true, Equal),
        case("ipv6address", v4, false, Equal),
        case("ipaddress", v6, true, Equal),
        case("ipaddress", "eve", false, Equal),
        case("nosuchvalidator", "anything", true, Equal),
        case("^2001", v6, true, Equal),
        case(r"\d+", "eve", false, Equal),
        case("^eve", "good day", false, Equal),
        case("shellsafe", "fine", true, Equal),
        case("shellsafe", "", true, Equal),
        case("shellsafe", "fine fine fine", true, Equal),
        case("shellsafe", "a & b", true, Different(SIGNS)),
    ];
    cases.extend(
        ["`", "$", ";", "|", "&&", ">", "<"]
            .map(|sign| case("shellsafe", &format!("left{sign}right"), false, Equal)),
    );
    compare_values("validators", cases);
}

#[test]
fn words_become_values_as_in_choria() {
    let declared = json!({
        "count": {"type": "integer", "optional": true, "default": 4},
        "ratio": {"type": "float", "optional": true},
        "size": {"type": "number", "optional": true},
        "title": {"type": "string", "maxlength": 12, "optional": false},
        "force": {"type": "boolean", "optional": true, "default": false},
        "colour": {"type": "list", "list": ["red", "blue"], "optional": true},
        "labels": {"type": "Hash", "optional": true},
        "names": {"type": "Array", "optional": true},
    });
    let refused = || Err(());
    let complete = [
        "count=3",
        "ratio=7.5",
        "size=3.5",
        "title=good day",
        "colour=red",
        r#"labels={"good":"day"}"#,
        r#"names=["good", "day"]"#,
    ];
    let converted = json!({
        "count": 3, "ratio": 7.5, "size": 3.5, "title": "good day", "colour": "red",
        "labels": {"good": "day"}, "names": ["good", "day"], "force": false,
    });
    let cases: Vec<(&[&str], Result<Value, ()>)> = vec![
        (&complete, Ok(converted)),
        (&["title=a"], Ok(json!({"title": "a", "count": 4, "force": false}))),
        (&["title=a much longer text"], refused()),
        (&["count=1"], refused()),
        (&["title=a", "count=good day"], refused()),
        (&["title=a", "nosuch=1"], refused()),
    ];
    let ddl = one_action(&declared);
    let action = ddl.find_action("act").unwrap();
    let asked = cases.into_iter().map(|(words, choria)| {
        let given: Vec<_> = words
            .iter()
            .map(|word| word.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let values = action.coerce_words(&given).and_then(|values| action.validate_input(&values));
        let shown = |values: Result<Value, ()>| {
            values.map_or("invalid".to_owned(), |values| values.to_string())
        };
        Comparison {
            question: words.join(" "),
            choria: shown(choria),
            muster: Ok(shown(values.map(Value::from).map_err(drop))),
            expected: Equal,
        }
    });
    compare("words of inputs", &asked.collect::<Vec<_>>());
}

#[test]
fn requests_have_declared_inputs_only_as_in_choria() {
    let none = one_action(&json!({}));
    let install = one_action(&json!({
        "package": {"type": "string", "maxlength": 90, "optional": false},
        "version": {"type": "string", "maxlength": 90, "optional": true},
    }));
    let results = "`process_results` is a key of the request, not an input";
    let cases = [
        (&none, json!({}), true, Equal),
        (&none, json!({"process_results": true}), true, Different(results)),
        (&none, json!({"test": "x"}), false, Equal),
        (&install, json!({}), false, Equal),
        (&install, json!({"package": "tmux"}), true, Equal),
        (&install, json!({"package": "tmux", "process_results": true}), true, Different(results)),
        (&install, json!({"package": "tmux", "other": "x"}), false, Equal),
    ];
    let asked = cases.map(|(ddl, given, choria, expected)| Comparison {
        question: given.to_string(),
        choria: if choria { "valid" } else { "invalid" }.to_owned(),
        muster: Ok(verdict(
            &ddl.find_action("act").unwrap().validate_input(given.as_object().unwrap()),
        )),
        expected,
    });
    compare("inputs of requests", &asked);
}
