//! One sink: follows what its host has of the directory, the catalogs and the history.

use std::sync::Arc;
use std::time::Duration;

use muster_base::error_chain;
use muster_catalogs::handle::CompilerHandle;
use muster_catalogs::releases::ReleaseStore;
use muster_directory::DirectoryHandle;
use muster_files::files::{FileAccessError, create_private_directory};
use muster_history::index::HistoryIndex;
use muster_sinks::DeadLetters;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::catalogs::ReleasedCatalogs;
use super::counts::SinkCounts;
use super::facts::FactsSource;
use super::options::{PuppetdbOptions, SinkOptionsError};
use super::reports::RunReports;
use super::sender::CommandSender;
use super::state::StateFile;

const STATE_FILE: &str = "state.json";
const DEAD_LETTERS: &str = "dead";
/// How often the state is stored. A command that was sent after that is sent again by the next daemon.
const STORE_INTERVAL: Duration = Duration::from_secs(2);
/// How often reports that wait are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Why there is no sink.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error(transparent)]
    Options(#[from] SinkOptionsError),
    #[error("cannot use the directory of the sink")]
    Directory(#[from] FileAccessError),
    #[error(
        "this host has nothing to send to PuppetDB: enable directory, compiler or history here, too"
    )]
    NoSource,
}

/// Where released catalogs are.
#[derive(Debug, Clone)]
pub struct CatalogSource {
    pub handle: CompilerHandle,
    pub releases: ReleaseStore,
}

/// What this host has.
#[derive(Debug, Clone, Default)]
pub struct SinkSources {
    pub directory: Option<DirectoryHandle>,
    pub catalogs: Option<CatalogSource>,
    pub history: Option<Arc<HistoryIndex>>,
}

/// A sink that is ready to run.
#[derive(Debug)]
pub struct PuppetdbSink {
    sources: SinkSources,
    sender: CommandSender,
    state: Arc<StateFile>,
    counts: Arc<SinkCounts>,
    producer: String,
}

impl PuppetdbSink {
    /// Reads and creates files. Connects at the first command.
    pub fn open(options: &PuppetdbOptions, sources: SinkSources) -> Result<Self, SinkError> {
        let is_wanted = |wanted: Option<bool>| wanted.unwrap_or(true);
        let sources = SinkSources {
            directory: sources.directory.filter(|_| is_wanted(options.facts)),
            catalogs: sources.catalogs.filter(|_| is_wanted(options.catalogs)),
            history: sources.history.filter(|_| is_wanted(options.reports)),
        };
        if sources.directory.is_none() && sources.catalogs.is_none() && sources.history.is_none() {
            return Err(SinkError::NoSource);
        }
        let client = options.open_client()?;
        let directory = options.directory();
        create_private_directory(&directory)?;
        let letters = DeadLetters::open(directory.join(DEAD_LETTERS), options.dead_letters())?;
        let state = Arc::new(StateFile::open(&directory.join(STATE_FILE)));
        let counts: Arc<SinkCounts> = Arc::default();
        let sender = CommandSender::new(client, letters, Arc::clone(&counts));
        Ok(Self { sources, sender, state, counts, producer: options.producer() })
    }

    /// What was sent, for the metrics.
    pub fn counts(&self) -> Arc<SinkCounts> {
        Arc::clone(&self.counts)
    }

    pub async fn run_until_stopped(self, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let compiler = self.sources.catalogs.as_ref().map(|catalogs| catalogs.handle.clone());
        let parts = || (self.sender.clone(), Arc::clone(&self.state), self.producer.clone());
        if let Some(directory) = self.sources.directory.clone() {
            let (sender, state, producer) = parts();
            tasks.spawn(FactsSource { directory, compiler, sender, state, producer }.follow());
        }
        if let Some(CatalogSource { handle, releases }) = self.sources.catalogs.clone() {
            let (sender, state, producer) = parts();
            tasks.spawn(ReleasedCatalogs { handle, releases, sender, state, producer }.follow());
        }
        let mut waiting = None;
        if let Some(index) = self.sources.history.clone() {
            let reports = || {
                let (sender, state, producer) = parts();
                RunReports { index: Arc::clone(&index), sender, state, producer }
            };
            tasks.spawn(reports().follow());
            waiting = Some(reports());
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep_current(waiting) => {}
        }
        self.sender.shut_down();
        tasks.shutdown().await;
        self.store_state().await;
    }

    /// Stores the state, and counts reports that wait.
    async fn keep_current(&self, waiting: Option<RunReports>) {
        let (mut stores, mut counts) = (interval(STORE_INTERVAL), interval(COUNT_INTERVAL));
        stores.set_missed_tick_behavior(MissedTickBehavior::Delay);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stores.tick() => self.store_state().await,
                _ = counts.tick() => {
                    if let Some(reports) = &waiting {
                        reports.count_waiting().await;
                    }
                }
            }
        }
    }

    async fn store_state(&self) {
        let state = Arc::clone(&self.state);
        match spawn_blocking(move || state.store()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = error_chain(&error);
                tracing::warn!(error, "cannot store how far PuppetDB has what it is sent");
            }
            Err(error) => tracing::warn!(%error, "a task of the sink ended"),
        }
    }
}
