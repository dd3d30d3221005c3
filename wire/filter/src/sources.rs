//! Declarations of data sources for checking expressions: queries and outputs.
//!
//! Built from the sources' schemas. A client checks expressions against the declarations before sending. A node does not,
//! because it must also accept expressions written for newer nodes.

use muster_base::nearest_name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
pub type QueryCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

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
        match nearest_name(name, self.0.keys().map(String::as_str)) {
            Some(nearest) => {
                format!("a known data source ({name} is unknown; did you mean {nearest}?)")
            }
            None if self.0.is_empty() => format!("a known data source ({name} is unknown)"),
            None => format!(
                "a known data source ({name} is unknown; known are {})",
                join_names(self.0.keys())
            ),
        }
    }
}

impl DeclaredSource {
    /// What is expected instead of an unknown output.
    pub(super) fn expected_output(&self, source: &str, output: &str) -> String {
        match nearest_name(output, self.outputs.keys().map(String::as_str)) {
            Some(nearest) => {
                format!("an output of {source} ({output} is unknown; did you mean {nearest}?)")
            }
            None => format!(
                "an output of {source} ({output} is unknown; known are {})",
                join_names(self.outputs.keys())
            ),
        }
    }

    /// Checks the argument of a source; the error is what was expected.
    pub(super) fn check_query(&self, source: &str, query: Option<&str>) -> Result<(), String> {
        match (&self.query, query) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(format!("{source}() without a query")),
            (Some(declared), None) if declared.optional => Ok(()),
            (Some(declared), None) => Err(format!("{source}(\"...\") with {}", declared.prompt)),
            (Some(declared), Some(query)) => (declared.check)(query).map_err(|violation| {
                format!(
                    "a valid query for {source}: {} ({} {violation})",
                    declared.prompt,
                    QuotedText(query)
                )
            }),
        }
    }
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

fn join_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}
