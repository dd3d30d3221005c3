//! The options behind a rule: until when it counts, and who must approve what it allows.

use super::callers::Callers;
use super::fault::PolicyFault;
use super::groups::Groups;
use super::span::Span;
use crate::Millis;

const UNTIL: &str = "until=";
const APPROVED: &str = "approved-by=";

/// What is said behind a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    /// From this instant on the rule counts no more.
    pub(super) until: Option<Millis>,
    /// One of these must have approved the request.
    pub(super) approvers: Option<Callers>,
}

/// A text that is no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no instant; write it in UTC, as in 2026-11-22T10:00Z")]
pub struct InstantError(String);

/// Reads an instant as RFC 3339 has it, with an offset or `Z`; seconds may be left out.
pub fn instant(text: &str) -> Result<Millis, InstantError> {
    let wrong = || InstantError(text.chars().take(40).collect());
    let at: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    Millis::try_from(at.as_millisecond()).map_err(|_| wrong())
}

/// Whether a field holds options: neither a class nor an expression begins so.
pub(super) fn are_meant(field: Span<'_>) -> bool {
    let known = |word: &str| word.starts_with(UNTIL) || word.starts_with(APPROVED);
    known(field.text())
}

impl Options {
    /// Reads the words of a field.
    pub(super) fn read(field: Span<'_>, groups: &Groups) -> Result<Self, (usize, PolicyFault)> {
        let mut options = Self::default();
        for word in field.words() {
            let at = |fault| (word.column(), fault);
            if let Some(value) = word.after(UNTIL) {
                let until = instant(value.text()).map_err(|error| at(error.into()))?;
                if options.until.replace(until).is_some() {
                    return Err(at(PolicyFault::SecondOption("until")));
                }
            } else if let Some(value) = word.after(APPROVED) {
                let approvers = Callers::read(value.listed(), groups)?;
                if options.approvers.replace(approvers).is_some() {
                    return Err(at(PolicyFault::SecondOption("approved-by")));
                }
            } else {
                return Err(at(PolicyFault::Option(word.text().to_owned())));
            }
        }
        Ok(options)
    }
}
