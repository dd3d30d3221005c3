//! The record of the last deployment on disk: what it consists of, what it replaced, and whether it was confirmed. One file, replaced as a whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_contract::config::{DeployedChange, DeployedName};
use muster_files::read_regular_file;
use muster_files::replace_file;
use serde::{Deserialize, Serialize};

use crate::config::changes::{FileChange, FileContent};
use crate::config::plan::ConfigEffect;
use crate::config::programs::{StoredProgram, name_of};

/// What callers read for the daemon's program among the files of a deployment.
const PROGRAM: &str = "rpcd";
/// Largest record that is read, in bytes: the files of a deployment and of the one before, with margin.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeploymentState {
    /// It waits for the confirmation.
    Pending,
    /// Its files stay.
    Confirmed,
    /// The earlier files were restored.
    Reverted,
}

/// SHA-256 of files in hexadecimal digits, by name.
pub(crate) type FileDigests = BTreeMap<DeployedName, String>;

/// The last deployment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeploymentRecord {
    pub(crate) deployment: String,
    pub(crate) caller: String,
    pub(crate) state: DeploymentState,
    /// Milliseconds since the epoch.
    pub(crate) deployed_at: u64,
    pub(crate) confirm_by: u64,
    pub(crate) confirm_seconds: u64,
    pub(crate) effect: ConfigEffect,
    /// Why the earlier files were restored.
    #[serde(default)]
    pub(crate) reason: String,
    /// The files that the deployment consists of, and those of the one before: SHA-256 by name.
    pub(crate) files: FileDigests,
    pub(crate) earlier_files: FileDigests,
    pub(crate) replaced: Vec<ReplacedFile>,
    #[serde(default)]
    pub(crate) program: Option<ProgramChange>,
}

/// The program that the daemon ran before and after; `None` for the installed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramChange {
    pub(crate) before: Option<StoredProgram>,
    pub(crate) after: Option<StoredProgram>,
}

impl ProgramChange {
    pub(crate) fn is_change(&self) -> bool {
        self.before != self.after
    }

    pub(crate) fn undo(self) -> Self {
        Self { before: self.after, after: self.before }
    }

    pub(crate) fn describe(&self) -> DeployedChange {
        let (before, after) = (name_of(self.before.as_ref()), name_of(self.after.as_ref()));
        DeployedChange { name: PROGRAM.into(), change: format!("{before} -> {after}").into() }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReplacedFile {
    name: DeployedName,
    path: PathBuf,
    before: Option<StoredContent>,
    after: Option<StoredContent>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredContent {
    /// In base64: an earlier file need not be text.
    content: String,
    mode: u32,
}

impl StoredContent {
    fn new(content: &FileContent) -> Self {
        Self { content: BASE64_STANDARD.encode(&content.bytes), mode: content.mode }
    }

    fn read(&self) -> Option<FileContent> {
        let bytes = BASE64_STANDARD.decode(&self.content).ok()?;
        Some(FileContent { bytes, mode: self.mode })
    }
}

impl ReplacedFile {
    pub(crate) fn new(change: &FileChange) -> Self {
        Self {
            name: change.name.clone(),
            path: change.path.clone(),
            before: change.before.as_ref().map(StoredContent::new),
            after: change.after.as_ref().map(StoredContent::new),
        }
    }

    /// The change; `None` if the record was damaged.
    fn read(&self) -> Option<FileChange> {
        let content = |stored: &Option<StoredContent>| match stored {
            Some(stored) => stored.read().map(Some),
            None => Some(None),
        };
        Some(FileChange {
            name: self.name.clone(),
            path: self.path.clone(),
            before: content(&self.before)?,
            after: content(&self.after)?,
        })
    }
}

impl DeploymentRecord {
    /// The record of an earlier daemon; `None` if nothing was deployed.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match read_regular_file(path, MAX_RECORD_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        replace_file(path, &serde_json::to_vec(self)?, 0o600)
    }

    /// The files that deployments have put there and that are there now.
    pub(crate) fn files_in_force(&self) -> &FileDigests {
        match self.state {
            DeploymentState::Reverted => &self.earlier_files,
            DeploymentState::Pending | DeploymentState::Confirmed => &self.files,
        }
    }

    /// The changes that the deployment made; `None` if the record was damaged.
    pub(crate) fn changes(&self) -> Option<Vec<FileChange>> {
        self.replaced.iter().map(ReplacedFile::read).collect()
    }
}
