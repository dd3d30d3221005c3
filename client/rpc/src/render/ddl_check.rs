//! Checks a DDL for errors and possible improvements, with their positions, for the author of the agent.

use muster_base::error_chain;
use muster_ddl::{ActionSchema, AgentDdl, DdlError, InputSchema, ValueType};
use serde::Serialize;

use super::printable::escape_to_line;

/// Parts of input names that usually denote secrets.
const SECRET_NAME_WORDS: [&str; 4] = ["password", "passphrase", "secret", "token"];

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DdlFindingSeverity {
    /// The DDL is rejected.
    Error,
    /// The DDL is accepted, but could be improved.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DdlFinding {
    /// Severity.
    pub severity: DdlFindingSeverity,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The column, from 1.
    pub column: Option<usize>,
    /// The message, on one line.
    pub message: String,
}

/// One file and its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DdlCheckResult {
    /// The file.
    pub file: String,
    /// The agent, if the DDL can be used.
    pub agent: Option<String>,
    /// The findings.
    pub findings: Vec<DdlFinding>,
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DdlCheckDocument<'a> {
    pub schema: &'static str,
    pub files: &'a [DdlCheckResult],
}

impl DdlCheckDocument<'_> {
    /// Renders one line per finding.
    pub fn render_text(&self) -> String {
        let findings = self.files.iter().flat_map(|checked| {
            checked.findings.iter().map(|finding| {
                finding.render_line(&checked.file)
                    + "
"
            })
        });
        findings.collect()
    }
}

impl DdlCheckResult {
    /// Checks the content of a file.
    pub fn new(file: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        match AgentDdl::from_slice(bytes) {
            Ok(ddl) => Self {
                file,
                agent: Some(ddl.name().to_owned()),
                findings: ddl_advice(&ddl)
                    .map(|message| locate_finding(DdlFindingSeverity::Warning, message, &text))
                    .collect(),
            },
            Err(error) => {
                Self { file, agent: None, findings: vec![refusal_finding(&error, &text)] }
            }
        }
    }

    /// Adds an error that rejects the agent, about a file beside the DDL.
    pub fn add_refusal(&mut self, message: String) {
        let severity = DdlFindingSeverity::Error;
        self.findings.push(DdlFinding { severity, line: None, column: None, message });
    }

    /// Whether there is a finding of this severity.
    pub fn has_severity(&self, severity: DdlFindingSeverity) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.severity == severity)
    }
}

impl DdlFinding {
    /// `FILE:LINE:COLUMN: error: MESSAGE`, the format that editors parse.
    pub fn render_line(&self, file: &str) -> String {
        let severity = match self.severity {
            DdlFindingSeverity::Error => "error",
            DdlFindingSeverity::Warning => "warning",
        };
        let location = self.line.zip(self.column);
        let location =
            location.map_or_else(String::new, |(line, column)| format!("{line}:{column}:"));
        format!("{}:{location} {severity}: {}", escape_to_line(file), escape_to_line(&self.message))
    }
}

fn refusal_finding(error: &DdlError, text: &str) -> DdlFinding {
    let mut finding = locate_finding(DdlFindingSeverity::Error, error_chain(error), text);
    if let DdlError::Json(error) = error
        && error.line() > 0
    {
        (finding.line, finding.column) = (Some(error.line()), Some(error.column()));
    }
    finding
}

