//! One instance: follows the directory, the code and what is stored, checks which nodes have to be compiled, and compiles.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_bus::{BucketError, Bus};
use muster_wire::identity::Identity;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::code::{CodeSourceError, CodeStore};
use crate::handle::{CODE_PATTERN, CompilerHandle};
use crate::options::{CodeSource, Environment};
use crate::record::NEWEST_PREFIX;
use crate::releases::ReleaseStore;
use crate::worker::CompileWorker;

/// Pause after an error of the broker or of a repository.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// How often a directory with code is read.
const DIRECTORY_POLL: Duration = Duration::from_secs(5);
/// How often all nodes are checked without a change: catalogs grow old, and nodes leave answers when they are silent for long.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);
/// How often old catalogs and files are deleted.
const COLLECTION_INTERVAL: Duration = Duration::from_hours(24);
const FIRST_COLLECTION: Duration = Duration::from_hours(1);
/// Changes of the directory are collected for this time before answers to queries are compared.
const QUERY_DELAY: Duration = Duration::from_secs(1);

/// Compiles catalogs ahead, until it is stopped.
#[derive(Debug)]
pub struct CompilerService {
    bus: Bus,
    handle: CompilerHandle,
    code: CodeStore,
    worker: Arc<CompileWorker>,
    parallel: usize,
}

impl CompilerService {
    pub fn new(bus: Bus, code: CodeStore, worker: Arc<CompileWorker>, parallel: usize) -> Self {
        Self { bus, handle: worker.handle.clone(), code, worker, parallel }
    }

    /// While the broker is away, nothing is compiled.
    pub async fn run_until_stopped(self, stop: CancellationToken) {
        let service = Arc::new(self);
        let tasks = Arc::clone(&service).start();
        stop.cancelled().await;
        drop(tasks);
        if let Err(error) = service.bus.close().await {
            tracing::debug!(%error, "cannot close the connection of the compiler cleanly");
        }
    }

    /// Starts everything; dropped, the set ends it.
    fn start(self: Arc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let newest = format!("{NEWEST_PREFIX}>");
        tasks.spawn(Self::follow_queue(Arc::clone(&self)));
        tasks.spawn(Self::follow_catalogs(Arc::clone(&self), newest));
        tasks.spawn(Self::follow_catalogs(Arc::clone(&self), CODE_PATTERN.to_owned()));
        tasks.spawn(Self::open_code(Arc::clone(&self)));
        tasks.spawn(Self::check_changes(Arc::clone(&self)));
        tasks.spawn(Self::sweep(Arc::clone(&self)));
        tasks.spawn(Self::collect_daily(Arc::clone(&self)));
        for environment in self.handle.environments() {
            tasks.spawn(Self::follow_code(Arc::clone(&self), environment.clone()));
            for _ in 0..self.parallel {
                tasks.spawn(Self::work(Arc::clone(&self), environment.name.clone()));
            }
        }
        tasks
    }

    async fn work(self: Arc<Self>, environment: String) {
        self.wait_ready().await;
        self.worker.run(&environment).await;
    }

