//! Evaluates `JSONPath` on documents (RFC 9535): `$.nodes[*].node`. Braces around it and a missing `$` are accepted, as kubectl writes it.

use std::time::Duration;

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::escape_to_line;
use crate::evaluation_limit::{EvaluationError, evaluate_within, limit_memory};
use crate::json::escape_harmful;

const MAX_EXPRESSION_BYTES: usize = 4 * 1024;
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A valid expression.
#[derive(Debug, Clone)]
pub struct JsonPathExpression(JsonPath);

impl JsonPathExpression {
    /// Parses the expression. The error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_EXPRESSION_BYTES {
            return Err(format!("an expression has at most {MAX_EXPRESSION_BYTES} bytes"));
        }
        let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let inner = inner.unwrap_or(text);
        if inner.is_empty() {
            return Err("an expression is missing; write it like `$.nodes[*].node`".to_owned());
        }
        let absolute = if inner.starts_with('$') { inner.to_owned() } else { format!("${inner}") };
        JsonPath::parse(&absolute).map(Self).map_err(|error| {
            let (problem, column) = (error.message(), error.position() + 1);
            format!("`{absolute}` is not a JSONPath: {problem} at column {column}; write it like `$.nodes[*].node`")
        })
    }

    /// A line for each value that the expression selects: texts as they are, on one line without control characters unless `is_raw`, and other
    /// values as JSON. A few nested `..` select more values than fit in memory, or in a lifetime.
    pub fn render(&self, document: Value, is_raw: bool) -> Result<String, EvaluationError> {
        limit_memory();
        let path = self.0.clone();
        let line = move |value: &Value| match value {
            Value::String(text) if is_raw => format!("{text}\n"),
            Value::String(text) => format!("{}\n", escape_to_line(text)),
            other => format!("{}\n", escape_harmful(other.to_string())),
        };
        evaluate_within(EVALUATION_TIMEOUT, move || {
            path.query(&document).all().into_iter().map(line).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_selected_as_by_kubectl_and_by_the_standard() {
        let document = json!({"nodes": [
            {"node": "db1", "fields": {"os": "Debian\u{1b}[31m", "cpus": 4}}, {"node": "db2", "fields": {}},
        ], "bidi": ["\u{202e}\u{9b}"]});
        for (expression, expected) in [
            ("$.nodes[*].node", "db1\ndb2\n"),
            ("{.nodes[*].node}", "db1\ndb2\n"),
            (".nodes[?@.fields.cpus > 2].node", "db1\n"),
            ("$.nodes[0].fields", "{\"cpus\":4,\"os\":\"Debian\\u001b[31m\"}\n"),
            ("$.bidi", "[\"\\u202e\\u009b\"]\n"),
            ("$.nodes[0].fields.os", "Debian\\x1b[31m\n"),
            ("$.none", ""),
        ] {
            assert_eq!(
                JsonPathExpression::parse(expression)
                    .unwrap()
                    .render(document.clone(), false)
                    .unwrap(),
                expected,
                "{expression}"
            );
        }
        for wrong in ["", "nodes", "{.nodes", "$.nodes[", "$..[?env.HOME]"] {
            JsonPathExpression::parse(wrong).unwrap_err();
        }
        JsonPathExpression::parse(&"a".repeat(MAX_EXPRESSION_BYTES + 1)).unwrap_err();
    }
}