/// Creates a finding; its position is derived from the start of the message.
fn locate_finding(severity: DdlFindingSeverity, message: String, text: &str) -> DdlFinding {
    let at = find_location(&message, text);
    let before = at.and_then(|at| text.get(..at));
    let line = before.map(|before| before.matches('\n').count() + 1);
    let column = before.map(|before| before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    DdlFinding { severity, line, column, message }
}

/// Finds the position of a message such as ``action `a`, input `b`: ...``: the input's name, or else the action's.
fn find_location(message: &str, text: &str) -> Option<usize> {
    let (subject, _) = message.split_once(':')?;
    let mut names = subject.split('`').skip(1).step_by(2);
    let start = find_action_offset(names.next()?, text)?;
    let Some(name) = names.next() else {
        return Some(start);
    };
    let rest = text.get(start..)?;
    let end = rest.find("\"action\"").unwrap_or(rest.len());
    let key_offset = find_key_offset(name, rest.get(..end)?);
    Some(key_offset.map_or(start, |at| start + at))
}

/// Offset of the action's name as the value of `action`.
fn find_action_offset(name: &str, text: &str) -> Option<usize> {
    find_quoted(name, text, |before, _| {
        let key = before.trim_end().strip_suffix(':').map(str::trim_end);
        key.is_some_and(|key| key.ends_with("\"action\""))
    })
}

/// Offset of a name as a key.
fn find_key_offset(name: &str, text: &str) -> Option<usize> {
    find_quoted(name, text, |_, after| after.trim_start().starts_with(':'))
}

/// Offset of a name in quotes, between texts that fit.
fn find_quoted(name: &str, text: &str, fits: fn(&str, &str) -> bool) -> Option<usize> {
    let quoted = serde_json::to_string(name).ok()?;
    text.match_indices(&quoted).map(|(at, _)| at).find(|at| {
        let around = text.get(..*at).zip(text.get(at + quoted.len()..));
        around.is_some_and(|(before, after)| fits(before, after))
    })
}

/// Possible improvements.
fn ddl_advice(ddl: &AgentDdl) -> impl Iterator<Item = String> + '_ {
    let is_undescribed = ddl.metadata().description.is_empty();
    let metadata = is_undescribed
        .then(|| "metadata: has no description, which `rpc plugin list` displays".to_owned());
    let warnings = ddl.warnings().iter().cloned();
    warnings.chain(metadata).chain(ddl.actions().iter().flat_map(action_advice))
}

fn action_advice(action: &ActionSchema) -> Vec<String> {
    let at = format!("action `{}`", action.name());
    let mut found = Vec::new();
    if action.description().is_empty() {
        found.push(format!("{at}: has no description, which help and completion display"));
    }
    for input in action.inputs() {
        let advice = input_advice(action, input).into_iter();
        found.extend(advice.map(|advice| format!("{at}, input `{}`: {advice}", input.name)));
    }
    for output in action.outputs() {
        if output.description.is_empty() {
            found.push(format!("{at}, output `{}`: has no description", output.name));
        }
    }
    found
}

fn input_advice(action: &ActionSchema, input: &InputSchema) -> Vec<&'static str> {
    let mut found = Vec::new();
    if input.description.is_empty() && input.prompt.is_empty() {
        found.push("has neither a description nor a prompt");
    }
    if input.value_type == ValueType::String
        && input.validation_text().is_none()
        && input.max_length == 0
    {
        found.push("accepts any text of any length; add a validation or a maxlength");
    }
    let name = input.name.to_ascii_lowercase();
    if SECRET_NAME_WORDS.iter().any(|secret| name.contains(secret))
        && !action.is_sensitive(&input.name)
    {
        found.push("looks like a secret; `\"sensitive\": true` keeps it out of logs and output");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{DdlCheckResult, DdlFindingSeverity};

    fn check(text: &str) -> Vec<String> {
        let checked = DdlCheckResult::new("a.json".to_owned(), text.as_bytes());
        let findings = checked.findings.iter();
        findings.map(|finding| finding.render_line(&checked.file)).collect()
    }

    #[test]
    fn built_in_ddls_pass_the_check() {
        for (name, text) in muster_ddl::BUILTIN_AGENTS {
            let checked = DdlCheckResult::new((*name).to_owned(), text.as_bytes());
            assert!(
                !checked.has_severity(DdlFindingSeverity::Error),
                "{name}: {:?}",
                checked.findings
            );
            assert_eq!(checked.agent.as_deref(), Some(*name));
        }
    }

    #[test]
    fn errors_have_line_numbers() {
        let (_, good) =
            muster_ddl::BUILTIN_AGENTS.iter().find(|(name, _)| *name == "service").unwrap();
        let broken = format!("{good}}}");
        let lines = check(&broken);
        assert!(
            lines[0].starts_with(&format!("a.json:{}:", good.lines().count() + 1))
                && lines[0].contains("error: "),
            "{lines:?}"
        );
        let wrong = good.replace("service_name", "no_such_validator");
        let line = 1 + wrong.lines().position(|line| line.contains("\"service\": {")).unwrap();
        let lines = check(&wrong);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with(&format!("a.json:{line}:")), "{line}: {lines:?}");
        assert!(lines[0].contains("no_such_validator"), "{lines:?}");
    }
}
