//! The resident process: started at the first question, one question at a time, ended when it hangs, and when nobody asks.
//!
//! A process that dies or hangs costs the question that it was asked, and the next one has a new process. Knows nothing of types.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use muster_system::command::CancelFlag;
use muster_system::{Command, InteractiveProcess, System, SystemError};
use serde::de::DeserializeOwned;

use super::PuppetBridgeOptions;
use super::protocol::{
    BRIDGE_LOADER, BRIDGE_SCRIPT, BridgeHello, BridgeProblem, BridgeProblemKind, BridgeReady,
    BridgeRequest, BridgeResponse,
};

/// The longest answer, in bytes: a list of all packages of a machine has about one million.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Where Puppet's own packages have their Ruby.
const PUPPET_RUBY: &str = "/opt/puppetlabs/puppet/bin/ruby";

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum BridgeError {
    /// There is no Puppet, or no Ruby.
    #[error(
        "Puppet, which may know it, cannot be asked: {0}; install puppet-agent, or see to it that it works"
    )]
    Unavailable(String),
    /// It has no such type.
    #[error("Puppet does not know it")]
    UnknownType,
    /// The resource is wrong.
    #[error("{0}")]
    Invalid(String),
    /// It tried, and could not.
    #[error("{problem}")]
    Failed { problem: String, log: Vec<String> },
    /// It ended while it was asked.
    #[error("Puppet ended while it was asked{}", last_line_suffix(.0))]
    Ended(String),
    /// It answered something else.
    #[error("Puppet gave an answer that makes no sense")]
    Senseless(#[source] serde_json::Error),
    /// It did not answer.
    #[error("Puppet did not answer")]
    System(#[from] SystemError),
}

impl BridgeError {
    /// Whether the process is of no use after this.
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Senseless(_) | Self::System(_))
    }
}

fn last_line_suffix(complaints: &str) -> String {
    let last = complaints.lines().next_back().unwrap_or_default();
    if last.is_empty() {
        String::new()
    } else {
        format!(": {last}")
    }
}

/// An answer, and what was logged meanwhile.
#[derive(Debug)]
pub(super) struct LoggedAnswer<T> {
    pub(super) ok: T,
    pub(super) log: Vec<String>,
}

/// The process at hand, if there is one.
#[derive(Debug)]
pub(super) struct PuppetBridge {
    system: Arc<dyn System>,
    options: PuppetBridgeOptions,
    live: Mutex<Option<BridgeProcess>>,
    closed: Condvar,
    /// Counts the processes.
    generation: AtomicU64,
}

#[derive(Debug)]
struct BridgeProcess {
    talk: Box<dyn InteractiveProcess>,
    used: Instant,
}

