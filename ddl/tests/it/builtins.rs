//! The built-in DDLs, and the documentation generated from them.

use std::path::Path;
use std::{env, fs};

use muster_ddl::{
    AgentDdl, BUILTIN_AGENTS, BUILTIN_DATA_SOURCES, DataDdl, builtin_agent, builtin_data, doc,
};
use serde_json::{Value, json};

use crate::support::{object, packages};

fn load(name: &str) -> AgentDdl {
    AgentDdl::from_slice(builtin_agent(name).unwrap().as_bytes()).unwrap()
}

#[test]
fn every_built_in_ddl_is_valid_complete_and_named_by_its_file() {
    assert!(BUILTIN_AGENTS.is_sorted_by_key(|(name, _)| *name));
    for (name, document) in BUILTIN_AGENTS {
        let ddl = AgentDdl::from_slice(document.as_bytes()).unwrap();
        assert_eq!(ddl.name(), *name);
        assert!(ddl.warnings().is_empty(), "{name}: {:?}", ddl.warnings());
        assert!(!ddl.actions().is_empty());
        for action in ddl.actions() {
            assert!(!action.description().is_empty(), "{name} {}", action.name());
            assert!(!action.examples().is_empty(), "{name} {} has no example", action.name());
            assert!(action.inputs().iter().all(|input| !input.description.is_empty()));
            assert!(action.outputs().iter().all(|output| !output.description.is_empty()));
        }
    }
    assert!(builtin_agent("nothing").is_none());
}

#[test]
fn every_built_in_data_source_is_valid_complete_and_in_the_reference() {
    assert!(BUILTIN_DATA_SOURCES.is_sorted_by_key(|(name, _)| *name));
    let mut sources = Vec::new();
    for (name, document) in BUILTIN_DATA_SOURCES {
        let ddl = DataDdl::from_slice(document.as_bytes()).unwrap();
        assert_eq!(ddl.name(), *name);
        assert!(ddl.warnings().is_empty(), "{name}: {:?}", ddl.warnings());
        assert!(!ddl.outputs().is_empty() && !ddl.examples().is_empty());
        let described = ddl.outputs().iter().all(|output| !output.description.is_empty());
        assert!(described && !ddl.metadata().description.is_empty(), "{name}");
        sources.push(ddl);
    }
    golden("../../../docs/reference/data.md", &doc::render_data_markdown(&sources));
}

#[test]
fn data_source_queries_and_results_are_validated() {
    let fstat = DataDdl::from_slice(builtin_data("fstat").unwrap().as_bytes()).unwrap();
    for (query, wrong) in [
        (Some("/etc/hosts"), ""),
        (None, "requires an absolute path as its query"),
        (Some(""), "requires an absolute path as its query"),
        (Some("etc/hosts"), "must match"),
    ] {
        let told =
            fstat.check_query(query).map_or_else(|error| error.to_string(), |()| String::new());
        assert!(told.contains(wrong) && told.is_empty() == wrong.is_empty(), "{told}");
    }
    let puppet = DataDdl::from_slice(builtin_data("puppet").unwrap().as_bytes()).unwrap();
    assert!(puppet.check_query(None).is_ok() && puppet.check_query(Some("x")).is_err());
    let answer = fstat.check_answer(object(json!({"present": true, "size": 5}))).unwrap();
    assert_eq!((&answer["size"], &answer["md5"]), (&json!(5), &Value::Null));
    for wrong in [json!({"weather": 1}), json!({"size": "large"})] {
        assert!(fstat.check_answer(object(wrong)).is_err());
    }
}

#[test]
fn rpcutil_has_the_expected_actions_and_changes_no_node() {
    let ddl = load("rpcutil");
    let mut names: Vec<_> = ddl.actions().iter().map(muster_ddl::ActionSchema::name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "agent_inventory",
            "cancel",
            "cancel_any",
            "collective_info",
            "daemon_stats",
            "ddl",
            "diagnose",
            "get_config_item",
            "get_data",
            "get_fact",
            "get_facts",
            "inventory",
            "ping",
            "running"
        ]
    );
    // Cancelling requests affects other callers, so it counts as a change.
    let changing = ddl.actions().iter().filter(|action| !action.is_read_only());
    let changing: Vec<_> = changing.map(muster_ddl::ActionSchema::name).collect();
    assert_eq!(changing, ["cancel", "cancel_any"]);
}

