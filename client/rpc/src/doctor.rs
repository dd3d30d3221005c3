//! Diagnosis, apart from doing it: what is looked at, what is found, and how bad that is.
//!
//! [`local`] looks at this side's files, [`broker`] judges the way to a broker, [`fleet`] judges what nodes answer.
//! Each gives [`Finding`]s; nothing here prints.

pub mod broker;
pub mod fleet;
pub mod local;

use std::collections::BTreeSet;

use muster_wire::identity::Identity;
use serde::Serialize;

use crate::exit::Exit;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth a look.
    Warning,
    /// Does not work, or will not for long.
    Error,
}

impl Level {
    /// The word in the documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What was looked at, in one word that stays.
    pub check: String,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The nodes that it is about, where it is about some.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<Identity>,
}

impl Finding {
    /// A finding of this level.
    pub fn new(check: impl Into<String>, level: Level, message: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            level,
            message: message.into(),
            advice: None,
            nodes: BTreeSet::new(),
        }
    }

    /// As it should be.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, message)
    }

    /// Worth a look.
    pub fn warning(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Warning, message)
    }

    /// Does not work.
    pub fn error(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Error, message)
    }

    /// With what to do about it.
    pub fn advising(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// About these nodes.
    pub fn about(mut self, nodes: impl IntoIterator<Item = Identity>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }
}

/// The findings about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Section {
    /// What they are about.
    pub about: String,
    /// Whether that is on this side: then an error means that nothing can be asked.
    #[serde(skip)]
    pub here: bool,
    /// What was found, in the order of looking.
    pub findings: Vec<Finding>,
}

/// How the command ends: with local trouble before trouble elsewhere; warnings are none.
pub fn exit(sections: &[Section]) -> Exit {
    let bad = |here: bool| {
        let of = sections.iter().filter(move |section| section.here == here);
        of.flat_map(|section| &section.findings)
            .any(|finding| finding.level == Level::Error)
    };
    match (bad(true), bad(false)) {
        (true, _) => Exit::Local,
        (false, true) => Exit::SomeFailed,
        (false, false) => Exit::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Section, exit};
    use crate::exit::Exit;

    #[test]
    fn local_trouble_comes_first() {
        let section = |here, findings| Section {
            about: String::new(),
            here,
            findings,
        };
        let fine = || section(true, vec![Finding::ok("a", ""), Finding::warning("b", "")]);
        let node = || section(false, vec![Finding::error("c", "")]);
        assert_eq!(exit(&[fine()]), Exit::Passed);
        assert_eq!(exit(&[fine(), node()]), Exit::SomeFailed);
        let local = section(true, vec![Finding::error("d", "")]);
        assert_eq!(exit(&[local, node()]), Exit::Local);
    }
}
