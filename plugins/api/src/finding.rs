//! Health findings: problems that a daemon detects in itself and reports to the operator.

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// Everything works, but the operator should look at it.
    Warning,
    /// Something does not work, or will soon stop working.
    Error,
}

impl FindingLevel {
    /// The name of the level: `warning` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthFinding {
    /// The check, as a stable one-word identifier: `policies`, `disk`.
    pub check: &'static str,
    /// Its severity.
    pub level: FindingLevel,
    /// What is wrong, with which value, and where. Contains no secrets.
    pub message: String,
}
