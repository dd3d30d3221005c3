//! Which external agents there are, while their files come, change and go.
//!
//! A look compares files with what they were. A new or changed agent is taken over when two looks have found the same, so that one
//! that is being copied is not taken half; what is wrong with it is told, and the version before it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::Agent;
use muster_api::system::error::error_chain;

use super::action;
use super::candidate::{self, AgentCandidate, AgentLoadRules};
use super::ddl_files::{self, FileStamps};
use super::options::ExternalOptions;
use super::process::SandboxHelper;

/// Whether files must have been the same for one look before they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanMode {
    /// Somebody says that they are complete: the start, or HUP. Agents that were of no use are asked again.
    Complete,
    /// They may just be written.
    Wait,
}

/// What a look changed.
#[derive(Debug)]
pub enum AgentChange {
    /// An agent is new, or another version.
    Offered(Agent),
    /// An agent is gone.
    Withdrawn(String),
}

/// An agent that cannot be used as its files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFileProblem {
    /// The agent, by the name of its DDL's file.
    pub agent: String,
    /// The DDL.
    pub path: PathBuf,
    /// What is wrong, with causes.
    pub problem: String,
}

/// The external agents of a node.
#[derive(Debug)]
pub struct AgentDirectory {
    directories: Vec<PathBuf>,
    rules: AgentLoadRules,
    config_file: PathBuf,
    entries: BTreeMap<PathBuf, AgentEntry>,
}

#[derive(Debug, Default)]
struct AgentEntry {
    /// The files as they were when they were taken over.
    taken: FileStamps,
    /// The files as the last look found them, when that was something else.
    seen: Option<FileStamps>,
    /// The name under which an agent is offered.
    offered: Option<String>,
    /// It says that it is of no use here.
    idle: bool,
    problem: Option<String>,
}

/// What became of a DDL.
enum LoadOutcome {
    /// Not of an external agent.
    Foreign,
    Offered(Agent),
    Idle,
    Refused(String),
}

impl AgentDirectory {
    /// A shelf over these directories, which come before those of the options. Nothing is looked at yet.
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
            rules: AgentLoadRules {
                options,
                builtin,
                helper,
            },
            config_file,
            entries: BTreeMap::new(),
        }
    }

    /// What is wrong now.
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

    /// Looks at the directories, takes over what is complete, and tells what that changes.
    pub async fn scan(&mut self, settle: ScanMode) -> Vec<AgentChange> {
        if !self.rules.options.enabled {
            return Vec::new();
        }
        let directories = self.directories.clone();
        let found = tokio::task::spawn_blocking(move || stamp_directories(&directories)).await;
        let Ok(found) = found else {
            return Vec::new();
        };
        let mut changes = self.withdraw_missing(&found);
        for (path, stamps) in found {
            if self.entry_mut(&path).is_due(stamps.clone(), settle) {
                let verdict = self.load_agent(path.clone()).await;
                changes.extend(self.entry_mut(&path).record_outcome(&path, stamps, verdict));
            }
        }
        changes
    }

    fn entry_mut(&mut self, path: &Path) -> &mut AgentEntry {
        self.entries.entry(path.to_owned()).or_default()
    }

    /// Agents whose DDL is not there any more.
    fn withdraw_missing(&mut self, found: &BTreeMap<PathBuf, FileStamps>) -> Vec<AgentChange> {
        let gone: Vec<PathBuf> = self
            .entries
            .keys()
            .filter(|path| !found.contains_key(*path))
            .cloned()
            .collect();
        let offered = gone
            .iter()
            .filter_map(|path| self.entries.remove(path)?.offered);
        offered
            .map(|name| {
                tracing::info!(agent = name, "an external agent is gone");
                AgentChange::Withdrawn(name)
            })
            .collect()
    }

    async fn load_agent(&self, path: PathBuf) -> LoadOutcome {
        let rules = self.rules.clone();
        let drafted =
            tokio::task::spawn_blocking(move || candidate::load_candidate(&path, &rules)).await;
        let AgentCandidate {
            agent,
            activation,
            rights,
        } = match drafted {
            Ok(Ok(Some(draft))) => draft,
            Ok(Ok(None)) => return LoadOutcome::Foreign,
            Ok(Err(error)) => return LoadOutcome::Refused(error_chain(&error)),
            Err(error) => return LoadOutcome::Refused(error.to_string()),
        };
        let Some(program) = activation else {
            return LoadOutcome::Offered(agent);
        };
        match action::check_activation(&program, agent.name(), &rights, &self.config_file).await {
            Ok(true) => LoadOutcome::Offered(agent),
            Ok(false) => LoadOutcome::Idle,
            Err(problem) => LoadOutcome::Refused(problem),
        }
    }
}

impl AgentEntry {
    /// Whether the files, as they are now, are to be taken over; remembers them.
    fn is_due(&mut self, now: FileStamps, settle: ScanMode) -> bool {
        if self.taken == now {
            self.seen = None;
            return settle == ScanMode::Complete && (self.idle || self.problem.is_some());
        }
        if settle == ScanMode::Complete || self.seen.as_ref() == Some(&now) {
            return true;
        }
        self.seen = Some(now);
        false
    }

    /// Notes what became of the files.
    fn record_outcome(
        &mut self,
        path: &Path,
        stamps: FileStamps,
        verdict: LoadOutcome,
    ) -> Option<AgentChange> {
        self.taken = stamps;
        self.seen = None;
        self.idle = matches!(verdict, LoadOutcome::Idle);
        let before = self.problem.take();
        match verdict {
            LoadOutcome::Offered(agent) => {
                tracing::info!(
                    agent = agent.name(),
                    version = agent.ddl().version(),
                    "an external agent is offered"
                );
                self.offered = Some(agent.name().to_owned());
                Some(AgentChange::Offered(agent))
            }
            LoadOutcome::Refused(problem) => {
                // The version before it, if any, stays.
                if before.as_ref() != Some(&problem) {
                    let kept = self.offered.is_some();
                    tracing::error!(path = %path.display(), %problem, kept, "an external agent is refused");
                }
                self.problem = Some(problem);
                None
            }
            LoadOutcome::Idle => {
                tracing::info!(path = %path.display(), "an external agent says that it is of no use here");
                self.offered.take().map(AgentChange::Withdrawn)
            }
            LoadOutcome::Foreign => self.offered.take().map(AgentChange::Withdrawn),
        }
    }
}

/// Every DDL with how it and its programs look.
fn stamp_directories(directories: &[PathBuf]) -> BTreeMap<PathBuf, FileStamps> {
    let stamps = |path: PathBuf| {
        let files = std::iter::once(path.clone()).chain(candidate::companion_files(&path));
        let stamps = ddl_files::stamp_files(&files.collect::<Vec<_>>());
        (path, stamps)
    };
    ddl_files::find_ddls(directories)
        .into_iter()
        .map(stamps)
        .collect()
}

fn file_stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
