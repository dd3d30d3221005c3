//! Parses node lists from a file or the standard input.
//!
//! ```text
//! text   one name per line; from # to the end of the line is a comment
//! JSON   names, objects with `sender` or `certname`, lists of these, and what `rpc ... -j` and `--jsonl` print
//! YAML   the same as JSON
//! ```
//!
//! A list made from an earlier reply document contains every node that replied, also those that failed. Nothing checks whether a node exists.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, NameError};
use serde_json::Value;

use super::document::{self, DiscoveryDocumentError};

pub use super::document::DiscoveryFileFormat;

/// Maximum size of a list in bytes.
pub const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// A result of reading a node list.
type Result<T, E = NodeListError> = std::result::Result<T, E>;

/// Why a list of nodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeListError {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// More bytes than the limit.
    #[error("it is longer than {MAX_LIST_BYTES} bytes")]
    TooLong,
    /// A line without a valid name.
    #[error("line {line}: {}", PrintableNameError(error))]
    Line {
        /// The line number, from 1.
        line: usize,
        /// Why the name is invalid.
        error: NameError,
    },
    /// An entry of a JSON or YAML list without a valid name.
    #[error("name {entry}: {}", PrintableNameError(error))]
    Entry {
        /// Position of the name, from 1.
        entry: usize,
        /// Why the name is invalid.
        error: NameError,
    },
    /// A value that is not a node entry.
    #[error(
        "entry {0} is not a node; expected a name, or an object with `sender` or `certname`, or what `rpc find -j` prints"
    )]
    NoNode(usize),
    /// Not valid JSON.
    #[error("it begins like JSON, but is not valid JSON")]
    Json(#[from] serde_json::Error),
    /// Not valid YAML.
    #[error("it is not valid YAML: {0}")]
    Yaml(#[source] DiscoveryDocumentError),
    /// The list has no names.
    #[error("it is empty; no request was sent")]
    Empty,
}

/// Displays a name error with control characters removed, so that the quoted input cannot send terminal sequences.
struct PrintableNameError<'a>(&'a NameError);

impl fmt::Display for PrintableNameError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string().chars().try_for_each(|c| match c {
            ' ' | '!'..='~' => write!(f, "{c}"),
            other => write!(f, "{}", other.escape_default()),
        })
    }
}

/// Reads the list in a file; never returns an empty set.
pub fn read_list_file(
    path: &Path,
    form: Option<DiscoveryFileFormat>,
) -> Result<BTreeSet<Identity>> {
    let form = form.or_else(|| DiscoveryFileFormat::from_file_name(path));
    read_list(std::fs::File::open(path)?, form)
}

/// Reads a list from any reader; never returns an empty set.
pub fn read_list(from: impl Read, form: Option<DiscoveryFileFormat>) -> Result<BTreeSet<Identity>> {
    let text = document::read_bounded(from, MAX_LIST_BYTES)?.ok_or(NodeListError::TooLong)?;
    let nodes = parse_list(&text, form)?;
    if nodes.is_empty() {
        return Err(NodeListError::Empty);
    }
    Ok(nodes)
}

/// Returns the distinct nodes of a text. If no format is given, the start of the text determines it.
pub fn parse_list(text: &str, form: Option<DiscoveryFileFormat>) -> Result<BTreeSet<Identity>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match form.unwrap_or_else(|| guess_format(text)) {
        DiscoveryFileFormat::Text => parse_lines(text),
        DiscoveryFileFormat::Json => parse_json(text),
        DiscoveryFileFormat::Yaml => {
            let mut found = NodeNameCollector::default();
            found.collect_value(&document::parse_yaml(text).map_err(NodeListError::Yaml)?)?;
            Ok(found.nodes)
        }
    }
}

/// Keeps the nodes that the filter's identities match; all nodes if it has none.
pub fn filter_identities(nodes: BTreeSet<Identity>, filter: &NodeFilter) -> BTreeSet<Identity> {
    let patterns = filter.identities();
    let is_match = |node: &Identity| patterns.iter().any(|pattern| pattern.matches(node.as_str()));
    nodes.into_iter().filter(|node| patterns.is_empty() || is_match(node)).collect()
}

/// A name never begins like JSON, or like a YAML document or list.
fn guess_format(text: &str) -> DiscoveryFileFormat {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    match first {
        Some(line) if line.starts_with(['[', '{', '"']) => DiscoveryFileFormat::Json,
        Some(line) if line.starts_with("---") || line.starts_with("- ") => {
            DiscoveryFileFormat::Yaml
        }
        _ => DiscoveryFileFormat::Text,
    }
}

fn parse_lines(text: &str) -> Result<BTreeSet<Identity>> {
    let mut nodes = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let line = number + 1;
        let node = Identity::parse(name).map_err(|error| NodeListError::Line { line, error })?;
        nodes.insert(node);
    }
    Ok(nodes)
}

/// Collects the nodes of consecutive JSON documents.
fn parse_json(text: &str) -> Result<BTreeSet<Identity>> {
    let mut found = NodeNameCollector::default();
    for document in serde_json::Deserializer::from_str(text).into_iter() {
        found.collect_value(&document?)?;
    }
    Ok(found.nodes)
}

/// The nodes collected so far.
#[derive(Default)]
struct NodeNameCollector {
    nodes: BTreeSet<Identity>,
    entries: usize,
}

impl NodeNameCollector {
    fn collect_value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::String(name) => self.collect_name(name),
            Value::Array(list) => list.iter().try_for_each(|value| self.collect_value(value)),
            Value::Object(fields) => {
                // Of the lines of `--jsonl`, only result lines name nodes that replied.
                let kind = fields.get("kind").and_then(Value::as_str);
                if kind.is_some_and(|kind| kind != "result") {
                    return Ok(());
                }
                let node_keys = ["sender", "certname", "replies", "nodes"];
                match node_keys.iter().find_map(|key| fields.get(*key)) {
                    Some(value) => self.collect_value(value),
                    None => Err(self.not_a_node_error()),
                }
            }
            _ => Err(self.not_a_node_error()),
        }
    }

    fn collect_name(&mut self, name: &str) -> Result<()> {
        self.entries += 1;
        let entry = self.entries;
        let node = Identity::parse(name).map_err(|error| NodeListError::Entry { entry, error })?;
        self.nodes.insert(node);
        Ok(())
    }

    fn not_a_node_error(&self) -> NodeListError {
        NodeListError::NoNode(self.entries + 1)
    }
}

#[cfg(test)]
mod tests;
