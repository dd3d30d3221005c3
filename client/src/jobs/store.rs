//! The job store: a directory of owner-only files, limited in number and age.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::files::{create_private_directory, file_error};
use muster_wire::Millis;
use uuid::Uuid;

use super::entry::{JobEntry, JobHeader};
use super::error::SavedJobError;
use super::job::SavedJob;
use super::journal::JobJournal;

/// Maximum number of stored jobs.
const MAX_JOBS: usize = 200;
/// Maximum age of a job.
const MAX_AGE: Duration = Duration::from_hours(90 * 24);
/// Maximum size of a file that is read, in bytes; far above the limit for writing.
const MAX_READ_BYTES: u64 = 256 * 1024 * 1024;
/// Maximum size of a job's first line that is read, in bytes.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;
/// End of the file names of jobs.
const FILE_SUFFIX: &str = ".jsonl";

/// The jobs of one user.
#[derive(Debug, Clone)]
pub struct JobStore {
    directory: PathBuf,
}

/// Returns a new job's id, sortable by time: `20260131-235959-3f9a2c`. The last part is made of the milliseconds and 14 random bits.
pub fn new_job_id(now: Millis) -> String {
    let instant =
        i64::try_from(now).ok().and_then(|now| jiff::Timestamp::from_millisecond(now).ok());
    let time = instant.unwrap_or_default().strftime("%Y%m%d-%H%M%S");
    let random = Uuid::now_v7().as_u128() & 0x3fff;
    let rest = (u128::from(now % 1000) << 14) | random;
    format!("{time}-{rest:06x}")
}

impl JobStore {
    /// Creates a store below the user's state directory. Creates no files.
    pub fn new(state_home: Option<&Path>) -> Result<Self, SavedJobError> {
        let home = state_home.ok_or(SavedJobError::NoStateDirectory)?;
        Ok(Self { directory: home.join("muster/jobs") })
    }

    /// Begins a job, and deletes jobs that are too old or too many.
    pub fn begin_job(&self, header: JobHeader) -> Result<JobJournal, SavedJobError> {
        create_private_directory(&self.directory)?;
        self.prune_jobs(header.started);
        let id = header.id.clone();
        let (file, path) = self.open_locked(
            &id,
            "create",
            OpenOptions::new().append(true).create_new(true).mode(0o600),
        )?;
        let mut journal = JobJournal::new(file, path, id, 0);
        journal.append_entry(&JobEntry::Job(Box::new(header)))?;
        Ok(journal)
    }

    /// Opens an interrupted job to continue it. Truncates an incomplete last line.
    pub fn resume_job(
        &self,
        reference: &str,
        now: Millis,
    ) -> Result<(SavedJob, JobJournal), SavedJobError> {
        let id = self.resolve_id(reference)?;
        let (mut file, path) =
            self.open_locked(&id, "open", OpenOptions::new().read(true).append(true))?;
        let bytes = read_job_file(&mut file, &path)?;
        let job =
            SavedJob::from_bytes(&bytes).ok_or_else(|| SavedJobError::NotAJob(path.clone()))?;
        let torn_bytes = bytes.iter().rev().take_while(|byte| **byte != b'\n').count();
        let complete_bytes = bytes.len() - torn_bytes;
        file.set_len(complete_bytes as u64)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(file_error("write", &path))?;
        let mut journal = JobJournal::new(file, path, id, complete_bytes);
        journal.append_entry(&JobEntry::Resumed { time: now })?;
        Ok((job, journal))
    }

    /// Reads the job with this id or id prefix, or the newest job with this name.
    pub fn load_job(&self, reference: &str) -> Result<SavedJob, SavedJobError> {
        self.open_job(&self.resolve_id(reference)?)
    }

    /// Returns the newest job that sent this request; skips unreadable jobs.
    pub fn find_by_request(&self, request: &str) -> Result<Option<SavedJob>, SavedJobError> {
        let ids = self.job_ids()?;
        let mut jobs = ids.iter().rev().filter_map(|id| self.open_job(id).ok());
        Ok(jobs.find(|job| job.request_ids().contains(&request)))
    }

    /// Returns all jobs, newest first, and the errors of unreadable ones.
    pub fn list_jobs(&self) -> Result<(Vec<SavedJob>, Vec<SavedJobError>), SavedJobError> {
        let mut ids = self.job_ids()?;
        ids.reverse();
        let (mut jobs, mut errors) = (Vec::new(), Vec::new());
        for id in ids {
            match self.open_job(&id) {
                Ok(job) => jobs.push(job),
                Err(error) => errors.push(error),
            }
        }
        Ok((jobs, errors))
    }

    /// Returns the headers of the newest jobs, newest first; skips unreadable jobs.
    pub fn recent_headers(&self, limit: usize) -> Result<Vec<JobHeader>, SavedJobError> {
        let ids = self.job_ids()?;
        Ok(ids.iter().rev().take(limit).filter_map(|id| read_header(&self.job_path(id))).collect())
    }

