//! Parsing of DDL documents: preserved content, warnings and errors.

use std::time::Duration;

use muster_ddl::{AgentDdl, DisplayMode, DisplayOverride, MAX_DDL_BYTES, ValueType};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{PACKAGES, chain, one_action, packages};

fn refused(keys: Value) -> String {
    chain(&one_action(keys).unwrap_err())
}

#[test]
fn published_layout_loads_in_order() {
    let ddl = packages();
    assert_eq!((ddl.name(), ddl.version()), ("packages", "5.0.0"));
    assert_eq!(ddl.timeout(), Duration::from_mins(3));
    assert_eq!(ddl.default_action(), None);
    let install = ddl.find_action("install").unwrap();
    let names: Vec<_> = install.inputs().iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["package", "channel", "address", "C", "options", "token"]);
    assert_eq!(install.display(), DisplayMode::Failed);
    assert_eq!(install.find_output("ensure").unwrap().value_type, ValueType::Any);
    assert_eq!(install.find_output("log").unwrap().value_type, ValueType::Array);
    assert_eq!(install.sensitive_inputs().collect::<Vec<_>>(), ["token"]);
    assert!(ddl.find_action("remove").is_none());
}

#[test]
fn questionable_content_loads_with_warnings() {
    let ddl = packages();
    let warnings = ddl.warnings().join("\n");
    assert!(warnings.contains("`metadata.vendor`"), "{warnings}");
    assert!(warnings.contains("input `address`: the empty default"), "{warnings}");
    assert!(warnings.contains("output `since`: the default must be an integer"), "{warnings}");
    assert_eq!(ddl.warnings().len(), 3, "{warnings}");
}

#[test]
fn ddl_round_trips_through_json() {
    let documents = muster_ddl::BUILTIN_AGENTS.iter().map(|(_, document)| *document);
    for document in documents.chain([PACKAGES]) {
        let ddl = AgentDdl::from_slice(document.as_bytes()).unwrap();
        let written = serde_json::to_string(&ddl).unwrap();
        let again = AgentDdl::from_slice(written.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), written);
        let order = |ddl: &AgentDdl| -> Vec<String> {
            let inputs = ddl.actions().iter().flat_map(muster_ddl::ActionSchema::inputs);
            inputs.map(|input| input.name.clone()).collect()
        };
        assert_eq!(order(&ddl), order(&again));
    }
}

#[test]
fn built_in_ddl_serialises_as_in_its_file() {
    let document = muster_ddl::builtin_agent("puppetral").unwrap();
    let mut file: Value = serde_json::from_str(document).unwrap();
    let written = serde_json::to_value(AgentDdl::from_slice(document.as_bytes()).unwrap()).unwrap();
    for key in ["/actions/0/input/type", "/actions/0/examples", "/actions/0/sensitive_inputs"] {
        assert_eq!(written.pointer(key), file.pointer(key), "{key}");
    }
    assert_eq!(file["default_action"].take(), written["default_action"]);
}

#[test]
fn default_action_has_two_positions_and_must_exist() {
    let read = |beside: Option<&str>, inside: Option<&str>| {
        let document = json!({
            "metadata": {"name": "one", "default_action": inside},
            "default_action": beside,
            "actions": [{"action": "act"}, {"action": "other"}],
        });
        AgentDdl::from_slice(document.to_string().as_bytes())
    };
    for (beside, inside) in [(Some("act"), None), (None, Some("act")), (Some("act"), Some("act"))] {
        assert_eq!(read(beside, inside).unwrap().default_action(), Some("act"));
    }
    assert!(read(Some("nothing"), None).is_err());
    assert!(read(Some("act"), Some("other")).is_err());
}

#[test]
fn oversized_document_is_refused_before_parsing() {
    let error = AgentDdl::from_slice(&vec![b'['; MAX_DDL_BYTES + 1]).unwrap_err();
    assert!(matches!(error, muster_ddl::DdlError::TooLarge { .. }));
    let error = AgentDdl::from_slice(&vec![b'['; MAX_DDL_BYTES]).unwrap_err();
    assert!(matches!(error, muster_ddl::DdlError::Json(_)), "deep nesting must be a JSON error");
}

