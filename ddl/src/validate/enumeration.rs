//! One word out of a declared list.

use super::Violation;

pub(super) fn check(choices: &[String], text: &str) -> Result<(), Violation> {
    if choices.iter().any(|choice| choice == text) {
        Ok(())
    } else {
        Err(Violation::NotAChoice(choices.to_vec()))
    }
}
