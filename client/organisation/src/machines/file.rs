//! Files of a machine as values: written to a directory here, or by a script or cloud-init on the machine.

use std::fmt;
use std::path::Path;

use muster_files::files;

use crate::OrganisationError;

const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// A file of a machine.
#[derive(Clone, PartialEq, Eq)]
pub struct MachineFile {
    /// Its path: absolute, or below a directory that is given when it is written.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its content.
    pub content: String,
}

impl MachineFile {
    /// A file that every user of the machine may read.
    pub fn public(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), mode: PUBLIC_MODE, content: content.into() }
    }

    /// A program that every user of the machine may run.
    pub fn program(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), mode: PROGRAM_MODE, content: content.into() }
    }

    /// A file that only its owner may read.
    pub fn secret(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), mode: SECRET_MODE, content: content.into() }
    }

    /// The same file below a directory.
    #[must_use]
    pub fn below(self, directory: &str) -> Self {
        Self { path: format!("{directory}/{}", self.path), ..self }
    }

    /// Writes the file below a directory, and creates the directories in between.
    pub(crate) fn write_below(&self, directory: &Path) -> Result<(), OrganisationError> {
        let path = directory.join(&self.path);
        if let Some(parent) = path.parent().filter(|parent| *parent != directory) {
            files::create_private_directory(parent)?;
        }
        match self.mode {
            SECRET_MODE => files::replace_secret(&path, self.content.as_bytes())?,
            _ => files::replace_public(&path, self.content.as_bytes())?,
        }
        Ok(())
    }
}

/// The content may be a secret.
impl fmt::Debug for MachineFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:04o}, {} bytes)", self.path, self.mode, self.content.len())
    }
}

/// Writes files below a directory, which only its owner may read. Existing files are replaced, in the order of the list.
pub(crate) fn write_files(
    directory: &Path,
    files: &[MachineFile],
) -> Result<(), OrganisationError> {
    files::create_private_directory(directory)?;
    files.iter().try_for_each(|file| file.write_below(directory))
}
