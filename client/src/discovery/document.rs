//! Files as bounded text, and text as JSON or YAML. Says nothing about what is in them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;

/// How a list or document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryFileFormat {
    /// A name a line.
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl DiscoveryFileFormat {
    /// Reads the name of a form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "text" | "txt" => Some(Self::Text),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The form that a file's name tells.
    pub(super) fn from_file_name(path: &Path) -> Option<Self> {
        Self::parse(path.extension()?.to_str()?)
    }
}

/// The whole text, unless it has more than `limit` bytes.
pub(super) fn read_bounded(from: impl Read, limit: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    let length = from
        .take(limit.saturating_add(1))
        .read_to_string(&mut text)?;
    Ok((length as u64 <= limit).then_some(text))
}

/// A file's whole text, unless it has more than `limit` bytes.
pub(super) fn read_bounded_file(path: &Path, limit: u64) -> io::Result<Option<String>> {
    read_bounded(File::open(path)?, limit)
}

/// Reads YAML: few aliases, for bombs are made of them, but as much of the rest as an inventory may have.
pub(super) fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    /// Far more than a fleet's description has, and bounded by the size of the text anyway.
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
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
