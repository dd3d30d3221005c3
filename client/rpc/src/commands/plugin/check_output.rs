//! Checks a DDL for errors and possible improvements, with their positions, for the author of the agent.

use muster_base::error_chain;
use muster_ddl::{ActionSchema, AgentDdl, DataDdl, DdlError, InputSchema, ValueType};
use serde::Serialize;
use serde_json::Value;

/// Parts of input names that usually denote secrets.
const SECRET_NAME_WORDS: [&str; 4] = ["password", "passphrase", "secret", "token"];

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DdlFindingSeverity {
    /// The DDL is rejected.
    Error,
    /// The DDL is accepted, but could be improved.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct DdlCheckResult {
    /// The file.
    pub file: String,
    /// The agent, if the DDL is that of an agent and can be used.
    pub agent: Option<String>,
    /// The data source, if the DDL is that of a data source and can be used.
    pub data_source: Option<String>,
    /// The findings.
    pub findings: Vec<DdlFinding>,
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
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
    pub fn new(file: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut checked = Self { file, agent: None, data_source: None, findings: Vec::new() };
        let advice = if is_data_source(bytes) {
            DataDdl::from_slice(bytes).map(|ddl| {
                checked.data_source = Some(ddl.name().to_owned());
                data_advice(&ddl)
            })
        } else {
            AgentDdl::from_slice(bytes).map(|ddl| {
                checked.agent = Some(ddl.name().to_owned());
                agent_advice(&ddl)
            })
        };
        let warning = |message| locate_finding(DdlFindingSeverity::Warning, message, &text);
        checked.findings = match advice {
            Ok(advice) => advice.into_iter().map(warning).collect(),
            Err(error) => vec![refusal_finding(&error, &text)],
        };
        checked
    }

    /// Adds an error that rejects the agent, about a file beside the DDL.
    pub fn add_refusal(&mut self, message: String) {
        let severity = DdlFindingSeverity::Error;
        self.findings.push(DdlFinding { severity, line: None, column: None, message });
    }

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
        format!("{}:{location} {severity}: {}", file, self.message)
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

/// Whether a document has the keys of a data source's DDL instead of an agent's.
fn is_data_source(bytes: &[u8]) -> bool {
    let document = serde_json::from_slice::<Value>(bytes).ok();
    document.as_ref().and_then(Value::as_object).is_some_and(|keys| {
        !keys.contains_key("actions") && (keys.contains_key("query") || keys.contains_key("output"))
    })
}

/// Finds the position of a message such as ``action `a`, input `b`: ...``: the input's name, or else the action's. The messages about
/// a data source name an output, or the query.
fn find_location(message: &str, text: &str) -> Option<usize> {
    let (subject, _) = message.split_once(':')?;
    let mut names = subject.split('`').skip(1).step_by(2);
    if subject == "query" || subject.starts_with("data source, ") {
        return find_key_offset(names.next().unwrap_or("query"), text);
    }
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

fn agent_advice(ddl: &AgentDdl) -> Vec<String> {
    let is_undescribed = ddl.metadata().description.is_empty();
    let metadata = is_undescribed
        .then(|| "metadata: has no description, which `rpc plugin list` displays".to_owned());
    let warnings = ddl.warnings().iter().cloned();
    warnings.chain(metadata).chain(ddl.actions().iter().flat_map(action_advice)).collect()
}

fn data_advice(ddl: &DataDdl) -> Vec<String> {
    let metadata =
        ddl.metadata().description.is_empty().then(|| "metadata: has no description".to_owned());
    let query = ddl.query_schema().filter(|query| query.prompt.is_empty());
    let query = query
        .map(|_| "query: has no prompt, which errors about a missing query display".to_owned());
    let outputs = ddl.outputs().iter().filter(|output| output.description.is_empty());
    let outputs =
        outputs.map(|output| format!("data source, output `{}`: has no description", output.name));
    ddl.warnings().iter().cloned().chain(metadata).chain(query).chain(outputs).collect()
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
    fn data_sources_are_recognised() {
        for (name, text) in muster_ddl::BUILTIN_DATA_SOURCES {
            let checked = DdlCheckResult::new((*name).to_owned(), text.as_bytes());
            assert_eq!(checked.findings, [], "{name}");
            assert_eq!((checked.data_source.as_deref(), checked.agent), (Some(*name), None));
        }
        let lines = check(
            "{\"metadata\": {\"name\": \"disk\", \"description\": \"d\"},\n\"query\": {\"type\": \"string\"},\n\
             \"output\": {\n\"used\": {}}}",
        );
        let told: Vec<_> = lines.iter().filter_map(|line| line.split(" has ").next()).collect();
        assert_eq!(
            told,
            ["a.json:2:1: warning: query:", "a.json:4:1: warning: data source, output `used`:"]
        );
        let refused = check(r#"{"metadata": {"name": "disk"}, "output": {"used": {"type": "x"}}}"#);
        assert!(
            refused[0].contains("error: data source, output `used`: unknown type"),
            "{refused:?}"
        );
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
        assert!(lines[0].starts_with(&format!("a.json:{line}:")), "{line}: {lines:?}");
        let actions = good.matches("service_name").count();
        assert_eq!(lines.len(), actions, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("no_such_validator")), "{lines:?}");
    }
}
