//! `locks`: which locks there are on the node, and who holds them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::{StateDir, System};
use muster_api::{Action, ActionError, Context};
use muster_engine::lock::{LockError, OwnLock};
use serde::{Deserialize, Serialize};

use super::{failed, places};
use crate::files::look::{Holder, disabled, holder};
use crate::places::Places;
use crate::runs::Runs;

pub(crate) struct Locks(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    held: usize,
    locks: Vec<Lock>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Lock {
    name: String,
    path: String,
    state: String,
    pid: Option<u32>,
    holder: Option<String>,
    message: Option<String>,
}

impl Action for Locks {
    const NAME: &'static str = "locks";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let mut locks = vec![own(&runs)?];
            if let Ok(places) = places(&runs.options, &*system) {
                locks.extend(puppets(&*system, &places)?);
            }
            let held = locks.iter().filter(|lock| lock.state == "held").count();
            Ok(Output { held, locks })
        })
        .await?
    }
}

fn lock(name: &str, path: &Path, state: &str) -> Lock {
    Lock {
        name: name.to_owned(),
        path: path.display().to_string(),
        state: state.to_owned(),
        pid: None,
        holder: None,
        message: None,
    }
}

/// Our own: it is tried for, because nothing is written in it.
fn own(runs: &Runs) -> Result<Lock, ActionError> {
    let directory = runs.engine_dir();
    let state = StateDir::open(&directory).map_err(failed)?;
    let is_held = match OwnLock::take(&state, Duration::ZERO) {
        Ok(_) => false,
        Err(LockError::Running { .. }) => true,
        Err(error) => return Err(failed(error)),
    };
    let path = directory.join("run.lock");
    let mut lock = lock("run", &path, if is_held { "held" } else { "free" });
    lock.message = runs
        .current()
        .map(|outcome| format!("run {} is {}", outcome.run, outcome.state.word()));
    Ok(lock)
}

fn puppets(system: &dyn System, places: &Places) -> Result<Vec<Lock>, ActionError> {
    let mut locks = Vec::new();
    let ssl = places.ssldir.join("ssl.lock");
    for (name, path) in [("puppet", places.run_lock()), ("ssl", ssl)] {
        let found = holder(system, &path).map_err(failed)?;
        let state = match found {
            Holder::Nobody => continue,
            Holder::Stale(_) => "stale",
            Holder::Process(_) => "held",
        };
        let mut lock = lock(name, &path, state);
        lock.pid = found.pid();
        lock.holder = match found {
            Holder::Process(pid) => program(system, pid),
            _ => None,
        };
        locks.push(lock);
    }
    if let Some(reason) = disabled(system, places).map_err(failed)? {
        let mut lock = lock("disabled", &places.disabled_lock(), "held");
        lock.message = Some(reason);
        locks.push(lock);
    }
    Ok(locks)
}

/// What a process is called.
fn program(system: &dyn System, pid: u32) -> Option<String> {
    let name = system
        .read(format!("/proc/{pid}/comm").as_ref(), 4096)
        .ok()?;
    Some(String::from_utf8_lossy(&name).trim().to_owned())
}
