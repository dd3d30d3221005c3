//! Hands requests of manifests to the daemon: a file for each in a directory, so that it works while the daemon does not run.
//!
//! A file is written under a hidden name, synced and renamed. The daemon removes it after the request is in its journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_api::system::{StateDir, SystemError, SystemResult};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::again::plan::request::AgainRequest;

/// The directory, in that of the agent.
const SPOOL_DIRECTORY: &str = "requests";
const MAX_REQUEST_BYTES: u64 = 64 * 1024;
/// Most requests that are read at once; the others follow.
const MAX_BATCH: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum HandedOver {
    /// Another run is asked for.
    Request { request: Box<AgainRequest> },
    Cancel {
        /// Its id here, for the name of the file.
        id: Uuid,
        /// Only if a request has this group.
        group: Option<String>,
        by: String,
    },
}

/// Every call blocks on the disk.
#[derive(Debug, Clone)]
pub struct RequestSpool(PathBuf);

#[derive(Debug)]
pub struct SpooledRequest {
    pub name: String,
    /// What it has, or why it cannot be read.
    pub content: Result<HandedOver, String>,
}

impl RequestSpool {
    /// The directory below that of the agent.
    pub fn new(directory: &Path) -> Self {
        Self(directory.join(SPOOL_DIRECTORY))
    }

    /// The request is on disk on return.
    pub fn hand_over(&self, content: &HandedOver) -> SystemResult<()> {
        let id = match content {
            HandedOver::Request { request } => request.id,
            HandedOver::Cancel { id, .. } => *id,
        };
        StateDir::open(&self.0)?.replace_record(&format!("{id}.json"), content)
    }

    /// The requests in the order in which they were made.
    pub fn read_requests(&self) -> SystemResult<Vec<SpooledRequest>> {
        if !self.0.is_dir() {
            return Ok(Vec::new());
        }
        let directory = StateDir::open(&self.0)?;
        let mut names = self.list_requests()?;
        // The ids begin with the time.
        names.sort_unstable();
        names.truncate(MAX_BATCH);
        let read = |name: String| {
            let content = match directory.read_file(&name, MAX_REQUEST_BYTES) {
                Ok(Some(bytes)) => {
                    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
                }
                Ok(None) => Err("the file is gone".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            SpooledRequest { name, content }
        };
        Ok(names.into_iter().map(read).collect())
    }

    /// The names of files that can be requests. A directory or a name that is not text is none: it could neither be read nor removed, and the requests
    /// after it would wait.
    fn list_requests(&self) -> SystemResult<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.0)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let is_request = !name.starts_with('.')
                    && Path::new(&name).extension().is_some_and(|end| end == "json");
                if is_request && !entry.file_type()?.is_dir() {
                    names.push(name);
                }
            }
            Ok(names)
        };
        list().map_err(|source| SystemError::File { verb: "list", path: self.0.clone(), source })
    }

    pub fn remove(&self, name: &str) -> SystemResult<()> {
        StateDir::open(&self.0)?.remove_file(name)
    }
}
