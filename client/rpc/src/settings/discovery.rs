//! The configured way to find nodes, from the keys `discovery.method` and `discovery.options`.

use std::path::Path;

use muster_client::discovery::Options;
use muster_client::{Method, Source};
use toml::Value;

use super::file::Discovery;

const METHOD: &str = "discovery.method";
const OPTIONS: &str = "discovery.options";

/// What the keys mean, or which of them is wrong, and why. Paths are relative to `base`.
pub(super) fn source(keys: &Discovery, base: &Path) -> Result<Source, (&'static str, String)> {
    let method: Method = match &keys.method {
        Some(name) => name
            .parse()
            .map_err(|error| (METHOD, format!("cannot be used: {error}")))?,
        None => Method::default(),
    };
    let wrong = |error| (OPTIONS, format!("cannot be used: {error}"));
    let mut options = Options::default();
    for (name, value) in &keys.options {
        let added = match value {
            Value::String(text) => options.text(name, text.clone()),
            Value::Integer(number) => options.text(name, number.to_string()),
            Value::Float(number) => options.text(name, number.to_string()),
            Value::Boolean(truth) => options.text(name, truth.to_string()),
            Value::Array(words) => options.list(name, texts(name, words)?),
            Value::Datetime(_) | Value::Table(_) => Err(no_text(name))?,
        };
        added.map_err(wrong)?;
    }
    Source::read(method, &options, base).map_err(wrong)
}

fn texts(name: &str, words: &[Value]) -> Result<Vec<String>, (&'static str, String)> {
    let text = |word: &Value| {
        word.as_str()
            .map(str::to_owned)
            .ok_or_else(|| no_text(name))
    };
    words.iter().map(text).collect()
}

fn no_text(name: &str) -> (&'static str, String) {
    (
        OPTIONS,
        format!("has `{name}`, which must be a text or a list of texts"),
    )
}
