//! What a daemon finds wrong with itself, in words for somebody who must mend it.

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// Worth a look; everything works.
    Warning,
    /// Something does not work, or soon will not.
    Error,
}

impl FindingLevel {
    /// The word for it: `warning` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthFinding {
    /// What was looked at, in one word that stays: `policies`, `disk`.
    pub check: &'static str,
    /// How bad it is.
    pub level: FindingLevel,
    /// What is wrong, with what, and where. No secrets.
    pub message: String,
}
