//! Expands loops over literal lists, and inserts their variables. The result contains values only; its size is limited.

use serde_json::{Map, Number, Value};

use super::error::{MAX_EXPANDED_BYTES, RubyDdlError, RubyDdlProblem, shorten_text};
use super::literals::TextPart;
use super::parser::{RubyArguments, RubyExpression, RubyStatement};

/// What a value counts in addition to its text, in bytes.
const VALUE_OVERHEAD_BYTES: usize = 32;

/// A value of a DDL.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RubyValue {
    Text(String),
    Symbol(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Nil,
    Pattern(String),
    List(Vec<RubyValue>),
    Hash(Vec<(RubyValue, RubyValue)>),
    Call { name: String, values: Vec<RubyValue>, pairs: RubyPairs },
}

/// Keys with their values.
type RubyPairs = Vec<(RubyValue, RubyValue)>;

/// A call with its values.
#[derive(Debug)]
pub(super) struct ExpandedCall {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) values: Vec<RubyValue>,
    pub(super) pairs: RubyPairs,
    pub(super) body: Vec<ExpandedCall>,
}

type Result<T> = std::result::Result<T, RubyDdlError>;

/// All calls, with loops expanded.
pub(super) fn expand_statements(statements: &[RubyStatement]) -> Result<Vec<ExpandedCall>> {
    let mut expansion = Expansion { variables: Vec::new(), bytes: 0, line: 1 };
    expansion.expand_body(statements)
}

struct Expansion {
    /// The variables of the loops around this place.
    variables: Vec<(String, RubyValue)>,
    bytes: usize,
    line: usize,
}

impl Expansion {
    fn expand_body(&mut self, statements: &[RubyStatement]) -> Result<Vec<ExpandedCall>> {
        let mut calls = Vec::new();
        for statement in statements {
            match statement {
                RubyStatement::Call(call) => {
                    self.line = call.line;
                    self.count(call.name.len())?;
                    let (values, pairs) = self.evaluate_arguments(&call.arguments)?;
                    let body = self.expand_body(&call.body)?;
                    let name = call.name.clone();
                    calls.push(ExpandedCall { line: call.line, name, values, pairs, body });
                }
                RubyStatement::Loop { line, list, variable, body } => {
                    self.line = *line;
                    let RubyValue::List(items) = self.evaluate(list)? else {
                        continue;
                    };
                    for item in items {
                        self.variables.push((variable.clone(), item));
                        // An empty body counts, too: loops in loops would take exponential time.
                        self.count(0)?;
                        calls.extend(self.expand_body(body)?);
                        self.variables.pop();
                    }
                }
            }
        }
        Ok(calls)
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes + VALUE_OVERHEAD_BYTES);
        if self.bytes > MAX_EXPANDED_BYTES {
            return Err(RubyDdlProblem::TooMuchText.at_line(self.line));
        }
        Ok(())
    }

    fn evaluate_arguments(
        &mut self,
        arguments: &RubyArguments,
    ) -> Result<(Vec<RubyValue>, RubyPairs)> {
        Ok((self.evaluate_list(&arguments.values)?, self.evaluate_pairs(&arguments.pairs)?))
    }

    fn evaluate_list(&mut self, items: &[RubyExpression]) -> Result<Vec<RubyValue>> {
        items.iter().map(|item| self.evaluate(item)).collect()
    }

    fn evaluate_pairs(&mut self, pairs: &[(RubyExpression, RubyExpression)]) -> Result<RubyPairs> {
        pairs.iter().map(|(key, value)| Ok((self.evaluate(key)?, self.evaluate(value)?))).collect()
    }

    fn evaluate(&mut self, expression: &RubyExpression) -> Result<RubyValue> {
        self.count(0)?;
        Ok(match expression {
            RubyExpression::Text(parts) => self.evaluate_text(parts)?,
            RubyExpression::Symbol(name) => {
                self.count(name.len())?;
                RubyValue::Symbol(name.clone())
            }
            RubyExpression::Integer(number) => RubyValue::Integer(*number),
            RubyExpression::Float(number) => RubyValue::Float(*number),
            RubyExpression::Boolean(truth) => RubyValue::Boolean(*truth),
            RubyExpression::Nil => RubyValue::Nil,
            RubyExpression::Pattern(pattern) => {
                self.count(pattern.len())?;
                RubyValue::Pattern(pattern.clone())
            }
            RubyExpression::List(items) => RubyValue::List(self.evaluate_list(items)?),
            RubyExpression::Hash(pairs) => RubyValue::Hash(self.evaluate_pairs(pairs)?),
            RubyExpression::Joined(parts) => self.join_texts(parts)?,
            RubyExpression::Variable { line, name } => self.find_variable(*line, name)?,
            RubyExpression::Method { line, receiver, name } => {
                let value = self.evaluate(receiver)?;
                call_method(&value, name, *line)?
            }
            RubyExpression::Call { name, arguments } => {
                let (values, pairs) = self.evaluate_arguments(arguments)?;
                RubyValue::Call { name: name.clone(), values, pairs }
            }
        })
    }

    fn evaluate_text(&mut self, parts: &[TextPart]) -> Result<RubyValue> {
        let mut text = String::new();
        for part in parts {
            let piece = match part {
                TextPart::Literal(literal) => literal.clone(),
                TextPart::Inserted { variable, methods } => {
                    let mut value = self.find_variable(self.line, variable)?;
                    for method in methods {
                        value = call_method(&value, method, self.line)?;
                    }
                    value.to_text().ok_or_else(|| {
                        value_error("an inserted variable", "a text or symbol", &value)
                            .at_line(self.line)
                    })?
                }
            };
            self.count(piece.len())?;
            text.push_str(&piece);
        }
        Ok(RubyValue::Text(text))
    }

    fn join_texts(&mut self, parts: &[RubyExpression]) -> Result<RubyValue> {
        let mut joined = String::new();
        for part in parts {
            match self.evaluate(part)? {
                RubyValue::Text(text) => {
                    self.count(text.len())?;
                    joined.push_str(&text);
                }
                other => {
                    let problem = value_error("what is joined by `+`", "a text", &other);
                    return Err(problem.at_line(self.line));
                }
            }
        }
        Ok(RubyValue::Text(joined))
    }

    fn find_variable(&mut self, line: usize, name: &str) -> Result<RubyValue> {
        let variable = self.variables.iter().rev().find(|(known, _)| known == name);
        let Some((_, value)) = variable else {
            let code = format!("`{}`", shorten_text(name));
            return Err(RubyDdlProblem::RubyCode(code).at_line(line));
        };
        let value = value.clone();
        self.count(value.counted_bytes())?;
        Ok(value)
    }
}

