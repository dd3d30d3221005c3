//! Parses facts from text: JSON, YAML, and lines of `name=value`. The caller has limited the size of the text.

use muster_filter::state::NodeFacts;
use serde_json::{Map, Value};

use super::error::FactError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactFormat {
    Json,
    Yaml,
    /// One `name=value` per line; values are strings.
    Lines,
}

impl FactFormat {
    pub(super) fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "txt" => Some(Self::Lines),
            _ => None,
        }
    }

    /// The format of a program's output, by its first line with content.
    pub(super) fn detect_output(text: &str) -> Self {
        let first = text.lines().map(str::trim).find(|line| has_content(line)).unwrap_or_default();
        match first.find(['=', ':']).and_then(|at| first.as_bytes().get(at)) {
            _ if first.starts_with('{') => Self::Json,
            Some(b'=') => Self::Lines,
            _ => Self::Yaml,
        }
    }
}

/// The result is within the limits of facts.
pub(super) fn parse_facts(
    format: FactFormat,
    bytes: &[u8],
) -> Result<Map<String, Value>, FactError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FactError::NotText)?;
    let value = match format {
        FactFormat::Json => serde_json::from_str(text).map_err(FactError::Json)?,
        FactFormat::Yaml => parse_yaml(text)?,
        FactFormat::Lines => Value::Object(parse_lines(text)?),
    };
    Ok(NodeFacts::from_value(value)?.into_map())
}

/// Parses YAML with few aliases: facts rarely need them, and expansion bombs consist of them.
fn parse_yaml(text: &str) -> Result<Value, FactError> {
    let options = serde_saphyr::options! {
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| FactError::Yaml(error.to_string()))
}

fn parse_lines(text: &str) -> Result<Map<String, Value>, FactError> {
    let mut facts = Map::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| has_content(line.trim())) {
        match line.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some((name, value)) if !name.is_empty() => {
                facts.insert(name.to_owned(), Value::String(value.to_owned()));
            }
            _ => return Err(FactError::Line { number: index + 1 }),
        }
    }
    Ok(facts)
}

/// Whether a line is neither blank, nor a comment, nor a YAML document marker.
fn has_content(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#') && line != "---"
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{FactFormat, parse_facts};
    use crate::machine::facts::error::FactError;

    fn read(form: FactFormat, text: &str) -> Value {
        Value::Object(parse_facts(form, text.as_bytes()).unwrap())
    }

    #[test]
    fn all_formats_give_the_same_facts() {
        let facts = json!({"customer": "acme", "role": "db"});
        assert_eq!(read(FactFormat::Json, r#"{"customer":"acme","role":"db"}"#), facts);
        assert_eq!(read(FactFormat::Yaml, "---\ncustomer: acme\nrole: db\n"), facts);
        assert_eq!(read(FactFormat::Lines, "# ours\ncustomer = acme\n\nrole=db\r\n"), facts);
        assert_eq!(read(FactFormat::Lines, "a=b=c\nempty="), json!({"a": "b=c", "empty": ""}));
        assert_eq!(read(FactFormat::Yaml, "a:\n  b: [1, true]\n"), json!({"a": {"b": [1, true]}}));
    }

    #[test]
    fn refuses_documents_that_are_not_objects() {
        assert!(matches!(parse_facts(FactFormat::Json, b"[1]"), Err(FactError::Facts(_))));
        assert!(matches!(parse_facts(FactFormat::Json, b"{"), Err(FactError::Json(_))));
        assert!(matches!(parse_facts(FactFormat::Yaml, b"a: [1"), Err(FactError::Yaml(_))));
        assert!(matches!(parse_facts(FactFormat::Yaml, b"word"), Err(FactError::Facts(_))));
        assert!(matches!(
            parse_facts(FactFormat::Lines, b"a=1\n\nb\n"),
            Err(FactError::Line { number: 3 })
        ));
        assert!(matches!(
            parse_facts(FactFormat::Lines, b"=1\n"),
            Err(FactError::Line { number: 1 })
        ));
        assert!(matches!(parse_facts(FactFormat::Json, b"\xff"), Err(FactError::NotText)));
    }

    #[test]
    fn refuses_exponential_yaml_aliases() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = level - 1;
            let aliases = vec![format!("*a{before}"); 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{aliases}]").unwrap();
        }
        assert!(parse_facts(FactFormat::Yaml, text.as_bytes()).is_err());
    }

    #[test]
    fn detects_the_format_from_the_first_line() {
        for (text, form) in [
            ("\n  {\"a\": 1}", FactFormat::Json),
            ("# x: y\na=http://b", FactFormat::Lines),
            ("---\na: b=c", FactFormat::Yaml),
            ("", FactFormat::Yaml),
        ] {
            assert_eq!(FactFormat::detect_output(text), form, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(\\PC|[\n:=&*\\-\\[\\]{}\" ]){0,60}") {
            for form in [FactFormat::Json, FactFormat::Yaml, FactFormat::Lines, FactFormat::detect_output(&text)] {
                let _ = parse_facts(form, text.as_bytes());
            }
        }
    }
}
