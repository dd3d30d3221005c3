//! Renders events of managed resources, as returned by `puppetral`, one sentence each. Verbose output and JSON show all fields.

use serde_json::Value;

/// The sentences of a list of events; `None` for any other value.
pub fn event_sentences(value: &Value) -> Option<Value> {
    let events = value.as_array().filter(|events| !events.is_empty())?;
    events.iter().map(event_sentence).collect()
}

fn event_sentence(event: &Value) -> Option<Value> {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    // The message already contains the result: `(noop)`, `failed: ...`.
    let (_, message, _) = (text("property")?, text("message")?, text("status")?);
    Some(message.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::event_sentences;

    #[test]
    fn only_lists_of_events_become_sentences() {
        let event = |status| json!({"property": "shell", "message": "shell changed", "status": status, "more": 1});
        let list = json!([event("success"), event("noop")]);
        assert_eq!(event_sentences(&list), Some(json!(["shell changed", "shell changed"])));
        for other in [
            json!([]),
            json!("x"),
            json!([event("success"), 1]),
            json!([{"message": "a"}]),
            event("noop"),
        ] {
            assert_eq!(event_sentences(&other), None, "{other}");
        }
    }
}
