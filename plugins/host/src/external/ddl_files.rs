//! Finds DDL files and checks which users could have written them. Inspects names, owners and modes; reads no content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_api::system::real::RealSystem;
use muster_api::system::{System as _, SystemError, SystemResult};
use muster_files::FileStamp;

/// Maximum search depth below `mcollective/agent`.
const MAX_SEARCH_DEPTH: usize = 3;

/// Files with their metadata; `None` for a missing file.
pub(super) type FileStamps = Vec<(PathBuf, Option<FileStamp>)>;

/// The DDL files in these directories; the first file of each name wins.
pub(super) fn find_ddls(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories {
        collect_ddls(directory, 0, &mut found);
        collect_ddls(&directory.join("mcollective/agent"), MAX_SEARCH_DEPTH, &mut found);
    }
    let mut names = BTreeSet::new();
    found.retain(|path| path.file_stem().is_some_and(|name| names.insert(name.to_owned())));
    found
}

/// A directory that is missing or unreadable contributes no agents.
fn collect_ddls(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if hidden {
            continue;
        }
        if is_directory {
            if depth > 0 {
                collect_ddls(&path, depth - 1, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

pub(super) fn stamp_files<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> FileStamps {
    paths.into_iter().map(|path| (path.clone(), FileStamp::read(path))).collect()
}

/// The canonical path of the file, if no other user can change or replace it.
pub(super) fn trusted_path(path: &Path) -> SystemResult<PathBuf> {
    RealSystem::new("/".into()).check_protected(path)?;
    let failed = |source| SystemError::File { verb: "read", path: path.to_owned(), source };
    path.canonicalize().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::find_ddls;

    #[test]
    fn finds_ddls_in_the_directories_of_choria_and_each_name_once() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        create_dir_all(path("a/mcollective/agent/deep/er")).unwrap();
        create_dir_all(path("a/data")).unwrap();
        create_dir_all(path("b")).unwrap();
        for file in [
            "a/one.json",
            "a/.hidden.json",
            "a/one",
            "a/data/no.json",
            "a/mcollective/agent/two.json",
            "a/mcollective/agent/deep/er/three.json",
            "b/one.json",
            "b/four.json",
        ] {
            write(path(file), "").unwrap();
        }
        let found = find_ddls(&[path("a"), path("b"), path("gone")]);
        let names = [
            "a/one.json",
            "a/mcollective/agent/deep/er/three.json",
            "a/mcollective/agent/two.json",
            "b/four.json",
        ];
        assert_eq!(found, names.map(path).to_vec());
    }
}