#[test]
fn invalid_names_are_refused() {
    let long = "a".repeat(65);
    for name in ["", "Act", "a-b", "a.b", "a*", "a>", "ä", &long] {
        let document = json!({"metadata": {"name": "one"}, "actions": [{"action": name}]});
        let error = AgentDdl::from_slice(document.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("actions: the name "), "{name}: {error}");
        let document = json!({"metadata": {"name": name}});
        assert!(AgentDdl::from_slice(document.to_string().as_bytes()).is_err(), "{name}");
    }
    assert!(refused(json!({"input": {"a b": {}}})).contains("letters"));
    assert!(refused(json!({"output": {"": {}}})).contains("letters"));
}

#[test]
fn duplicate_declarations_are_refused() {
    let twice = json!({"metadata": {"name": "one"}, "actions": [{"action": "a"}, {"action": "a"}]});
    let error = AgentDdl::from_slice(twice.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("`a` is declared twice"), "{error}");
    let text = r#"{"metadata": {"name": "one"},
        "actions": [{"action": "a", "input": {"x": {}, "x": {}}}]}"#;
    assert!(
        chain(&AgentDdl::from_slice(text.as_bytes()).unwrap_err())
            .contains("`x` is declared twice")
    );
}

#[test]
fn unknown_words_of_published_ddls_are_warnings() {
    let ddl = one_action(json!({
        "input": {"host": {"type": "string", "validation": "nettest_fqdn", "maxlength": 8}},
        "output": {"rtt": {}, "state": {}},
        "aggregate": [
            {"function": "nettest_mma", "args": ["rtt", {"format": "%.3fms"}]},
            {"function": "summary", "args": ["state"]},
            {"function": "nagios_states", "args": ["exitcode"]},
        ],
    }))
    .unwrap();
    let warnings = ddl.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (word, known) in [
        ("input `host`: the unknown validator \"nettest_fqdn\"", "shellsafe"),
        ("the unknown aggregate function \"nettest_mma\"", "boolean_summary"),
        ("the unknown aggregate function \"nagios_states\"", "boolean_summary"),
    ] {
        let found = warnings.iter().find(|warning| warning.contains(word));
        assert!(found.is_some_and(|warning| warning.contains(known)), "{word}: {warnings:?}");
    }
    let action = ddl.actions().first().unwrap();
    let outputs: Vec<_> =
        action.aggregates().iter().map(muster_ddl::AggregateSchema::output_name).collect();
    assert_eq!(outputs, ["state"]);
    let host = action.find_input("host").unwrap();
    assert_eq!(host.validation_text(), Some("nettest_fqdn"));
    assert!(host.check_value(&json!("a_b c")).is_ok());
    assert!(host.check_value(&json!("longer than 8")).is_err());
}

/// As in Choria, also for a name that is similar to a known one: an agent may have a validator `service_names`.
#[test]
fn unknown_validator_with_a_similar_name_is_a_warning() {
    for (word, known) in [("shelsafe", "shellsafe"), ("service_names", "service_name")] {
        let ddl =
            one_action(json!({"input": {"x": {"type": "string", "validation": word}}})).unwrap();
        let [warning] = ddl.warnings() else { panic!("{:?}", ddl.warnings()) };
        assert!(warning.contains(&format!("did you mean `{known}`?")), "{warning}");
        let input = ddl.actions().first().unwrap().find_input("x").unwrap();
        assert!(input.check_value(&json!("a;b")).is_ok());
    }
}

#[test]
fn unknown_words_are_refused_with_the_known_ones() {
    let kind = refused(json!({"input": {"x": {"type": "strnig"}}}));
    assert!(kind.contains("input `x`") && kind.contains("boolean"), "{kind}");
    let pattern = refused(json!({"input": {"x": {"type": "string", "validation": "^(a$"}}}));
    assert!(pattern.contains("unclosed group"), "{pattern}");
    let many: serde_json::Map<_, _> =
        (0..257).map(|n| (format!("x{n}"), json!({"validation": "a"}))).collect();
    assert!(refused(json!({"input": many})).contains("257 inputs"));
    let huge = refused(json!({"input": {"x": {"validation": "^((a{1000}){1000}){1000}$"}}}));
    assert!(huge.contains("size limit"), "{huge}");
}

