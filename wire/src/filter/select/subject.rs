//! Reads what a value is taken from, a fact or an output of a data source, and says whether it can be compared so.

use super::ast::{Call, Field, Output, Subject, Test, Value, ValueKind};
use super::check::Checker;
use super::{MAX_SELECT_LOOKUPS, check};
use crate::filter::error::Fault;
use crate::filter::known::Lookup;
use crate::filter::pattern::MAX_PATTERN_BYTES;
use crate::filter::sources::{Kind, nearest};
use crate::filter::term::{Operand, Operator, read_path};
use crate::state::FactPath;

/// Functions of the language. Those that are also data sources are such when an output follows.
pub(super) const FUNCTIONS: [&str; 6] = ["agent", "class", "fact", "include", "semver", "with"];

/// Longest name of a source or an output, in bytes.
const NAME_BYTES: usize = 64;

/// Whether this asks a data source, and is no function of the language.
pub(super) fn is_lookup(call: &Call) -> bool {
    match (call.source.as_str(), &call.field) {
        ("include" | "semver" | "with", _) | ("agent" | "class" | "fact", None) => false,
        ("fact", Some(field)) => field.name != "value",
        _ => true,
    }
}

impl Checker<'_> {
    /// A fact, or an output: `os.family`, `fact("os.family")`, `service("sshd").running`.
    pub(super) fn subject(&mut self, value: Value) -> Result<Subject, Fault> {
        let at = value.at;
        match value.kind {
            ValueKind::Word(word) => read_path(&word)
                .map(Subject::Fact)
                .map_err(|fault| fault.further(at)),
            ValueKind::Call(call) if is_lookup(&call) => self.output(at, call).map(Subject::Output),
            ValueKind::Call(call) if call.source == "fact" => fact(at, call).map(Subject::Fact),
            ValueKind::Call(call) => {
                let expected = format!("a fact ({}(...) is true or false by itself)", call.source);
                Err(Fault::new(at, expected))
            }
            _ => Err(Fault::new(at, "a fact: its name, or fact(\"its name\")")),
        }
    }

    /// `service("sshd").running`, `puppet().enabled`.
    pub(super) fn output(&mut self, at: usize, call: Call) -> Result<Output, Fault> {
        self.source(at, &call)?;
        let source = call.source;
        let Some(field) = call.field.or_else(|| self.itself(at, &source)) else {
            let expected = format!("an output after {source}(...), such as {source}(...).{}", {
                let declared = self.declared.and_then(|sources| sources.get(&source));
                let first = declared.and_then(|source| source.outputs.keys().next());
                first.map_or("name", String::as_str)
            });
            return Err(Fault::new(at, expected));
        };
        if field.at != at && !is_name(&field.name, |c| c.is_ascii_alphanumeric()) {
            let expected = format!("one name of an output after {source}(...)");
            return Err(Fault::new(field.at, expected));
        }
        let query = query(&source, call.arguments)?;
        let asked = query.as_ref().map_or(at, |(at, _)| *at);
        let query = query.map(|(_, query)| query);
        if let Some(declared) = self.declared.and_then(|sources| sources.get(&source)) {
            declared
                .accepts(&source, query.as_deref())
                .map_err(|expected| Fault::new(asked, expected))?;
            if !declared.outputs.contains_key(&field.name) {
                let expected = declared.expected(&source, &field.name);
                return Err(Fault::new(field.at, expected));
            }
        }
        let lookup = Lookup { source, query };
        self.lookups.insert(lookup.clone());
        if self.lookups.len() > MAX_SELECT_LOOKUPS {
            let expected = format!("at most {MAX_SELECT_LOOKUPS} questions to data sources");
            return Err(Fault::new(at, expected));
        }
        Ok(Output {
            lookup,
            name: field.name,
        })
    }

    /// What a source stands for by itself, if it is declared to.
    fn itself(&self, at: usize, source: &str) -> Option<Field> {
        let declared = self.declared?.get(source)?;
        declared.outputs.contains_key("").then(|| Field {
            at,
            name: String::new(),
        })
    }

    /// Whether this can be a data source. A mistyped function is told from a mistyped source by what follows.
    fn source(&self, at: usize, call: &Call) -> Result<(), Fault> {
        let name = call.source.as_str();
        let declared = self.declared.map(|sources| (sources, sources.get(name)));
        if matches!(declared, Some((_, Some(_)))) {
            return Ok(());
        }
        if call.field.is_none() {
            let hint = nearest(name, FUNCTIONS.into_iter());
            let hint = hint.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let expected = format!(
                "one of the functions agent, class, fact, include, semver and with, or a data source and its output \
                 ({name}(...) is neither{hint})"
            );
            return Err(Fault::new(at, expected));
        }
        match declared {
            Some((sources, _)) => Err(Fault::new(at, sources.expected(name))),
            None if is_name(name, |c| c.is_ascii_lowercase() || c.is_ascii_digit()) => Ok(()),
            None => Err(Fault::new(at, "a data source's name: a-z, 0-9 and _")),
        }
    }

    /// What an output is declared to hold.
    pub(super) fn kind(&self, subject: &Subject) -> Option<Kind> {
        match subject {
            Subject::Fact(_) => None,
            Subject::Output(output) => {
                let source = self.declared?.get(&output.lookup.source)?;
                source.outputs.get(&output.name).copied()
            }
        }
    }

    /// Whether a test makes sense of what is declared; `at` is where its value stands.
    pub(super) fn fits(&self, at: usize, subject: &Subject, test: &Test) -> Result<(), Fault> {
        let (Some(kind), Subject::Output(output)) = (self.kind(subject), subject) else {
            return Ok(());
        };
        let expected = match (kind, test) {
            (Kind::Any, _)
            | (Kind::Text, Test::Version(_))
            | (Kind::List, Test::Include(_) | Test::Version(_)) => return Ok(()),
            (_, Test::Compare(operator, operand)) => match misfit(kind, *operator, operand) {
                None => return Ok(()),
                Some(expected) => expected,
            },
            (_, Test::Include(_)) => "a list",
            (_, Test::Version(_)) => "a text",
        };
        let expected = format!("{expected}, for {output} is {}", kind.phrase());
        Err(Fault::new(at, expected))
    }
}

