//! Which external agents there are, while their files come, change and go.
//!
//! A look compares files with what they were. A new or changed agent is taken over when two looks have found the same, so that one
//! that is being copied is not taken half; what is wrong with it is told, and the version before it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::Agent;
use muster_api::system::error::chain;

use super::action;
use super::draft::{self, Draft, Rules};
use super::options::Options;
use super::place::{self, Stamps};
use super::process::Helper;

/// Whether files must have been the same for one look before they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Somebody says that they are complete: the start, or HUP. Agents that were of no use are asked again.
    Complete,
    /// They may just be written.
    Wait,
}

/// What a look changed.
#[derive(Debug)]
pub enum Change {
    /// An agent is new, or another version.
    Offered(Agent),
    /// An agent is gone.
    Withdrawn(String),
}

/// An agent that cannot be used as its files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The agent, by the name of its DDL's file.
    pub agent: String,
    /// The DDL.
    pub path: PathBuf,
    /// What is wrong, with causes.
    pub problem: String,
}

/// The external agents of a node.
#[derive(Debug)]
pub struct Shelf {
    directories: Vec<PathBuf>,
    rules: Rules,
    config_file: PathBuf,
    entries: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The files as they were when they were taken over.
    taken: Stamps,
    /// The files as the last look found them, when that was something else.
    seen: Option<Stamps>,
    /// The name under which an agent is offered.
    offered: Option<String>,
    /// It says that it is of no use here.
    idle: bool,
    problem: Option<String>,
}

/// What became of a DDL.
enum Verdict {
    /// Not of an external agent.
    Foreign,
    Offered(Agent),
    Idle,
    Refused(String),
}

impl Shelf {
    /// A shelf over these directories, which come before those of the options. Nothing is looked at yet.
    pub fn new(
        directory: PathBuf,
        options: Options,
        builtin: BTreeSet<String>,
        helper: Helper,
        config_file: PathBuf,
    ) -> Self {
        let directories = std::iter::once(directory).chain(options.paths.clone());
        Self {
            directories: directories.collect(),
            rules: Rules {
                options,
                builtin,
                helper,
            },
            config_file,
            entries: BTreeMap::new(),
        }
    }

    /// What is wrong now.
    pub fn problems(&self) -> Vec<Problem> {
        let entries = self.entries.iter();
        let problem = |(path, entry): (&PathBuf, &Entry)| {
            Some(Problem {
                agent: stem(path),
                path: path.clone(),
                problem: entry.problem.clone()?,
            })
        };
        entries.filter_map(problem).collect()
    }

    /// Looks at the directories, takes over what is complete, and tells what that changes.
    pub async fn look(&mut self, settle: Settle) -> Vec<Change> {
        if !self.rules.options.enabled {
            return Vec::new();
        }
        let directories = self.directories.clone();
        let found = tokio::task::spawn_blocking(move || survey(&directories)).await;
        let Ok(found) = found else {
            return Vec::new();
        };
        let mut changes = self.withdraw(&found);
        for (path, stamps) in found {
            if self.entry(&path).is_due(stamps.clone(), settle) {
                let verdict = self.judge(path.clone()).await;
                changes.extend(self.entry(&path).take(&path, stamps, verdict));
            }
        }
        changes
    }

    fn entry(&mut self, path: &Path) -> &mut Entry {
        self.entries.entry(path.to_owned()).or_default()
    }

    /// Agents whose DDL is not there any more.
    fn withdraw(&mut self, found: &BTreeMap<PathBuf, Stamps>) -> Vec<Change> {
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
                Change::Withdrawn(name)
            })
            .collect()
    }

    async fn judge(&self, path: PathBuf) -> Verdict {
        let rules = self.rules.clone();
        let drafted = tokio::task::spawn_blocking(move || draft::draft(&path, &rules)).await;
        let Draft {
            agent,
            activation,
            rights,
        } = match drafted {
            Ok(Ok(Some(draft))) => draft,
            Ok(Ok(None)) => return Verdict::Foreign,
            Ok(Err(error)) => return Verdict::Refused(chain(&error)),
            Err(error) => return Verdict::Refused(error.to_string()),
        };
        let Some(program) = activation else {
            return Verdict::Offered(agent);
        };
        match action::activates(&program, agent.name(), &rights, &self.config_file).await {
            Ok(true) => Verdict::Offered(agent),
            Ok(false) => Verdict::Idle,
            Err(problem) => Verdict::Refused(problem),
        }
    }
}

impl Entry {
    /// Whether the files, as they are now, are to be taken over; remembers them.
    fn is_due(&mut self, now: Stamps, settle: Settle) -> bool {
        if self.taken == now {
            self.seen = None;
            return settle == Settle::Complete && (self.idle || self.problem.is_some());
        }
        if settle == Settle::Complete || self.seen.as_ref() == Some(&now) {
            return true;
        }
        self.seen = Some(now);
        false
    }

    /// Notes what became of the files.
    fn take(&mut self, path: &Path, stamps: Stamps, verdict: Verdict) -> Option<Change> {
        self.taken = stamps;
        self.seen = None;
        self.idle = matches!(verdict, Verdict::Idle);
        let before = self.problem.take();
        match verdict {
            Verdict::Offered(agent) => {
                tracing::info!(
                    agent = agent.name(),
                    version = agent.ddl().version(),
                    "an external agent is offered"
                );
                self.offered = Some(agent.name().to_owned());
                Some(Change::Offered(agent))
            }
            Verdict::Refused(problem) => {
                // The version before it, if any, stays.
                if before.as_ref() != Some(&problem) {
                    let kept = self.offered.is_some();
                    tracing::error!(path = %path.display(), %problem, kept, "an external agent is refused");
                }
                self.problem = Some(problem);
                None
            }
            Verdict::Idle => {
                tracing::info!(path = %path.display(), "an external agent says that it is of no use here");
                self.offered.take().map(Change::Withdrawn)
            }
            Verdict::Foreign => self.offered.take().map(Change::Withdrawn),
        }
    }
}

/// Every DDL with how it and its programs look.
fn survey(directories: &[PathBuf]) -> BTreeMap<PathBuf, Stamps> {
    let stamps = |path: PathBuf| {
        let files = std::iter::once(path.clone()).chain(draft::companions(&path));
        let stamps = place::stamps(&files.collect::<Vec<_>>());
        (path, stamps)
    };
    place::ddls(directories).into_iter().map(stamps).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
