//! Manages the resident process: started on first use, one request at a time, killed on a timeout and after an idle period.
//!
//! If the process dies or hangs, its current request fails, and the next request starts a new process. Independent of resource types.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use muster_system::command::CancelFlag;
use muster_system::error::found_or_none;
use muster_system::{Command, InteractiveProcess, System, SystemError};
use serde::de::DeserializeOwned;

use super::options::PuppetBridgeOptions;
use super::protocol::{
    BRIDGE_LOADER, BRIDGE_SCRIPT, BridgeHello, BridgeProblem, BridgeProblemKind, BridgeReady,
    BridgeRequest, BridgeResponse,
};

/// Maximum size of a response, in bytes; a list of all packages of a machine takes about one million bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Ruby interpreter of Puppet's own packages.
const PUPPET_RUBY: &str = "/opt/puppetlabs/puppet/bin/ruby";

#[derive(Debug, thiserror::Error)]
pub(super) enum BridgeError {
    /// Puppet or Ruby is missing or does not start.
    #[error(
        "Puppet, which may have it, is not available: {0}; install puppet-agent, or repair its installation"
    )]
    Unavailable(String),
    #[error("Puppet does not have it")]
    UnknownType,
    #[error("{0}")]
    Invalid(String),
    #[error("{problem}")]
    Failed { problem: String, log: Vec<String> },
    #[error("Puppet exited during the request{}", last_line_suffix(.0))]
    Ended(String),
    #[error("Puppet sent an invalid response")]
    InvalidResponse(#[source] serde_json::Error),
    #[error("Puppet did not reply")]
    System(#[from] SystemError),
}

impl BridgeError {
    /// Whether the process must be discarded after this error.
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::InvalidResponse(_) | Self::System(_))
    }
}

fn last_line_suffix(stderr: &str) -> String {
    let last = stderr.lines().next_back().unwrap_or_default();
    if last.is_empty() { String::new() } else { format!(": {last}") }
}

/// A response and the log lines that accompany it.
#[derive(Debug)]
pub(super) struct LoggedAnswer<T> {
    pub(super) ok: T,
    pub(super) log: Vec<String>,
}

/// The current process, if any.
#[derive(Debug)]
pub(super) struct PuppetBridge {
    system: Arc<dyn System>,
    options: PuppetBridgeOptions,
    process: Mutex<Option<BridgeProcess>>,
    stopped: Condvar,
    /// Number of processes started so far.
    generation: AtomicU64,
}

#[derive(Debug)]
struct BridgeProcess {
    program: Box<dyn InteractiveProcess>,
    last_used: Instant,
}

