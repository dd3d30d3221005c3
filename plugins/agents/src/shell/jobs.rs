//! Jobs: programs that outlive the call that started them, and the daemon. Each job has a directory in the daemon's state directory:
//! `job.json` is its record, and the spool holds its output and exit code.
//!
//! Whether a job still runs is determined by PID and process start time, so jobs survive a restart of the daemon and a reused PID is not
//! mistaken for the job.

use muster_api::base::{count_text, unix_millis};
use muster_files::{read_prefix, replace_file};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_api::system::command::OutputStream;
use muster_api::system::process::wait_until;
use muster_api::system::{Command, ProcessId, ProcessSpool, Signal, System, SystemError};
use muster_api::wire::token::UserRole;
use muster_api::{ActionError, CallContext, RequestOwner};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::shell::Options;

const RECORD_FILE: &str = "job.json";
/// File with the signal that ended the job, for the case that the job's shell could not record its exit.
const KILL_SIGNAL_FILE: &str = "killed";
/// Largest record in bytes.
const MAX_RECORD_BYTES: u64 = 1024 * 1024;
/// Time for a job to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// All jobs of the node.
#[derive(Debug)]
pub(crate) struct ShellJobStore {
    directory: PathBuf,
    options: Options,
    /// Held while a job is added, so that concurrent calls cannot exceed the job limit.
    start_lock: Mutex<()>,
}

/// The stored record of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ShellJobRecord {
    pub(crate) job: String,
    /// Identifier of the request that started the job.
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    /// The caller's role: a service may have a caller's name.
    #[serde(default = "default_role")]
    role: String,
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<String>,
    /// Start time in milliseconds since 1970.
    pub(crate) started: u64,
    /// `None` if the daemon ended while the job was being started.
    process: Option<ProcessId>,
}

/// The role in records of versions that did not store it.
fn default_role() -> String {
    UserRole::Caller.to_string()
}

impl ShellJobRecord {
    fn belongs_to(&self, owner: &RequestOwner) -> bool {
        self.caller == owner.name.as_str() && self.role == owner.role.as_str()
    }
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellJobState {
    Running,
    /// Exited with this code; 128 + signal if a signal ended it.
    Exited(i32),
    /// Ended by `kill` with this signal, together with every process in its session.
    Killed(i32),
    /// Gone without a recorded exit, for example after a reboot.
    Lost,
}

/// A job cannot be read or started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellJobError {
    #[error("this node has no job {0}")]
    Unknown(String),
    #[error("{}; [plugins.shell] allows {limit}", count_text(*.running, "job is already running", "jobs are already running"))]
    Full { running: usize, limit: usize },
    #[error("cannot read or write the jobs in {}", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<ShellJobError> for ActionError {
    fn from(error: ShellJobError) -> Self {
        match error {
            ShellJobError::Unknown(_) => Self::invalid_input(error.to_string()),
            _ => Self::from_cause(error),
        }
    }
}

impl ShellJobStore {
    pub(crate) fn new(directory: PathBuf, options: Options) -> Self {
        Self { directory, options, start_lock: Mutex::default() }
    }

