//! One of the declared choices.

use super::ValueViolation;

pub(super) fn check_choice(choices: &[String], text: &str) -> Result<(), ValueViolation> {
    if choices.iter().any(|choice| choice == text) {
        Ok(())
    } else {
        Err(ValueViolation::NotAChoice(choices.to_vec()))
    }
}
