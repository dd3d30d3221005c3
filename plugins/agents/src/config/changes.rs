//! The files of a deployment compared with those on disk, and their replacement: all new files are written before the first one is renamed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use muster_api::base::encode_hex;
use muster_contract::config::{
    ConfigDeployInput, DeployedChange, DeployedName, DeployedNameError, MAX_DEPLOYED_BYTES,
    MAX_DEPLOYED_FILES,
};
use muster_files::read_regular_file;
use muster_files::{StagedFile, sync_parent_directory};
use sha2::{Digest as _, Sha256};

use crate::config::error::DeployError;

const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Permission bits of files; those of packages are the same.
const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;
/// Permission bits of directories that are missing.
const DIRECTORY_MODE: u32 = 0o755;

/// A file that is to have another content than now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub name: DeployedName,
    pub path: PathBuf,
    /// What it has now; `None` if it does not exist.
    pub before: Option<FileContent>,
    /// What it is to have; `None` removes it.
    pub after: Option<FileContent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

impl FileContent {
    /// A file that everybody may read, with this text.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self { bytes: text.into(), mode: FILE_MODE }
    }

    /// SHA-256 of the bytes in hexadecimal digits.
    pub(crate) fn digest(&self) -> String {
        encode_hex(Sha256::digest(&self.bytes))
    }
}

/// What happens to a name that is a symbolic link: something else manages the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkedFiles {
    /// Nothing is changed.
    Refuse,
    /// The link itself is replaced, not what it leads to.
    Replace,
}

pub type DeployedFiles = BTreeMap<DeployedName, FileContent>;

#[derive(Debug, thiserror::Error)]
pub enum FileChangeError {
    /// It is something else, such as a link that another tool manages.
    #[error("{} is not a regular file but a link, a directory or a device; replace it by a file, or leave it out", .0.display())]
    NotRegular(PathBuf),
    #[error(transparent)]
    Name(#[from] DeployedNameError),
    #[error("cannot read or replace {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Checks the names and sizes of a deployment.
pub(crate) fn read_files(input: &ConfigDeployInput) -> Result<DeployedFiles, DeployError> {
    let (files, bytes) = (input.files.len(), input.files.values().map(String::len).sum::<usize>());
    if files > MAX_DEPLOYED_FILES {
        return Err(DeployError::TooMany(files));
    }
    if bytes > MAX_DEPLOYED_BYTES {
        return Err(DeployError::TooLarge(bytes));
    }
    if let Some(name) = input.executables.iter().find(|name| !input.files.contains_key(*name)) {
        return Err(DeployError::UnknownProgram(name.clone()));
    }
    let parse = |(name, text): (&String, &String)| {
        let mut content = FileContent::text(text.as_str());
        if input.executables.contains(name) {
            content.mode = PROGRAM_MODE;
        }
        Ok((DeployedName::parse(name)?, content))
    };
    let files: Result<_, DeployedNameError> = input.files.iter().map(parse).collect();
    Ok(files?)
}

/// The differences between these files and those on disk. Of the files that were there earlier, those that are missing now are to vanish.
pub fn compare_files<'a>(
    files: &'a DeployedFiles,
    earlier: impl IntoIterator<Item = &'a DeployedName>,
    locate: impl Fn(&DeployedName) -> PathBuf,
    links: LinkedFiles,
) -> Result<Vec<FileChange>, FileChangeError> {
    let wanted = files.iter().map(|(name, content)| (name, Some(content)));
    let removed = earlier.into_iter().filter(|name| !files.contains_key(*name));
    let mut changes = Vec::new();
    for (name, after) in wanted.chain(removed.map(|name| (name, None))) {
        let path = locate(name);
        let is_replaced_link = links == LinkedFiles::Replace && path.is_symlink();
        let before = if is_replaced_link { None } else { read_content(&path)? };
        if is_replaced_link || before.as_ref() != after {
            changes.push(FileChange { name: name.clone(), path, before, after: after.cloned() });
        }
    }
    changes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(changes)
}

/// The content of a file; `None` if it does not exist.
pub(crate) fn read_content(path: &Path) -> Result<Option<FileContent>, FileChangeError> {
    let failed = |source| FileChangeError::Io { path: path.to_owned(), source };
    let found: Metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(failed)?,
    };
    if !found.is_file() {
        return Err(FileChangeError::NotRegular(path.to_owned()));
    }
    let bytes = read_regular_file(path, MAX_FILE_BYTES).map_err(failed)?;
    Ok(Some(FileContent { bytes, mode: found.mode() & 0o7777 }))
}

/// Replaces the files; a write error, such as a full disk, changes none of them.
pub fn replace_files(changes: &[FileChange]) -> Result<(), FileChangeError> {
    let mut staged = Vec::with_capacity(changes.len());
    for change in changes {
        let failed = |source| FileChangeError::Io { path: change.path.clone(), source };
        staged.push((change, change.stage().map_err(failed)?));
    }
    for (change, staged) in staged {
        let replaced = match staged {
            Some(staged) => staged.commit(),
            None => remove_file(&change.path),
        };
        replaced.map_err(|source| FileChangeError::Io { path: change.path.clone(), source })?;
    }
    Ok(())
}

pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_parent_directory(path),
    }
}

impl FileChange {
    /// Writes the new content under a temporary name; `None` if the file is to be removed.
    fn stage(&self) -> io::Result<Option<StagedFile>> {
        let Some(content) = &self.after else { return Ok(None) };
        if let Some(directory) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        }
        StagedFile::write(&self.path, &content.bytes, content.mode).map(Some)
    }

    /// The change that undoes this one; `None` if there is nothing to undo, or if something else has changed the file since.
    pub(crate) fn undo(self) -> Result<Option<Self>, FileChangeError> {
        let found = read_content(&self.path)?;
        let is_as_deployed = found == self.after && found != self.before;
        Ok(is_as_deployed.then_some(Self { before: self.after, after: self.before, ..self }))
    }

    /// The new text; `None` if the file is removed.
    pub fn new_text(&self) -> Option<Cow<'_, str>> {
        self.after.as_ref().map(|content| String::from_utf8_lossy(&content.bytes))
    }

    pub(crate) fn describe(&self) -> DeployedChange {
        let change = match (&self.before, &self.after) {
            (None, _) => "added",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
        };
        DeployedChange { name: self.name.to_string().into(), change: change.into() }
    }
}
