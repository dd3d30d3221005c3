//! Text that a shell parses as at most one word of one command.
//!
//! Refuses what `MCollective` refuses (`` ` $ ; | && > < ``), and in addition a single `&` and line breaks, which also separate
//! commands, and NUL, which ends an argument. It does not make building command lines from text safe: quotes and spaces
//! are accepted.

pub(super) const REQUIREMENT: &str = "text without the characters ` $ ; | & > < and line breaks";

pub(super) fn is_shell_safe(text: &str) -> bool {
    !text.contains(['`', '$', ';', '|', '&', '>', '<', '\n', '\r', '\0'])
}
