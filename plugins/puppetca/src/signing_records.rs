//! Which request was signed for a name: written before it is signed, so that asking again after a crash is answered and not refused.
//!
//! The authority throws requests away when it signs them. Without this, nobody could tell afterwards whose certificate it is.

use std::path::PathBuf;

use muster_api::system::{StateDir, SystemError};
use serde::{Deserialize, Serialize};

use crate::name::CertName;

/// Largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 4096;

/// The records, a file for each name.
#[derive(Debug)]
pub(crate) struct SigningRecordStore {
    directory: PathBuf,
}

/// What was meant to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SigningRecord {
    pub(crate) fingerprint: String,
    pub(crate) public_key: String,
}

impl SigningRecordStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Writes a record, on the disk when it returns.
    pub(crate) fn write_record(
        &self,
        name: &CertName,
        record: &SigningRecord,
    ) -> Result<(), SystemError> {
        let text = serde_json::to_vec(record).unwrap_or_default();
        StateDir::open(&self.directory)?.replace_file(name.as_str(), &text)
    }

    /// The record of a name, if there is one that can be read.
    pub(crate) fn read_record(
        &self,
        name: &CertName,
    ) -> Result<Option<SigningRecord>, SystemError> {
        let text = StateDir::open(&self.directory)?.read_file(name.as_str(), MAX_RECORD_BYTES)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// The name is done with.
    pub(crate) fn remove_record(&self, name: &CertName) -> Result<(), SystemError> {
        StateDir::open(&self.directory)?.remove_file(name.as_str())
    }
}
