//! Follows the promotions of the node: accepts them, fetches their catalogs, and applies the current one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::{StateDir, SystemResult};
use muster_bus::Bus;
use muster_engine::run::default_content_directory;
use muster_puppet::CatalogEngine;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{OpenPromotion, Promotion, Release, ReleasedEntry};
use muster_wire::catalog::{CatalogAddress, CompiledCatalog, named_files};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error::ReleaseError;
use super::fetch::ReleaseFetcher;
use super::held::{self, HeldRelease, HeldState, LastRun};
use super::parts::{FollowerParts, ReleaseMachine};
use super::run::{EventSink, ReleaseRun, ReleasedCatalog};
use super::trust::ReleaseTrust;
use crate::catalog::runs::RunMode;

/// Follows promotions. Clones share it.
#[derive(Debug, Clone)]
pub struct ReleaseFollower(Arc<FollowerInner>);

#[derive(Debug)]
struct FollowerInner {
    parts: FollowerParts,
    link: OnceLock<(Bus, Arc<dyn ReleaseTrust>)>,
    /// One change of the directory, and one run, at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Why the latest promotion is not followed.
    problem: Mutex<Option<String>>,
}

/// What became of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Promoted {
    /// The node has this catalog from now on.
    Catalog(CatalogAddress),
    /// The release has no catalog for this node, which keeps what it has.
    Absent,
}

/// A catalog that is on disk, and the files that were fetched for it.
type FetchedCatalog = (CatalogAddress, Vec<ContentAddress>);

impl ReleaseFollower {
    pub(super) fn new(parts: FollowerParts) -> Self {
        Self(Arc::new(FollowerInner {
            parts,
            link: OnceLock::new(),
            turn: Arc::default(),
            problem: Mutex::default(),
        }))
    }

    /// Promotions can be verified and fetched from now on.
    pub fn connect(&self, bus: Bus, trust: Arc<dyn ReleaseTrust>) {
        let _ = self.0.link.set((bus, trust));
    }