#[test]
fn contradictions_are_refused() {
    let list = refused(json!({"input": {"x": {"type": "list"}}}));
    assert!(list.contains("at least one choice"), "{list}");
    let default = refused(json!({"input": {"x": {"type": "integer", "default": "3"}}}));
    assert!(default.contains("must be an integer"), "{default}");
    let default = refused(json!({"input": {"x": {"type": "list", "list": ["a"], "default": "b"}}}));
    assert!(default.contains("must be one of a"), "{default}");
    let aggregate = refused(json!({"aggregate": [{"function": "sum", "args": ["y"]}]}));
    assert!(aggregate.contains("`y`"), "{aggregate}");
    assert!(
        refused(json!({"output": {"y": {}}, "aggregate": [{"function": "sum"}]}))
            .contains("first argument")
    );
    let example = refused(json!({"examples": [{"input": {"x": 1}}]}));
    assert!(example.contains("example 1") && example.contains("no input"), "{example}");
    let example = refused(json!({"examples": [{"output": {"x": 1}}]}));
    assert!(example.contains("does not declare"), "{example}");
    for timeout in [0, 86_401] {
        let document = json!({"metadata": {"name": "one", "timeout": timeout}});
        assert!(AgentDdl::from_slice(document.to_string().as_bytes()).is_err());
        let action = refused(json!({"timeout": timeout}));
        assert!(action.starts_with("action `act`: a timeout of"), "{action}");
    }
}

#[test]
fn schema_of_a_value_is_kept_in_its_order() {
    let schema = r##"{"type":"array","title":"Rows","items":{"$ref":"#/$defs/Row"},"$defs":{"Row":{"type":"object","properties":{"z":{"type":["string","null"]},"a":true}}}}"##;
    let text = format!(
        r#"{{"metadata": {{"name": "one"}}, "actions": [{{"action": "act", "input": {{"x": {{"type": "array", "schema": {schema}}}}}, "output": {{"y": {{"schema": {schema}}}}}}}]}}"#
    );
    let ddl = AgentDdl::from_slice(text.as_bytes()).unwrap();
    assert_eq!(ddl.warnings(), &[] as &[String]);
    let written = serde_json::to_string(&ddl).unwrap();
    assert_eq!(written.matches(schema).count(), 2, "{written}");
    // Values are not checked against it.
    let input = ddl.actions().first().unwrap().find_input("x").unwrap();
    assert!(input.check_value(&json!([1])).is_ok());
}

#[test]
fn invalid_schemas_are_refused_with_the_place() {
    let input =
        |schema: Value| refused(json!({"input": {"x": {"type": "array", "schema": schema}}}));
    for (schema, told) in [
        (json!(true), "invalid at its root: it must be an object"),
        (json!({"type": "object"}), "at /type: object is not the type array"),
        (json!({"items": {"type": "text"}}), "at /items/type: must be array, boolean"),
        (json!({"items": {"properties": {"a": 1}}}), "at /items/properties/a: a schema must be"),
        (json!({"items": {"$ref": "#/$defs/Row"}}), "at /items/$ref: must be #/$defs/"),
        (json!({"items": {"required": ["a", "a"]}}), "at /items/required: must be a list of"),
        (json!({"minItems": -1}), "at /minItems: must be a number of 0 or more"),
        (json!({"anyOf": []}), "at /anyOf: must be a list of at least one schema"),
        (json!({"description": "x".repeat(33_000)}), "at most 32768 are allowed"),
    ] {
        let found = input(schema);
        assert!(
            found.starts_with("action `act`, input `x`: the schema ") && found.contains(told),
            "{found}"
        );
    }
    let deep = (0..17).fold(json!(true), |inner, _| json!({"anyOf": [inner]}));
    assert!(input(deep).contains("deeper than 32 levels"));
}

