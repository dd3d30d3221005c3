//! Who may call what on this node: `MCollective`'s action policies, with exact callers and nothing skipped.
//!
//! `<policies>/<agent>.policy` holds one rule a line, its fields separated by tabs, and the first that matches decides:
//!
//! ```text
//! policy default deny
//! # allow|deny  callers        actions         facts                   classes (may be left out)
//! allow         rip sysadmins  *               *                       *
//! deny          *              restart         environment=production
//! allow         cert=anna      status restart  customer=acme os.family=Debian  mysql::master /^role::/
//! ```
//!
//! Callers are names, compared whole, or groups of the file `groups` (`sysadmins rip anna`). Several facts or classes
//! must all match, and read as those of `-W`. A file with one line that is not understood denies everything for its
//! agent, and a broken `groups` or directory for all: a line that was skipped might have been a `deny`.
//!
//! An agent without a file has `default.policy`; without that, `rpcutil` and `data` have [`DEFAULT_OPEN`], so that a
//! fresh node can be found and asked what it is, and every other agent has the configuration's default, which is to deny.
//! `data` stands for the data sources that expressions name: its actions are their names.
//! Files are read at a load only, never for a request.

mod error;
mod file;
mod groups;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_wire::identity::{Identity, Name};
use muster_wire::state::NodeView;

pub use error::{PolicyFault, PolicyProblem};

use crate::config::Verdict;
use crate::listing;
use file::{PolicyFile, Ruling};
use groups::Groups;

/// The policy of `rpcutil` and of `data` where neither a file of their own nor `default.policy` exists. They only read, and
/// take back the caller's own requests; those of others only where somebody has written that.
pub const DEFAULT_OPEN: &str = "policy default allow\ndeny\t*\tcancel_any\t*\n";

/// Largest policy file in bytes.
const FILE_BYTES: u64 = 1024 * 1024;
/// The file of groups.
const GROUPS: &str = "groups";
/// What has a policy from us.
const OPEN: [&str; 2] = ["data", "rpcutil"];
/// The name of the policy for agents without one.
const DEFAULT: &str = "default";

/// All policies of the node, as of one load.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// By the agent's name.
    files: BTreeMap<String, Book>,
    /// What is wrong with all of them, as a rule's name.
    refused: Option<String>,
    default: Verdict,
}

/// A policy and its name in decisions, or why there is none to trust.
#[derive(Debug, Clone)]
enum Book {
    Read { name: String, file: PolicyFile },
    Refused { rule: String },
}

/// The answer to one request, and the rule that gave it: `puppetral.policy:12`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the caller may.
    pub allowed: bool,
    /// File and line, or the default that decided.
    pub rule: String,
}

impl PolicySet {
    /// Reads a directory; one that does not exist has no policies. `default` is for agents without a policy.
    pub fn load(directory: &Path, default: Verdict) -> (Self, Vec<PolicyProblem>) {
        let mut loading = Loading {
            directory: directory.to_owned(),
            set: Self {
                files: BTreeMap::new(),
                refused: None,
                default,
            },
            problems: Vec::new(),
        };
        loading.run();
        (loading.set, loading.problems)
    }

    /// Whether the caller may have this action of this agent done on this node.
    pub fn decide(
        &self,
        caller: &Identity,
        agent: &Name,
        action: &Name,
        node: &NodeView<'_>,
    ) -> Decision {
        let decide = |verdict, rule| Decision {
            allowed: verdict == Verdict::Allow,
            rule,
        };
        if let Some(rule) = &self.refused {
            return decide(Verdict::Deny, rule.clone());
        }
        match self
            .files
            .get(agent.as_str())
            .or_else(|| self.files.get(DEFAULT))
        {
            Some(Book::Refused { rule }) => decide(Verdict::Deny, rule.clone()),
            Some(Book::Read { name, file }) => match file.rule(caller, action, node) {
                Ruling::Line(line, verdict) => decide(verdict, format!("{name}:{line}")),
                Ruling::Default(line, verdict) => {
                    decide(verdict, format!("{name}:{line} (default)"))
                }
                Ruling::Silent => decide(Verdict::Deny, format!("{name} (no line matches)")),
            },
            None => decide(self.default, format!("default (no {agent}.policy)")),
        }
    }
}

/// A load under way.
struct Loading {
    directory: PathBuf,
    set: PolicySet,
    problems: Vec<PolicyProblem>,
}

impl Loading {
    fn run(&mut self) {
        let paths = match listing::files(&self.directory, "policy") {
            Ok(paths) => paths,
            Err(error) => {
                let rule = self.problem(self.directory.clone(), None, PolicyFault::Read(error));
                self.set.refused = Some(rule);
                return;
            }
        };
        let groups = match self.groups() {
            Ok(groups) => groups,
            Err(rule) => {
                self.set.refused = Some(rule);
                return;
            }
        };
        for path in paths {
            self.add(path, &groups);
        }
        let files = &mut self.set.files;
        if files.contains_key(DEFAULT) {
            return;
        }
        for agent in OPEN {
            if !files.contains_key(agent)
                && let Ok(file) = PolicyFile::parse(DEFAULT_OPEN, &groups)
            {
                let name = format!("built-in {agent}.policy");
                files.insert(agent.to_owned(), Book::Read { name, file });
            }
        }
    }

    /// The groups; no file is no groups.
    fn groups(&mut self) -> Result<Groups, String> {
        let path = self.directory.join(GROUPS);
        match read(&path) {
            Ok(text) => {
                Groups::parse(&text).map_err(|(line, fault)| self.problem(path, Some(line), fault))
            }
            Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Groups::default())
            }
            Err(fault) => Err(self.problem(path, None, fault)),
        }
    }

    fn add(&mut self, path: PathBuf, groups: &Groups) {
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let agent = match Name::parse(stem.as_deref().unwrap_or_default()) {
            Ok(agent) => agent,
            Err(error) => {
                self.problem(path, None, PolicyFault::FileName(error));
                return;
            }
        };
        let parsed = match read(&path) {
            _ if self.set.files.contains_key(agent.as_str()) => {
                Err((None, PolicyFault::Twice(agent.as_str().to_owned())))
            }
            Ok(text) => {
                PolicyFile::parse(&text, groups).map_err(|(line, fault)| (Some(line), fault))
            }
            Err(fault) => Err((None, fault)),
        };
        let book = match parsed {
            Ok(file) => Book::Read {
                name: file_name(&path),
                file,
            },
            Err((line, fault)) => Book::Refused {
                rule: self.problem(path, line, fault),
            },
        };
        self.set.files.insert(agent.into(), book);
    }

    /// Notes a problem, and gives the rule that decides because of it.
    fn problem(&mut self, path: PathBuf, line: Option<usize>, fault: PolicyFault) -> String {
        let name = file_name(&path);
        let rule = match line {
            Some(line) => format!("{name}:{line}: malformed"),
            None => format!("{name}: unusable"),
        };
        self.problems.push(PolicyProblem { path, line, fault });
        rule
    }
}

/// The last part of a path: callers need not know where the node keeps its policies.
fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn read(path: &Path) -> Result<String, PolicyFault> {
    let mut text = String::new();
    let file = File::open(path).map_err(PolicyFault::Read)?;
    file.take(FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(PolicyFault::Read)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(PolicyFault::TooLarge(FILE_BYTES));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