impl PuppetBridge {
    pub(super) fn new(system: Arc<dyn System>, options: PuppetBridgeOptions) -> Self {
        Self {
            system,
            options,
            live: Mutex::new(None),
            closed: Condvar::new(),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn root(&self) -> &Path {
        self.system.root()
    }

    /// Tells one process from another.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Asks, of a process that is started if need be. One that died since it was last asked is started again, where asking
    /// twice does no harm.
    pub(super) fn send_request<T: DeserializeOwned>(
        self: &Arc<Self>,
        request: &BridgeRequest<'_>,
        cancel: &CancelFlag,
    ) -> Result<LoggedAnswer<T>, BridgeError> {
        let mut live = self.lock_process();
        let is_new = live.is_none();
        match self.send_request_once(&mut live, request, cancel) {
            Err(BridgeError::Ended(_)) if !is_new && request.is_read_only() => {
                self.send_request_once(&mut live, request, cancel)
            }
            answered => answered,
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
        let Some(live) = slot else {
            return Err(BridgeError::Ended(String::new()));
        };
        let patience = if request.changes_system() {
            self.options.change
        } else {
            self.options.look
        };
        let answered = exchange_request(&mut *live.talk, request, patience, cancel);
        live.used = Instant::now();
        if answered.as_ref().is_err_and(BridgeError::is_fatal) {
            *slot = None;
        }
        answered
    }

    fn start_process(self: &Arc<Self>, cancel: &CancelFlag) -> Result<BridgeProcess, BridgeError> {
        let mut talk = match self.system.start_interactive(&self.build_command()) {
            Err(error) if error.is_not_found() => {
                return Err(BridgeError::Unavailable("there is no Ruby".to_owned()));
            }
            started => started?,
        };
        let hello = BridgeHello {
            settings: &self.options.settings,
            script: BRIDGE_SCRIPT,
        };
        talk.send_line(&serde_json::to_string(&hello).map_err(BridgeError::Senseless)?)?;
        let ready: BridgeReady = receive_message(&mut *talk, self.options.look, cancel)?;
        match ready {
            BridgeReady { ready: Some(_), .. } => {}
            BridgeReady {
                error: Some(problem),
                ..
            } => return Err(BridgeError::Unavailable(problem.message)),
            BridgeReady { .. } => {
                return Err(BridgeError::Unavailable(
                    "it does not say that it is ready".to_owned(),
                ));
            }
        }
        let mine = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        let sessions = Arc::clone(self);
        let idle = thread::Builder::new().name("puppet-idle".to_owned());
        // Without the thread, the process stays until its owner goes: no reason not to ask it.
        let _ = idle.spawn(move || sessions.stop_when_idle(mine));
        Ok(BridgeProcess {
            talk,
            used: Instant::now(),
        })
    }

    fn build_command(&self) -> Command {
        let puppets_own = || {
            let found = self.system.metadata(Path::new(PUPPET_RUBY));
            let is_there = matches!(found, Ok(Some(_)));
            (if is_there { PUPPET_RUBY } else { "ruby" }).to_owned()
        };
        let ruby = self.options.ruby.clone().unwrap_or_else(puppets_own);
        let mut command = Command::new([&ruby, "-W0", "-rjson", "-e", BRIDGE_LOADER]);
        // Files of Ruby code are UTF-8, whatever the daemon's own locale is.
        command
            .env
            .insert("LC_ALL".to_owned(), "C.UTF-8".to_owned());
        command.output_limit = MAX_RESPONSE_BYTES;
        command
    }

    /// Waits until nobody has asked for a while. Ends with the process that it was started for, however that ends.
    fn stop_when_idle(&self, mine: u64) {
        let mut live = self.lock_process();
        while let Some(BridgeProcess { used, .. }) = &*live {
            let left = self.options.idle.saturating_sub(used.elapsed());
            if self.generation() != mine {
                return;
            }
            if left.is_zero() {
                *live = None;
                return;
            }
            live = self
                .closed
                .wait_timeout(live, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Ends the process, if there is one.
    pub(super) fn stop_process(&self) {
        *self.lock_process() = None;
        self.closed.notify_all();
    }

    fn lock_process(&self) -> MutexGuard<'_, Option<BridgeProcess>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exchange_request<T: DeserializeOwned>(
    talk: &mut dyn InteractiveProcess,
    request: &BridgeRequest<'_>,
    patience: Duration,
    cancel: &CancelFlag,
) -> Result<LoggedAnswer<T>, BridgeError> {
    talk.send_line(&serde_json::to_string(request).map_err(BridgeError::Senseless)?)?;
    let answer: BridgeResponse<T> = receive_message(talk, patience, cancel)?;
    match answer {
        BridgeResponse {
            ok: Some(ok), log, ..
        } => Ok(LoggedAnswer { ok, log }),
        BridgeResponse {
            error: Some(problem),
            log,
            ..
        } => Err(to_bridge_error(problem, log)),
        BridgeResponse { log, .. } => {
            let problem = "it answered neither yes nor no".to_owned();
            Err(BridgeError::Failed { problem, log })
        }
    }
}

fn receive_message<T: DeserializeOwned>(
    talk: &mut dyn InteractiveProcess,
    patience: Duration,
    cancel: &CancelFlag,
) -> Result<T, BridgeError> {
    match talk.receive_line(patience, cancel)? {
        Some(line) => serde_json::from_str(&line).map_err(BridgeError::Senseless),
        None => Err(BridgeError::Ended(talk.stderr_tail())),
    }
}

fn to_bridge_error(problem: BridgeProblem, log: Vec<String>) -> BridgeError {
    let BridgeProblem { kind, message } = problem;
    match kind {
        BridgeProblemKind::UnknownType => BridgeError::UnknownType,
        BridgeProblemKind::Invalid => BridgeError::Invalid(message),
        BridgeProblemKind::Unavailable => BridgeError::Unavailable(message),
        BridgeProblemKind::Failed => BridgeError::Failed {
            problem: message,
            log,
        },
    }
}
