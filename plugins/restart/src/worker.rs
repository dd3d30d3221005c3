//! The worker: a process of its own that takes one thing's restarts from their request to their outcome.
//!
//! Everything that it does is written down before, so that another worker can go on where one was killed. One that was killed while
//! it restarted is found out by the main process: a new one means that the restart has been done.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use muster_api::system::error::chain;
use muster_api::system::real::RealSystem;
use muster_api::system::{ProcessId, StateDir, System, SystemError};
use muster_engine::lock::{LockError, RunLock};

use crate::act;
use crate::cycle::{Cycle, Moment, Places, Record, State};
use crate::instance::Instance;
use crate::look::{Look, look};
use crate::store::{Store, now};

/// How often the run lock is looked at: a restart is begun that soon after a run.
const LOOK: Duration = Duration::from_millis(100);
/// How long a new process may take to be there.
const APPEARS: Duration = Duration::from_secs(10);
/// How long it is watched: one that ends at once was not restarted.
const WATCHED: Duration = Duration::from_secs(1);
/// How long the daemon may take to let running actions answer, and to be back.
const DAEMON: Duration = Duration::from_mins(5);

/// One thing's worker.
#[derive(Debug)]
pub struct Worker {
    store: Store,
    key: String,
    system: Arc<dyn System>,
    /// How long a new process may take to be there.
    appears: Duration,
    /// How long it is watched.
    watched: Duration,
}

/// Does everything that was asked for and is not done, unless another worker is at it. For a process of its own.
pub fn work(directory: &Path, key: &str) -> Result<(), SystemError> {
    let store = Store::new(directory);
    let Some(record) = store.read(key)? else {
        return Ok(());
    };
    let system = Arc::new(RealSystem::new(record.places.root));
    Worker::new(store, key, system).run()
}

/// Nobody can begin a run while it lives, if it could be had.
struct Turn {
    _lock: Option<RunLock>,
}

impl Worker {
    /// A worker on this machine.
    pub fn new(store: Store, key: &str, system: Arc<dyn System>) -> Self {
        Self {
            store,
            key: key.to_owned(),
            system,
            appears: APPEARS,
            watched: WATCHED,
        }
    }

    /// The same with less patience, for machines that are not real.
    #[cfg(test)]
    pub(crate) fn hasty(mut self) -> Self {
        self.appears = Duration::from_millis(50);
        self.watched = Duration::from_millis(10);
        self
    }

    /// Works until nothing is left to do.
    pub fn run(&self) -> Result<(), SystemError> {
        let Some(lock) = self.store.occupy(&self.key)? else {
            return Ok(());
        };
        let mut lock = Some(lock);
        loop {
            // Whoever asks from now on finds either work that is still to be done, or no worker.
            let more = self.store.change(&self.key, |record| {
                let more = record.as_mut().is_some_and(Record::turn);
                if !more {
                    drop(lock.take());
                }
                more
            })?;
            if !more {
                return Ok(());
            }
            if let Some(record) = self.store.read(&self.key)? {
                self.go_on(&record)?;
            }
        }
    }

    /// Takes the current restart to its end, from wherever it is.
    fn go_on(&self, record: &Record) -> Result<(), SystemError> {
        match record.current.state {
            State::Verifying => self.verify(),
            State::Restarting if self.was_restarted(record) => {
                self.step(State::Verifying, "restarted by a worker that was ended")?;
                self.verify()
            }
            _ => self.restart(),
        }
    }

    /// Whether a worker that was killed had come that far.
    fn was_restarted(&self, record: &Record) -> bool {
        let cycle = &record.current;
        if let Some(before) = cycle.instance {
            return self.daemon().is_some_and(|now| now.instance != before);
        }
        let now = self.look(record).ok().and_then(|found| found.process);
        matches!((cycle.before, now), (Some(before), Some(now)) if before != now)
    }

    fn restart(&self) -> Result<(), SystemError> {
        let Some(turn) = self.wait()? else {
            return Ok(());
        };
        let Some(record) = self.store.read(&self.key)? else {
            return Ok(());
        };
        let instance = self.daemon().filter(|_| record.target.is_daemon());
        let found = self.look(&record).unwrap_or_default();
        if let Some(place) = found.missing.filter(|_| instance.is_none()) {
            return self.step(State::Failed, unknown(&place));
        }
        let before = found.process;
        self.change(|cycle, now| {
            cycle.before = before;
            cycle.instance = instance.map(|instance| instance.instance);
            let text = format!("restarting {}", record.target);
            cycle.step(State::Restarting, text, now);
        })?;
        let output = self.store.path().join(format!("{}.out", self.key));
        let done = act::restart(&*self.system, &record.target, instance.as_ref(), &output);
        // What was restarted may want to run at once.
        drop(turn);
        if let Err(problem) = done {
            return self.step(State::Failed, problem);
        }
        self.step(State::Verifying, "restarted; looking whether it runs")?;
        self.verify()
    }

