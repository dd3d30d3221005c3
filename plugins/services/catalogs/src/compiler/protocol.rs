//! The lines of JSON between the caller and a compiler. A compiler of another kind is a program that speaks the same.
//!
//! The caller sends a [`CompileRequest`]. The compiler sends any number of `QueryLine`s, each of which is answered by a [`QueryAnswer`], and
//! ends with a `CompileReply`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::inputs::RecordedInputs;

/// One node to compile.
#[derive(Debug, Clone, Serialize)]
pub struct CompileRequest<'a> {
    pub node: &'a str,
    pub facts: &'a Map<String, Value>,
    /// What is known about the node without its help: `certname`, `extensions` and the rest of Puppet's `$trusted`.
    pub trusted: &'a Map<String, Value>,
    /// Puppet's `$server_facts`, without the environment.
    pub server_facts: &'a Map<String, Value>,
    /// Classes that are declared beside those of the manifests.
    pub classes: &'a [String],
    /// The commit of the code.
    pub code_id: Option<&'a str>,
}

/// A line of the compiler.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum CompilerLine {
    Query(QueryLine),
    Reply(Box<CompileReply>),
}

/// The resident compiler has begun the compile. Those that it has not begun when it ends are not at fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BegunLine {
    #[serde(rename = "begun")]
    pub(super) _begun: bool,
}

/// A query of a manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryLine {
    pub(super) query: String,
}

/// The directory's answer to a query.
#[derive(Debug, Clone, Serialize)]
pub struct QueryAnswer {
    /// The status of the HTTP API.
    pub status: u16,
    pub document: Value,
}

/// The end of a compile: a catalog or an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompileReply {
    catalog: Option<Map<String, Value>>,
    error: Option<CompileFailure>,
    /// Absent from a compiler that does not record: then all facts and the code are inputs.
    inputs: Option<RecordedInputs>,
    #[serde(default)]
    logs: Vec<CompileLog>,
}

/// What came of a compile.
#[derive(Debug)]
pub struct CompileOutcome {
    pub result: Result<Map<String, Value>, CompileFailure>,
    /// What was read until the end or the error; absent from a compiler that does not record.
    pub inputs: Option<RecordedInputs>,
    /// Warnings and errors of Puppet.
    pub logs: Vec<CompileLog>,
}

/// Why a catalog does not compile, with paths in the environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct CompileFailure {
    pub message: String,
    pub file: Option<String>,
    pub line: Option<u64>,
}

impl CompileFailure {
    /// A failure without a place.
    pub fn of_text(message: String) -> Self {
        Self { message, file: None, line: None }
    }
}

/// A message of Puppet during a compile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct CompileLog {
    pub level: String,
    pub message: String,
    pub file: Option<String>,
    pub line: Option<u64>,
}

impl CompileReply {
    pub(super) fn into_outcome(self) -> CompileOutcome {
        let unknown = || {
            let text = "the compiler returned neither a catalog nor an error";
            CompileFailure::of_text(text.to_owned())
        };
        let result = match (self.error, self.catalog) {
            (None, Some(catalog)) => Ok(catalog),
            (error, _) => Err(error.unwrap_or_else(unknown)),
        };
        CompileOutcome { result, inputs: self.inputs, logs: self.logs }
    }
}
