//! Parses the value source of a condition (a fact or an output of a data source) and checks its comparison.

use muster_base::nearest_name;

use super::ast::{
    CallField, ConditionSubject, FunctionCall, SelectValue, SelectValueKind, SourceOutput,
    ValueTest,
};
use super::check;
use super::check::SelectChecker;
use crate::error::{FaultContext as _, Result, expected_at};
use crate::limits::MAX_SELECT_LOOKUPS;
use crate::lookup::DataLookup;
use crate::pattern::MAX_PATTERN_BYTES;

use crate::sources::OutputKind;
use crate::state::FactPath;
use crate::term::{FactOperand, FactOperator, parse_boolean, read_path};

/// Built-in functions. Names that are also data sources are lookups if an output follows.
pub(super) const FUNCTION_NAMES: [&str; 6] =
    ["agent", "class", "fact", "include", "semver", "with"];

/// Longest name of a source or an output, in bytes.
const MAX_SOURCE_NAME_BYTES: usize = 64;

/// Whether this call is a data source lookup rather than a built-in function.
pub(super) fn is_lookup(call: &FunctionCall) -> bool {
    match (call.source.as_str(), &call.field) {
        ("include" | "semver" | "with", _) | ("agent" | "class" | "fact", None) => false,
        ("fact", Some(field)) => field.name != "value",
        _ => true,
    }
}

impl SelectChecker<'_> {
    /// A fact, or an output: `os.family`, `fact("os.family")`, `service("sshd").running`.
    pub(super) fn parse_subject(&mut self, value: SelectValue) -> Result<ConditionSubject> {
        let at = value.at;
        match value.kind {
            SelectValueKind::Word(word) => {
                read_path(&word).map(ConditionSubject::Fact).shifted_by(at)
            }
            SelectValueKind::Call(call) if is_lookup(&call) => {
                self.parse_output(at, call).map(ConditionSubject::Output)
            }
            SelectValueKind::Call(call) if call.source == "fact" => {
                parse_fact_call(at, call).map(ConditionSubject::Fact)
            }
            SelectValueKind::Call(call) => {
                expected_at(at, format!("a fact ({}(...) is true or false by itself)", call.source))
            }
            _ => expected_at(at, "a fact: its name, or fact(\"its name\")"),
        }
    }

    /// `service("sshd").running`, `puppet().enabled`.
    pub(super) fn parse_output(&mut self, at: usize, call: FunctionCall) -> Result<SourceOutput> {
        self.check_source(at, &call)?;
        let source = call.source;
        let Some(field) = call.field.or_else(|| self.default_output(at, &source)) else {
            let expected = format!("an output after {source}(...), such as {source}(...).{}", {
                let declared = self.declared.and_then(|sources| sources.get(&source));
                let first = declared.and_then(|source| source.outputs.keys().next());
                first.map_or("name", String::as_str)
            });
            return expected_at(at, expected);
        };
        if field.at != at && !is_name(&field.name, |c| c.is_ascii_alphanumeric()) {
            return expected_at(field.at, format!("one name of an output after {source}(...)"));
        }
        let query = parse_query(&source, call.arguments)?;
        let query_at = query.as_ref().map_or(at, |(at, _)| *at);
        let query = query.map(|(_, query)| query);
        if let Some(declared) = self.declared.and_then(|sources| sources.get(&source)) {
            declared.check_query(&source, query.as_deref(), query_at)?;
            if !declared.outputs.contains_key(&field.name) {
                let expected = declared.expected_output(&source, &field.name);
                return expected_at(field.at, expected);
            }
        }
        let lookup = DataLookup { source, query };
        self.lookups.insert(lookup.clone());
        if self.lookups.len() > MAX_SELECT_LOOKUPS {
            return expected_at(at, format!("at most {MAX_SELECT_LOOKUPS} data source lookups"));
        }
        Ok(SourceOutput { lookup, name: field.name })
    }

    /// The declared default output of a source.
    fn default_output(&self, at: usize, source: &str) -> Option<CallField> {
        let declared = self.declared?.get(source)?;
        declared.outputs.contains_key("").then(|| CallField { at, name: String::new() })
    }

    /// Checks that the call can be a data source. The following field distinguishes a mistyped function from a mistyped source.
    fn check_source(&self, at: usize, call: &FunctionCall) -> Result<()> {
        let name = call.source.as_str();
        let declared = self.declared.map(|sources| (sources, sources.get(name)));
        if matches!(declared, Some((_, Some(_)))) {
            return Ok(());
        }
        if call.field.is_none() {
            let hint = nearest_name(name, FUNCTION_NAMES);
            let hint =
                hint.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
            return expected_at(
                at,
                format!(
                    "one of the functions agent, class, fact, include, semver and with, or a data source and its output \
                 ({name}(...) is neither{hint})"
                ),
            );
        }
        match declared {
            Some((sources, _)) => expected_at(at, sources.expected_source(name)),
            None if is_name(name, |c| c.is_ascii_lowercase() || c.is_ascii_digit()) => Ok(()),
            None => expected_at(at, "a data source's name: a-z, 0-9 and _"),
        }
    }

    /// The declared type of an output.
    pub(super) fn declared_kind(&self, subject: &ConditionSubject) -> Option<OutputKind> {
        match subject {
            ConditionSubject::Fact(_) => None,
            ConditionSubject::Output(output) => {
                let source = self.declared?.get(&output.lookup.source)?;
                source.outputs.get(&output.name).copied()
            }
        }
    }

    /// Checks a test against the declared type; `at` is the offset of its value.
    pub(super) fn check_test_kind(
        &self,
        at: usize,
        subject: &ConditionSubject,
        test: &ValueTest,
    ) -> Result<()> {
        let (Some(kind), ConditionSubject::Output(output)) = (self.declared_kind(subject), subject)
        else {
            return Ok(());
        };
        let expected = match (kind, test) {
            (OutputKind::Any, _)
            | (OutputKind::Text, ValueTest::Version(_))
            | (OutputKind::List, ValueTest::Include(_) | ValueTest::Version(_)) => return Ok(()),
            (_, ValueTest::Compare(operator, operand)) => {
                match unfitting_operand(kind, *operator, operand) {
                    None => return Ok(()),
                    Some(expected) => expected,
                }
            }
            (_, ValueTest::Include(_)) => "a list",
            (_, ValueTest::Version(_)) => "a string",
        };
        expected_at(at, format!("{expected}, because {output} is {}", kind.description_phrase()))
    }
}

