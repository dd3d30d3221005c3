//! Rule options: expiry (`until`), required approval (`approved-by`) and inputs (`input:NAME`).

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::Millis;

use super::callers::CallerSet;
use super::fault::{FieldResult, PolicyFault};
use super::groups::CallerGroups;
use super::span::LineSpan;
use serde_json::{Map, Value};

const UNTIL_PREFIX: &str = "until=";
const APPROVED_BY_PREFIX: &str = "approved-by=";
const INPUT_PREFIX: &str = "input:";
/// Longest name of an input.
const MAX_INPUT_NAME_BYTES: usize = 64;

/// The options of a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleOptions {
    /// The rule expires at this instant.
    pub(super) until: Option<Millis>,
    /// One of these callers must have approved the request.
    pub(super) approvers: Option<CallerSet>,
    /// The values that inputs of the request must have.
    pub(super) inputs: InputConditions,
}

/// For each input, the values of which it must have one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InputConditions(BTreeMap<String, BTreeSet<String>>);

impl InputConditions {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every input has one of its values. A missing input has none.
    pub(super) fn match_inputs(&self, inputs: Option<&Map<String, Value>>) -> bool {
        let has_value = |(name, values): (&String, &BTreeSet<String>)| match inputs
            .and_then(|inputs| inputs.get(name))
        {
            Some(Value::String(text)) => values.contains(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => {
                values.contains(&value.to_string())
            }
            _ => false,
        };
        self.0.iter().all(has_value)
    }

    /// The conditions as they are written.
    pub(super) fn describe(&self) -> String {
        let word = |(name, values): (&String, &BTreeSet<String>)| {
            let values = values.iter().map(String::as_str).collect::<Vec<_>>();
            format!("{name}={}", values.join(","))
        };
        self.0.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Adds `NAME=VALUE,VALUE`. Returns whether it has this form, and the name is new.
    fn add(&mut self, text: &str) -> bool {
        let Some((name, values)) = text.split_once('=') else { return false };
        let is_name = (1..=MAX_INPUT_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let values: BTreeSet<String> = values.split(',').map(str::to_owned).collect();
        let are_values = values.iter().all(|value| !value.is_empty());
        is_name && are_values && self.0.insert(name.into(), values).is_none()
    }
}

/// The text is not a valid instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time; write it in UTC, as in 2026-11-22T10:00Z")]
pub struct InstantError(String);

/// Parses an RFC 3339 instant with an offset or `Z`; seconds are optional.
pub fn parse_instant(text: &str) -> Result<Millis, InstantError> {
    let invalid = || InstantError(text.chars().take(40).collect());
    let timestamp: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
    Millis::try_from(timestamp.as_millisecond()).map_err(|_| invalid())
}

/// Whether a field holds options: neither a class nor an expression begins like one.
pub(super) fn has_rule_options(field: LineSpan<'_>) -> bool {
    let prefixes = [UNTIL_PREFIX, APPROVED_BY_PREFIX, INPUT_PREFIX];
    prefixes.iter().any(|prefix| field.text().starts_with(prefix))
}

impl RuleOptions {
    /// Parses the words of an options field.
    pub(super) fn parse_field(field: LineSpan<'_>, groups: &CallerGroups) -> FieldResult<Self> {
        let mut options = Self::default();
        for word in field.split_words() {
            let fault_at = |fault| (word.column(), fault);
            if let Some(value) = word.strip_prefix(UNTIL_PREFIX) {
                let until = parse_instant(value.text()).map_err(|error| fault_at(error.into()))?;
                if options.until.replace(until).is_some() {
                    return Err(fault_at(PolicyFault::SecondOption("until")));
                }
            } else if let Some(value) = word.strip_prefix(APPROVED_BY_PREFIX) {
                let approvers = CallerSet::parse_words(value.split_commas(), groups)?;
                if options.approvers.replace(approvers).is_some() {
                    return Err(fault_at(PolicyFault::SecondOption("approved-by")));
                }
            } else if let Some(condition) = word.strip_prefix(INPUT_PREFIX) {
                if !options.inputs.add(condition.text()) {
                    return Err(fault_at(PolicyFault::InputCondition(word.text().to_owned())));
                }
            } else {
                return Err(fault_at(PolicyFault::Option(word.text().to_owned())));
            }
        }
        Ok(options)
    }
}
