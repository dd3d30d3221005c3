//! Errors of fact sources.

use std::io;
use std::path::PathBuf;

use muster_filter::state::NodeFactsError;
use muster_system::SystemError;

use super::cloud::CloudError;

#[derive(Debug, thiserror::Error)]
#[error(
    "no new facts from {source_name}; {}",
    if *.uses_last_good { "the last valid ones are kept" } else { "facts that it can set or override are unknown until it succeeds" }
)]
pub struct FactProblem {
    /// The file, command or collector.
    pub source_name: String,
    /// Whether its earlier facts are still in use.
    pub uses_last_good: bool,
    #[source]
    pub error: FactError,
}

#[derive(Debug, thiserror::Error)]
pub enum FactError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the facts exceed {limit} bytes; remove facts that are not used")]
    TooLarge { limit: usize },
    /// An empty file, which is probably being written.
    #[error("the file is empty")]
    Empty,
    #[error("the text is not UTF-8")]
    NotText,
    #[error("not valid JSON")]
    Json(#[source] serde_json::Error),
    #[error("not valid YAML: {0}")]
    Yaml(String),
    #[error("line {number} does not have the form `name=value`")]
    Line { number: usize },
    /// Not an object, or an object that exceeds the limits.
    #[error(transparent)]
    Facts(#[from] NodeFactsError),
    /// It could not be started or did not finish.
    #[error("cannot run the program")]
    Run(#[source] SystemError),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Its exit code was not 0.
    #[error("the program ended with code {code}: {output}")]
    Failed { code: i32, output: String },
}