/// What was expected, if the operand does not fit.
fn unfitting_operand(
    kind: OutputKind,
    operator: FactOperator,
    operand: &FactOperand,
) -> Option<&'static str> {
    let is_ordering = !operator.takes_regex()
        && !matches!(operator, FactOperator::Equal | FactOperator::NotEqual);
    match (kind, operand) {
        (OutputKind::Text, _) if is_ordering => {
            Some("= != =~ !~ or, for versions, semver(..., \">= 1.2\"), not < <= > >=")
        }
        (OutputKind::List, _) if is_ordering => Some("= != =~ !~ or include(...), not < <= > >="),
        (OutputKind::Boolean, _) if is_ordering => Some("= or !=, not < <= > >="),
        (OutputKind::Boolean, FactOperand::Literal(literal))
            if parse_boolean(&literal.text).is_none() =>
        {
            Some("true or false")
        }
        (OutputKind::Boolean, FactOperand::Regex(_)) => {
            Some("true or false instead of a regular expression")
        }
        (OutputKind::Number, FactOperand::Literal(literal)) if literal.number.is_none() => {
            Some("a number")
        }
        (OutputKind::Number, FactOperand::Regex(_)) => {
            Some("a number instead of a regular expression")
        }
        _ => None,
    }
}

/// The single query argument of a data source, and the offset of its content.
fn parse_query(source: &str, arguments: Vec<SelectValue>) -> Result<Option<(usize, String)>> {
    let mut arguments = arguments.into_iter();
    let (first, second) = (arguments.next(), arguments.next());
    if let Some(second) = second {
        let expected = format!("a closing parenthesis: {source}(...) takes one query at most");
        return expected_at(second.at, expected);
    }
    let Some(value) = first else { return Ok(None) };
    let (at, text) = check::expect_quoted_text(value)?;
    if text.is_empty() {
        return expected_at(at, format!("a query that is not empty, or {source}()"));
    }
    if text.len() > MAX_PATTERN_BYTES {
        return expected_at(at, "a query of at most 1,024 bytes");
    }
    if let Some(offset) = text.find(char::is_control) {
        return expected_at(at + offset, "a query without control characters");
    }
    Ok(Some((at, text)))
}

/// `fact("os.family")`; `MCollective` also writes `fact("os.family").value`.
pub(super) fn parse_fact_call(at: usize, call: FunctionCall) -> Result<FactPath> {
    let [name] = check::expect_arguments(at, call.arguments, "fact(\"name\")")?;
    let (at, name) = check::expect_quoted_text(name)?;
    read_path(&name).shifted_by(at)
}

fn is_name(text: &str, allowed: fn(char) -> bool) -> bool {
    !text.is_empty()
        && text.len() <= MAX_SOURCE_NAME_BYTES
        && text.chars().all(|c| c == '_' || allowed(c))
}
