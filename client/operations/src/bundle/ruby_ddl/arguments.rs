//! Reads the arguments of calls in a Ruby DDL: names, values of keys, validations and aggregates.

use serde_json::Value;

use super::entries::AggregateEntry;
use super::error::{RubyDdlError, RubyDdlProblem, shorten_text};
use super::evaluate::{ExpandedCall, RubyValue, pairs_to_json, value_error};
use super::names::ConvertedNames;

type Result<T> = std::result::Result<T, RubyDdlError>;

/// The text of a validation. A symbol is the name of a validator; a text is a pattern in Ruby, also if it is a single word.
pub(super) fn convert_validation(call: &ExpandedCall, value: &RubyValue) -> Result<Option<String>> {
    let is_word =
        |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match value {
        RubyValue::Symbol(name) if name == "string" => Ok(None),
        RubyValue::Symbol(name) => Ok(Some(name.clone())),
        RubyValue::Text(pattern) | RubyValue::Pattern(pattern) if pattern.is_empty() => Ok(None),
        RubyValue::Text(pattern) | RubyValue::Pattern(pattern) if is_word(pattern) => {
            Ok(Some(format!("(?:{pattern})")))
        }
        RubyValue::Text(pattern) | RubyValue::Pattern(pattern) => Ok(Some(pattern.clone())),
        RubyValue::Nil => Ok(None),
        other => {
            let expected = "a validator's symbol or a pattern";
            Err(value_error("`validation`", expected, other).at_line(call.line))
        }
    }
}

/// `aggregate function(:output, options), :format => "..."`.
pub(super) fn convert_aggregate(
    call: &ExpandedCall,
    outputs: &ConvertedNames,
) -> Result<AggregateEntry> {
    if call.name != "aggregate" {
        return Err(call.unknown("in summarize", "aggregate"));
    }
    let [RubyValue::Call { name, values, pairs }] = call.values.as_slice() else {
        let found = call.values.first().unwrap_or(&RubyValue::Nil);
        return Err(
            value_error("`aggregate`", "one function of an output", found).at_line(call.line)
        );
    };
    let mut args = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let json = value.to_json().filter(|_| index > 0 || value.to_text().is_some());
        let Some(json) = json else {
            let what = format!("an argument of `{}`", shorten_text(name));
            return Err(
                value_error(what, "the name of an output, then a hash", value).at_line(call.line)
            );
        };
        args.push(json);
    }
    if let Some(output) = args.first_mut() {
        let converted = output.as_str().and_then(|name| outputs.find(name));
        if let Some(converted) = converted.map(Value::from) {
            *output = converted;
        }
    }
    for options in [pairs, &call.pairs] {
        let Some(options) = pairs_to_json(options) else {
            let problem =
                value_error("an option of `aggregate`", "a text", &RubyValue::Hash(Vec::new()));
            return Err(problem.at_line(call.line));
        };
        if !options.is_empty() {
            args.push(Value::Object(options));
        }
    }
    Ok(AggregateEntry { function: name.clone(), args })
}

impl ExpandedCall {
    pub(super) fn unknown(&self, place: &'static str, known: &'static str) -> RubyDdlError {
        let word = shorten_text(&self.name);
        RubyDdlProblem::UnknownCall { word, place, known }.at_line(self.line)
    }

    /// The name that is the first argument.
    pub(super) fn first_name(&self, what: &str) -> Result<String> {
        let value = self.values.first().unwrap_or(&RubyValue::Nil);
        match value {
            RubyValue::Text(name) | RubyValue::Symbol(name) => Ok(name.clone()),
            other => {
                let what = format!("the argument of `{}`", shorten_text(what));
                Err(value_error(what, "a name", other).at_line(self.line))
            }
        }
    }

    fn refuse_value<T>(&self, key: &str, expected: &'static str, value: &RubyValue) -> Result<T> {
        let what = format!("`{}`", shorten_text(key));
        Err(value_error(what, expected, value).at_line(self.line))
    }

    pub(super) fn text_value(&self, key: &str, value: &RubyValue) -> Result<String> {
        match value {
            // `:version => 1.2` is a number in Ruby.
            RubyValue::Float(number) => Ok(number.to_string()),
            RubyValue::Nil => Ok(String::new()),
            other => match other.to_text() {
                Some(text) => Ok(text),
                None => self.refuse_value(key, "a text", value),
            },
        }
    }

    pub(super) fn integer_value(&self, key: &str, value: &RubyValue) -> Result<i64> {
        match value {
            RubyValue::Integer(number) if *number >= 0 => Ok(*number),
            RubyValue::Text(text) if text.parse::<u32>().is_ok() => {
                Ok(text.parse().unwrap_or_default())
            }
            other => self.refuse_value(key, "a whole number, not below 0", other),
        }
    }

    pub(super) fn boolean_value(&self, key: &str, value: &RubyValue) -> Result<bool> {
        match value {
            RubyValue::Boolean(truth) => Ok(*truth),
            RubyValue::Nil => Ok(false),
            other => self.refuse_value(key, "true or false", other),
        }
    }

    pub(super) fn json_value(&self, key: &str, value: &RubyValue) -> Result<Option<Value>> {
        match value.to_json() {
            Some(json) => Ok(Some(json).filter(|json| !json.is_null())),
            None => self.refuse_value(key, "a literal value", value),
        }
    }

    pub(super) fn choices_value(&self, key: &str, value: &RubyValue) -> Result<Vec<String>> {
        let choices = match value {
            RubyValue::List(items) => {
                items.iter().map(RubyValue::to_text).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        choices.map_or_else(|| self.refuse_value(key, "a list of texts", value), Ok)
    }
}
