//! Why a value is refused.

/// The requirement that a value violates. Never contains the value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueViolation {
    /// Not of the type, cannot be parsed as the type, or refused by a named validator. Holds what is required.
    #[error("must be {0}")]
    Requirement(&'static str),
    /// Exceeds the limit.
    #[error("must not be longer than {limit} characters and has {length}")]
    TooLong {
        /// The length in characters.
        length: u64,
        /// The limit in characters.
        limit: u64,
    },
    /// Not one of the choices.
    #[error("must be one of {}", .0.join(", "))]
    NotAChoice(Vec<String>),
    /// Does not match the regular expression.
    #[error("must match {0:?}")]
    Pattern(String),
}
