//! The name of a Puppet variable or environment, as the published `puppet` agent accepts it.

pub(super) const REQUIREMENT: &str = "a name of letters, digits and _, not a single digit";

pub(super) fn is_puppet_variable(text: &str) -> bool {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (None, _) => false,
        (Some(only), None) => only.is_ascii_alphabetic(),
        _ => text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
    }
}
