//! The resident process: started at the first question, one question at a time, ended when it hangs, and when nobody asks.
//!
//! A process that dies or hangs costs the question that it was asked, and the next one has a new process. Knows nothing of types.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use muster_system::command::Cancel;
use muster_system::{Command, Conversation, System, SystemError};
use serde::de::DeserializeOwned;

use super::Options;
use super::protocol::{Answer, Hello, LOADER, Problem, ProblemKind, Ready, Request, SCRIPT};

/// The longest answer, in bytes: a list of all packages of a machine has about one million.
const LONGEST: usize = 64 * 1024 * 1024;
/// Where Puppet's own packages have their Ruby.
const PUPPETS_RUBY: &str = "/opt/puppetlabs/puppet/bin/ruby";

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
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
    #[error("Puppet ended while it was asked{}", after_colon(.0))]
    Ended(String),
    /// It answered something else.
    #[error("Puppet gave an answer that makes no sense")]
    Senseless(#[source] serde_json::Error),
    /// It did not answer.
    #[error("Puppet did not answer")]
    System(#[from] SystemError),
}

impl AskError {
    /// Whether the process is of no use after this.
    fn is_fatal(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Senseless(_) | Self::System(_))
    }
}

fn after_colon(complaints: &str) -> String {
    let last = complaints.lines().next_back().unwrap_or_default();
    if last.is_empty() {
        String::new()
    } else {
        format!(": {last}")
    }
}

/// An answer, and what was logged meanwhile.
#[derive(Debug)]
pub(super) struct Answered<T> {
    pub(super) ok: T,
    pub(super) log: Vec<String>,
}

/// The process at hand, if there is one.
#[derive(Debug)]
pub(super) struct Sessions {
    system: Arc<dyn System>,
    options: Options,
    live: Mutex<Option<Live>>,
    closed: Condvar,
    /// Counts the processes.
    generation: AtomicU64,
}

#[derive(Debug)]
struct Live {
    talk: Box<dyn Conversation>,
    used: Instant,
}

impl Sessions {
    pub(super) fn new(system: Arc<dyn System>, options: Options) -> Self {
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
    pub(super) fn ask<T: DeserializeOwned>(
        self: &Arc<Self>,
        request: &Request<'_>,
        cancel: &Cancel,
    ) -> Result<Answered<T>, AskError> {
        let mut live = self.lock();
        let is_new = live.is_none();
        match self.ask_once(&mut live, request, cancel) {
            Err(AskError::Ended(_)) if !is_new && request.only_looks() => {
                self.ask_once(&mut live, request, cancel)
            }
            answered => answered,
        }
    }

    fn ask_once<T: DeserializeOwned>(
        self: &Arc<Self>,
        slot: &mut Option<Live>,
        request: &Request<'_>,
        cancel: &Cancel,
    ) -> Result<Answered<T>, AskError> {
        if slot.is_none() {
            *slot = Some(self.start(cancel)?);
        }
        let Some(live) = slot else {
            return Err(AskError::Ended(String::new()));
        };
        let patience = if request.changes() {
            self.options.change
        } else {
            self.options.look
        };
        let answered = exchange(&mut *live.talk, request, patience, cancel);
        live.used = Instant::now();
        if answered.as_ref().is_err_and(AskError::is_fatal) {
            *slot = None;
        }
        answered
    }

    fn start(self: &Arc<Self>, cancel: &Cancel) -> Result<Live, AskError> {
        let mut talk = match self.system.converse(&self.command()) {
            Err(error) if error.is_not_found() => {
                return Err(AskError::Unavailable("there is no Ruby".to_owned()));
            }
            started => started?,
        };
        let hello = Hello {
            settings: &self.options.settings,
            script: SCRIPT,
        };
        talk.say(&serde_json::to_string(&hello).map_err(AskError::Senseless)?)?;
        let ready: Ready = heard(&mut *talk, self.options.look, cancel)?;
        match ready {
            Ready { ready: Some(_), .. } => {}
            Ready {
                error: Some(problem),
                ..
            } => return Err(AskError::Unavailable(problem.message)),
            Ready { .. } => {
                return Err(AskError::Unavailable(
                    "it does not say that it is ready".to_owned(),
                ));
            }
        }
        let mine = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        let sessions = Arc::clone(self);
        let idle = thread::Builder::new().name("puppet-idle".to_owned());
        // Without the thread, the process stays until its owner goes: no reason not to ask it.
        let _ = idle.spawn(move || sessions.end_when_idle(mine));
        Ok(Live {
            talk,
            used: Instant::now(),
        })
    }

    fn command(&self) -> Command {
        let puppets_own = || {
            let found = self.system.metadata(Path::new(PUPPETS_RUBY));
            let is_there = matches!(found, Ok(Some(_)));
            (if is_there { PUPPETS_RUBY } else { "ruby" }).to_owned()
        };
        let ruby = self.options.ruby.clone().unwrap_or_else(puppets_own);
        let mut command = Command::new([&ruby, "-W0", "-rjson", "-e", LOADER]);
        // Files of Ruby code are UTF-8, whatever the daemon's own locale is.
        command
            .env
            .insert("LC_ALL".to_owned(), "C.UTF-8".to_owned());
        command.output_limit = LONGEST;
        command
    }

    /// Waits until nobody has asked for a while. Ends with the process that it was started for, however that ends.
    fn end_when_idle(&self, mine: u64) {
        let mut live = self.lock();
        while let Some(Live { used, .. }) = &*live {
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
    pub(super) fn close(&self) {
        *self.lock() = None;
        self.closed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exchange<T: DeserializeOwned>(
    talk: &mut dyn Conversation,
    request: &Request<'_>,
    patience: Duration,
    cancel: &Cancel,
) -> Result<Answered<T>, AskError> {
    talk.say(&serde_json::to_string(request).map_err(AskError::Senseless)?)?;
    let answer: Answer<T> = heard(talk, patience, cancel)?;
    match answer {
        Answer {
            ok: Some(ok), log, ..
        } => Ok(Answered { ok, log }),
        Answer {
            error: Some(problem),
            log,
            ..
        } => Err(refusal(problem, log)),
        Answer { log, .. } => {
            let problem = "it answered neither yes nor no".to_owned();
            Err(AskError::Failed { problem, log })
        }
    }
}

fn heard<T: DeserializeOwned>(
    talk: &mut dyn Conversation,
    patience: Duration,
    cancel: &Cancel,
) -> Result<T, AskError> {
    match talk.hear(patience, cancel)? {
        Some(line) => serde_json::from_str(&line).map_err(AskError::Senseless),
        None => Err(AskError::Ended(talk.complaints())),
    }
}

fn refusal(problem: Problem, log: Vec<String>) -> AskError {
    let Problem { kind, message } = problem;
    match kind {
        ProblemKind::UnknownType => AskError::UnknownType,
        ProblemKind::Invalid => AskError::Invalid(message),
        ProblemKind::Unavailable => AskError::Unavailable(message),
        ProblemKind::Failed => AskError::Failed {
            problem: message,
            log,
        },
    }
}
