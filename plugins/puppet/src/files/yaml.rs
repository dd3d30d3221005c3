//! Parses Ruby's YAML into plain values: ignores tags, converts symbols to strings. Bounded in size and depth.

use serde_json::Value;

/// `None` if it is invalid or not a mapping: Puppet 3 writes `false` before the summary.
pub fn parse_mapping(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
    };
    let document: Value = serde_saphyr::from_str_with_options(text, options).ok()?;
    document.is_object().then(|| strip_symbols(document))
}

/// Strips the colon of Ruby symbols: `:changed` becomes `changed`, in keys and values.
fn strip_symbols(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(strip_symbol(text)),
        Value::Array(items) => items.into_iter().map(strip_symbols).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(key, value)| (strip_symbol(key), strip_symbols(value))).collect(),
        ),
        other => other,
    }
}

fn strip_symbol(text: String) -> String {
    match text.strip_prefix(':') {
        Some(word)
            if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '?') =>
        {
            word.to_owned()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::parse_mapping;

    #[test]
    fn ruby_tags_and_symbols_become_plain_values() {
        let text = "--- !ruby/object:Puppet::Transaction::Report\nstatus: :changed\n:kind: !ruby/sym apply\nlogs:\n\
            - !ruby/object:Puppet::Util::Log\n  message: ': a b'\n  level: !ruby/sym notice\nempty:\n";
        assert_eq!(
            parse_mapping(text).unwrap(),
            json!({"status": "changed", "kind": "apply", "logs": [{"message": ": a b", "level": "notice"}], "empty": null})
        );
    }

    #[test]
    fn returns_none_for_documents_without_a_mapping() {
        for text in ["", "false", "--- [", "- a\n- b\n", "\u{0}"] {
            assert_eq!(parse_mapping(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,200}") {
            let _ = parse_mapping(&text);
        }
    }
}
