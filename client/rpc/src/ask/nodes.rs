//! Lists of nodes that somebody has written down: `--nodes FILE`, or `-` for the standard input.
//!
//! ```text
//! text   a name a line; from # to the end of the line is comment
//! JSON   names, objects with `sender` or `certname`, lists of these, and what `rpc ... -j` and `--jsonl` print
//! ```
//!
//! Whoever answered an earlier request is in its document, however the answer was. The standard input is read only when
//! it is named: a caller that runs below cron, ssh or a daemon has a standard input that it never meant, and a request
//! must not aim at whatever comes from there. Nobody is asked here whether a node exists.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use muster_wire::identity::{Identity, NameError};
use serde_json::Value;

use crate::render::printable;

/// Longest list in bytes.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Why a list of nodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The file cannot be read.
    #[error("cannot read the list of nodes from {}", path.display())]
    Read {
        /// The file, `-` for the standard input.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// More bytes than the limit.
    #[error("the list of nodes in {} is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// What is in it is no list.
    #[error("the list of nodes in {} cannot be used", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: ListError,
    },
    /// Nobody is in it.
    #[error("the list of nodes in {} is empty; no request was sent", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A list and filters, of which one would have to be ignored.
    #[error("`--nodes` says who is asked, and filters say it too; give one of them")]
    AndFilters,
    /// The standard input can be read only once.
    #[error(
        "the standard input cannot hold both the nodes and the input `{input}`; write the nodes into a file"
    )]
    TwoReaders {
        /// The secret input.
        input: String,
    },
}

/// Why a text is no list of nodes.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A line that holds no name.
    #[error("line {line}: {}", printable::line(&why.to_string()))]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: NameError,
    },
    /// An entry of a JSON list that holds no name.
    #[error("name {entry}: {}", printable::line(&why.to_string()))]
    Entry {
        /// Which name, from 1.
        entry: usize,
        /// What is wrong with it.
        why: NameError,
    },
    /// JSON that holds something else than nodes.
    #[error(
        "entry {entry} is no node; expected a name, or an object with `sender` or `certname`, or what `rpc find -j` prints"
    )]
    NoNode {
        /// After how many names, from 1.
        entry: usize,
    },
    /// No JSON.
    #[error("it begins like JSON, but is none")]
    Json(#[from] serde_json::Error),
}

/// Reads the list at `path`; never empty.
pub fn read_nodes(path: &Path) -> Result<BTreeSet<Identity>, NodesError> {
    let path = || path.to_owned();
    let text = match path().to_str() {
        Some("-") => read(io::stdin().lock()),
        _ => File::open(path()).and_then(read),
    };
    let text = text.map_err(|source| NodesError::Read {
        path: path(),
        source,
    })?;
    let Some(text) = text else {
        return Err(NodesError::TooLong {
            path: path(),
            limit: LONGEST,
        });
    };
    let nodes = parse(&text).map_err(|source| NodesError::List {
        path: path(),
        source,
    })?;
    if nodes.is_empty() {
        return Err(NodesError::Empty { path: path() });
    }
    Ok(nodes)
}

/// The whole text, unless it is too long.
fn read(from: impl Read) -> io::Result<Option<String>> {
    let mut text = String::new();
    let length = from.take(LONGEST + 1).read_to_string(&mut text)?;
    Ok((length as u64 <= LONGEST).then_some(text))
}

/// The nodes that a text names, each once.
fn parse(text: &str) -> Result<BTreeSet<Identity>, ListError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with(['[', '{', '"']) {
        return json(text);
    }
    let mut nodes = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let line = number + 1;
        let node = Identity::parse(name).map_err(|why| ListError::Line { line, why })?;
        nodes.insert(node);
    }
    Ok(nodes)
}

/// The nodes of any number of JSON documents, one after the other.
fn json(text: &str) -> Result<BTreeSet<Identity>, ListError> {
    let mut found = Found::default();
    for document in serde_json::Deserializer::from_str(text).into_iter() {
        found.take(&document?)?;
    }
    Ok(found.nodes)
}

/// Nodes that JSON has named so far.
#[derive(Default)]
struct Found {
    nodes: BTreeSet<Identity>,
    entries: usize,
}

impl Found {
    fn take(&mut self, value: &Value) -> Result<(), ListError> {
        match value {
            Value::String(name) => self.name(name),
            Value::Array(list) => list.iter().try_for_each(|value| self.take(value)),
            Value::Object(fields) => {
                // Of the lines of `--jsonl` only those of results tell who answered.
                let kind = fields.get("kind").and_then(Value::as_str);
                if kind.is_some_and(|kind| kind != "result") {
                    return Ok(());
                }
                let inner = ["sender", "certname", "replies", "nodes"];
                match inner.iter().find_map(|key| fields.get(*key)) {
                    Some(inner) => self.take(inner),
                    None => Err(self.no_node()),
                }
            }
            _ => Err(self.no_node()),
        }
    }

    fn name(&mut self, name: &str) -> Result<(), ListError> {
        self.entries += 1;
        let entry = self.entries;
        let node = Identity::parse(name).map_err(|why| ListError::Entry { entry, why })?;
        self.nodes.insert(node);
        Ok(())
    }

    fn no_node(&self) -> ListError {
        ListError::NoNode {
            entry: self.entries + 1,
        }
    }
}

#[cfg(test)]
mod tests;
