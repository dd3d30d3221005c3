//! Validation of inputs and outputs, and redaction of sensitive values in errors.

use std::time::Duration;

use muster_ddl::{InputValidationError, OutputValidationError, validate::duration};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{object, one_action, packages};

/// Whether an input with these keys accepts `value`.
fn accepts(keys: Value, value: impl Into<Value>) -> bool {
    let ddl = one_action(json!({"input": {"x": keys}})).unwrap();
    let given = object(json!({"x": value.into()}));
    ddl.find_action("act").unwrap().validate_input(&given).is_ok()
}

fn validates(validator: &str, text: &str) -> bool {
    accepts(json!({"type": "string", "validation": validator}), text)
}

#[test]
fn defaults_are_added_and_missing_inputs_are_refused() {
    let ddl = packages();
    let install = ddl.find_action("install").unwrap();
    let complete = install.validate_input(&object(json!({"package": "zsh", "C": null}))).unwrap();
    assert_eq!(Value::from(complete), json!({"package": "zsh", "channel": "stable"}));
    let error = install.validate_input(&object(json!({"package": null}))).unwrap_err();
    assert!(error.is_missing());
    assert!(error.to_string().contains("give package=VALUE"), "{error}");
}

#[test]
fn invalid_inputs_are_refused_with_their_value() {
    let ddl = packages();
    let install = ddl.find_action("install").unwrap();
    for (given, expected) in [
        (json!({"package": 7}), "must be a string, but is 7"),
        (json!({"package": "a;b"}), "but is \"a;b\""),
        (json!({"package": "p".repeat(91)}), "must not be longer than 90 characters"),
        (json!({"package": "a", "channel": "wild"}), "must be one of stable, testing"),
        (json!({"package": "a", "C": "de"}), "must match \"^[A-Z]{2}$\""),
    ] {
        let error = install.validate_input(&object(given)).unwrap_err();
        assert!(!error.is_missing());
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().chars().count() < 300, "{error}");
    }
    assert!(
        install.validate_input(&object(json!({"package": "a", "options": "{\"x\":1}"}))).is_ok()
    );
}

#[test]
fn undeclared_inputs_must_be_allowed_by_the_action() {
    let ddl = packages();
    let error =
        ddl.find_action("install").unwrap().validate_input(&object(json!({"pakcage": "a"})));
    let error = error.unwrap_err();
    assert!(matches!(error, InputValidationError::Undeclared { .. }));
    assert!(error.to_string().contains("did you mean `package`?"), "{error}");
    let open = one_action(json!({"additional_input": true})).unwrap();
    let given = object(json!({"anything": [1, null]}));
    assert_eq!(open.find_action("act").unwrap().validate_input(&given).unwrap(), given);
}