#[test]
fn puppetral_accepts_the_properties_of_any_type() {
    let ddl = load("puppetral");
    assert_eq!(ddl.default_action(), Some("do"));
    let action = ddl.find_action("do").unwrap();
    let words = [("type", "user"), ("name", "rip"), ("password", "$1$xxx"), ("noop", "yes")];
    let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
    let inputs = action.validate_input(&action.coerce_words(&words).unwrap()).unwrap();
    let expected = json!({"type": "user", "name": "rip", "password": "$1$xxx", "noop": true});
    assert_eq!(Value::from(inputs.clone()), expected);
    assert_eq!(action.redact_input(&inputs).get("password"), Some(&json!("[redacted]")));
    assert!(action.validate_input(&object(json!({"type": "../user", "name": "x"}))).is_err());
    assert!(action.validate_input(&object(json!({"type": "user"}))).unwrap_err().is_missing());
    assert!(ddl.find_action("plan").unwrap().is_read_only() && !action.is_read_only());
}

#[test]
fn documentation_matches_the_golden_files() {
    for name in ["package", "puppetral", "rpcutil", "service"] {
        golden(&format!("{name}.txt"), &doc::render_text(&load(name)));
        golden(&format!("{name}.md"), &doc::render_markdown(&load(name)));
    }
    golden("packages.txt", &doc::render_text(&packages()));
    golden("packages.md", &doc::render_markdown(&packages()));
}

#[test]
fn documentation_omits_secrets_and_escapes_control_characters() {
    let document = json!({
        "metadata": {"name": "evil", "description": "\u{1b}[2J<script>*x*", "author": "a\r\u{9b}b"},
        "actions": [{
            "action": "act",
            "input": {"key": {"sensitive": true, "default": "hunter2", "description": "```\n# x"}},
            "examples": [{"input": {"key": "hunter2"}}],
        }],
    });
    let ddl = AgentDdl::from_slice(document.to_string().as_bytes()).unwrap();
    for page in [doc::render_text(&ddl), doc::render_markdown(&ddl)] {
        assert!(!page.contains("hunter2"), "{page}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
    }
    let page = doc::render_markdown(&ddl);
    assert!(
        !page.contains("<script>") && !page.contains("\n# x") && !page.contains("*x*\n"),
        "{page}"
    );
}

#[test]
fn documentation_shows_what_is_inside_values() {
    let row = json!({"type": "object", "properties": {
        "name": {"type": "string", "description": "The *name*"},
        "state": {"oneOf": [{"const": "up", "description": "Runs"}, {"enum": ["down", "gone"]}]},
        "ports": {"type": "array", "items": {"type": ["integer", "null"]}},
        "limits": {"type": "object", "additionalProperties": {"type": "number"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]},
        "disk": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }});
    let document = json!({
        "metadata": {"name": "one"},
        "actions": [{"action": "act", "output": {
            "rows": {"type": "array", "schema": {"type": "array", "items": {"$ref": "#/$defs/Row"}, "$defs": {"Row": row}}},
            "value": {"schema": {"type": ["string", "integer"]}},
        }}],
    });
    let ddl = AgentDdl::from_slice(document.to_string().as_bytes()).unwrap();
    let text = doc::render_text(&ddl);
    let expected = "\
        rows
            Display As: rows
                  Type: array of hash
                disk (hash)
                  size (integer)
                limits (hash of number)
                name (string): The *name*
                parent (hash or null, as above)
                ports (array of (integer or null))
                state (one of up, down, gone)

        value
            Display As: value
                  Type: any: string or integer
";
    assert!(text.contains(expected), "{text}");
    let markdown = doc::render_markdown(&ddl);
    let expected = "\n  - `name` (string): The \\*name\\*\n";
    assert!(
        markdown.contains(expected) && markdown.contains("\n    - `size` (integer)\n"),
        "{markdown}"
    );
}

/// Compares with the file of that name, or rewrites it when `UPDATE_GOLDEN` is set.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert_eq!(actual, expected, "{name}; UPDATE_GOLDEN=1 rewrites it");
}
