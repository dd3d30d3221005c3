//! Finds DDL files and checks which users could have written them. Inspects names, owners and modes; reads no content.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum search depth below `mcollective/agent`.
const MAX_SEARCH_DEPTH: usize = 3;

/// File metadata that changes when a file is replaced or modified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Files with their metadata; `None` for a missing file.
pub(super) type FileStamps = Vec<(PathBuf, Option<FileStamp>)>;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileTrustError {
    /// Its metadata cannot be read.
    #[error("cannot examine {}", path.display())]
    Metadata {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another user owns it and could have written it.
    #[error("{} belongs to user {uid}; it must belong to root or to the daemon's user", path.display())]
    Owner { path: PathBuf, uid: u32 },
    /// Other users can write it.
    #[error("{path} is writable for other users (mode {mode:o}); run `chmod go-w {path}`", path = path.display())]
    Writable { path: PathBuf, mode: u32 },
}

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
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
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

/// The current metadata of the files.
pub(super) fn stamp_files<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> FileStamps {
    let stamp =
        |path: &PathBuf| (path.clone(), std::fs::metadata(path).ok().as_ref().map(file_stamp));
    paths.into_iter().map(stamp).collect()
}

fn file_stamp(found: &Metadata) -> FileStamp {
    FileStamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    }
}

/// The canonical path of the file, if only root and `uid` can change or replace it.
pub(super) fn trusted_path(path: &Path, uid: u32) -> Result<PathBuf, FileTrustError> {
    let to_error = |path: &Path, source| FileTrustError::Metadata { path: path.to_owned(), source };
    let path = path.canonicalize().map_err(|source| to_error(path, source))?;
    for (depth, ancestor) in path.ancestors().enumerate() {
        let found = std::fs::metadata(ancestor).map_err(|source| to_error(ancestor, source))?;
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        if owner != 0 && owner != uid {
            return Err(FileTrustError::Owner { path: ancestor.to_owned(), uid: owner });
        }
        // In a sticky directory such as /tmp, every user can create files but cannot replace those of other users.
        let sticky = depth > 0 && mode & 0o1000 != 0;
        if mode & 0o022 != 0 && !sticky {
            return Err(FileTrustError::Writable { path: ancestor.to_owned(), mode });
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{FileTrustError, find_ddls, trusted_path};

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

    #[test]
    fn files_that_others_can_write_are_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("plugins");
        let file = directory.join("agent");
        create_dir_all(&directory).unwrap();
        write(&file, "").unwrap();
        let mode = |path: &std::path::Path, mode| {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let uid = nix::unistd::geteuid().as_raw();
        mode(&directory, 0o755);
        mode(&file, 0o755);
        assert!(trusted_path(&file, uid).is_ok());
        mode(&file, 0o775);
        assert!(matches!(trusted_path(&file, uid), Err(FileTrustError::Writable { .. })));
        mode(&file, 0o755);
        mode(&directory, 0o777);
        assert!(matches!(trusted_path(&file, uid), Err(FileTrustError::Writable { .. })));
        mode(&directory, 0o755);
        if uid != 0 {
            assert!(matches!(trusted_path(&file, uid + 1), Err(FileTrustError::Owner { .. })));
        }
    }
}
