//! One Puppet program from start to end: a separate process group that survives the daemon, its log read while it grows, and its lost refreshes
//! entered in the ledger.
//!
//! Blocks; the caller provides a thread. A [`StopRequest`] ends it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::system::{
    Command, ProcessId, ProcessSpool, Signal, SpoolWatch, System, SystemResult,
};
use muster_contract::puppet::PuppetRunClass;

use crate::classification::MAX_LOG_LINES;
use crate::wrapper::refresh_tracker::RefreshTracker;
use crate::wrapper::trace::{TraceEvent, TraceLine, TraceSplitter};

/// Log of the program, in its directory.
pub(crate) const TRACE_FILE: &str = "trace.jsonl";
/// How often the log is read, and a program that was killed without an exit code is noticed. An exit code is noticed at once.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait for a killed program to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of log bytes read at once.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes kept of each output stream.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// Puppet's message when another run is in progress.
const IN_PROGRESS_MESSAGE: &str = "already in progress";
/// Source of the messages of Puppet itself, not of Facter or a resource.
const PUPPET_SOURCE: &str = "Puppet";
/// `PATH` of the program; Puppet's providers search commands in it.
const PROGRAM_PATH: &str =
    "/opt/puppetlabs/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Request to stop a program; the first reason counts.
#[derive(Debug, Default)]
pub(crate) struct StopRequest(Mutex<Option<PuppetRunClass>>);

impl StopRequest {
    pub(crate) fn request_stop(&self, reason: PuppetRunClass) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.get_or_insert(reason);
    }

    pub(crate) fn stop_reason(&self) -> Option<PuppetRunClass> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

#[derive(Debug, Default)]
pub(crate) struct SessionOutcome {
    pub(crate) exit: Option<i32>,
    pub(crate) stopped: Option<PuppetRunClass>,
    pub(crate) log: Vec<String>,
    pub(crate) was_locked: bool,
    /// Whether Puppet had a catalog and began to apply it.
    pub(crate) had_catalog: bool,
    /// The last error of Puppet itself before it had a catalog.
    pub(crate) start_failure: Option<StartFailure>,
}

/// An error of Puppet before it had a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartFailure {
    /// The message, with file and line if they are known.
    pub(crate) message: String,
    /// Whether it names a place in a manifest.
    pub(crate) is_located: bool,
}

impl StartFailure {
    /// Whether Puppet could not compile or read the catalog. Other errors concern Puppet's settings or its program.
    pub(crate) fn is_about_catalog(&self) -> bool {
        let message = &self.message;
        self.is_located
            || ["catalog", "Could not parse", "Could not find class", "Evaluation Error"]
                .iter()
                .any(|part| message.contains(part))
    }
}

/// Starts the program with output and log in `directory`, which must exist.
pub(crate) fn start_process(
    system: &dyn System,
    argv: Vec<String>,
    directory: &Path,
    trace: Option<String>,
) -> SystemResult<ProcessId> {
    let mut command = Command::configured(argv);
    for (name, value) in [("PATH", PROGRAM_PATH), ("LC_ALL", "C.UTF-8"), ("LANG", "C.UTF-8")] {
        command.env.insert(name.to_owned(), value.to_owned());
    }
    if let Some(trace) = trace {
        let name = muster_api::wire::trace::TRACEPARENT_VARIABLE;
        command.env.insert(name.to_owned(), trace);
    }
    let spool = ProcessSpool { directory: directory.to_owned(), limit: MAX_OUTPUT_BYTES };
    system.start_detached(&command, &spool)
}

#[derive(Debug)]
pub(crate) struct ProcessWatcher<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) process: ProcessId,
    pub(crate) directory: PathBuf,
    pub(crate) tracker: RefreshTracker,
    /// The refreshes that it is to make.
    pub(crate) targets: &'a [String],
    pub(crate) stop: &'a StopRequest,
    /// Time between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
}