#[test]
fn sensitive_values_are_absent_from_errors_and_redacted_copies() {
    let ddl = packages();
    let install = ddl.find_action("install").unwrap();
    let secret = "hunter2;hunter2";
    for value in [json!(secret), json!([secret]), json!(secret.repeat(9))] {
        let given = object(json!({"package": "a", "token": value}));
        let error = install.validate_input(&given).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(error.to_string().contains("[redacted]"));
        assert!(!format!("{:?}", install.redact_input(&given)).contains("hunter2"));
    }
    let words = [("token".to_owned(), "x".to_owned()), ("Token".to_owned(), secret.to_owned())];
    let error = install.coerce_words(&words).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn sensitive_additional_inputs_ignore_case() {
    let ddl =
        one_action(json!({"additional_input": true, "sensitive_inputs": ["password"]})).unwrap();
    let shown = ddl
        .find_action("act")
        .unwrap()
        .redact_input(&object(json!({"Password": "x", "name": "rip"})));
    assert_eq!(Value::from(shown), json!({"Password": "[redacted]", "name": "rip"}));
}

#[test]
fn types_are_json_types_with_lenient_numbers() {
    let kind = |name: &str| json!({"type": name});
    assert!(accepts(kind("integer"), 3) && accepts(kind("Integer"), 3.0));
    assert!(!accepts(kind("integer"), 3.5) && !accepts(kind("integer"), "3"));
    assert!(
        accepts(kind("float"), 3) && accepts(kind("number"), 3.5) && !accepts(kind("float"), "3")
    );
    assert!(accepts(kind("boolean"), true) && !accepts(kind("boolean"), 1));
    assert!(accepts(kind("Array"), json!([1])) && !accepts(kind("array"), json!({})));
    assert!(accepts(kind("Hash"), json!({})) && !accepts(kind("hash"), json!([])));
    assert!(accepts(kind("any"), json!([1])) && accepts(json!({}), "x"));
    assert!(!accepts(kind("string"), true));
}

#[test]
fn length_counts_characters_and_zero_is_no_limit() {
    assert!(accepts(json!({"type": "string", "maxlength": 2}), "éé"));
    assert!(!accepts(json!({"type": "string", "maxlength": 2}), "abc"));
    assert!(accepts(json!({"type": "string", "maxlength": 0}), "abc"));
    assert!(!accepts(json!({"type": "string", "maxlength": 0, "validation": "shellsafe"}), "a;b"));
}

#[test]
fn named_validators_accept_and_refuse_values() {
    for text in ["`id`", "$x", "a;b", "a|b", "a&&b", "a&b", ">a", "<a", "a\nb", "a\0"] {
        assert!(!validates("shellsafe", text), "{text:?}");
    }
    assert!(validates("shellsafe", "httpd-2.4 (x) 'y'"));
    for name in ["ipv4", "ipv4address"] {
        assert!(
            validates(name, "10.0.0.1") && !validates(name, "::1") && !validates(name, "010.0.0.1")
        );
    }
    for name in ["ipv6", "ipv6address"] {
        assert!(
            validates(name, "fe80::1")
                && !validates(name, "10.0.0.1")
                && !validates(name, "::1/64")
        );
    }
    assert!(validates("ipaddress", "::1") && validates("ipaddress", "10.0.0.1"));
    assert!(!validates("ipaddress", "localhost") && !validates("ipaddress", ""));
    assert!(validates("duration", "1h30m") && !validates("duration", "soon"));
    assert!(validates("service_name", "getty@tty1.service") && !validates("service_name", "a b"));
    assert!(!validates("service_name", "--now") && !validates("service_name", ""));
    assert!(validates("puppet_variable", "a1") && validates("puppet_variable", "A"));
    assert!(!validates("puppet_variable", "1") && !validates("puppet_variable", "a-b"));
    assert!(validates("puppet_tags", "one,two::three") && !validates("puppet_tags", "a,,b"));
}

#[test]
fn puppet_server_address_validator_checks_addresses() {
    for text in ["box", "a-nother.box.com", "1.1.1.1", "::1", "a:123", "1.1.1.1:123", "[::1]:123"] {
        assert!(validates("puppet_server_address", text), "{text}");
    }
    for text in
        ["foo bar", "1", "1.2", "a_box", "300.1.1.1", "a:a", "[::1]:b", "a:", "a:0", ":1", "-a"]
    {
        assert!(!validates("puppet_server_address", text), "{text}");
    }
}

#[test]
fn outputs_must_be_declared_and_typed() {
    let ddl = packages();
    let install = ddl.find_action("install").unwrap();
    let complete = install.validate_output(&object(json!({"ensure": "1.0"}))).unwrap();
    assert_eq!(Value::from(complete), json!({"ensure": "1.0", "since": "Unknown", "log": []}));
    assert!(install.validate_output(&object(json!({"since": "Unknown", "log": null}))).is_ok());
    let error = install.validate_output(&object(json!({"since": "yesterday"}))).unwrap_err();
    assert!(error.to_string().contains("must be an integer, but is \"yesterday\""), "{error}");
    let error = install.validate_output(&object(json!({"sinc": 1}))).unwrap_err();
    assert!(matches!(error, OutputValidationError::Undeclared { .. }));
    assert!(error.to_string().contains("sinc"), "{error}");
}

#[test]
fn sensitive_outputs_are_redacted() {
    let ddl =
        one_action(json!({"output": {"key": {"type": "integer", "sensitive": true}, "n": {}}}))
            .unwrap();
    let act = ddl.find_action("act").unwrap();
    let given = object(json!({"key": "hunter2", "n": 1}));
    let error = act.validate_output(&given).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert_eq!(Value::from(act.redact_output(&given)), json!({"key": "[redacted]", "n": 1}));
}

#[test]
fn durations_use_the_syntax_of_go() {
    let read = |text: &str| duration::parse_duration(text);
    assert_eq!(read("1h30m"), Some(Duration::from_mins(90)));
    assert_eq!(read("1.5h"), Some(Duration::from_mins(90)));
    assert_eq!(read("10s"), Some(Duration::from_secs(10)));
    assert_eq!(read("1m0.25s"), Some(Duration::from_millis(60_250)));
    assert_eq!(read("2ms3µs4ns"), Some(Duration::from_nanos(2_003_004)));
    assert_eq!(read(".5s"), Some(Duration::from_millis(500)));
    assert_eq!(read("1w1d"), Some(Duration::from_hours(192)));
    assert_eq!(read("0"), Some(Duration::ZERO));
    let many = "9".repeat(60);
    for text in ["", "10", "s", "1x", "-1s", "1h ", " 1h", ".s", "1.s.", &many, &format!("{many}s")]
    {
        assert_eq!(read(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn durations_in_units_round_trip(h in 0..10_000_u64, m in 0..60_u64, s in 0..60_u64, n in 0..1_000_000_000_u32) {
        let text = format!("{h}h{m}m{s}.{n:09}s");
        prop_assert_eq!(duration::parse_duration(&text), Some(Duration::new(h * 3600 + m * 60 + s, n)));
    }

    #[test]
    fn arbitrary_duration_text_does_not_panic(text in "[0-9.hmsnuµdw -]{0,30}") {
        let _ = duration::parse_duration(&text);
    }

    #[test]
    fn validation_is_idempotent(package in "[a-z;]{0,8}", country in proptest::option::of("[A-Z]{1,3}")) {
        let ddl = packages();
        let install = ddl.find_action("install").unwrap();
        if let Ok(once) = install.validate_input(&object(json!({"package": package, "C": country}))) {
            prop_assert!(!package.contains(';'));
            prop_assert_eq!(install.validate_input(&once).unwrap(), once);
        } else {
            prop_assert!(package.contains(';') || country.is_some_and(|country| country.len() != 2));
        }
    }
}