    /// Waits until the directory has read all records, so that no query is answered without some nodes.
    async fn wait_ready(&self) {
        self.handle.wait_stored().await;
        while self.handle.directory().node_names().is_none() {
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn follow_queue(self: Arc<Self>) {
        loop {
            if let Err(error) = self.read_queue().await {
                tracing::debug!(%error, "cannot follow the queue of compiles; opening it again");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn read_queue(&self) -> Result<(), BucketError> {
        self.handle.queue().forget();
        let mut watch = self.handle.queue().bucket().retry_until_dropped().watch(">").await?;
        while let Some(entry) = watch.next().await? {
            self.handle.queue().apply(&entry);
        }
        Ok(())
    }

    async fn follow_catalogs(self: Arc<Self>, pattern: String) {
        loop {
            if let Err(error) = self.read_catalogs(&pattern).await {
                tracing::debug!(%error, "cannot follow the bucket of catalogs; opening it again");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn read_catalogs(&self, pattern: &str) -> Result<(), BucketError> {
        let mut watch = self.handle.catalogs().retry_until_dropped().watch(pattern).await?;
        loop {
            if watch.is_current() {
                self.handle.note_stored(pattern);
            }
            let Some(entry) = watch.next().await? else { return Ok(()) };
            self.handle.apply(&entry);
        }
    }

    /// Announces newer code of an environment.
    async fn follow_code(self: Arc<Self>, environment: Environment) {
        self.handle.wait_stored().await;
        let poll = match &environment.source {
            CodeSource::Repository { poll, .. } => *poll,
            CodeSource::Directory(_) => DIRECTORY_POLL,
        };
        loop {
            if let Err(error) = self.announce_newest(&environment).await {
                let problem = error_chain(&*error);
                tracing::warn!(
                    environment = environment.name,
                    problem,
                    "cannot look for newer code"
                );
                self.handle.edit_code(&environment.name, |known| known.problem = Some(problem));
            }
            sleep(poll).await;
        }
    }

    async fn announce_newest(
        &self,
        environment: &Environment,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let announced = self.handle.code(&environment.name).announced;
        if announced.is_some_and(|announced| announced.pinned) {
            return Ok(());
        }
        let (store, own) = (self.code.clone(), environment.clone());
        let newest = tokio::task::spawn_blocking(move || store.find_newest(&own)).await??;
        self.handle.announce(&environment.name, &newest, false).await?;
        Ok(())
    }

    /// Checks out the code that is announced, and then checks all nodes.
    async fn open_code(self: Arc<Self>) {
        loop {
            let changed = self.handle.code_changed().notified();
            let mut has_new = false;
            for environment in self.handle.environments() {
                has_new |= self.open_announced(environment).await;
            }
            if has_new {
                self.wait_ready().await;
                self.check_all().await;
            }
            tokio::select! {
                () = changed => {}
                () = sleep(SWEEP_INTERVAL) => {}
            }
        }
    }

    /// Returns whether other code is there now.
    async fn open_announced(&self, environment: &Environment) -> bool {
        let known = self.handle.code(&environment.name);
        let Some(announced) = known.announced else { return false };
        if known.version.is_some_and(|version| version.code == announced.code) {
            return false;
        }
        let (store, own, code) = (self.code.clone(), environment.clone(), announced.code);
        let opened = tokio::task::spawn_blocking(move || store.open(&own, &code)).await;
        let opened: Result<_, Box<dyn std::error::Error + Send + Sync>> = match opened {
            Ok(opened) => opened.map_err(|error: CodeSourceError| error.into()),
            Err(error) => Err(error.into()),
        };
        match opened {
            Ok(version) => {
                self.handle.note_version(&environment.name, version);
                true
            }
            Err(error) => {
                let problem = error_chain(&*error);
                tracing::warn!(
                    environment = environment.name,
                    problem,
                    "cannot check out the code"
                );
                self.handle.edit_code(&environment.name, |known| known.problem = Some(problem));
                false
            }
        }
    }

    /// Checks nodes whose record has changed, and those whose queries have other answers.
    async fn check_changes(self: Arc<Self>) {
        self.wait_ready().await;
        let mut last = 0;
        let mut compare_at = None;
        loop {
            let compare = async {
                match compare_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.handle.directory().next_changes(last) => {
                    last = changed.last;
                    self.handle.queries().forget();
                    match changed.nodes {
                        Some(nodes) => self.check_nodes(nodes).await,
                        None => self.check_all().await,
                    }
                    compare_at.get_or_insert_with(|| Instant::now() + QUERY_DELAY);
                }
                () = compare => {
                    compare_at = None;
                    self.check_nodes(self.handle.nodes_with_queries()).await;
                }
            }
        }
    }

    async fn sweep(self: Arc<Self>) {
        self.wait_ready().await;
        let mut sweeps = interval_at(Instant::now() + SWEEP_INTERVAL, SWEEP_INTERVAL);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            sweeps.tick().await;
            self.handle.queries().forget();
            self.check_all().await;
        }
    }

    /// Deletes what nothing names any more. Several instances do the same, and harm nothing.
    async fn collect_daily(self: Arc<Self>) {
        self.wait_ready().await;
        let store = ReleaseStore::new(self.handle.catalogs().clone(), self.worker.content.clone());
        let first = Instant::now() + FIRST_COLLECTION;
        let mut ticks = interval_at(first, COLLECTION_INTERVAL);
        loop {
            ticks.tick().await;
            let named = match self.handle.named_catalogs() {
                Ok(Some(named)) => named,
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(%error, "cannot find out which catalogs nodes have");
                    return;
                }
            };
            let (keep, now) = (self.handle.keep_releases(), self.handle.now());
            match store.collect(named, keep, now).await {
                Ok(report) => tracing::info!(
                    releases = report.deleted_releases,
                    catalogs = report.deleted_catalogs,
                    files = report.content.deleted_files,
                    "deleted what nothing names"
                ),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot delete old catalogs and files");
                }
            }
        }
    }

    async fn check_all(&self) {
        self.check_nodes(self.handle.directory().node_names().unwrap_or_default()).await;
    }

    async fn check_nodes(&self, nodes: Vec<Identity>) {
        let nodes: BTreeSet<Identity> = nodes.into_iter().collect();
        for node in nodes {
            // A check is repeated while the broker is away: nothing else would notice the change.
            while let Err(error) = self.handle.check(&node).await {
                tracing::debug!(%node, %error, "cannot add a node to the queue of compiles");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}
