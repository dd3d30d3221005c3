//! Renders policy findings, explanations, test results, and who may run an action.

use muster_client::{NodeRow, RequestReport};
use muster_contract::config::{ConfigCallerRow, ConfigWhoOutput};
use muster_display::printer::{BAD, GOOD, STRONG, WARNING};
use muster_display::table::Table;
use muster_display::{TextPage, count_text};
use muster_operations::policy::{LintFinding, LintLevel, PolicyTestOutcome};
use muster_policy::{ExplanationStep, PolicyExplanation, PolicyPrincipal};
use muster_wire::identity::{Identity, SubjectName};
use serde::Serialize;

/// Result of `rpc policy check`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PolicyCheckDocument<'a> {
    schema: &'static str,
    files: usize,
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    findings: &'a [LintFinding],
}

impl<'a> PolicyCheckDocument<'a> {
    pub fn new(files: usize, findings: &'a [LintFinding]) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        Self {
            schema: "muster.policy.check.v1",
            files,
            errors: count(LintLevel::Error),
            warnings: count(LintLevel::Warning),
            findings,
        }
    }

    /// Renders one line per finding, in the format of compilers, and the totals.
    pub fn render_text(&self) -> String {
        let mut page = TextPage::default();
        for finding in self.findings {
            let location = match (finding.line, finding.column) {
                (Some(line), Some(column)) => format!(":{line}:{column}"),
                (Some(line), None) => format!(":{line}"),
                _ => String::new(),
            };
            let (style, word) = match finding.level {
                LintLevel::Error => (BAD, "error"),
                LintLevel::Warning => (WARNING, "warning"),
            };
            let (path, message) = (finding.path.display(), &finding.message);
            page.push_line(format_args!("{path}{location}: {style}{word}:{style:#} {message}"));
        }
        let style = if self.errors > 0 { BAD } else { GOOD };
        let files = count_text(self.files, "policy", "policies");
        let errors = count_text(self.errors, "error", "errors");
        let warnings = count_text(self.warnings, "warning", "warnings");
        page.push_line(format_args!("{style}{files}, {errors}, {warnings}{style:#}"));
        page.into_text()
    }
}

/// Result of `rpc policy explain`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PolicyExplainDocument<'a> {
    schema: &'static str,
    caller: &'a PolicyPrincipal,
    agent: &'a SubjectName,
    action: &'a SubjectName,
    node: Option<&'a str>,
    allowed: bool,
    rule: &'a str,
    approved_by: Option<&'a str>,
    policy: Option<&'a str>,
    steps: Vec<PolicyStepDocument<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PolicyStepDocument<'a> {
    line: usize,
    text: &'a str,
    verdict: &'static str,
    decides: bool,
    mismatch: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unknown: &'a [String],
}

impl<'a> PolicyExplainDocument<'a> {
    pub fn new(
        (caller, agent, action): (&'a PolicyPrincipal, &'a SubjectName, &'a SubjectName),
        node: Option<&'a str>,
        explanation: &'a PolicyExplanation,
    ) -> Self {
        let decision = &explanation.decision;
        let step = |step: &'a ExplanationStep| PolicyStepDocument {
            line: step.line,
            text: &step.text,
            verdict: step.verdict.as_str(),
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
            unknown: unknown_lookups(explanation),
        }
    }

    /// Renders the verdict, and each evaluated line.
    pub fn render_text(&self) -> String {
        let mut page = TextPage::default();
        let (style, verdict) =
            if self.allowed { (GOOD, "is allowed to") } else { (BAD, "is not allowed to") };
        let on = self.node.map_or_else(String::new, |node| format!(" on {node}"));
        page.push_line(format_args!(
            "{} {style}{verdict}{style:#} call {} {}{on}",
            self.caller, self.agent, self.action
        ));
        page.push_line(format_args!("decided by {}", self.rule));
        if let Some(approvers) = self.approved_by {
            page.push_line(format_args!("must be approved by one of: {approvers}"));
        }
        if let Some(policy) = self.policy.filter(|_| !self.steps.is_empty()) {
            page.push_gap();
            page.push_line(format_args!("{STRONG}{policy}{STRONG:#}"));
        }
        for step in &self.steps {
            let text = step.text.replace('\t', "  ");
            page.push_line(format_args!("{:>6}  {}", step.line, text));
            match &step.mismatch {
                Some(text) => page.push_line(format_args!("        no: {text}")),
                None => page.push_line(format_args!("        {style}this line decides{style:#}")),
            }
            for condition in step.unknown {
                page.push_line(format_args!("        unknown: {condition}"));
            }
        }
        if !self.unknown.is_empty() {
            page.push_gap();
            page.push_line(format_args!(
                "no value is known for {}: unknown values match deny lines, never allow lines; set them with --data",
                self.unknown.join(", ")
            ));
        }
        page.into_text()
    }
}

