//! Arbitrary DDLs, and arbitrary inputs and outputs against them: a valid input validates again, and text remains text.
//!
//! Input: a DDL, a zero byte, a JSON object. Without a zero byte, the object is validated by a DDL with every type.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_ddl::AgentDdl;
use serde_json::{Map, Value};

const DOCUMENT: &[u8] = br#"{"metadata": {"name": "x"}, "actions": [{"action": "y", "input": {
    "text": {"type": "string", "validation": "^a+$", "maxlength": 9, "optional": true},
    "shell": {"type": "string", "validation": "shellsafe", "maxlength": 0, "optional": true},
    "address": {"type": "string", "validation": "ipv6address", "maxlength": 40, "optional": true},
    "choice": {"type": "list", "list": ["a", "b"], "optional": true},
    "count": {"type": "integer", "optional": true}, "ratio": {"type": "float", "optional": true},
    "number": {"type": "number", "optional": true}, "flag": {"type": "boolean", "optional": true, "default": true},
    "table": {"type": "hash", "optional": true}, "items": {"type": "array", "optional": true}},
    "output": {"said": {"type": "string", "default": "none"}, "seen": {"type": "array"}}}]}"#;

static DDL: LazyLock<AgentDdl> =
    LazyLock::new(|| AgentDdl::from_slice(DOCUMENT).expect("the DDL of the target is valid"));

fuzz_target!(|bytes: &[u8]| {
    let (document, object) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (Some(&bytes[..at]), &bytes[at + 1..]),
        None => (None, bytes),
    };
    let object = serde_json::from_slice::<Map<String, Value>>(object).unwrap_or_default();
    check_object(&DDL, &object);
    if let Ok(ddl) = AgentDdl::from_slice(document.unwrap_or(bytes)) {
        let _ = muster_ddl::doc::render_text(&ddl);
        let _ = muster_ddl::doc::render_markdown(&ddl);
        check_object(&ddl, &object);
    }
});

fn check_object(ddl: &AgentDdl, object: &Map<String, Value>) {
    for action in ddl.actions() {
        if let Ok(valid) = action.validate_input(object) {
            let again = action.validate_input(&valid).expect("what is valid stays valid");
            assert_eq!(again, valid);
            let _ = action.redact_input(&valid);
        }
        if let Ok(valid) = action.validate_output(object) {
            let _ = action.redact_output(&valid);
        }
        let words = object.iter().map(|(name, value)| (name.clone(), value.to_string()));
        let words: Vec<_> = words.collect();
        let _ = action.coerce_words(&words);
    }
}