fn call_method(value: &RubyValue, method: &str, line: usize) -> Result<RubyValue> {
    let converted = match (method, value.to_text()) {
        ("to_s", Some(text)) => Some(RubyValue::Text(text)),
        ("to_sym", Some(text)) => Some(RubyValue::Symbol(text)),
        ("freeze", _) => Some(value.clone()),
        ("capitalize", Some(text)) => Some(RubyValue::Text(capitalize_text(&text))),
        ("upcase", Some(text)) => Some(RubyValue::Text(text.to_uppercase())),
        ("downcase", Some(text)) => Some(RubyValue::Text(text.to_lowercase())),
        _ => None,
    };
    converted.ok_or_else(|| {
        let code = format!("the method `{}`", shorten_text(method));
        RubyDdlProblem::RubyCode(code).at_line(line)
    })
}

/// The first letter in upper case, and the others in lower case.
fn capitalize_text(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters.flat_map(char::to_lowercase)).collect()
}

impl RubyValue {
    /// The text of a text or symbol.
    pub(super) fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Symbol(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Boolean(truth) => Some(truth.to_string()),
            _ => None,
        }
    }

    /// The value as JSON; `None` for a pattern or a call.
    pub(super) fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Text(text) | Self::Symbol(text) => Value::from(text.clone()),
            Self::Integer(number) => Value::from(*number),
            Self::Float(number) => Value::Number(Number::from_f64(*number)?),
            Self::Boolean(truth) => Value::from(*truth),
            Self::Nil => Value::Null,
            Self::List(items) => {
                items.iter().map(Self::to_json).collect::<Option<Vec<_>>>()?.into()
            }
            Self::Hash(pairs) => Value::Object(pairs_to_json(pairs)?),
            Self::Pattern(_) | Self::Call { .. } => return None,
        })
    }

    fn counted_bytes(&self) -> usize {
        let inner = match self {
            Self::Text(text) | Self::Symbol(text) | Self::Pattern(text) => text.len(),
            Self::List(items) => items.iter().map(Self::counted_bytes).sum(),
            Self::Hash(pairs) => {
                pairs.iter().map(|(key, value)| key.counted_bytes() + value.counted_bytes()).sum()
            }
            _ => 0,
        };
        inner + VALUE_OVERHEAD_BYTES
    }
}

/// A hash as JSON; `None` if it contains a pattern or a call, or a key that is no text.
pub(super) fn pairs_to_json(pairs: &[(RubyValue, RubyValue)]) -> Option<Map<String, Value>> {
    pairs.iter().map(|(key, value)| Some((key.to_text()?, value.to_json()?))).collect()
}

/// The error for a value of a wrong type.
pub(super) fn value_error(
    what: impl Into<String>,
    expected: &'static str,
    found: &RubyValue,
) -> RubyDdlProblem {
    let found = match found {
        RubyValue::Text(text) => format!("\"{}\"", shorten_text(text)),
        RubyValue::Symbol(name) => format!(":{}", shorten_text(name)),
        RubyValue::Integer(number) => number.to_string(),
        RubyValue::Float(number) => number.to_string(),
        RubyValue::Boolean(truth) => truth.to_string(),
        RubyValue::Nil => "nil".to_owned(),
        RubyValue::Pattern(pattern) => format!("/{}/", shorten_text(pattern)),
        RubyValue::List(_) => "a list".to_owned(),
        RubyValue::Hash(_) => "a hash".to_owned(),
        RubyValue::Call { name, .. } => format!("the call `{}`", shorten_text(name)),
    };
    RubyDdlProblem::Value { what: what.into(), expected, found }
}