impl ProcessWatcher<'_> {
    /// Watches until the program has ended. Calls `on_line` with each line of its log.
    pub(crate) fn run_to_end(
        mut self,
        on_line: &mut dyn FnMut(&TraceLine),
    ) -> SystemResult<SessionOutcome> {
        let mut outcome = SessionOutcome::default();
        let mut log = LogTail::new(self.directory.join(TRACE_FILE));
        let mut stop_sent_at = None;
        let mut spool_watch = SpoolWatch::open(&self.directory);
        loop {
            // Check for exit first, so that everything written before the exit is read afterwards.
            let is_over = self.is_over();
            while self.read_log(&mut log, &mut outcome, on_line)? {}
            if is_over {
                break;
            }
            if let Some(reason) = self.stop.stop_reason() {
                outcome.stopped = Some(reason);
                if self.escalate_stop(&mut stop_sent_at)? {
                    break;
                }
            }
            spool_watch.wait(POLL_INTERVAL);
        }
        while self.read_log(&mut log, &mut outcome, on_line)? {}
        self.tracker.finish_run(self.targets, self.system)?;
        outcome.exit = self.exit_code();
        Ok(outcome)
    }

    fn is_over(&self) -> bool {
        self.exit_code().is_some() || !self.system.is_running(&self.process)
    }

    fn exit_code(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.directory.join(ProcessSpool::EXIT)).ok()?;
        text.trim().parse().ok()
    }

    /// Sends SIGTERM, and SIGKILL after the grace period; returns whether nothing more can be done.
    fn escalate_stop(&self, stop_sent_at: &mut Option<Instant>) -> SystemResult<bool> {
        let Some(since) = *stop_sent_at else {
            *stop_sent_at = Some(Instant::now());
            self.system.signal_process(&self.process, Signal::SIGTERM, true)?;
            return Ok(false);
        };
        if since.elapsed() >= self.grace {
            self.system.signal_process(&self.process, Signal::SIGKILL, true)?;
        }
        Ok(since.elapsed() >= self.grace + KILL_TIMEOUT)
    }

    /// Processes new log lines; returns whether there were any.
    fn read_log(
        &mut self,
        log: &mut LogTail,
        outcome: &mut SessionOutcome,
        on_line: &mut dyn FnMut(&TraceLine),
    ) -> SystemResult<bool> {
        let Some(lines) = log.read_new_lines() else { return Ok(false) };
        for line in &lines {
            on_line(line);
            collect_log_line(outcome, line);
            self.tracker.process_line(line, self.system)?;
        }
        Ok(true)
    }
}

fn collect_log_line(outcome: &mut SessionOutcome, line: &TraceLine) {
    outcome.was_locked |= line.message.contains(IN_PROGRESS_MESSAGE);
    match line.classify_line() {
        // The second, because Puppet does not log the first if the catalog has no version.
        TraceEvent::Applying | TraceEvent::Started => outcome.had_catalog = true,
        TraceEvent::Failed if !outcome.had_catalog && line.source == PUPPET_SOURCE => {
            let is_located = line.file.is_some();
            outcome.start_failure =
                Some(StartFailure { message: line.located_message(), is_located });
        }
        _ => {}
    }
    let is_reportable = !matches!(line.level.as_str(), "debug" | "info" | "notice");
    if is_reportable && outcome.log.len() < MAX_LOG_LINES {
        let TraceLine { level, source, .. } = line;
        outcome.log.push(format!("{level}: {source}: {}", line.located_message()));
    }
}

/// Reads a growing log.
#[derive(Debug)]
struct LogTail {
    path: PathBuf,
    offset: u64,
    lines: TraceSplitter,
}

impl LogTail {
    fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, lines: TraceSplitter::default() }
    }

    /// Lines added since the last call; `None` if there are none or the log does not exist yet.
    fn read_new_lines(&mut self) -> Option<Vec<TraceLine>> {
        let mut file = File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut chunk = Vec::new();
        file.take(MAX_READ_BYTES).read_to_end(&mut chunk).ok()?;
        self.offset += u64::try_from(chunk.len()).unwrap_or_default();
        (!chunk.is_empty()).then(|| self.lines.push_bytes(&chunk))
    }
}
