//! Parses the keys `discovery.method` and `discovery.options`.

use std::path::Path;

use muster_calls::discovery::DiscoveryOptions;
use muster_calls::{DiscoveryMethod, DiscoverySource};
use toml::Value;

use super::file::DiscoverySection;

const METHOD_KEY: &str = "discovery.method";
const OPTIONS_KEY: &str = "discovery.options";

/// Parses the keys, or returns the invalid one and the reason. Relative paths are resolved against `base`.
pub(super) fn parse_source(
    keys: &DiscoverySection,
    base: &Path,
) -> Result<DiscoverySource, (&'static str, String)> {
    let method: DiscoveryMethod = match &keys.method {
        Some(name) => {
            name.parse().map_err(|error| (METHOD_KEY, format!("cannot be used: {error}")))?
        }
        None => DiscoveryMethod::default(),
    };
    let invalid = |error| (OPTIONS_KEY, format!("cannot be used: {error}"));
    let mut options = DiscoveryOptions::default();
    for (name, value) in &keys.options {
        let result = match value {
            Value::String(text) => options.add_text(name, text.clone()),
            Value::Integer(number) => options.add_text(name, number.to_string()),
            Value::Float(number) => options.add_text(name, number.to_string()),
            Value::Boolean(truth) => options.add_text(name, truth.to_string()),
            Value::Array(items) => options.add_list(name, parse_texts(name, items)?),
            Value::Datetime(_) | Value::Table(_) => Err(not_text_error(name))?,
        };
        result.map_err(invalid)?;
    }
    DiscoverySource::from_options(method, &options, base).map_err(invalid)
}

fn parse_texts(name: &str, items: &[Value]) -> Result<Vec<String>, (&'static str, String)> {
    let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| not_text_error(name));
    items.iter().map(text).collect()
}

fn not_text_error(name: &str) -> (&'static str, String) {
    (OPTIONS_KEY, format!("contains `{name}`, which must be a string or a list of strings"))
}
