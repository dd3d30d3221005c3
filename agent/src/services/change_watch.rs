//! Reads classes and facts again when their files have changed, and the state of subsystems when a plugin notifies of a change; then writes the message of the
//! day and the prompt.
//!
//! Files are compared by their metadata, once a second: that works on every file system, and uses no inotify instances, of which a user has 128 by default.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_agents::motd::{MotdRenderer, NodeSnapshot};
use muster_api::FindingLevel;
use muster_api::system::System;
use muster_engine::run::run_files::SUMMARY_FILE;
use muster_files::FileStamp;
use muster_node::config::Config;
use muster_node::core::{DaemonCore, reload};
use muster_node::ground::shared::lock_mutex;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which files are compared. Also the shortest time between two reads of the state.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest interval at which the state of subsystems is read.
const STATE_READ_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two collections of facts: programs of facts may take long.
const FACT_READ_INTERVAL: Duration = Duration::from_secs(10);
/// Most files of a directory that are compared.
const MAX_COMPARED_FILES: usize = 1000;

pub(crate) struct ChangeWatch {
    core: Arc<DaemonCore>,
    host: Arc<dyn System>,
    motd: Arc<MotdRenderer>,
    classes: WatchedFiles,
    facts: WatchedFiles,
    /// The summary of the engine, which `rpcd apply` writes without the daemon.
    runs: WatchedFiles,
    /// When changed facts were collected, while that is less than the shortest time ago.
    facts_read_at: Option<Instant>,
    are_facts_due: bool,
    state_interval: Duration,
    state_read_at: Option<Instant>,
    /// When the last known run of Puppet ended.
    ended_run: Option<Value>,
}

impl ChangeWatch {
    pub(crate) fn new(
        core: &Arc<DaemonCore>,
        host: &Arc<dyn System>,
        config: &Config,
        motd: Arc<MotdRenderer>,
        engine: &Path,
    ) -> Self {
        let heartbeat = config.registration.heartbeat;
        Self {
            core: Arc::clone(core),
            host: Arc::clone(host),
            motd,
            classes: WatchedFiles::new(config.paths.classes.clone()),
            facts: WatchedFiles::new(config.paths.facts_d.clone()),
            runs: WatchedFiles::new(engine.join(SUMMARY_FILE)),
            facts_read_at: None,
            are_facts_due: false,
            state_interval: STATE_READ_INTERVAL.min(heartbeat.max(Duration::from_secs(1))),
            state_read_at: None,
            ended_run: ended_run(core),
        }
    }

    /// Runs for the lifetime of the daemon.
    pub(crate) async fn run(self) {
        let (core, watch) = (Arc::clone(&self.core), Arc::new(Mutex::new(self)));
        let mut tick = interval(COMPARE_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_notified = tokio::select! {
                _ = tick.tick() => false,
                () = core.node.state.changes.wait() => true,
            };
            let watch = Arc::clone(&watch);
            let read = move || lock_mutex(&watch).read_changes(is_notified);
            if let Err(error) = tokio::task::spawn_blocking(read).await {
                tracing::error!(%error, "reading the state of the node failed");
            }
            if is_notified {
                // Further notifications within this second are handled together.
                tick.reset();
                tick.tick().await;
            }
        }
    }

    /// Reads what has changed, and the state if it is due. Blocks.
    fn read_changes(&mut self, is_notified: bool) {
        let has_new_classes = self.classes.have_changed();
        if has_new_classes {
            reload::reload_classes(&self.core);
        }
        self.are_facts_due |= self.facts.have_changed();
        let has_new_facts = self.are_facts_due && is_over(self.facts_read_at, FACT_READ_INTERVAL);
        if has_new_facts {
            reload::reload_facts(&self.core, &*self.host);
            (self.are_facts_due, self.facts_read_at) = (false, Some(Instant::now()));
        }
        let is_state_due = is_notified
            || self.runs.have_changed()
            || is_over(self.state_read_at, self.state_interval);
        if is_state_due || has_new_classes || has_new_facts {
            self.core.node.state.refresh(&*self.core.node.system);
            self.state_read_at = Some(Instant::now());
            // A run may change what facts describe, and the programs that print them.
            let ended_run = ended_run(&self.core);
            self.are_facts_due |= ended_run != self.ended_run;
            self.ended_run = ended_run;
            self.write_motd();
            self.core.content_changes.notify_one();
        }
    }

    /// Writes the message of the day and the prompt. A problem is logged once, and stays in the findings until it is gone.
    fn write_motd(&self) {
        let node = NodeSnapshot::of_node(&*self.core);
        let problems = self.motd.refresh(&*self.core.node.system, &node).problems;
        if self.core.health.set_findings("motd", FindingLevel::Warning, &problems) {
            for problem in &problems {
                tracing::warn!(problem, "the message of the day is incomplete");
            }
        }
    }
}

/// When the last run of Puppet ended, if there was one.
fn ended_run(core: &DaemonCore) -> Option<Value> {
    core.node
        .state
        .current()
        .as_ref()
        .as_ref()?
        .get("puppet")?
        .get("last_run")?
        .get("ended")
        .cloned()
}

/// Whether this was long ago, or never.
fn is_over(at: Option<Instant>, time: Duration) -> bool {
    at.is_none_or(|at| at.elapsed() >= time)
}

/// A file, or the files of a directory, whose changes are noticed.
#[derive(Debug)]
struct WatchedFiles {
    path: PathBuf,
    seen: Vec<(PathBuf, FileStamp)>,
}

impl WatchedFiles {
    /// Remembers the present files.
    fn new(path: PathBuf) -> Self {
        let seen = list_stamps(&path);
        Self { path, seen }
    }

    /// Whether there are other files than at the last call.
    fn have_changed(&mut self) -> bool {
        let present = list_stamps(&self.path);
        let has_changed = present != self.seen;
        self.seen = present;
        has_changed
    }
}

/// The file itself and, if it is a directory, its files by name. A file that cannot be read is none.
fn list_stamps(path: &Path) -> Vec<(PathBuf, FileStamp)> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let mut stamps = vec![(path.to_owned(), FileStamp::of_metadata(&metadata))];
    if metadata.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten().take(MAX_COMPARED_FILES);
        let files = entries.filter_map(|entry| {
            let path = entry.path();
            let stamp = FileStamp::read(&path)?;
            Some((path, stamp))
        });
        stamps.extend(files);
        stamps.sort_by(|one, other| one.0.cmp(&other.0));
    }
    stamps
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::WatchedFiles;

    #[test]
    fn written_replaced_added_and_removed_files_are_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("facts.d");
        let mut watched = WatchedFiles::new(directory.clone());
        assert!(!watched.have_changed());
        fs::create_dir(&directory).unwrap();
        assert!(watched.have_changed());
        let file = directory.join("site.json");
        fs::write(&file, "{}").unwrap();
        assert!(watched.have_changed() && !watched.have_changed());
        fs::write(&file, "{ }").unwrap();
        assert!(watched.have_changed());
        let new = scratch.path().join("new");
        fs::write(&new, "[ ]").unwrap();
        fs::rename(&new, &file).unwrap();
        assert!(watched.have_changed() && !watched.have_changed());
        fs::remove_file(&file).unwrap();
        assert!(watched.have_changed());
        let mut single = WatchedFiles::new(file.clone());
        fs::write(&file, "").unwrap();
        assert!(single.have_changed() && !single.have_changed());
    }
}