    /// Waits until no run is in progress, and keeps others from beginning. `None` when the restart ended over it.
    fn wait(&self) -> Result<Option<Turn>, SystemError> {
        let (begun, at) = (Instant::now(), now(&*self.system).wall);
        let mut told = String::new();
        loop {
            let Some(record) = self.store.read(&self.key)? else {
                return Ok(None);
            };
            let cycle = &record.current;
            if !cycle.when_idle {
                self.step(State::Locked, "not waiting for a run to end, as was asked")?;
                return Ok(Some(Turn { _lock: None }));
            }
            let who = match take(&record.places) {
                Ok(lock) => {
                    self.step(State::Locked, "no run is in progress, and none can begin")?;
                    return Ok(Some(Turn { _lock: Some(lock) }));
                }
                Err(LockError::System(error)) => {
                    let problem = format!("the run lock cannot be taken: {}", chain(&error));
                    self.step(State::Failed, problem)?;
                    return Ok(None);
                }
                Err(held) => chain(&held),
            };
            // The clock that may be set says when waiting began; how long it is since then says one that may not.
            let waited = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let overdue = at.saturating_add(waited) >= cycle.deadline;
            if overdue && cycle.force {
                self.step(State::Locked, format!("not waiting any longer: {who}"))?;
                return Ok(Some(Turn { _lock: None }));
            }
            if overdue {
                let problem = format!("restart_timeout: not restarted, because {who}");
                self.step(State::Timeout, problem)?;
                return Ok(None);
            }
            if who != told {
                self.step(State::Waiting, format!("waiting: {who}"))?;
                told = who;
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Looks whether it runs again, and writes down the outcome.
    fn verify(&self) -> Result<(), SystemError> {
        let Some(record) = self.store.read(&self.key)? else {
            return Ok(());
        };
        let found = if record.current.instance.is_some() {
            self.await_daemon(&record.current, DAEMON)
        } else {
            self.await_process(&record).and_then(|found| {
                let Some(patience) = record.current.verify_bus else {
                    return Ok(found);
                };
                let patience = Duration::from_millis(patience);
                self.await_daemon(&record.current, patience).map(|_| found)
            })
        };
        self.change(|cycle, now| match found {
            Ok((after, text)) => {
                cycle.after = after;
                cycle.step(State::Ok, text, now);
            }
            Err(problem) => cycle.step(State::Failed, problem, now),
        })
    }

    /// The new main process, and what to say about it.
    fn await_process(&self, record: &Record) -> Result<(Option<ProcessId>, String), String> {
        let cycle = &record.current;
        let knows = matches!(record.target, crate::Target::Unit(_)) || cycle.pid_file.is_some();
        if !knows {
            return Ok((None, "the command succeeded".to_owned()));
        }
        let target = &record.target;
        let end = Instant::now() + self.appears;
        let there = loop {
            let found = self.look(record)?;
            if let Some(place) = found.missing {
                return Err(unknown(&place));
            }
            let is_new = found.process.is_none() || found.process != cycle.before;
            let gave_up = Instant::now() >= end;
            match found.process {
                _ if found.running && is_new => break found,
                Some(same) if found.running && gave_up => {
                    return Err(format!("{target} is still process {}, as before", same.pid));
                }
                _ if gave_up => return Err(format!("{target} does not run after the restart")),
                _ => thread::park_timeout(LOOK),
            }
        };
        self.watch(record, &there)
    }

    /// Looks at a process for a moment: it must not end at once.
    fn watch(&self, record: &Record, there: &Look) -> Result<(Option<ProcessId>, String), String> {
        let end = Instant::now() + self.watched;
        while Instant::now() < end {
            thread::park_timeout(end.saturating_duration_since(Instant::now()));
        }
        let again = self.look(record)?;
        if !again.running || (there.process.is_some() && again.process != there.process) {
            return Err(format!("{} ended again at once", record.target));
        }
        // A service that writes its number late has written it by now.
        let after = again.process.or(there.process);
        let text = match (after, record.current.before) {
            (Some(after), Some(before)) if after == before => {
                return Err(format!(
                    "{} is still process {}, as before",
                    record.target, after.pid
                ));
            }
            (Some(after), Some(before)) => {
                format!("process {} in place of {}", after.pid, before.pid)
            }
            (Some(after), None) => format!("process {}", after.pid),
            (None, _) => "it runs; nothing says which process it is".to_owned(),
        };
        Ok((after, text))
    }

    /// Waits until the daemon answers: another one than before, if it is the one that is restarted.
    fn await_daemon(
        &self,
        cycle: &Cycle,
        patience: Duration,
    ) -> Result<(Option<ProcessId>, String), String> {
        let patience = match cycle.verify_bus {
            Some(asked) => patience.min(Duration::from_millis(asked)),
            None => patience,
        };
        let end = Instant::now() + patience;
        loop {
            let found = self.daemon().filter(|found| found.ready);
            let found = found.filter(|found| Some(found.instance) != cycle.instance);
            if let Some(found) = found {
                let text = format!("rpcd is ready again, process {}", found.process.pid);
                return Ok((Some(found.process), text));
            }
            if Instant::now() >= end {
                return Err(format!(
                    "rpcd did not answer within {} s",
                    patience.as_secs()
                ));
            }
            thread::park_timeout(LOOK);
        }
    }

    fn daemon(&self) -> Option<Instance> {
        Instance::read(&self.store).ok().flatten()
    }

    fn look(&self, record: &Record) -> Result<Look, String> {
        let pid_file = record.current.pid_file.as_deref();
        look(&self.system, &record.target, pid_file).map_err(|error| error.line())
    }

    fn step(&self, state: State, text: impl Into<String>) -> Result<(), SystemError> {
        let text = text.into();
        self.change(|cycle, now| cycle.step(state, text, now))
    }

    fn change(&self, change: impl FnOnce(&mut Cycle, Moment)) -> Result<(), SystemError> {
        let now = now(&*self.system);
        self.store.change(&self.key, |record| {
            if let Some(record) = record {
                change(&mut record.current, now);
            }
        })
    }
}

/// In the words of the agent `service`.
pub(crate) fn unknown(place: &str) -> String {
    format!("there is no such service: looked for {place}")
}

/// Takes the run lock, if nobody has it.
fn take(places: &Places) -> Result<RunLock, LockError> {
    let engine = StateDir::open(&places.engine)?;
    RunLock::take_although_disabled(&engine, &places.puppet, Duration::ZERO)
}