    /// Deletes a job that is not running. Returns its id.
    pub fn forget_job(&self, reference: &str) -> Result<String, SavedJobError> {
        let id = self.resolve_id(reference)?;
        let (_lock, path) = self.open_locked(&id, "open", OpenOptions::new().read(true))?;
        fs::remove_file(&path).map_err(file_error("remove", &path))?;
        Ok(id)
    }

    /// Deletes all jobs that are not running. Returns their ids.
    pub fn forget_all_jobs(&self) -> Result<Vec<String>, SavedJobError> {
        let mut forgotten = Vec::new();
        for id in self.job_ids()? {
            match self.forget_job(&id) {
                Ok(id) => forgotten.push(id),
                Err(SavedJobError::Running(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(forgotten)
    }

    /// Opens a job's file, and locks it until it is closed.
    fn open_locked(
        &self,
        id: &str,
        action: &'static str,
        options: &OpenOptions,
    ) -> Result<(File, PathBuf), SavedJobError> {
        let path = self.job_path(id);
        let file = options.open(&path).map_err(file_error(action, &path))?;
        match file.try_lock() {
            Ok(()) => Ok((file, path)),
            Err(TryLockError::WouldBlock) => Err(SavedJobError::Running(id.to_owned())),
            Err(TryLockError::Error(source)) => Err(file_error("lock", &path)(source).into()),
        }
    }

    fn open_job(&self, id: &str) -> Result<SavedJob, SavedJobError> {
        let path = self.job_path(id);
        let mut file = File::open(&path).map_err(file_error("open", &path))?;
        let running = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let bytes = read_job_file(&mut file, &path)?;
        let job = SavedJob::from_bytes(&bytes).ok_or(SavedJobError::NotAJob(path))?;
        Ok(SavedJob { running, ..job })
    }

    /// Resolves a reference to an id.
    fn resolve_id(&self, reference: &str) -> Result<String, SavedJobError> {
        let ids = self.job_ids()?;
        if ids.iter().any(|id| id == reference) {
            return Ok(reference.to_owned());
        }
        let has_prefix = |id: &&String| !reference.is_empty() && id.starts_with(reference);
        let found: Vec<String> = ids.iter().filter(has_prefix).cloned().collect();
        match found.as_slice() {
            [id] => return Ok(id.clone()),
            [] => {}
            _ => return Err(SavedJobError::Ambiguous { given: reference.to_owned(), found }),
        }
        // Ids begin with a digit and names with a letter, so they cannot be confused.
        let has_name = |id: &&String| {
            let name = self.open_job(id).ok().and_then(|job| job.header.name);
            name.is_some_and(|name| name.as_str() == reference)
        };
        let found = ids.iter().rev().find(has_name).cloned();
        found.ok_or_else(|| SavedJobError::Unknown(reference.to_owned()))
    }

    /// All ids, oldest first. A missing directory counts as empty.
    fn job_ids(&self) -> Result<Vec<String>, SavedJobError> {
        let failed = file_error("read", &self.directory);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error).into()),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let path = entry.map_err(&failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            ids.extend(name.and_then(|name| Some(name.strip_suffix(FILE_SUFFIX)?.to_owned())));
        }
        ids.sort();
        Ok(ids)
    }

    fn job_path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{FILE_SUFFIX}"))
    }

    /// Deletes jobs that are too old or too many, except running ones. Jobs that cannot be deleted now remain until the next call.
    fn prune_jobs(&self, now: Millis) {
        let age = Millis::try_from(MAX_AGE.as_millis()).unwrap_or(Millis::MAX);
        let oldest = new_job_id(now.saturating_sub(age));
        let ids = self.job_ids().unwrap_or_default();
        let excess = (ids.len() + 1).saturating_sub(MAX_JOBS);
        for (index, id) in ids.iter().enumerate() {
            if index < excess || *id < oldest {
                let _ = self.forget_job(id);
            }
        }
    }
}

/// Reads the first line of a job's file.
fn read_header(path: &Path) -> Option<JobHeader> {
    let mut line = Vec::new();
    let file = BufReader::new(File::open(path).ok()?);
    file.take(MAX_HEADER_BYTES).read_until(b'\n', &mut line).ok()?;
    match serde_json::from_slice(&line).ok()? {
        JobEntry::Job(header) => Some(*header),
        _ => None,
    }
}

/// Reads the whole file. A file above the size limit is truncated there.
fn read_job_file(file: &mut File, path: &Path) -> Result<Vec<u8>, SavedJobError> {
    Ok(muster_files::read_prefix(file, MAX_READ_BYTES).map_err(file_error("read", path))?)
}

#[cfg(test)]
mod tests;
