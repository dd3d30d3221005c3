//! The result of a check: its severity, what was found, and what to do.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;
use schemars::JsonSchema;
use serde::Serialize;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisLevel {
    /// No problem.
    Ok,
    /// Needs attention.
    Warning,
    /// Does not work, or will soon stop working.
    Error,
}

impl DiagnosisLevel {
    /// The level's name in JSON documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiagnosisFinding {
    /// Name of the check, stable across versions.
    pub check: String,
    /// Severity.
    pub level: DiagnosisLevel,
    /// The result.
    pub message: String,
    /// Recommended action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The affected nodes; absent if the finding is not about nodes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<Identity>,
}

impl DiagnosisFinding {
    /// Creates a finding of this level.
    pub fn new(
        check: impl Into<String>,
        level: DiagnosisLevel,
        message: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            level,
            message: message.into(),
            advice: None,
            nodes: BTreeSet::new(),
        }
    }

    /// A successful check.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, DiagnosisLevel::Ok, message)
    }

    /// A warning.
    pub fn warning(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, DiagnosisLevel::Warning, message)
    }

    /// An error.
    pub fn error(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, DiagnosisLevel::Error, message)
    }

    /// A warning with advice if there is a problem, otherwise a successful check.
    pub(crate) fn warning_if(
        problem: bool,
        check: &str,
        message: impl Into<String>,
        advice: &str,
    ) -> Self {
        if problem {
            Self::warning(check, message).with_advice(advice)
        } else {
            Self::ok(check, message)
        }
    }

    /// Adds advice.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds the affected nodes.
    #[must_use]
    pub fn with_nodes(mut self, nodes: impl IntoIterator<Item = Identity>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }
}

/// The findings of one section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiagnosisSection {
    /// Title of the section.
    pub about: String,
    /// Whether the section is about the local side: an error there means that no requests can be sent.
    #[serde(skip)]
    pub is_local: bool,
    /// The findings, in the order of the checks.
    pub findings: Vec<DiagnosisFinding>,
}

impl DiagnosisSection {
    /// A local section with one finding.
    pub(crate) fn single(about: impl Into<String>, finding: DiagnosisFinding) -> Self {
        Self { about: about.into(), is_local: true, findings: vec![finding] }
    }

    /// Whether it contains an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == DiagnosisLevel::Error)
    }
}
