//! Text that a shell would not take for more than one word of one command.
//!
//! Refuses what `MCollective` refuses (`` ` $ ; | && > < ``), and beyond that a single `&` and
//! line breaks, which separate commands too, and NUL, which ends an argument. Still no reason
//! to build command lines from text: quotes and spaces pass.

pub(super) const DEMANDS: &str = "free of the shell's ` $ ; | & > < and of line breaks";

pub(super) fn accepts(text: &str) -> bool {
    !text.contains(['`', '$', ';', '|', '&', '>', '<', '\n', '\r', '\0'])
}
