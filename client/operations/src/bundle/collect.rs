//! Collects the files of a directory for a bundle. Does not follow symbolic links.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_files::files;
use muster_wire::limits;

use super::error::BundleFileError;
use super::manifest::{BundleFile, BundleFileMode};

/// The files of a directory.
#[derive(Debug, Default)]
pub struct BundleSourceFiles {
    /// Mode and content by path.
    pub files: BTreeMap<String, (BundleFileMode, Vec<u8>)>,
    /// Files that are not packed.
    pub left_out: Vec<PathBuf>,
}

impl BundleSourceFiles {
    /// The files in the form that bundles take.
    pub fn contents(&self) -> BTreeMap<&str, BundleFile<'_>> {
        let files = self.files.iter();
        files
            .map(|(path, (mode, bytes))| (path.as_str(), BundleFile { mode: *mode, bytes }))
            .collect()
    }

    /// The agent's name, from the only DDL.
    pub fn agent_name(&self, directory: &Path) -> Result<String, BundleFileError> {
        let ddls: Vec<&str> = self
            .files
            .keys()
            .filter(|path| !path.contains('/'))
            .filter_map(|path| path.strip_suffix(".json"))
            .collect();
        match ddls.as_slice() {
            [name] => Ok((*name).to_owned()),
            found => Err(BundleFileError::Ddls(directory.to_owned(), found.len())),
        }
    }
}

/// Reads a directory recursively, except hidden files, Python's caches, earlier bundles, and tests that `rpc plugin generate` writes.
pub fn collect_bundle_files(directory: &Path) -> Result<BundleSourceFiles, BundleFileError> {
    let mut collected = BundleSourceFiles::default();
    let mut bytes = 0;
    collect_directory(directory, "", &mut collected, &mut bytes)?;
    Ok(collected)
}

fn collect_directory(
    directory: &Path,
    prefix: &str,
    collected: &mut BundleSourceFiles,
    total: &mut usize,
) -> Result<(), BundleFileError> {
    let mut entries: Vec<DirEntry> = fs::read_dir(directory)
        .and_then(Iterator::collect)
        .map_err(files::file_error("list", directory))?;
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| BundleFileError::Unreadable(path.clone()))?;
        let kind = entry.file_type().map_err(files::file_error("inspect", &path))?;
        let relative = format!("{prefix}{name}");
        if is_left_out(&relative, name) {
            collected.left_out.push(path);
        } else if kind.is_dir() {
            // Deeper paths are rejected later, so they are not read.
            if relative.matches('/').count() < 3 {
                collect_directory(&path, &format!("{relative}/"), collected, total)?;
            }
        } else if kind.is_file() {
            let bytes = files::read_bytes(&path, limits::MAX_BUNDLE_BYTES - *total)?;
            *total += bytes.len();
            let mode = fs::metadata(&path)
                .map_err(files::file_error("inspect", &path))?
                .permissions()
                .mode();
            let mode =
                if mode & 0o111 == 0 { BundleFileMode::Data } else { BundleFileMode::Program };
            collected.files.insert(relative, (mode, bytes));
        } else {
            return Err(BundleFileError::NotRegularFile(path));
        }
    }
    Ok(())
}

fn is_left_out(relative: &str, name: &str) -> bool {
    name.starts_with('.')
        || name == "__pycache__"
        || Path::new(name).extension().is_some_and(|end| end == "bundle")
        || (relative == name && name.starts_with("test_"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{BundleFileError, BundleFileMode, collect_bundle_files};

    #[test]
    fn collects_files_with_modes_and_refuses_links() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        fs::create_dir_all(path("disk/__pycache__")).unwrap();
        for name in
            ["disk.json", "disk/run", ".git", "disk/__pycache__/x", "test_disk", "old.bundle"]
        {
            fs::write(path(name), name).unwrap();
        }
        fs::set_permissions(path("disk/run"), fs::Permissions::from_mode(0o700)).unwrap();
        let gathered = collect_bundle_files(scratch.path()).unwrap();
        let modes: Vec<_> =
            gathered.files.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
        assert_eq!(
            modes,
            [("disk.json", BundleFileMode::Data), ("disk/run", BundleFileMode::Program)]
        );
        assert_eq!(gathered.left_out.len(), 4);
        assert_eq!(gathered.agent_name(scratch.path()).unwrap(), "disk");
        symlink("/etc/passwd", path("disk/link")).unwrap();
        let refused = collect_bundle_files(scratch.path()).unwrap_err();
        assert!(matches!(refused, BundleFileError::NotRegularFile(_)), "{refused}");
    }
}
