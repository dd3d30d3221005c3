//! Validates names of users and groups before they are written to files or passed to programs. Pure.

/// Maximum name length, as in shadow-utils' most permissive setting.
const MAX_NAME_BYTES: usize = 256;

/// Why a name is invalid; `None` if it is valid.
pub fn invalid_name_reason(name: &str) -> Option<&'static str> {
    let is_invalid = |c: char| c.is_whitespace() || c.is_control() || ":,/\\\"'#".contains(c);
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        Some("must have 1 to 256 bytes")
    } else if name.contains(is_invalid) {
        Some("must not contain blanks, control characters, `:`, `,`, `/`, `\\`, quotes or `#`")
    } else if name.starts_with(['-', '+', '~']) || matches!(name, "." | "..") {
        Some("must not begin with `-`, `+` or `~`, or be `.` or `..`")
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        Some("must be a name, not a number")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_names_are_refused() {
        for name in ["rip", "www-data", "a.b", "m$", "_apt", "jörg"] {
            assert_eq!(invalid_name_reason(name), None, "{name}");
        }
        for name in
            ["", "a:b", "a\nb", "a,b", "-r", "+", "42", "a b", "..", "a/b", &"x".repeat(257)]
        {
            assert!(invalid_name_reason(name).is_some(), "{name}");
        }
    }
}
