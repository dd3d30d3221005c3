//! The files that a catalog in its stored form names: the contents of its static sources.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::content::ContentAddress;

/// All files that a catalog names.
pub fn named_files(catalog: &Map<String, Value>) -> BTreeSet<ContentAddress> {
    let entries = |key: &str| catalog.get(key).and_then(Value::as_object).into_iter().flatten();
    let plain = entries("metadata").map(|(_, metadata)| metadata);
    let trees = entries("recursive_metadata").filter_map(|(_, sources)| sources.as_object());
    let below = trees.flatten().filter_map(|(_, tree)| tree.as_array()).flatten();
    plain.chain(below).filter_map(|metadata| named_file(metadata.as_object()?)).collect()
}

/// The file that one entry of `metadata` names; `None` for directories and links.
pub fn named_file(metadata: &Map<String, Value>) -> Option<ContentAddress> {
    let is_file = metadata.get("type").is_some_and(|kind| kind == "file");
    let value = metadata.get("checksum")?.get("value")?.as_str()?;
    let hash = value.strip_prefix("{sha256}").filter(|_| is_file)?;
    ContentAddress::parse(hash).ok()
}