/// What would have fitted, if this does not.
fn misfit(kind: Kind, operator: Operator, operand: &Operand) -> Option<&'static str> {
    let ordered =
        !operator.takes_regex() && !matches!(operator, Operator::Equal | Operator::NotEqual);
    match (kind, operand) {
        (Kind::Text, _) if ordered => {
            Some("= != =~ !~ or, for versions, semver(..., \">= 1.2\") instead of an order")
        }
        (Kind::List, _) if ordered => Some("= != =~ !~ or include(...) instead of an order"),
        (Kind::Boolean, _) if ordered => Some("= or != instead of an order"),
        (Kind::Boolean, Operand::Literal(literal))
            if !["true", "false"]
                .iter()
                .any(|word| literal.text.eq_ignore_ascii_case(word)) =>
        {
            Some("true or false")
        }
        (Kind::Boolean, Operand::Regex(_)) => Some("true or false instead of a regular expression"),
        (Kind::Number, Operand::Literal(literal)) if literal.number.is_none() => Some("a number"),
        (Kind::Number, Operand::Regex(_)) => Some("a number instead of a regular expression"),
        _ => None,
    }
}

/// The one query of a data source, and where it begins behind its quote.
fn query(source: &str, arguments: Vec<Value>) -> Result<Option<(usize, String)>, Fault> {
    let mut arguments = arguments.into_iter();
    let (first, second) = (arguments.next(), arguments.next());
    if let Some(second) = second {
        let expected = format!("a closing parenthesis: {source}(...) takes one query at most");
        return Err(Fault::new(second.at, expected));
    }
    let Some(value) = first else { return Ok(None) };
    let (at, text) = check::text(value)?;
    if text.is_empty() {
        let expected = format!("a query that is not empty, or {source}()");
        return Err(Fault::new(at, expected));
    }
    if text.len() > MAX_PATTERN_BYTES {
        return Err(Fault::new(at, "a query of at most 1,024 bytes"));
    }
    if let Some(offset) = text.find(char::is_control) {
        let expected = "a query without control characters";
        return Err(Fault::new(at + offset, expected));
    }
    Ok(Some((at, text)))
}

/// `fact("os.family")`; `MCollective` also writes `fact("os.family").value`.
pub(super) fn fact(at: usize, call: Call) -> Result<FactPath, Fault> {
    let [name] = check::arguments(at, call, "fact(\"name\")")?;
    let (at, name) = check::text(name)?;
    read_path(&name).map_err(|fault| fault.further(at))
}

fn is_name(text: &str, allowed: fn(char) -> bool) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES && text.chars().all(|c| c == '_' || allowed(c))
}
