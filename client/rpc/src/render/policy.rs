//! What is said of policies: findings, explanations and outcomes of tests, for people and for programs.

use muster_wire::identity::Name;
use muster_wire::policy::{Explanation, PolicyPrincipal, Step};
use serde::Serialize;

use super::page::Page;
use super::printable::line;
use crate::policy::{Finding, Level, Outcome};
use crate::printer::{BAD, GOOD, STRONG, WARNING};

/// What `rpc policy check` found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check<'a> {
    schema: &'static str,
    files: usize,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
}

impl<'a> Check<'a> {
    /// The findings in so many files.
    pub fn new(files: usize, findings: &'a [Finding]) -> Self {
        let count = |level| findings.iter().filter(|found| found.level == level).count();
        Self {
            schema: "muster.policy.check.v1",
            files,
            errors: count(Level::Error),
            warnings: count(Level::Warning),
            findings,
        }
    }

    /// How many errors, and how many warnings.
    pub fn counts(&self) -> (usize, usize) {
        (self.errors, self.warnings)
    }

    /// A line for each finding, as compilers write them, and the balance.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        for found in self.findings {
            let place = match (found.line, found.column) {
                (Some(line), Some(column)) => format!(":{line}:{column}"),
                (Some(line), None) => format!(":{line}"),
                _ => String::new(),
            };
            let path = found.path.display().to_string();
            let (style, word) = match found.level {
                Level::Error => (BAD, "error"),
                Level::Warning => (WARNING, "warning"),
            };
            page.line(format_args!(
                "{}{place}: {style}{word}:{style:#} {}",
                line(&path),
                line(&found.message)
            ));
        }
        let style = if self.errors > 0 { BAD } else { GOOD };
        page.line(format_args!(
            "{style}{}, {}, {}{style:#}",
            counted(self.files, "policy", "policies"),
            counted(self.errors, "error", "errors"),
            counted(self.warnings, "warning", "warnings"),
        ));
        page.text()
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What `rpc policy explain` tells.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explained<'a> {
    schema: &'static str,
    caller: &'a PolicyPrincipal,
    agent: &'a Name,
    action: &'a Name,
    node: Option<&'a str>,
    allowed: bool,
    rule: &'a str,
    approved_by: Option<&'a str>,
    policy: Option<&'a str>,
    steps: Vec<StepDocument<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepDocument<'a> {
    line: usize,
    text: &'a str,
    verdict: &'static str,
    decides: bool,
    mismatch: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unknown: &'a [String],
}

impl<'a> Explained<'a> {
    /// The explanation of an answer to this question.
    pub fn new(
        (caller, agent, action): (&'a PolicyPrincipal, &'a Name, &'a Name),
        node: Option<&'a str>,
        explanation: &'a Explanation,
    ) -> Self {
        let decision = &explanation.decision;
        let step = |step: &'a Step| StepDocument {
            line: step.line,
            text: &step.text,
            verdict: step.verdict.word(),
            decides: step.mismatch.is_none(),
            mismatch: step.mismatch.as_ref().map(ToString::to_string),
            unknown: &step.unknown,
        };
        Self {
            schema: "muster.policy.explain.v1",
            caller,
            agent,
            action,
            node,
            allowed: decision.allowed,
            rule: &decision.rule,
            approved_by: decision.approved_by.as_deref(),
            policy: explanation.policy.as_deref(),
            steps: explanation.steps.iter().map(step).collect(),
            unknown: questions(explanation),
        }
    }

    /// The answer, and each line that was looked at.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        let (style, may) = if self.allowed {
            (GOOD, "may")
        } else {
            (BAD, "may not")
        };
        let on = self
            .node
            .map_or_else(String::new, |node| format!(" on {}", line(node)));
        page.line(format_args!(
            "{} {style}{may}{style:#} ask for {} {}{on}",
            self.caller, self.agent, self.action
        ));
        page.line(format_args!("decided by {}", line(self.rule)));
        if let Some(approvers) = self.approved_by {
            page.line(format_args!(
                "once it is approved by one of: {}",
                line(approvers)
            ));
        }
        if let Some(policy) = self.policy.filter(|_| !self.steps.is_empty()) {
            page.gap();
            page.line(format_args!("{STRONG}{}{STRONG:#}", line(policy)));
        }
        for step in &self.steps {
            let text = step.text.replace('\t', "  ");
            page.line(format_args!("{:>6}  {}", step.line, line(&text)));
            match &step.mismatch {
                Some(why) => page.line(format_args!("        no: {}", line(why))),
                None => page.line(format_args!("        {style}this line decides{style:#}")),
            }
            for condition in step.unknown {
                page.line(format_args!("        unknown: {}", line(condition)));
            }
        }
        if !self.unknown.is_empty() {
            page.gap();
            page.line(format_args!(
                "nothing is known of {}: what is unknown is denied, and never allowed (--data says it)",
                line(&self.unknown.join(", "))
            ));
        }
        page.text()
    }
}

/// The questions to data sources that mattered, and whose answers nobody gave.
fn questions(explanation: &Explanation) -> Vec<String> {
    let lookups = explanation.unknown.iter();
    lookups.map(ToString::to_string).collect()
}

/// What `rpc policy test` tells.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tested<'a> {
    schema: &'static str,
    passed: usize,
    failed: usize,
    cases: Vec<CaseDocument<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CaseDocument<'a> {
    name: &'a str,
    passed: bool,
    expected: &'static str,
    expected_rule: Option<&'a str>,
    found: &'static str,
    rule: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

impl<'a> Tested<'a> {
    /// The outcomes of all cases.
    pub fn new(outcomes: &'a [Outcome]) -> Self {
        let case = |outcome: &'a Outcome| CaseDocument {
            name: &outcome.name,
            passed: outcome.passed(),
            expected: outcome.expected.word(),
            expected_rule: outcome.expected_rule.as_deref(),
            found: if outcome.found.decision.allowed {
                "allow"
            } else {
                "deny"
            },
            rule: &outcome.found.decision.rule,
            unknown: questions(&outcome.found),
        };
        let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
        Self {
            schema: "muster.policy.test.v1",
            passed,
            failed: outcomes.len() - passed,
            cases: outcomes.iter().map(case).collect(),
        }
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// A line for each case, and the balance.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        for case in &self.cases {
            let name = line(case.name);
            if case.passed {
                page.line(format_args!("{GOOD}ok{GOOD:#}    {name}"));
                continue;
            }
            let rule = case.expected_rule.map(|rule| format!(" by {}", line(rule)));
            page.line(format_args!("{BAD}FAIL{BAD:#}  {name}"));
            page.line(format_args!(
                "      expected {}{}, found {} by {}",
                case.expected,
                rule.unwrap_or_default(),
                case.found,
                line(case.rule)
            ));
            if !case.unknown.is_empty() {
                let unknown = case.unknown.join(", ");
                page.line(format_args!("      nothing is known of {}", line(&unknown)));
            }
        }
        let style = if self.failed > 0 { BAD } else { GOOD };
        let (passed, failed) = (self.passed, self.failed);
        page.line(format_args!(
            "{style}{passed} passed, {failed} failed{style:#}"
        ));
        page.text()
    }
}