    /// Looks for promotions and applies the current catalog, at intervals, until the daemon stops.
    pub async fn run(self, machine: ReleaseMachine, stop: CancellationToken) {
        tokio::select! {
            () = self.follow(&machine) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn follow(&self, machine: &ReleaseMachine) {
        let Some((bus, _)) = self.0.link.get() else { return };
        let options = &self.0.parts.options;
        // A restart of many daemons at once must not start their runs at once.
        let mut next_run = Instant::now() + random_part(options.interval());
        loop {
            if bus.is_connected() && self.look(machine).await {
                next_run = Instant::now();
            }
            if next_run <= Instant::now() {
                self.run_by_itself(machine).await;
                next_run = Instant::now() + spread(options.interval());
            }
            let next_look = Instant::now() + spread(options.poll());
            tokio::select! {
                () = sleep_until(next_look.min(next_run)) => {}
                // A node that was away looks at once.
                () = reconnected(bus) => {}
            }
        }
    }

    /// Takes the stored promotion, if it is newer than that of the node. Returns whether it was.
    async fn look(&self, machine: &ReleaseMachine) -> bool {
        let looked = async {
            let (bus, trust) = self.link()?;
            let state = self.open_state()?;
            let node = machine.node.identity();
            let contents = self.contents(machine);
            let fetcher = ReleaseFetcher { bus, node, state: &state, contents: &contents };
            let Some(entry) = fetcher.read_promotion().await? else { return Ok(false) };
            // What was accepted, or is older, needs no verification.
            let (promotion, _) = entry.read_unverified()?;
            if promotion.issued_at <= HeldState::load(&state)?.latest {
                return Ok(false);
            }
            let opened = trust.open_promotion(&entry)?;
            trust.permits(&opened).map_err(|rule| ReleaseError::Denied {
                author: opened.promotion.author.to_string(),
                rule,
            })?;
            if self.promote(machine, &opened, &entry).await? == Promoted::Absent {
                return Ok(false);
            }
            let (release, by) = (&opened.release.name, &opened.promotion.author);
            tracing::info!(%release, %by, "found a promotion that came while this node was away");
            Ok::<bool, ReleaseError>(true)
        };
        match looked.await {
            Ok(is_new) => {
                self.note_problem(None);
                is_new
            }
            Err(error) => {
                let problem = error_chain(&error);
                if self.note_problem(Some(problem.clone())) {
                    tracing::warn!(problem, "cannot follow the promotion of this node");
                }
                false
            }
        }
    }

    /// Runs without anybody's request: changes something only in the times of the promotion.
    async fn run_by_itself(&self, machine: &ReleaseMachine) {
        let mode = match self.current() {
            Ok(Some(held)) if self.may_apply(&held) => RunMode::Apply,
            Ok(Some(_)) => RunMode::Noop,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "cannot read the release of this node"
                );
                return;
            }
        };
        let cancel = CancellationToken::new();
        let _over = cancel.clone().drop_guard();
        let run = self.apply(machine, mode, &cancel, Box::new(|_| {})).await;
        match run {
            Ok(run) => tracing::info!(
                release = %run.release.name,
                catalog = run.catalog.version(),
                noop = run.noop,
                status = run.outcome.status,
                "applied the released catalog"
            ),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "cannot apply the released catalog");
            }
        }
    }

    /// Whether the promotion allows changes now: by its times, and while its signature counts.
    fn may_apply(&self, held: &HeldRelease) -> bool {
        let Ok((_, trust)) = self.link() else { return false };
        let Ok(opened) = trust.open_promotion(&held.entry) else { return false };
        opened.promotion.apply.as_ref().is_some_and(|times| trust.is_open(times))
            && trust.permits(&opened).is_ok()
    }

    /// Takes a verified promotion from now on.
    pub(super) async fn promote(
        &self,
        machine: &ReleaseMachine,
        opened: &OpenPromotion,
        entry: &ReleasedEntry,
    ) -> Result<Promoted, ReleaseError> {
        let OpenPromotion { promotion, release, .. } = opened;
        if !is_matched(machine, promotion) {
            return Err(ReleaseError::NotMatched);
        }
        let _turn = self.0.turn.lock().await;
        let state = self.open_state()?;
        let mut held = HeldState::load(&state)?;
        let is_current = held.current().is_some_and(|current| current.entry == *entry);
        if let Some(current) = held.current().filter(|_| is_current) {
            return Ok(Promoted::Catalog(current.catalog));
        }
        if promotion.issued_at <= held.latest {
            return Err(ReleaseError::Older(held.latest - promotion.issued_at));
        }
        let found = match held.find(promotion.release) {
            Some(catalog) => Some((catalog, self.fetch_plugins(machine, release, &state).await?)),
            None => self.fetch(machine, release, &state).await?,
        };
        let Some((catalog, files)) = found else { return Ok(Promoted::Absent) };
        held.fetched.extend(files);
        held.promote(HeldRelease { entry: entry.clone(), catalog }, promotion.issued_at);
        held.save(&state)?;
        self.remove_unused(&mut held, &state, machine)?;
        self.note_problem(None);
        self.0.parts.state_changes.notify();
        Ok(Promoted::Catalog(catalog))
    }

    /// Fetches the node's catalog of a release; `None` if it has none.
    async fn fetch(
        &self,
        machine: &ReleaseMachine,
        release: &Release,
        state: &StateDir,
    ) -> Result<Option<FetchedCatalog>, ReleaseError> {
        let (bus, trust) = self.link()?;
        let (node, contents) = (machine.node.identity(), self.contents(machine));
        // Only the daemon reads it.
        StateDir::open(&contents)?;
        let fetcher = ReleaseFetcher { bus, node, state, contents: &contents };
        let Some(catalog) = fetcher.find_catalog(release).await? else { return Ok(None) };
        let mut files = fetcher.fetch_catalog(catalog, &release.environment, &**trust).await?;
        if let Some(plugins) = self.plugins_of(release) {
            files.extend(fetcher.fetch_plugins(plugins).await?);
        }
        Ok(Some((catalog, files)))
    }

    /// Fetches the plugins of a release that the node has, after its engine was changed. Returns the fetched files.
    async fn fetch_plugins(
        &self,
        machine: &ReleaseMachine,
        release: &Release,
        state: &StateDir,
    ) -> Result<Vec<ContentAddress>, ReleaseError> {
        let (contents, node) = (self.contents(machine), machine.node.identity());
        let missing =
            self.plugins_of(release).filter(|list| held::read_plugins(&contents, *list).is_err());
        let Some(list) = missing else { return Ok(Vec::new()) };
        StateDir::open(&contents)?;
        let (bus, _) = self.link()?;
        ReleaseFetcher { bus, node, state, contents: &contents }.fetch_plugins(list).await
    }

    /// The plugins that the node needs for a release.
    fn plugins_of(&self, release: &Release) -> Option<ContentAddress> {
        release.plugins.filter(|_| self.0.parts.options.engine == CatalogEngine::Puppet)
    }

    /// Removes catalogs and files that no held release names.
    fn remove_unused(
        &self,
        held: &mut HeldState,
        state: &StateDir,
        machine: &ReleaseMachine,
    ) -> Result<(), ReleaseError> {
        let mut named = BTreeSet::new();
        for bytes in held::remove_catalogs(state, &held.catalogs())? {
            let stored = CompiledCatalog::read_unverified(&bytes);
            // Nothing is removed as long as it is not known what is needed.
            let Ok(stored) = stored.and_then(|compiled| compiled.stored_form()) else {
                return Ok(());
            };
            named.extend(named_files(&stored));
        }
        let contents = self.contents(machine);
        for release in &held.held {
            let Some(plugins) = self.plugins_of(&release.read()?.1) else { continue };
            let Ok(list) = held::read_plugins(&contents, plugins) else { return Ok(()) };
            named.insert(plugins);
            named.extend(list.files().map(|(_, file)| file));
        }
        let unused: Vec<_> = held.fetched.difference(&named).copied().collect();
        let contents = StateDir::open(&contents)?;
        for file in unused {
            contents.remove_file(&file.to_string())?;
            held.fetched.remove(&file);
        }
        Ok(held.save(state)?)
    }

    /// Reports what the node's catalog of a release would change; `None` if it has none.
    pub(super) async fn plan(
        &self,
        machine: &ReleaseMachine,
        release: Release,
        text: &str,
        cancel: &CancellationToken,
        sink: EventSink,
    ) -> Result<Option<ReleaseRun>, ReleaseError> {
        let _turn = self.0.turn.lock().await;
        let state = self.open_state()?;
        let mut held = HeldState::load(&state)?;
        // What an earlier plan fetched does not stay for ever. What this one fetches stays, because a promotion is likely to follow.
        self.remove_unused(&mut held, &state, machine)?;
        let found = match held.find(Release::address_of(text)) {
            Some(catalog) => Some((catalog, Vec::new())),
            None => self.fetch(machine, &release, &state).await?,
        };
        let Some((catalog, files)) = found else { return Ok(None) };
        held.fetched.extend(files);
        held.save(&state)?;
        self.run_catalog(machine, release, catalog, RunMode::Plan, cancel, sink).await.map(Some)
    }

    /// Applies the current catalog.
    pub(super) async fn apply(
        &self,
        machine: &ReleaseMachine,
        mode: RunMode,
        cancel: &CancellationToken,
        sink: EventSink,
    ) -> Result<ReleaseRun, ReleaseError> {
        let held = self.current()?.ok_or(ReleaseError::Nothing)?;
        let (promotion, release) = held.read()?;
        let mut machine = machine.clone();
        machine.cause.caller.get_or_insert_with(|| promotion.author.to_string());
        let run = self.run_catalog(&machine, release, held.catalog, mode, cancel, sink).await?;
        self.note_run(&run)?;
        Ok(run)
    }

    async fn run_catalog(
        &self,
        machine: &ReleaseMachine,
        release: Release,
        catalog: CatalogAddress,
        mode: RunMode,
        cancel: &CancellationToken,
        sink: EventSink,
    ) -> Result<ReleaseRun, ReleaseError> {
        let (_, trust) = self.link()?;
        let bytes = held::read_catalog(&self.open_state()?, catalog)?;
        let bytes = bytes.ok_or(ReleaseError::NoCatalog(catalog))?;
        let refused = |source| ReleaseError::Catalog { address: catalog, source };
        let compiled = CompiledCatalog::read_unverified(&bytes).map_err(refused)?;
        if compiled.statement.address != catalog {
            return Err(ReleaseError::NoCatalog(catalog));
        }
        let opened = trust.decrypt_catalog(&compiled).map_err(refused)?;
        let released = ReleasedCatalog {
            parts: &self.0.parts,
            machine,
            release: &release,
            contents: self.contents(machine),
            plugins: self.plugins_of(&release),
            address: catalog,
            catalog: opened.catalog,
        };
        let (outcome, failure) = released.apply(mode, cancel, sink).await?;
        Ok(ReleaseRun { release, catalog, noop: mode != RunMode::Apply, outcome, failure })
    }

    fn note_run(&self, run: &ReleaseRun) -> Result<(), ReleaseError> {
        let (_, trust) = self.link()?;
        let state = self.open_state()?;
        let mut held = HeldState::load(&state)?;
        held.last_run = Some(LastRun {
            at: trust.now(),
            noop: run.noop,
            status: run.outcome.status.clone(),
            changed: run.changes(),
            failed: u64::try_from(run.outcome.failed).unwrap_or(u64::MAX),
            catalog: run.catalog,
        });
        held.save(&state)?;
        self.0.parts.state_changes.notify();
        Ok(())
    }

    /// Returns whether it is another one than before.
    fn note_problem(&self, problem: Option<String>) -> bool {
        let mut known = self.0.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = *known != problem;
        if is_other {
            *known = problem;
            self.0.parts.state_changes.notify();
        }
        is_other
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.0.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn link(&self) -> Result<(&Bus, &Arc<dyn ReleaseTrust>), ReleaseError> {
        self.0.link.get().map(|(bus, trust)| (bus, trust)).ok_or(ReleaseError::NotConnected)
    }

    /// What the node has, without its directory if nothing was ever promoted.
    pub(super) fn read_state(&self) -> Result<HeldState, ReleaseError> {
        if !self.0.parts.state.exists() {
            return Ok(HeldState::default());
        }
        Ok(HeldState::load(&self.open_state()?)?)
    }

    fn current(&self) -> Result<Option<HeldRelease>, ReleaseError> {
        Ok(self.read_state()?.current().cloned())
    }

    fn open_state(&self) -> SystemResult<StateDir> {
        StateDir::open(&self.0.parts.state)
    }

    /// The directory of files, as a path of the host, where the engine's runs look for them.
    fn contents(&self, machine: &ReleaseMachine) -> PathBuf {
        let system = &*machine.system;
        let directory = default_content_directory(system, &self.0.parts.engine.state_dir);
        system.root().join(directory.strip_prefix("/").unwrap_or(&directory))
    }
}

fn is_matched(machine: &ReleaseMachine, promotion: &Promotion) -> bool {
    promotion.filter.is_empty() || machine.node.is_matched_by(&promotion.filter)
}

/// Waits for the end of an interruption of the connection.
async fn reconnected(bus: &Bus) {
    bus.wait_disconnected().await;
    bus.wait_connected().await;
}

/// A time between three quarters of an interval and the whole, so that the nodes of a fleet do not work in step.
fn spread(interval: Duration) -> Duration {
    interval * 3 / 4 + random_part(interval / 4)
}

fn random_part(interval: Duration) -> Duration {
    interval.mul_f64(rand::random::<f64>())
}
