//! Validates the outputs of one reply: defaults, types, undeclared names.

use crate::JsonObject;
use crate::REDACTED;
use crate::error::{OutputValidationError, shown_value, truncate_text};
use crate::schema::ActionSchema;

impl ActionSchema {
    /// The outputs with defaults filled in, or the reason for refusal. Null is accepted for every output and means that it was not
    /// computed.
    pub fn validate_output(&self, given: &JsonObject) -> Result<JsonObject, OutputValidationError> {
        if let Some(name) = given.keys().find(|name| self.find_output(name).is_none()) {
            return Err(OutputValidationError::Undeclared {
                action: self.name.clone(),
                output: truncate_text(name),
            });
        }
        let mut complete = given.clone();
        for output in &self.outputs {
            match given.get(&output.name) {
                Some(value) => output.check_value(value).map_err(|violation| {
                    OutputValidationError::Invalid {
                        action: self.name.clone(),
                        output: output.name.clone(),
                        value: shown_value(value, output.sensitive),
                        violation,
                    }
                })?,
                None => {
                    if let Some(default) = &output.default {
                        complete.insert(output.name.clone(), default.clone());
                    }
                }
            }
        }
        Ok(complete)
    }

    /// The outputs with the values of sensitive ones replaced by [`REDACTED`].
    #[must_use]
    pub fn redact_output(&self, outputs: &JsonObject) -> JsonObject {
        let mut shown = outputs.clone();
        for output in self.outputs.iter().filter(|output| output.sensitive) {
            if let Some(value) = shown.get_mut(&output.name) {
                *value = REDACTED.into();
            }
        }
        shown
    }
}
