//! Validates the inputs of one request: defaults, presence, types, validation, redaction.

use muster_base::nearest_name;
use serde_json::Value;

use crate::JsonObject;
use crate::REDACTED;
use crate::error::{InputValidationError, shown_value, truncate_text};
use crate::schema::{ActionSchema, InputSchema};
use crate::violation::ValueViolation;

/// Whether the alternative input is given, so that this one is not required.
fn is_replaced_by_other(input: &InputSchema, given: &JsonObject) -> bool {
    let other = input.required_unless.as_ref();
    other.is_some_and(|other| given.get(other).is_some_and(|value| !value.is_null()))
}

impl ActionSchema {
    /// The inputs with defaults filled in, or the reason for refusal. A null input counts as missing. Undeclared inputs are
    /// accepted only if the action has `additional_input`.
    pub fn validate_input(&self, given: &JsonObject) -> Result<JsonObject, InputValidationError> {
        let mut complete = self.additional_values(given)?;
        for input in &self.inputs {
            match given.get(&input.name).filter(|value| !value.is_null()) {
                Some(value) => {
                    let checked = input.check_value(value);
                    checked
                        .map_err(|violation| self.invalid_input(&input.name, value, violation))?;
                    complete.insert(input.name.clone(), value.clone());
                }
                None => {
                    if let Some(default) = &input.default {
                        complete.insert(input.name.clone(), default.clone());
                    } else if !input.optional && !is_replaced_by_other(input, given) {
                        let (action, input) = (self.name.clone(), input.name.clone());
                        return Err(InputValidationError::Missing { action, input });
                    }
                }
            }
        }
        Ok(complete)
    }

    /// The inputs with the values of sensitive ones replaced by [`REDACTED`].
    #[must_use]
    pub fn redact_input(&self, inputs: &JsonObject) -> JsonObject {
        let shown = inputs.iter().map(|(name, value)| {
            let value = if self.is_sensitive(name) { REDACTED.into() } else { value.clone() };
            (name.clone(), value)
        });
        shown.collect()
    }

    /// The undeclared inputs, if the action accepts them.
    fn additional_values(&self, given: &JsonObject) -> Result<JsonObject, InputValidationError> {
        let undeclared = || given.iter().filter(|(name, _)| self.find_input(name).is_none());
        match undeclared().next() {
            Some((name, _)) if !self.additional_input => Err(self.undeclared_input(name)),
            _ => Ok(undeclared().map(|(name, value)| (name.clone(), value.clone())).collect()),
        }
    }

    pub(crate) fn invalid_input(
        &self,
        input: &str,
        value: &Value,
        violation: ValueViolation,
    ) -> InputValidationError {
        InputValidationError::Invalid {
            action: self.name.clone(),
            input: input.to_owned(),
            value: shown_value(value, self.is_sensitive(input)),
            violation,
        }
    }

    /// The error for an undeclared input, with the most similar declared name.
    pub(crate) fn undeclared_input(&self, name: &str) -> InputValidationError {
        let names = || self.inputs.iter().map(|input| input.name.as_str());
        let hint = match nearest_name(name, names()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if self.inputs.is_empty() => "it has no inputs".to_owned(),
            None => format!("its inputs are {}", names().collect::<Vec<_>>().join(", ")),
        };
        InputValidationError::Undeclared {
            action: self.name.clone(),
            input: truncate_text(name),
            hint,
        }
    }
}