#[test]
fn questionable_schemas_are_warnings() {
    let ddl = one_action(json!({
        "input": {"x": {"type": "string", "schema": {"type": "string"}}},
        "output": {"y": {"type": "hash", "schema": {"propertis": {}, "properties": {"items": {"nullable": true}}}}},
    }))
    .unwrap();
    assert_eq!(
        ddl.warnings(),
        [
            "action `act`, output `y`: the unknown keyword `/properties/items/nullable` of the schema is ignored",
            "action `act`, output `y`: the unknown keyword `/propertis` of the schema is ignored",
            "action `act`, input `x`: the schema of type string is ignored; only array, hash and any have one",
        ]
    );
}

#[test]
fn action_can_override_the_timeout_of_its_agent() {
    let document = json!({"metadata": {"name": "one", "timeout": 20},
                          "actions": [{"action": "quick", "timeout": 2}, {"action": "slow", "timeout": 600}, {"action": "plain"}]});
    let ddl = AgentDdl::from_slice(document.to_string().as_bytes()).unwrap();
    assert!(ddl.warnings().is_empty(), "{:?}", ddl.warnings());
    let seconds = |name: &str| ddl.timeout_of(ddl.find_action(name).unwrap()).as_secs();
    assert_eq!(["quick", "slow", "plain"].map(seconds), [2, 600, 20]);
    let written = serde_json::to_value(&ddl).unwrap();
    let timeouts = ["/actions/0/timeout", "/actions/2/timeout"].map(|at| written.pointer(at));
    assert_eq!(timeouts, [Some(&json!(2)), None]);
}

#[test]
fn display_follows_the_ddl_unless_overridden() {
    let shown = |mode: DisplayMode, wish: Option<&str>| {
        let wish = wish.map(|word| word.parse::<DisplayOverride>().unwrap());
        (mode.shows_reply(true, wish), mode.shows_reply(false, wish))
    };
    assert_eq!(shown(DisplayMode::Ok, None), (true, false));
    assert_eq!(shown(DisplayMode::Failed, None), (false, true));
    assert_eq!(shown(DisplayMode::Always, None), (true, true));
    for mode in [DisplayMode::Ok, DisplayMode::Failed, DisplayMode::Always] {
        assert_eq!(shown(mode, Some("ok")), (true, false));
        assert_eq!(shown(mode, Some("failed")), (false, true));
        assert_eq!(shown(mode, Some("all")), (true, true));
        assert_eq!(shown(mode, Some("none")), (false, false));
    }
    assert!("some".parse::<DisplayOverride>().is_err());
}

proptest! {
    #[test]
    fn damaged_documents_are_refused_or_serialisable(
        damage in proptest::collection::vec((0..PACKAGES.len(), any::<u8>()), 1..4),
        length in 0..=PACKAGES.len(),
        cut in any::<bool>(),
    ) {
        let mut bytes = PACKAGES.as_bytes().to_vec();
        for (position, byte) in damage {
            bytes[position] = byte;
        }
        if cut {
            bytes.truncate(length);
        }
        if let Ok(ddl) = AgentDdl::from_slice(&bytes) {
            let written = serde_json::to_string(&ddl).unwrap();
            prop_assert!(AgentDdl::from_slice(written.as_bytes()).is_ok(), "{}", written);
            prop_assert!(!muster_ddl::doc::render_text(&ddl).is_empty());
        }
    }

    #[test]
    fn arbitrary_validation_text_does_not_panic(text in r"[\[\]{}()\\&~^a-d0-2dws:,.*+?|-]{0,24}") {
        let _ = one_action(json!({"input": {"x": {"type": "string", "validation": text}}}));
    }

    #[test]
    fn patterns_without_special_characters_match_themselves(text in "[A-Z][a-zA-Z0-9 ]{0,20}") {
        let ddl = one_action(json!({"input": {"x": {"type": "string", "validation": format!("^{text}$")}}}));
        let ddl = ddl.unwrap();
        let input = ddl.find_action("act").unwrap().find_input("x").unwrap();
        prop_assert!(input.check_value(&json!(text)).is_ok());
        let longer = text + "!";
        prop_assert!(input.check_value(&json!(longer)).is_err());
    }
}
