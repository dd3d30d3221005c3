//! The copy of a catalog that the machine's Puppet applies without a server: its sources are files of this node.
//!
//! Puppet reads the bytes of a static source from `path`, and appends `relative_path` to that of a tree. So a plain file gets the path of the fetched content,
//! and each tree a directory with a link to the content of each file.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::named_file;
use serde_json::{Map, Value};

/// A catalog for Puppet, and the files that it needs besides it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PuppetCopy {
    pub(super) catalog: Map<String, Value>,
    /// Where a file of a tree has to be.
    pub(super) links: Vec<(PathBuf, ContentAddress)>,
}

/// An entry of a tree that is not below its directory.
#[derive(Debug, thiserror::Error)]
#[error("the catalog has a source with the path `{}`, which is not below its directory", .0.escape_debug())]
pub(crate) struct SourcePathError(String);

impl PuppetCopy {
    /// The copy of a catalog whose files are in `contents`; `trees` is the directory of its trees.
    pub(super) fn of(
        mut catalog: Map<String, Value>,
        contents: &Path,
        trees: &Path,
    ) -> Result<Self, SourcePathError> {
        for (_, metadata) in entries_mut(catalog.get_mut("metadata")) {
            if let Some(metadata) = metadata.as_object_mut() {
                settle_plain(metadata, contents);
            }
        }
        let mut links = Vec::new();
        let sources = entries_mut(catalog.get_mut("recursive_metadata"));
        let lists = sources.flat_map(|(_, sources)| entries_mut(Some(sources)));
        for (number, (_, list)) in lists.enumerate() {
            let tree = trees.join(number.to_string());
            let entries = list.as_array_mut().into_iter().flatten();
            for metadata in entries.filter_map(Value::as_object_mut) {
                links.extend(settle_entry(metadata, contents, &tree)?);
            }
        }
        Ok(Self { catalog, links })
    }

    /// Writes the links. The directory of the trees is new. A file is a second name of the content, or a copy on another file system.
    pub(super) fn write_links(&self, contents: &Path) -> io::Result<()> {
        for (path, file) in &self.links {
            link_file(contents, *file, path)?;
        }
        Ok(())
    }
}

/// Makes a file with this content: a second name of it, or a copy on another file system.
pub(super) fn link_file(contents: &Path, file: ContentAddress, path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let content = contents.join(file.to_string());
    fs::hard_link(&content, path).or_else(|_| fs::copy(&content, path).map(drop))
}

/// Whether a relative path stays below its directory.
pub(super) fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn settle_plain(metadata: &mut Map<String, Value>, contents: &Path) {
    let Some(file) = named_file(metadata) else { return };
    set_path(metadata, &contents.join(file.to_string()));
    metadata.insert("relative_path".to_owned(), Value::Null);
}

fn settle_entry(
    metadata: &mut Map<String, Value>,
    contents: &Path,
    tree: &Path,
) -> Result<Option<(PathBuf, ContentAddress)>, SourcePathError> {
    let below = metadata.get("relative_path").and_then(Value::as_str).unwrap_or(".").to_owned();
    if below == "." {
        // A source that is one file has no tree.
        let is_file = named_file(metadata).is_some();
        settle_plain(metadata, contents);
        if !is_file {
            set_path(metadata, tree);
        }
        return Ok(None);
    }
    if !is_below(&below) {
        return Err(SourcePathError(below));
    }
    set_path(metadata, tree);
    Ok(named_file(metadata).map(|file| (tree.join(below), file)))
}

fn set_path(metadata: &mut Map<String, Value>, path: &Path) {
    metadata.insert("path".to_owned(), path.to_string_lossy().into_owned().into());
    // Puppet would ask a server for it first.
    metadata.remove("content_uri");
    // Bytes of `puppet://HOST/...` are read from that host, those of `puppet:///...` from `path`.
    if let Some(Value::String(source)) = metadata.get_mut("source")
        && let Some((_, path)) =
            source.strip_prefix("puppet://").and_then(|rest| rest.split_once('/'))
    {
        *source = format!("puppet:///{path}");
    }
}

fn entries_mut(value: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    value.and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_wire::catalog::content::ContentAddress;
    use serde_json::{Map, Value, json};

    use super::PuppetCopy;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn file(relative: &str, address: ContentAddress) -> Value {
        let checksum = json!({"type": "sha256", "value": format!("{{sha256}}{address}")});
        json!({"path": "modules/m/files/x", "relative_path": relative, "type": "file", "checksum": checksum,
               "source": "puppet://puppet.example.net/modules/m/x", "content_uri": format!("puppet:///sha256/{address}")})
    }

    #[test]
    fn sources_become_paths_of_this_node() {
        let (one, two) = (ContentAddress::of(b"1"), ContentAddress::of(b"2"));
        let tree = json!([{"path": "modules/m/files/d", "relative_path": ".", "type": "directory"}, file("a/b", two)]);
        let catalog = object(&json!({
            "metadata": {"/etc/motd": file(".", one)},
            "recursive_metadata": {"/srv/d": {"puppet:///modules/m/d": tree}},
        }));
        let copy = PuppetCopy::of(catalog, Path::new("/c"), Path::new("/t")).unwrap();
        let plain = &copy.catalog["metadata"]["/etc/motd"];
        assert_eq!(plain["path"], format!("/c/{one}"));
        assert_eq!(plain["source"], "puppet:///modules/m/x");
        assert!(plain.get("content_uri").is_none());
        let entry = &copy.catalog["recursive_metadata"]["/srv/d"]["puppet:///modules/m/d"];
        assert_eq!((&entry[0]["path"], &entry[1]["path"]), (&json!("/t/0"), &json!("/t/0")));
        assert_eq!(copy.links, [(Path::new("/t/0/a/b").to_owned(), two)]);
    }

    #[test]
    fn source_outside_its_directory_is_refused() {
        for path in ["../x", "/etc/x", "a/../../x"] {
            let tree = json!([file(path, ContentAddress::of(b"1"))]);
            let catalog =
                object(&json!({"recursive_metadata": {"/srv/d": {"puppet:///modules/m/d": tree}}}));
            PuppetCopy::of(catalog, Path::new("/c"), Path::new("/t")).unwrap_err();
        }
    }
}
