//! Jobs: programs that outlive the call that started them, and the daemon. A directory each, in the daemon's own state:
//! `job.json` says what it is, the spool what it printed and how it ended.
//!
//! Whether a job still runs is asked of the machine, by the number of its process and the time it was started, so that a
//! restart of the daemon loses none and a number that was given away again deceives nobody.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use muster_api::system::command::Stream;
use muster_api::system::process::wait_until;
use muster_api::system::{Command, ProcessId, Signal, Spool, System, SystemError};
use muster_api::wire::identity::Identity;
use muster_api::{ActionError, Context};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Options;

const RECORD: &str = "job.json";
/// Which signal we ended it with, when its keeper could not write its end down.
const KILLED: &str = "killed";
/// Largest record that is read.
const RECORD_BYTES: u64 = 1024 * 1024;
/// What a killed job has to be gone.
const GONE: Duration = Duration::from_secs(2);

/// All jobs of the node.
#[derive(Debug)]
pub(crate) struct Jobs {
    directory: PathBuf,
    options: Options,
    /// Held while a job is added, so that the limit holds.
    adding: Mutex<()>,
}

/// What is written down of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) job: String,
    /// The request that started it.
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) started: u64,
    /// Unknown when the daemon ended while it was being started.
    process: Option<ProcessId>,
}

/// How it is with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// With this code, 128 + signal when a signal ended it.
    Exited(i32),
    /// By us, with this signal, together with everything in its session.
    Killed(i32),
    /// It is gone, and nobody wrote down how: the machine was restarted, perhaps.
    Lost,
}

/// Why a job cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error("this node has no job {0}")]
    Unknown(String),
    #[error("{running} jobs run already, and [plugins.shell] allows {limit}")]
    Full { running: usize, limit: usize },
    #[error("cannot keep jobs in {}", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<JobError> for ActionError {
    fn from(error: JobError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        match error {
            JobError::Unknown(_) => Self::invalid(message),
            _ => Self::failed(message),
        }
    }
}

impl Jobs {
    pub(crate) fn new(directory: PathBuf, options: Options) -> Self {
        Self {
            directory,
            options,
            adding: Mutex::default(),
        }
    }