    /// Starts a job. Every method here blocks.
    pub(crate) fn start_job(
        &self,
        cx: &CallContext,
        command: &Command,
        argv: Vec<String>,
        user: Option<String>,
    ) -> Result<ShellJobRecord, ShellJobError> {
        let _guard = self.start_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.evict_ended(&*cx.system)?;
        let id = Uuid::now_v7().simple().to_string().split_off(20);
        let directory = self.directory.join(&id);
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&directory)
            .map_err(|source| files_error(&directory, source))?;
        let mut record = ShellJobRecord {
            job: id,
            request: cx.request,
            caller: cx.caller.to_string(),
            role: cx.owner().role.to_string(),
            command: argv,
            user,
            started: unix_millis(cx.system.now()),
            process: None,
        };
        // Written before the start, so that a job is recorded even if the daemon ends in between.
        write_record(&directory, &record)?;
        let spool = ProcessSpool { directory: directory.clone(), limit: self.options.spool_bytes };
        match cx.system.start_detached(command, &spool) {
            Ok(process) => {
                record.process = Some(process);
                write_record(&directory, &record)?;
                Ok(record)
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                Err(error.into())
            }
        }
    }

    /// The jobs that this user started, oldest first.
    pub(crate) fn list_for_caller(
        &self,
        owner: &RequestOwner,
    ) -> Result<Vec<ShellJobRecord>, ShellJobError> {
        let mut records = self.list_jobs()?;
        records.retain(|record| record.belongs_to(owner));
        Ok(records)
    }

    /// The job with this identifier, if this user started it. A job of another user gives the same error as a missing one.
    pub(crate) fn get_for_caller(
        &self,
        job: &str,
        owner: &RequestOwner,
    ) -> Result<ShellJobRecord, ShellJobError> {
        let record = self.get_job(job)?;
        if record.belongs_to(owner) {
            return Ok(record);
        }
        Err(ShellJobError::Unknown(job.to_owned()))
    }

    /// All recorded jobs, oldest first.
    fn list_jobs(&self) -> Result<Vec<ShellJobRecord>, ShellJobError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(files_error(&self.directory, source)),
        };
        let mut records: Vec<ShellJobRecord> =
            entries.filter_map(|entry| read_record(&entry.ok()?.path()).ok()).collect();
        records.sort_by(|a, b| (a.started, &a.job).cmp(&(b.started, &b.job)));
        Ok(records)
    }

    /// The job with this identifier.
    fn get_job(&self, job: &str) -> Result<ShellJobRecord, ShellJobError> {
        let unknown = || ShellJobError::Unknown(job.to_owned());
        // The identifier becomes a path component.
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(unknown());
        }
        read_record(&self.directory.join(job)).map_err(|_| unknown())
    }

    /// The current state of a job.
    pub(crate) fn job_state(&self, record: &ShellJobRecord, system: &dyn System) -> ShellJobState {
        // Checked before the exit file is read: a job writes that file before it ends.
        let running = record.process.is_some_and(|process| system.is_running(&process));
        let number = |name: &str| -> Option<i32> {
            let text = fs::read_to_string(self.file_path(record, name)).ok()?;
            text.trim().parse().ok()
        };
        match (number(ProcessSpool::EXIT), running, number(KILL_SIGNAL_FILE)) {
            (Some(code), _, _) => ShellJobState::Exited(code),
            (None, true, _) => ShellJobState::Running,
            (None, false, Some(signal)) => ShellJobState::Killed(signal),
            (None, false, None) => ShellJobState::Lost,
        }
    }

    /// Whether more output may follow, including output of child processes that the program left behind.
    pub(crate) fn is_running(record: &ShellJobRecord, system: &dyn System) -> bool {
        record.process.is_some_and(|process| system.is_running(&process))
    }

    /// Size of a stream in bytes.
    pub(crate) fn stream_size(&self, record: &ShellJobRecord, stream: OutputStream) -> u64 {
        let path = self.file_path(record, stream_file_name(stream));
        fs::metadata(path).map_or(0, |found| found.len())
    }

    /// Reads a chunk of a stream.
    pub(crate) fn read_stream(
        &self,
        record: &ShellJobRecord,
        stream: OutputStream,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, ShellJobError> {
        let path = self.file_path(record, stream_file_name(stream));
        let chunk = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut chunk = Vec::new();
            file.take(bytes).read_to_end(&mut chunk)?;
            Ok(chunk)
        };
        match chunk() {
            Ok(chunk) => Ok(chunk),
            // The process that writes the stream has not created the file yet.
            Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(files_error(&path, source)),
        }
    }

    /// Ends a job with SIGTERM, then SIGKILL if it has not exited in time. Returns whether it was running.
    pub(crate) fn kill_job(
        &self,
        record: &ShellJobRecord,
        system: &dyn System,
        grace_period: Duration,
    ) -> Result<bool, ShellJobError> {
        let Some(process) = record.process else { return Ok(false) };
        if !system.signal_process(&process, Signal::SIGTERM, true)? {
            return Ok(false);
        }
        let is_gone = || !system.is_running(&process);
        if !wait_until(grace_period, is_gone) {
            // Written before SIGKILL, because the job's shell dies too and cannot record the exit.
            let path = self.file_path(record, KILL_SIGNAL_FILE);
            let signal = Signal::SIGKILL as i32;
            fs::write(&path, format!("{signal}\n")).map_err(|source| files_error(&path, source))?;
            system.signal_process(&process, Signal::SIGKILL, true)?;
            wait_until(KILL_TIMEOUT, is_gone);
        }
        Ok(true)
    }

    /// Removes the oldest ended jobs until one more fits the limit.
    fn evict_ended(&self, system: &dyn System) -> Result<(), ShellJobError> {
        let records = self.list_jobs()?;
        let excess = (records.len() + 1).saturating_sub(self.options.jobs);
        let has_ended = |record: &&ShellJobRecord| {
            self.job_state(record, system) != ShellJobState::Running
                && !Self::is_running(record, system)
        };
        let evicted: Vec<&ShellJobRecord> = records.iter().filter(has_ended).take(excess).collect();
        for record in &evicted {
            let directory = self.directory.join(&record.job);
            fs::remove_dir_all(&directory).map_err(|source| files_error(&directory, source))?;
        }
        if evicted.len() < excess {
            return Err(ShellJobError::Full {
                running: records.len() - evicted.len(),
                limit: self.options.jobs,
            });
        }
        Ok(())
    }

    fn file_path(&self, record: &ShellJobRecord, name: &str) -> PathBuf {
        self.directory.join(&record.job).join(name)
    }
}

fn stream_file_name(stream: OutputStream) -> &'static str {
    match stream {
        OutputStream::Stdout => ProcessSpool::STDOUT,
        OutputStream::Stderr => ProcessSpool::STDERR,
    }
}

fn files_error(path: &Path, source: io::Error) -> ShellJobError {
    let path = path.to_owned();
    ShellJobError::Files { path, source }
}

fn read_record(directory: &Path) -> Result<ShellJobRecord, ShellJobError> {
    let path = directory.join(RECORD_FILE);
    let read = || Ok(serde_json::from_slice(&read_prefix(File::open(&path)?, MAX_RECORD_BYTES)?)?);
    read().map_err(|source| files_error(&path, source))
}

/// Writes the record atomically by rename.
fn write_record(directory: &Path, record: &ShellJobRecord) -> Result<(), ShellJobError> {
    let path = directory.join(RECORD_FILE);
    let write = || replace_file(&path, &serde_json::to_vec(record)?, 0o600);
    write().map_err(|source| files_error(&path, source))
}