impl PuppetBridge {
    pub(super) fn new(system: Arc<dyn System>, options: PuppetBridgeOptions) -> Self {
        Self {
            system,
            options,
            process: Mutex::new(None),
            stopped: Condvar::new(),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn root(&self) -> &Path {
        self.system.root()
    }

    /// Identifies the current process.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Sends a request; starts the process if needed. If the process died since the last request, starts a new one and repeats the request
    /// if it is idempotent.
    pub(super) fn send_request<T: DeserializeOwned>(
        self: &Arc<Self>,
        request: &BridgeRequest<'_>,
        cancel: &CancelFlag,
    ) -> Result<LoggedAnswer<T>, BridgeError> {
        let mut process = self.lock_process();
        let is_new = process.is_none();
        match self.send_request_once(&mut process, request, cancel) {
            Err(BridgeError::Ended(_)) if !is_new && !request.changes_system() => {
                self.send_request_once(&mut process, request, cancel)
            }
            result => result,
        }
    }

    fn send_request_once<T: DeserializeOwned>(
        self: &Arc<Self>,
        slot: &mut Option<BridgeProcess>,
        request: &BridgeRequest<'_>,
        cancel: &CancelFlag,
    ) -> Result<LoggedAnswer<T>, BridgeError> {
        if slot.is_none() {
            *slot = Some(self.start_process(cancel)?);
        }
        let Some(process) = slot else { return Err(BridgeError::Ended(String::new())) };
        let PuppetBridgeOptions { change_timeout, read_timeout, .. } = self.options;
        let timeout = if request.changes_system() { change_timeout } else { read_timeout };
        let result = exchange_request(&mut *process.program, request, timeout, cancel);
        process.last_used = Instant::now();
        if result.as_ref().is_err_and(BridgeError::is_fatal) {
            *slot = None;
        }
        result
    }

    fn start_process(self: &Arc<Self>, cancel: &CancelFlag) -> Result<BridgeProcess, BridgeError> {
        for path in self.options.executed_paths() {
            found_or_none(self.system.check_protected(path))?;
        }
        let mut program = match self.system.start_interactive(&self.build_command()) {
            Err(error) if error.is_not_found() => {
                return Err(BridgeError::Unavailable("Ruby is not installed".to_owned()));
            }
            started => started?,
        };
        let hello = BridgeHello { settings: &self.options.settings, script: BRIDGE_SCRIPT };
        program.send_line(&serde_json::to_string(&hello).map_err(BridgeError::InvalidResponse)?)?;
        let ready: BridgeReady = receive_message(&mut *program, self.options.read_timeout, cancel)?;
        if ready.ready.is_none() {
            let problem = ready.error.map(|problem| problem.message);
            let silent = || "it did not report that it is ready".to_owned();
            return Err(BridgeError::Unavailable(problem.unwrap_or_else(silent)));
        }
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        let bridge = Arc::clone(self);
        let builder = thread::Builder::new().name("puppet-idle".to_owned());
        // Without the thread the process lives as long as its owner, which is acceptable.
        let _ = builder.spawn(move || bridge.stop_when_idle(generation));
        Ok(BridgeProcess { program, last_used: Instant::now() })
    }

    fn build_command(&self) -> Command {
        let default_ruby = || {
            let found = self.system.metadata(Path::new(PUPPET_RUBY));
            let is_installed = matches!(found, Ok(Some(_)));
            (if is_installed { PUPPET_RUBY } else { "ruby" }).to_owned()
        };
        let ruby = self.options.ruby.clone().unwrap_or_else(default_ruby);
        let mut command = Command::configured([&ruby, "-W0", "-rjson", "-e", BRIDGE_LOADER]);
        // Ruby source files are UTF-8, whatever the locale of the daemon.
        command.env.insert("LC_ALL".to_owned(), "C.UTF-8".to_owned());
        command.output_limit = MAX_RESPONSE_BYTES;
        command
    }

    /// Ends the process after the idle timeout. Returns when the process it was started for has ended for any reason.
    fn stop_when_idle(&self, generation: u64) {
        let mut process = self.lock_process();
        while let Some(BridgeProcess { last_used, .. }) = &*process {
            let left = self.options.idle_timeout.saturating_sub(last_used.elapsed());
            if self.generation() != generation {
                return;
            }
            if left.is_zero() {
                *process = None;
                return;
            }
            process =
                self.stopped.wait_timeout(process, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn stop_process(&self) {
        *self.lock_process() = None;
        self.stopped.notify_all();
    }

    fn lock_process(&self) -> MutexGuard<'_, Option<BridgeProcess>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exchange_request<T: DeserializeOwned>(
    program: &mut dyn InteractiveProcess,
    request: &BridgeRequest<'_>,
    timeout: Duration,
    cancel: &CancelFlag,
) -> Result<LoggedAnswer<T>, BridgeError> {
    program.send_line(&serde_json::to_string(request).map_err(BridgeError::InvalidResponse)?)?;
    let response: BridgeResponse<T> = receive_message(program, timeout, cancel)?;
    match response {
        BridgeResponse { ok: Some(ok), log, .. } => Ok(LoggedAnswer { ok, log }),
        BridgeResponse { error: Some(problem), log, .. } => Err(to_bridge_error(problem, log)),
        BridgeResponse { log, .. } => {
            let problem = "the response of Puppet has neither `ok` nor `error`".to_owned();
            Err(BridgeError::Failed { problem, log })
        }
    }
}

fn receive_message<T: DeserializeOwned>(
    program: &mut dyn InteractiveProcess,
    timeout: Duration,
    cancel: &CancelFlag,
) -> Result<T, BridgeError> {
    match program.receive_line(timeout, cancel)? {
        Some(line) => serde_json::from_str(&line).map_err(BridgeError::InvalidResponse),
        None => Err(BridgeError::Ended(program.stderr_tail())),
    }
}

fn to_bridge_error(problem: BridgeProblem, log: Vec<String>) -> BridgeError {
    let BridgeProblem { kind, message } = problem;
    match kind {
        BridgeProblemKind::UnknownType => BridgeError::UnknownType,
        BridgeProblemKind::Invalid => BridgeError::Invalid(message),
        BridgeProblemKind::Unavailable => BridgeError::Unavailable(message),
        BridgeProblemKind::Failed => BridgeError::Failed { problem: message, log },
    }
}
