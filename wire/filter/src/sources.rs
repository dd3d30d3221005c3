//! Declarations of data sources for checking expressions: queries and outputs.
//!
//! Built from the sources' schemas. A client checks expressions against the declarations before sending. A node does not,
//! because it must also accept expressions written for newer nodes.

use muster_base::nearest_name;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::error::{Result, expected_at};
use super::lookup::QuotedText;

/// The declared data sources.
#[derive(Debug, Clone, Default)]
pub struct DeclaredSources(BTreeMap<String, DeclaredSource>);

/// One declared data source.
#[derive(Debug, Clone, Default)]
pub struct DeclaredSource {
    /// Its query argument; `None` if it takes none.
    pub query: Option<DeclaredQuery>,
    /// Its outputs by name. The output with the empty name is the default when no output is named, as in `ok()`.
    pub outputs: BTreeMap<String, OutputKind>,
}

/// The query argument of a source.
#[derive(Clone)]
pub struct DeclaredQuery {
    /// Whether the argument is optional.
    pub optional: bool,
    /// Description of the argument: `the name of a service`.
    pub prompt: String,
    /// Validates an argument; the error reads like `must be shorter than 20 characters`.
    pub check: QueryCheck,
}

/// Validates a query argument.
pub type QueryCheck = Arc<dyn Fn(&str) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;

/// The type of an output, as far as comparisons need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// Supports equality and regular expressions, but no ordering.
    Text,
    /// Equals `true` or `false`.
    Boolean,
    /// Supports equality and ordering.
    Number,
    /// Its elements or keys support equality and regular expressions.
    List,
    /// Supports every comparison.
    Any,
}

impl DeclaredSources {
    /// Declares a source, replacing an earlier one of the same name.
    pub fn declare_source(&mut self, name: impl Into<String>, source: DeclaredSource) {
        self.0.insert(name.into(), source);
    }

    /// The declaration of a source.
    pub fn get(&self, name: &str) -> Option<&DeclaredSource> {
        self.0.get(name)
    }

    /// What is expected instead of an unknown source name.
    pub(super) fn expected_source(&self, name: &str) -> String {
        describe_unknown("a known data source", name, &self.0)
    }
}

impl DeclaredSource {
    /// What is expected instead of an unknown output.
    pub(super) fn expected_output(&self, source: &str, output: &str) -> String {
        describe_unknown(&format!("an output of {source}"), output, &self.outputs)
    }

    /// Checks the argument of a source, which begins at `at`.
    pub(super) fn check_query(&self, source: &str, query: Option<&str>, at: usize) -> Result<()> {
        let expected = match (&self.query, query) {
            (None, None) => return Ok(()),
            (None, Some(_)) => format!("{source}() without a query"),
            (Some(declared), None) if declared.optional => return Ok(()),
            (Some(declared), None) => format!("{source}(\"...\") with {}", declared.prompt),
            (Some(DeclaredQuery { prompt, check, .. }), Some(query)) => match check(query) {
                Ok(()) => return Ok(()),
                Err(violation) => {
                    let query = QuotedText(query);
                    format!("a valid query for {source}: {prompt} ({query} {violation})")
                }
            },
        };
        expected_at(at, expected)
    }
}

/// What is expected instead of an unknown name, with the nearest known name or all of them.
fn describe_unknown<T>(expected: &str, name: &str, known: &BTreeMap<String, T>) -> String {
    let names = || known.keys().map(String::as_str);
    let hint = match nearest_name(name, names()) {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None if known.is_empty() => String::new(),
        None => format!("; known are {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("{expected} ({name} is unknown{hint})")
}

impl OutputKind {
    /// A phrase to follow "is".
    pub(super) fn description_phrase(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::List => "a list",
            Self::Any => "any value",
        }
    }
}

impl fmt::Debug for DeclaredQuery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Query")
            .field("optional", &self.optional)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}
