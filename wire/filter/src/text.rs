//! Texts: joined to phrases, and compared without regard to case.

use std::cmp::Ordering;

/// `a`, `a and b`, `a, b and c`.
pub(super) fn join_phrases(parts: impl IntoIterator<Item: ToString>, conjunction: &str) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    match parts.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} {conjunction} {last}", firsts.join(", ")),
    }
}

fn lower_case_chars(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

pub(super) fn compare_ignoring_case(a: &str, b: &str) -> Ordering {
    lower_case_chars(a).cmp(lower_case_chars(b))
}

pub(super) fn equals_ignoring_case(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && lower_case_chars(a).eq(lower_case_chars(b)))
}
