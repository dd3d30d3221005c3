//! Which files are agents, and who could have written them. Looks at names, owners and modes; reads no content.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How deep below `mcollective/agent` DDLs are looked for.
const DEPTH: usize = 3;

/// What tells that a file is not the one that was read before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Files with what they looked like; nothing for one that is not there.
pub(super) type Stamps = Vec<(PathBuf, Option<Stamp>)>;

/// Why a file is not believed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    /// It cannot be looked at.
    #[error("cannot look at {}", path.display())]
    Look {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Somebody else could have written it.
    #[error("{} belongs to user {uid}; it must belong to root or to the daemon's user", path.display())]
    Owner { path: PathBuf, uid: u32 },
    /// Somebody else could write it.
    #[error("{} can be written by others (mode {mode:o}); chmod go-w it", path.display())]
    Writable { path: PathBuf, mode: u32 },
}

/// The DDLs' files in these directories, the first of each name.
pub(super) fn ddls(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories {
        collect(directory, 0, &mut found);
        collect(&directory.join("mcollective/agent"), DEPTH, &mut found);
    }
    let mut names = BTreeSet::new();
    found.retain(|path| {
        path.file_stem()
            .is_some_and(|name| names.insert(name.to_owned()))
    });
    found
}

/// A directory that is not there, or not for us, has no agents.
fn collect(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
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
                collect(&path, depth - 1, found);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
}

/// How the files look now.
pub(super) fn stamps<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Stamps {
    let look = |path: &PathBuf| {
        (
            path.clone(),
            std::fs::metadata(path).ok().as_ref().map(stamp),
        )
    };
    paths.into_iter().map(look).collect()
}

fn stamp(found: &Metadata) -> Stamp {
    Stamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    }
}

/// The file without links in its path, if nobody but root and `uid` can change it or replace it.
pub(super) fn believed(path: &Path, uid: u32) -> Result<PathBuf, PlaceError> {
    let look = |path: &Path, source| PlaceError::Look {
        path: path.to_owned(),
        source,
    };
    let path = path.canonicalize().map_err(|source| look(path, source))?;
    for (above, part) in path.ancestors().enumerate() {
        let found = std::fs::metadata(part).map_err(|source| look(part, source))?;
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        if owner != 0 && owner != uid {
            return Err(PlaceError::Owner {
                path: part.to_owned(),
                uid: owner,
            });
        }
        // In a directory such as /tmp everybody may make files, and nobody replace another's.
        let sticky = above > 0 && mode & 0o1000 != 0;
        if mode & 0o022 != 0 && !sticky {
            return Err(PlaceError::Writable {
                path: part.to_owned(),
                mode,
            });
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{PlaceError, believed, ddls};

    #[test]
    fn ddls_are_found_where_choria_keeps_them_and_each_name_once() {
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
        let found = ddls(&[path("a"), path("b"), path("gone")]);
        let names = [
            "a/one.json",
            "a/mcollective/agent/deep/er/three.json",
            "a/mcollective/agent/two.json",
            "b/four.json",
        ];
        assert_eq!(found, names.map(path).to_vec());
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
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
        assert!(believed(&file, uid).is_ok());
        mode(&file, 0o775);
        assert!(matches!(
            believed(&file, uid),
            Err(PlaceError::Writable { .. })
        ));
        mode(&file, 0o755);
        mode(&directory, 0o777);
        assert!(matches!(
            believed(&file, uid),
            Err(PlaceError::Writable { .. })
        ));
        mode(&directory, 0o755);
        if uid != 0 {
            assert!(matches!(
                believed(&file, uid + 1),
                Err(PlaceError::Owner { .. })
            ));
        }
    }
}
