//! Text that a shell would not take for more than one word of one command.
//!
//! Refuses what `MCollective` refuses (`` ` $ ; | && > < ``), and beyond that a single `&` and
//! line breaks, which separate commands too, and NUL, which ends an argument. Still no reason
//! to build command lines from text: quotes and spaces pass.

pub(super) const REQUIREMENT: &str = "free of the shell's ` $ ; | & > < and of line breaks";

pub(super) fn is_shell_safe(text: &str) -> bool {
    !text.contains(['`', '$', ';', '|', '&', '>', '<', '\n', '\r', '\0'])
}
