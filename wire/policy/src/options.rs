//! Rule options: expiry (`until`) and required approval (`approved-by`).

use super::callers::CallerSet;
use super::fault::{FieldResult, PolicyFault};
use super::groups::CallerGroups;
use super::span::LineSpan;
use muster_wire::Millis;

const UNTIL_PREFIX: &str = "until=";
const APPROVED_BY_PREFIX: &str = "approved-by=";

/// The options of a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleOptions {
    /// The rule expires at this instant.
    pub(super) until: Option<Millis>,
    /// One of these callers must have approved the request.
    pub(super) approvers: Option<CallerSet>,
}

/// The text is not a valid instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time; write it in UTC, as in 2026-11-22T10:00Z")]
pub struct InstantError(String);

/// Parses an RFC 3339 instant with an offset or `Z`; seconds are optional.
pub fn parse_instant(text: &str) -> Result<Millis, InstantError> {
    let invalid = || InstantError(text.chars().take(40).collect());
    let timestamp: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
    Millis::try_from(timestamp.as_millisecond()).map_err(|_| invalid())
}

/// Whether a field holds options: neither a class nor an expression begins like one.
pub(super) fn has_rule_options(field: LineSpan<'_>) -> bool {
    let is_option =
        |word: &str| word.starts_with(UNTIL_PREFIX) || word.starts_with(APPROVED_BY_PREFIX);
    is_option(field.text())
}

impl RuleOptions {
    /// Parses the words of an options field.
    pub(super) fn parse_field(field: LineSpan<'_>, groups: &CallerGroups) -> FieldResult<Self> {
        let mut options = Self::default();
        for word in field.split_words() {
            let fault_at = |fault| (word.column(), fault);
            if let Some(value) = word.strip_prefix(UNTIL_PREFIX) {
                let until = parse_instant(value.text()).map_err(|error| fault_at(error.into()))?;
                if options.until.replace(until).is_some() {
                    return Err(fault_at(PolicyFault::SecondOption("until")));
                }
            } else if let Some(value) = word.strip_prefix(APPROVED_BY_PREFIX) {
                let approvers = CallerSet::parse_words(value.split_commas(), groups)?;
                if options.approvers.replace(approvers).is_some() {
                    return Err(fault_at(PolicyFault::SecondOption("approved-by")));
                }
            } else {
                return Err(fault_at(PolicyFault::Option(word.text().to_owned())));
            }
        }
        Ok(options)
    }
}
