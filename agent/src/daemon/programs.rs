//! Fetches the programs to which this daemon may be upgraded: those that the account token lists for this kind of machine.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use muster_agents::config::{ProgramStore, StoredProgram};
use muster_base::error_chain;
use muster_bus::Bus;
use muster_bus::content::ContentStore;
use muster_node::core::DaemonCore;
use muster_wire::stores::PROGRAMS_BUCKET;
use muster_wire::token::ApprovedProgram;
use muster_wire::token::program::MAX_PROGRAM_BYTES;

use crate::daemon::upgrade::NextDaemon;

/// The kind of machine for which this program was built.
const MACHINE: &str = std::env::consts::ARCH;

/// How long an account token may be on its way from the broker.
const TOKEN_DELAY: Duration = Duration::from_secs(3);
const TOKEN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Where programs come from, and where they are kept.
#[derive(Debug, Clone)]
pub(crate) struct ProgramFetcher {
    pub(crate) store: ProgramStore,
    next_daemon: NextDaemon,
    broker: Arc<OnceLock<(Bus, Arc<DaemonCore>)>>,
}

impl ProgramFetcher {
    pub(crate) fn new(store: ProgramStore, config_file: &Path) -> Self {
        let next_daemon = NextDaemon::new(store.clone(), config_file);
        Self { store, next_daemon, broker: Arc::default() }
    }

    pub(crate) fn next_daemon(&self) -> NextDaemon {
        self.next_daemon.clone()
    }

    pub(crate) fn connect(&self, bus: Bus, core: Arc<DaemonCore>) {
        // Only the first connection of a daemon calls this.
        let _ = self.broker.set((bus, core));
    }

    /// Fetches the program of this name, unless it is there, and runs it with `--check`.
    pub(crate) async fn fetch(&self, name: &str) -> Result<StoredProgram, String> {
        let (bus, core) = self.broker.get().ok_or("this daemon has no connection to the broker")?;
        let approved = await_approved(core, name).await?;
        if approved.bytes > MAX_PROGRAM_BYTES {
            let bytes = approved.bytes;
            return Err(format!(
                "the program {name} has {bytes} bytes; at most {MAX_PROGRAM_BYTES} are accepted"
            ));
        }
        let program = StoredProgram { name: approved.name.clone(), sha256: approved.sha256 };
        let (store, kept) = (self.store.clone(), program.clone());
        let compressed = run_blocking(move || {
            if store.is_intact(&kept) {
                return Ok(None);
            }
            store.prepare_fetch(&kept).map(Some).map_err(|error| error_chain(&error))
        })
        .await?;
        if let Some(compressed) = compressed {
            let content = ContentStore::new(bus.bucket(PROGRAMS_BUCKET.name));
            let fetched = content.get_file(approved.content, &compressed, MAX_PROGRAM_BYTES).await;
            fetched.map_err(|error| {
                format!("cannot fetch the program {name}: {}", error_chain(&error))
            })?;
            let (store, kept) = (self.store.clone(), program.clone());
            run_blocking(move || {
                store.unpack(&compressed, &kept, approved.bytes).map_err(|error| {
                    format!("cannot unpack the program {}: {}", kept.name, error_chain(&error))
                })
            })
            .await?;
        }
        let (next, path) = (self.next_daemon.clone(), self.store.path_of(&program));
        run_blocking(move || {
            next.check_program(&path)
                .map_err(|error| format!("the new program's `--check` failed: {}", error.problem))
        })
        .await?;
        Ok(program)
    }
}

/// The program, also if the account token that lists it was pushed a moment ago.
async fn await_approved(core: &DaemonCore, name: &str) -> Result<ApprovedProgram, String> {
    let deadline = Instant::now() + TOKEN_DELAY;
    loop {
        let found = find_approved(core.trust.account.get().programs(), name);
        if found.is_ok() || Instant::now() > deadline {
            return found;
        }
        tokio::time::sleep(TOKEN_POLL_INTERVAL).await;
    }
}

fn find_approved(programs: &[ApprovedProgram], name: &str) -> Result<ApprovedProgram, String> {
    let named = || programs.iter().filter(|program| program.name == name);
    if let Some(approved) = named().find(|program| program.machine == MACHINE) {
        return Ok(approved.clone());
    }
    Err(match named().next() {
        Some(other) => format!(
            "the organisation has the program {name} for {} only, and this machine is {MACHINE}",
            other.machine
        ),
        None => format!(
            "the account token of this node lists no program {name}; `rpc org program list` shows what the organisation has"
        ),
    })
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}
