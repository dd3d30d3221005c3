//! Which data sources there are, as far as an expression must know: what each is asked, and what it answers.
//!
//! Filled from the sources' schemas by whoever has them. A client checks expressions against it before it sends them;
//! a node does not, for it must also read what was written for newer nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::lookup::QuotedText;

/// Largest distance at which a name may have been meant, for a name of this length.
fn max_typo_distance(name: &str) -> usize {
    1 + name.len() / 3
}

/// The declared data sources.
#[derive(Debug, Clone, Default)]
pub struct DeclaredSources(BTreeMap<String, DeclaredSource>);

/// One declared data source.
#[derive(Debug, Clone, Default)]
pub struct DeclaredSource {
    /// Its query; none, if it takes none.
    pub query: Option<DeclaredQuery>,
    /// What it answers: names and kinds. The output with the empty name is what the source stands for when no output is
    /// named, as in `ok()`.
    pub outputs: BTreeMap<String, OutputKind>,
}

/// What a source can be asked for.
#[derive(Clone)]
pub struct DeclaredQuery {
    /// Whether the source answers without one.
    pub optional: bool,
    /// What it is: `the name of a service`.
    pub prompt: String,
    /// Says what is wrong with a query: `must be shorter than 20 characters`.
    pub check: QueryCheck,
}

/// A function of a query: nothing, or what is wrong with it.
pub type QueryCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What an output holds, as far as comparisons care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// Equal or found, but not ordered.
    Text,
    /// Equal to `true` or `false`.
    Boolean,
    /// Equal, or ordered.
    Number,
    /// Has elements or keys that are equal or found.
    List,
    /// May be compared in every way.
    Any,
}

impl DeclaredSources {
    /// Declares a source, in the place of an earlier one of the name.
    pub fn declare_source(&mut self, name: impl Into<String>, source: DeclaredSource) {
        self.0.insert(name.into(), source);
    }

    /// The declaration of a source.
    pub fn get(&self, name: &str) -> Option<&DeclaredSource> {
        self.0.get(name)
    }

    /// What was expected in the place of an unknown name.
    pub(super) fn expected_source(&self, name: &str) -> String {
        match nearest_name(name, self.0.keys()) {
            Some(near) => format!("a known data source ({name} is none; did you mean {near}?)"),
            None if self.0.is_empty() => format!("a known data source ({name} is none)"),
            None => format!(
                "a known data source ({name} is none; there are {})",
                join_names(self.0.keys())
            ),
        }
    }
}

impl DeclaredSource {
    /// What was expected in the place of an unknown output.
    pub(super) fn expected_output(&self, source: &str, output: &str) -> String {
        match nearest_name(output, self.outputs.keys()) {
            Some(near) => {
                format!("an output of {source} ({output} is none; did you mean {near}?)")
            }
            None => format!(
                "an output of {source} ({output} is none; there are {})",
                join_names(self.outputs.keys())
            ),
        }
    }

    /// Whether the source may be asked this; else what was expected.
    pub(super) fn check_query(&self, source: &str, query: Option<&str>) -> Result<(), String> {
        match (&self.query, query) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(format!("{source}() without a query")),
            (Some(declared), None) if declared.optional => Ok(()),
            (Some(declared), None) => Err(format!("{source}(\"...\") with {}", declared.prompt)),
            (Some(declared), Some(query)) => (declared.check)(query).map_err(|violation| {
                format!(
                    "{} that {source} takes ({} {violation})",
                    declared.prompt,
                    QuotedText(query)
                )
            }),
        }
    }
}

impl OutputKind {
    /// As a phrase behind "is".
    pub(super) fn description_phrase(self) -> &'static str {
        match self {
            Self::Text => "a text",
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

/// The name that was probably meant.
pub(super) fn nearest_name<'a, T: AsRef<str> + 'a>(
    name: &str,
    known: impl Iterator<Item = T>,
) -> Option<T> {
    known
        .map(|known| (strsim::damerau_levenshtein(known.as_ref(), name), known))
        .filter(|(distance, known)| *distance <= max_typo_distance(known.as_ref()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn join_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}
