//! The directory with the files of a deployment: `policies/`, `facts.d/`, `checks.d/`, `conf.d/` and `ca.pem`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_contract::config::{DeployedName, DeployedNameError, MAX_DEPLOYED_BYTES};
use muster_files::read_regular_file;

/// The files of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeployDirectory {
    /// Texts by name.
    pub files: BTreeMap<String, String>,
    /// The names of those that are programs.
    pub executables: BTreeSet<String>,
}

/// Why a directory cannot be deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployDirectoryError {
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is for nothing that nodes read.
    #[error("cannot deploy {}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: DeployedNameError,
    },
    /// A file is not UTF-8.
    #[error("{} is not a text in UTF-8", .0.display())]
    NotText(PathBuf),
    /// There is no file: every file of the deployment before would be removed.
    #[error("{} has no files that can be deployed: policies/, facts.d/, checks.d/, conf.d/ or ca.pem", .0.display())]
    Empty(PathBuf),
}

impl DeployDirectory {
    /// Reads a directory. Hidden files, such as `.git`, are left out.
    pub fn read(directory: &Path) -> Result<Self, DeployDirectoryError> {
        let mut found = Self::default();
        for path in list_directory(directory)? {
            if path.is_dir() {
                for path in list_directory(&path)? {
                    found.add(directory, &path)?;
                }
            } else {
                found.add(directory, &path)?;
            }
        }
        if found.files.is_empty() {
            return Err(DeployDirectoryError::Empty(directory.to_owned()));
        }
        Ok(found)
    }

    fn add(&mut self, directory: &Path, path: &Path) -> Result<(), DeployDirectoryError> {
        let read_error = |source| DeployDirectoryError::Read { path: path.to_owned(), source };
        let name = path.strip_prefix(directory).unwrap_or(path).to_string_lossy();
        let name = DeployedName::parse(&name)
            .map_err(|source| DeployDirectoryError::Name { path: path.to_owned(), source })?;
        let mode = fs::metadata(path).map_err(read_error)?.permissions().mode();
        // Linked files are deployed as files.
        let path = fs::canonicalize(path).map_err(read_error)?;
        let bytes = read_regular_file(&path, MAX_DEPLOYED_BYTES as u64).map_err(read_error)?;
        let text = String::from_utf8(bytes).map_err(|_| DeployDirectoryError::NotText(path))?;
        if mode & 0o111 != 0 {
            self.executables.insert(name.to_string());
        }
        self.files.insert(name.to_string(), text);
        Ok(())
    }
}

/// The entries of a directory that are not hidden, by name.
fn list_directory(directory: &Path) -> Result<Vec<PathBuf>, DeployDirectoryError> {
    let failed = |source| DeployDirectoryError::Read { path: directory.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::DeployDirectory;

    #[test]
    fn files_are_read_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let problem = || DeployDirectory::read(scratch.path()).unwrap_err().to_string();
        assert!(problem().ends_with("or ca.pem"), "{}", problem());
        write(".git/config", b"");
        write("policies/groups", b"sysadmins rip\n");
        write("policies/.groups.swp", b"");
        write("facts.d/rack", b"#!/bin/sh\necho rack=1\n");
        let rack = scratch.path().join("facts.d/rack");
        fs::set_permissions(&rack, Permissions::from_mode(0o755)).unwrap();
        let found = DeployDirectory::read(scratch.path()).unwrap();
        assert_eq!(found.files.keys().collect::<Vec<_>>(), ["facts.d/rack", "policies/groups"]);
        assert_eq!(found.executables.iter().collect::<Vec<_>>(), ["facts.d/rack"]);
        for (name, text, expected) in [
            ("README.md", &b""[..], "cannot deploy"),
            ("policies/deep/x.policy", b"", "cannot deploy"),
            ("facts.d/binary", b"\xff", "UTF-8"),
        ] {
            write(name, text);
            assert!(problem().contains(expected), "{name}: {}", problem());
            fs::remove_file(scratch.path().join(name)).unwrap();
            let _ = fs::remove_dir(scratch.path().join("policies/deep"));
        }
    }
}
