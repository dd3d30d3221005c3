//! Records which request was signed for a name.
//!
//! The authority deletes requests when it signs them, so later calls could not match a certificate to its request. The record is written
//! before signing, so that a repeated call after a crash succeeds.

use std::path::PathBuf;

use muster_api::system::{StateDir, SystemResult};
use serde::{Deserialize, Serialize};

use crate::puppetca::name::CertName;

const MAX_RECORD_BYTES: u64 = 4096;

/// The records, one file per name.
#[derive(Debug)]
pub(crate) struct SigningRecordStore {
    directory: PathBuf,
}

/// The request that is about to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SigningRecord {
    pub(crate) fingerprint: String,
    pub(crate) public_key: String,
}

impl SigningRecordStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Syncs the record to disk.
    pub(crate) fn write_record(&self, name: &CertName, record: &SigningRecord) -> SystemResult<()> {
        StateDir::open(&self.directory)?.replace_record(name.as_str(), record)
    }

    /// The record of a name, if it exists and can be read.
    pub(crate) fn read_record(&self, name: &CertName) -> SystemResult<Option<SigningRecord>> {
        StateDir::open(&self.directory)?.read_record(name.as_str(), MAX_RECORD_BYTES)
    }

    pub(crate) fn remove_record(&self, name: &CertName) -> SystemResult<()> {
        StateDir::open(&self.directory)?.remove_file(name.as_str())
    }
}
