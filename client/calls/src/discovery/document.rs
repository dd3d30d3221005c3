//! Size-limited file reads, and parsing of JSON and YAML text. Independent of the content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;

/// A text that is not valid JSON or YAML, or does not have the expected layout.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum DiscoveryDocumentError {
    /// As JSON.
    Json(#[from] serde_json::Error),
    /// As YAML.
    Yaml(#[from] Box<serde_saphyr::Error>),
}

/// Format of a node list or inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryFileFormat {
    /// One name per line.
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl DiscoveryFileFormat {
    /// Parses the name of a format.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "text" | "txt" => Some(Self::Text),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The format that a file name's extension implies.
    pub(super) fn from_file_name(path: &Path) -> Option<Self> {
        Self::parse(path.extension()?.to_str()?)
    }
}

/// Reads the whole text; `None` if it has more than `limit` bytes.
pub(super) fn read_bounded(from: impl Read, limit: u64) -> io::Result<Option<String>> {
    match muster_files::read_limited_text(from, limit) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
        read => read.map(Some),
    }
}

/// Reads a file's whole text; `None` if it has more than `limit` bytes.
pub(super) fn read_bounded_file(path: &Path, limit: u64) -> io::Result<Option<String>> {
    read_bounded(File::open(path)?, limit)
}

/// Parses YAML: few aliases, because alias expansion is how YAML bombs work, but no practical limit on the rest.
pub(super) fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, DiscoveryDocumentError> {
    /// Far more events than an inventory has; the size of the text is bounded anyway.
    const EVENTS: usize = 100_000_000;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS,
            max_nodes: EVENTS,
            max_total_scalar_bytes: usize::MAX,
            max_aliases: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
    };
    Ok(serde_saphyr::from_str_with_options(text, options).map_err(Box::new)?)
}
