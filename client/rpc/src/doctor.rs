//! Diagnosis: sections, findings and severity levels, without I/O.
//!
//! [`local`] checks local files, [`broker`] the connection to a broker, [`fleet`] the replies of nodes. Each returns [`DiagnosisFinding`]s; nothing
//! here prints.

pub mod broker;
pub mod fleet;
pub mod local;

use std::collections::BTreeSet;

use muster_wire::identity::Identity;
use serde::Serialize;

use crate::exit::CommandExitCode;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

    /// Adds advice.
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds the affected nodes.
    pub fn with_nodes(mut self, nodes: impl IntoIterator<Item = Identity>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }
}

/// The findings of one section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiagnosisSection {
    /// Title of the section.
    pub about: String,
    /// Whether the section is about the local side: an error there means that no requests can be sent.
    #[serde(skip)]
    pub is_local: bool,
    /// The findings, in the order of the checks.
    pub findings: Vec<DiagnosisFinding>,
}

/// The exit code: local errors take precedence over other errors; warnings do not count.
pub fn exit_code(sections: &[DiagnosisSection]) -> CommandExitCode {
    let has_errors = |is_local: bool| {
        let matching = sections.iter().filter(move |section| section.is_local == is_local);
        matching
            .flat_map(|section| &section.findings)
            .any(|finding| finding.level == DiagnosisLevel::Error)
    };
    match (has_errors(true), has_errors(false)) {
        (true, _) => CommandExitCode::Local,
        (false, true) => CommandExitCode::SomeFailed,
        (false, false) => CommandExitCode::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::{DiagnosisFinding, DiagnosisSection, exit_code};
    use crate::exit::CommandExitCode;

    #[test]
    fn local_trouble_comes_first() {
        let section =
            |is_local, findings| DiagnosisSection { about: String::new(), is_local, findings };
        let fine = || {
            section(true, vec![DiagnosisFinding::ok("a", ""), DiagnosisFinding::warning("b", "")])
        };
        let node = || section(false, vec![DiagnosisFinding::error("c", "")]);
        assert_eq!(exit_code(&[fine()]), CommandExitCode::Passed);
        assert_eq!(exit_code(&[fine(), node()]), CommandExitCode::SomeFailed);
        let local = section(true, vec![DiagnosisFinding::error("d", "")]);
        assert_eq!(exit_code(&[local, node()]), CommandExitCode::Local);
    }
}