    /// Starts a job. Blocks, as everything here does.
    pub(crate) fn start(
        &self,
        cx: &Context,
        command: &Command,
        words: Vec<String>,
        user: Option<&str>,
    ) -> Result<Record, JobError> {
        let _turn = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_room(&*cx.system)?;
        let id = Uuid::now_v7().simple().to_string().split_off(20);
        let directory = self.directory.join(&id);
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&directory)
            .map_err(|source| files(&directory, source))?;
        let since = cx.system.now().duration_since(UNIX_EPOCH);
        let mut record = Record {
            job: id,
            request: cx.request,
            caller: cx.caller.to_string(),
            command: words,
            user: user.map(str::to_owned),
            started: u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            process: None,
        };
        // Before it is started: a daemon that ends in between leaves a trace of it.
        write(&directory, &record)?;
        let spool = Spool {
            directory: directory.clone(),
            limit: self.options.spool_bytes,
        };
        match cx.system.start(command, &spool) {
            Ok(process) => {
                record.process = Some(process);
                write(&directory, &record)?;
                Ok(record)
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                Err(error.into())
            }
        }
    }

    /// The jobs that this caller started, the oldest first.
    pub(crate) fn list_of(&self, caller: &Identity) -> Result<Vec<Record>, JobError> {
        let mut records = self.list()?;
        records.retain(|record| record.caller == caller.as_str());
        Ok(records)
    }

    /// The job of this name, if this caller started it. Another caller's job is answered like one that does not exist.
    pub(crate) fn get_of(&self, job: &str, caller: &Identity) -> Result<Record, JobError> {
        let record = self.get(job)?;
        if record.caller == caller.as_str() {
            return Ok(record);
        }
        Err(JobError::Unknown(job.to_owned()))
    }

    /// All jobs that are remembered, the oldest first.
    fn list(&self) -> Result<Vec<Record>, JobError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(files(&self.directory, source)),
        };
        let mut records: Vec<Record> = entries
            .filter_map(|entry| read(&entry.ok()?.path()).ok())
            .collect();
        records.sort_by(|a, b| (a.started, &a.job).cmp(&(b.started, &b.job)));
        Ok(records)
    }

    /// The job of this name.
    fn get(&self, job: &str) -> Result<Record, JobError> {
        let unknown = || JobError::Unknown(job.to_owned());
        // The name becomes a path.
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(unknown());
        }
        read(&self.directory.join(job)).map_err(|_| unknown())
    }

    /// How it is with a job now.
    pub(crate) fn state(&self, record: &Record, system: &dyn System) -> State {
        // Asked first: who ends writes that down before.
        let running = record
            .process
            .is_some_and(|process| system.is_running(&process));
        let number = |name: &str| -> Option<i32> {
            let text = fs::read_to_string(self.path(record, name)).ok()?;
            text.trim().parse().ok()
        };
        match (number(Spool::EXIT), running, number(KILLED)) {
            (Some(code), _, _) => State::Exited(code),
            (None, true, _) => State::Running,
            (None, false, Some(signal)) => State::Killed(signal),
            (None, false, None) => State::Lost,
        }
    }

    /// Whether more output can still come, also from what the program left behind.
    pub(crate) fn is_talking(record: &Record, system: &dyn System) -> bool {
        record
            .process
            .is_some_and(|process| system.is_running(&process))
    }

    /// How many bytes of a stream there are.
    pub(crate) fn size(&self, record: &Record, stream: Stream) -> u64 {
        let path = self.path(record, name(stream));
        fs::metadata(path).map_or(0, |found| found.len())
    }

    /// A piece of a stream.
    pub(crate) fn read(
        &self,
        record: &Record,
        stream: Stream,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, JobError> {
        let path = self.path(record, name(stream));
        let piece = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut piece = Vec::new();
            file.take(bytes).read_to_end(&mut piece)?;
            Ok(piece)
        };
        match piece() {
            Ok(piece) => Ok(piece),
            // Its reader has not begun yet.
            Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(files(&path, source)),
        }
    }

    /// Ends a job: TERM, and KILL if it has not ended in time. Tells whether there was anything to end.
    pub(crate) fn kill(
        &self,
        record: &Record,
        system: &dyn System,
        patience: Duration,
    ) -> Result<bool, JobError> {
        let Some(process) = record.process else {
            return Ok(false);
        };
        if !system.signal(&process, Signal::SIGTERM, true)? {
            return Ok(false);
        }
        let is_gone = || !system.is_running(&process);
        if !wait_until(patience, is_gone) {
            let path = self.path(record, KILLED);
            let signal = Signal::SIGKILL as i32;
            fs::write(&path, format!("{signal}\n")).map_err(|source| files(&path, source))?;
            system.signal(&process, Signal::SIGKILL, true)?;
            wait_until(GONE, is_gone);
        }
        Ok(true)
    }

    /// Forgets the oldest jobs that have ended, so that one more has room.
    fn make_room(&self, system: &dyn System) -> Result<(), JobError> {
        let records = self.list()?;
        let over = (records.len() + 1).saturating_sub(self.options.jobs);
        let ended = |record: &&Record| {
            self.state(record, system) != State::Running && !Self::is_talking(record, system)
        };
        let forgotten: Vec<&Record> = records.iter().filter(ended).take(over).collect();
        for record in &forgotten {
            let directory = self.directory.join(&record.job);
            fs::remove_dir_all(&directory).map_err(|source| files(&directory, source))?;
        }
        if forgotten.len() < over {
            return Err(JobError::Full {
                running: records.len() - forgotten.len(),
                limit: self.options.jobs,
            });
        }
        Ok(())
    }

    fn path(&self, record: &Record, name: &str) -> PathBuf {
        self.directory.join(&record.job).join(name)
    }
}

fn name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => Spool::STDOUT,
        Stream::Stderr => Spool::STDERR,
    }
}

fn files(path: &Path, source: io::Error) -> JobError {
    let path = path.to_owned();
    JobError::Files { path, source }
}

fn read(directory: &Path) -> Result<Record, JobError> {
    let path = directory.join(RECORD);
    let record = || {
        let mut text = Vec::new();
        File::open(&path)?
            .take(RECORD_BYTES)
            .read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    };
    record().map_err(|source| files(&path, source))
}

/// Whole, by rename: a record is never half there.
fn write(directory: &Path, record: &Record) -> Result<(), JobError> {
    let path = directory.join(RECORD);
    let written = || {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(&path).map_err(|failed| failed.error)?;
        Ok(())
    };
    written().map_err(|source| files(&path, source))
}
