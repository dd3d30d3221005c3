//! The current set of external agents, while their files are added, changed and removed.
//!
//! A scan compares files with their recorded state. A new or changed agent is loaded when two consecutive scans find the same state, so that a file
//! that is being copied is not loaded half-written. Errors are reported, and the previous version stays in use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::Agent;
use muster_api::base::error_chain;

use super::action;
use super::candidate::{self, AgentCandidate, AgentLoadRules};
use super::ddl_files::{self, FileStamps};
use super::options::ExternalOptions;
use super::process::SandboxHelper;

/// Whether files must be unchanged for one scan before they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanMode {
    /// The files are complete: at start and on HUP. Activation checks of inactive agents run again.
    Complete,
    /// The files may still be changing.
    Wait,
}

#[derive(Debug)]
pub enum AgentChange {
    /// An agent is new or has changed.
    Offered(Agent),
    Withdrawn(String),
}

/// An agent that cannot be used because its files are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileProblem {
    /// The agent's name, from the file name of its DDL.
    pub agent: String,
    /// The DDL file.
    pub path: PathBuf,
    /// The error, with its causes.
    pub problem: String,
}

#[derive(Debug)]
pub struct AgentDirectory {
    directories: Vec<PathBuf>,
    rules: AgentLoadRules,
    config_file: PathBuf,
    entries: BTreeMap<PathBuf, AgentEntry>,
}

#[derive(Debug, Default)]
struct AgentEntry {
    /// The state of the files when they were loaded.
    loaded_stamps: FileStamps,
    /// The state of the files at the last scan, if it differs from the loaded one.
    pending_stamps: Option<FileStamps>,
    /// The name under which an agent is offered.
    offered: Option<String>,
    /// The activation check reported "not active".
    inactive: bool,
    problem: Option<String>,
}

/// The result of loading a DDL.
enum LoadOutcome {
    /// Not the DDL of an external agent.
    Foreign,
    Offered(Agent),
    Idle,
    Refused(String),
}

impl AgentDirectory {
    /// Creates the set for these directories, which take precedence over those of the options. Does not scan yet.
    pub fn new(
        directory: PathBuf,
        options: ExternalOptions,
        builtin: BTreeSet<String>,
        helper: SandboxHelper,
        config_file: PathBuf,
    ) -> Self {
        let directories = std::iter::once(directory).chain(options.paths.clone());
        Self {
            directories: directories.collect(),
            rules: AgentLoadRules { options, builtin, helper },
            config_file,
            entries: BTreeMap::new(),
        }
    }

    pub fn problems(&self) -> Vec<AgentFileProblem> {
        let entries = self.entries.iter();
        let problem = |(path, entry): (&PathBuf, &AgentEntry)| {
            Some(AgentFileProblem {
                agent: file_stem(path),
                path: path.clone(),
                problem: entry.problem.clone()?,
            })
        };
        entries.filter_map(problem).collect()
    }

    /// Scans the directories, loads complete files, and returns the changes.
    pub async fn scan(&mut self, mode: ScanMode) -> Vec<AgentChange> {
        if !self.rules.options.enabled {
            return Vec::new();
        }
        let directories = self.directories.clone();
        let found = tokio::task::spawn_blocking(move || stamp_directories(&directories)).await;
        let Ok(found) = found else { return Vec::new() };
        let mut changes = self.withdraw_missing(&found);
        for (path, stamps) in found {
            if self.entry_mut(&path).is_due(stamps.clone(), mode) {
                let outcome = self.load_agent(path.clone()).await;
                changes.extend(self.entry_mut(&path).record_outcome(&path, stamps, outcome));
            }
        }
        changes
    }

    fn entry_mut(&mut self, path: &Path) -> &mut AgentEntry {
        self.entries.entry(path.to_owned()).or_default()
    }

    /// Withdraws agents whose DDL no longer exists.
    fn withdraw_missing(&mut self, found: &BTreeMap<PathBuf, FileStamps>) -> Vec<AgentChange> {
        let missing: Vec<PathBuf> =
            self.entries.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        let offered = missing.iter().filter_map(|path| self.entries.remove(path)?.offered);
        offered
            .map(|name| {
                tracing::info!(agent = name, "external agent removed");
                AgentChange::Withdrawn(name)
            })
            .collect()
    }

    async fn load_agent(&self, path: PathBuf) -> LoadOutcome {
        let rules = self.rules.clone();
        let loaded =
            tokio::task::spawn_blocking(move || candidate::load_candidate(&path, &rules)).await;
        let AgentCandidate { agent, activation, rights } = match loaded {
            Ok(Ok(Some(candidate))) => candidate,
            Ok(Ok(None)) => return LoadOutcome::Foreign,
            Ok(Err(error)) => return LoadOutcome::Refused(error_chain(&error)),
            Err(error) => return LoadOutcome::Refused(error.to_string()),
        };
        let Some(program) = activation else { return LoadOutcome::Offered(agent) };
        match action::check_activation(&program, agent.name(), &rights, &self.config_file).await {
            Ok(true) => LoadOutcome::Offered(agent),
            Ok(false) => LoadOutcome::Idle,
            Err(error) => LoadOutcome::Refused(error.to_string()),
        }
    }
}

impl AgentEntry {
    /// Whether the files in their current state are due for loading; records the state.
    fn is_due(&mut self, now: FileStamps, mode: ScanMode) -> bool {
        if self.loaded_stamps == now {
            self.pending_stamps = None;
            return mode == ScanMode::Complete && (self.inactive || self.problem.is_some());
        }
        if mode == ScanMode::Complete || self.pending_stamps.as_ref() == Some(&now) {
            return true;
        }
        self.pending_stamps = Some(now);
        false
    }

    fn record_outcome(
        &mut self,
        path: &Path,
        stamps: FileStamps,
        outcome: LoadOutcome,
    ) -> Option<AgentChange> {
        self.loaded_stamps = stamps;
        self.pending_stamps = None;
        self.inactive = matches!(outcome, LoadOutcome::Idle);
        let previous_problem = self.problem.take();
        match outcome {
            LoadOutcome::Offered(agent) => {
                tracing::info!(
                    agent = agent.name(),
                    version = agent.ddl().version(),
                    "external agent loaded"
                );
                for warning in agent.ddl().warnings() {
                    tracing::warn!(path = %path.display(), "{warning}");
                }
                self.offered = Some(agent.name().to_owned());
                Some(AgentChange::Offered(agent))
            }
            LoadOutcome::Refused(problem) => {
                // The previous version, if any, stays in use.
                if previous_problem.as_ref() != Some(&problem) {
                    let still_offered = self.offered.is_some();
                    tracing::error!(path = %path.display(), %problem, kept = still_offered, "cannot load an external agent");
                }
                self.problem = Some(problem);
                None
            }
            LoadOutcome::Idle => {
                tracing::info!(path = %path.display(), "external agent not activated: its activation check declined");
                self.offered.take().map(AgentChange::Withdrawn)
            }
            LoadOutcome::Foreign => self.offered.take().map(AgentChange::Withdrawn),
        }
    }
}

/// Every DDL with the state of its file and its programs' files.
fn stamp_directories(directories: &[PathBuf]) -> BTreeMap<PathBuf, FileStamps> {
    let stamps = |path: PathBuf| {
        let files = std::iter::once(path.clone()).chain(candidate::companion_files(&path));
        let stamps = ddl_files::stamp_files(&files.collect::<Vec<_>>());
        (path, stamps)
    };
    ddl_files::find_ddls(directories).into_iter().map(stamps).collect()
}

fn file_stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