/// Relevant data source lookups without an assumed result.
fn unknown_lookups(explanation: &PolicyExplanation) -> Vec<String> {
    let lookups = explanation.unknown.iter();
    lookups.map(ToString::to_string).collect()
}

/// Result of `rpc policy test`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PolicyTestDocument<'a> {
    schema: &'static str,
    passed: usize,
    pub(crate) failed: usize,
    cases: Vec<PolicyTestCaseDocument<'a>>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PolicyTestCaseDocument<'a> {
    name: &'a str,
    passed: bool,
    expected: &'static str,
    expected_rule: Option<&'a str>,
    found: &'static str,
    rule: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

impl<'a> PolicyTestDocument<'a> {
    pub fn new(outcomes: &'a [PolicyTestOutcome]) -> Self {
        let case = |outcome: &'a PolicyTestOutcome| PolicyTestCaseDocument {
            name: &outcome.name,
            passed: outcome.has_passed(),
            expected: outcome.expected.as_str(),
            expected_rule: outcome.expected_rule.as_deref(),
            found: if outcome.actual.decision.allowed { "allow" } else { "deny" },
            rule: &outcome.actual.decision.rule,
            unknown: unknown_lookups(&outcome.actual),
        };
        let passed = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
        Self {
            schema: "muster.policy.test.v1",
            passed,
            failed: outcomes.len() - passed,
            cases: outcomes.iter().map(case).collect(),
        }
    }

    /// Renders one line per case, and the totals.
    pub fn render_text(&self) -> String {
        let mut page = TextPage::default();
        for case in &self.cases {
            let name = case.name;
            if case.passed {
                page.push_line(format_args!("{GOOD}ok{GOOD:#}    {name}"));
                continue;
            }
            let by = case.expected_rule.map(|rule| format!(" by {rule}"));
            let by = by.unwrap_or_default();
            let (expected, found, rule) = (case.expected, case.found, case.rule);
            page.push_line(format_args!("{BAD}FAIL{BAD:#}  {name}"));
            page.push_line(format_args!("      expected {expected}{by}, found {found} by {rule}"));
            if !case.unknown.is_empty() {
                let unknown = case.unknown.join(", ");
                page.push_line(format_args!("      no value is known for {unknown}"));
            }
        }
        let style = if self.failed > 0 { BAD } else { GOOD };
        let (passed, failed) = (self.passed, self.failed);
        page.push_line(format_args!("{style}{passed} passed, {failed} failed{style:#}"));
        page.into_text()
    }
}

/// What a node decides about a caller.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct NodeCaller {
    node: Identity,
    #[serde(flatten)]
    row: ConfigCallerRow,
}

/// What the document of `rpc policy who` contains.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PolicyWhoDocument<'a> {
    /// By node, in the order of the node's reply.
    pub rows: &'a [NodeCaller],
}

/// The callers in the replies, by name of node.
pub fn read_callers(report: &RequestReport) -> Vec<NodeCaller> {
    let callers = |NodeRow { node, outputs }: NodeRow<ConfigWhoOutput>| {
        outputs.callers.into_iter().map(move |row| NodeCaller { node: node.clone(), row })
    };
    report.rows().into_iter().flat_map(callers).collect()
}

/// Renders a line for each node and caller.
pub fn render_callers(rows: &[NodeCaller], width: usize) -> String {
    let row = |NodeCaller { node, row }: &NodeCaller| {
        let verdict = match (row.allowed, row.approved_by.is_empty()) {
            (false, _) => "denied".to_owned(),
            (true, true) => "allowed".to_owned(),
            (true, false) => format!("allowed if approved by one of: {}", row.approved_by.line()),
        };
        let (caller, rule) = (row.caller.line(), row.rule.line());
        [node.to_string(), caller.into_owned(), verdict, rule.into_owned()]
    };
    Table::new(["NODE", "CALLER", "VERDICT", "RULE"]).rows(rows.iter().map(row)).render_rows(width)
}
