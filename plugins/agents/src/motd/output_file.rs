//! Writes a text to its file: atomically, only if it differs, and without losing a file of the administrator.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use muster_api::system::error::found_or_none;
use muster_api::system::{
    FileAttributes, FileEntryKind, FileMetadata, System, SystemError, SystemResult,
};
use muster_files::replace_file;

use crate::motd::template::MAX_TEXT_BYTES;

/// Everyone reads these files.
const OUTPUT_MODE: u32 = 0o644;
/// Mode of directories that are created.
const DIRECTORY_MODE: u32 = 0o755;
/// Added to the name of a file that existed before the first text was written.
const BACKUP_SUFFIX: &str = ".before-muster";
/// Largest file that is kept as a backup, in bytes.
const MAX_BACKUP_BYTES: u64 = 1024 * 1024;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The operating system refused it.
    #[error("cannot write {}", path.display())]
    System { path: PathBuf, source: SystemError },
    /// A directory, a link or a device has the name.
    #[error("cannot write {}: it is not a regular file; name the file itself in plugins.motd.outputs", path.display())]
    NotAFile { path: PathBuf },
    /// The list of written files cannot be stored.
    #[error("cannot write {}", path.display())]
    Record { path: PathBuf, source: io::Error },
}

/// Writes files, and remembers which ones it wrote, so that the first text does not destroy a file of the administrator.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    /// The list of written files, on the host.
    record: PathBuf,
}

impl OutputWriter {
    pub(crate) fn new(record: PathBuf) -> Self {
        Self { record }
    }

    /// Writes the text if the file differs. Returns whether it changed. An empty text creates no file.
    pub(crate) fn write_text(
        &self,
        system: &dyn System,
        path: &Path,
        text: &str,
    ) -> Result<bool, OutputError> {
        let failed = |source| OutputError::System { path: path.to_owned(), source };
        let found = system.metadata(path).map_err(failed)?;
        match found {
            None if text.is_empty() => return Ok(false),
            Some(found) if found.kind != FileEntryKind::File => {
                return Err(OutputError::NotAFile { path: path.to_owned() });
            }
            Some(found) if has_text(system, path, &found, text).map_err(failed)? => {
                return Ok(false);
            }
            _ => {}
        }
        if !self.is_written(path) {
            if found.is_some() {
                keep_backup(system, path).map_err(failed)?;
            }
            self.record_path(path)?;
        }
        if let Some(directory) = path.parent() {
            create_directories(system, directory).map_err(failed)?;
        }
        let attributes = FileAttributes::with_mode(OUTPUT_MODE);
        system.write_file(path, text.as_bytes(), &attributes).map_err(failed)?;
        Ok(true)
    }

    /// A record that cannot be read counts as empty: then a backup is made, unless there is one.
    fn written_paths(&self) -> String {
        std::fs::read_to_string(&self.record).unwrap_or_default()
    }

    fn is_written(&self, path: &Path) -> bool {
        self.written_paths().lines().any(|line| Path::new(line) == path)
    }

    fn record_path(&self, path: &Path) -> Result<(), OutputError> {
        let list = format!("{}{}\n", self.written_paths(), path.display());
        // Without systemd, or before the daemon's first start, there is no state directory yet.
        let created = match self.record.parent() {
            Some(directory) => DirBuilder::new().recursive(true).mode(0o700).create(directory),
            None => Ok(()),
        };
        created
            .and_then(|()| replace_file(&self.record, list.as_bytes(), 0o600))
            .map_err(|source| OutputError::Record { path: self.record.clone(), source })
    }
}

fn has_text(
    system: &dyn System,
    path: &Path,
    found: &FileMetadata,
    text: &str,
) -> SystemResult<bool> {
    let is_candidate = found.mode == OUTPUT_MODE && found.size == text.len() as u64;
    Ok(is_candidate && system.read_file(path, MAX_TEXT_BYTES as u64)? == text.as_bytes())
}

/// Copies the file, unless a backup exists.
fn keep_backup(system: &dyn System, path: &Path) -> SystemResult<()> {
    let mut backup = path.as_os_str().to_owned();
    backup.push(BACKUP_SUFFIX);
    let backup = Path::new(&backup);
    if system.metadata(backup)?.is_some() {
        return Ok(());
    }
    let content = system.read_file(path, MAX_BACKUP_BYTES)?;
    system.write_file(backup, &content, &FileAttributes::with_mode(OUTPUT_MODE))
}

fn create_directories(system: &dyn System, directory: &Path) -> SystemResult<()> {
    if found_or_none(system.metadata(directory))?.flatten().is_some() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        create_directories(system, parent)?;
    }
    system.create_dir(directory, &FileAttributes::with_mode(DIRECTORY_MODE))
}
