//! All policies of a node, as of one reading: which file speaks of an agent, and what follows where one is broken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::explain::Explanation;
use super::fault::{Flaw, PolicyFault, PolicyProblem};
use super::file::PolicyFile;
use super::groups::Groups;
use super::rule::{Fit, Rule};
use super::{Callers, Question, Verdict};
use crate::filter::{Found, Known, Progress};
use crate::identity::Name;

/// The policy of `rpcutil` and of `data` where neither a file of their own nor `default.policy` exists. They only read, and
/// take back the caller's own requests. `cancel_any` and the data source `fstat`, which looks at any path as root, need a line of their own.
pub const DEFAULT_OPEN: &str = "policy default allow\ndeny\t*\tcancel_any fstat\t*\n";

/// Largest policy file in bytes; who reads one holds to it.
pub const FILE_BYTES: u64 = 1024 * 1024;

/// The name of the file of groups.
pub const GROUPS: &str = "groups";

/// What has a policy from us. `data` stands for the data sources that expressions name: its actions are their names.
const OPEN: [&str; 2] = ["data", "rpcutil"];
/// The name of the policy for agents without one.
const DEFAULT: &str = "default";

/// A file that was read, or could not be.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Its text, or why there is none.
    pub text: Result<String, PolicyFault>,
}

/// All policies of the node, as of one reading.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// By the agent's name.
    files: BTreeMap<String, Book>,
    groups: Groups,
    /// What is wrong with all of them, as a rule's name.
    refused: Option<String>,
    default: Verdict,
}

/// A policy and its name in decisions, or why there is none to trust.
#[derive(Debug, Clone)]
enum Book {
    Read {
        name: String,
        path: PathBuf,
        file: PolicyFile,
    },
    Refused {
        rule: String,
    },
}

/// The answer to one question, and the rule that gave it: `puppetral.policy:12`, or where it denies what is unknown,
/// `puppetral.policy:12 (unknown: puppet().enabled==true)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the caller may.
    pub allowed: bool,
    /// File and line, or the default that decided.
    pub rule: String,
    /// Who must approve it, as the rule says it: `sysadmins`. Nothing, where the rule asks for nobody.
    pub approved_by: Option<String>,
}

/// What decides, and where it stands.
enum Ruling<'a> {
    Rule(&'a str, &'a Rule, Fit),
    Default(&'a str, usize, Verdict),
    Silent(&'a str),
    Refused(&'a str),
    NoFile(Verdict),
}

impl PolicySet {
    /// The policies of these files. `groups` is the file of that name, if there is one; `default` is for agents without a policy.
    pub fn new(
        policies: impl IntoIterator<Item = Source>,
        groups: Option<Source>,
        default: Verdict,
    ) -> (Self, Vec<PolicyProblem>) {
        let mut reading = Reading {
            set: Self {
                files: BTreeMap::new(),
                groups: Groups::default(),
                refused: None,
                default,
            },
            problems: Vec::new(),
        };
        match reading.groups(groups) {
            Ok(groups) => {
                reading.set.groups = groups;
                for source in policies {
                    reading.add(source);
                }
                reading.add_builtin();
            }
            Err(rule) => reading.set.refused = Some(rule),
        }
        (reading.set, reading.problems)
    }

    /// No policies, because their directory cannot be read: everything is denied.
    pub fn unreadable(directory: PathBuf, fault: PolicyFault) -> (Self, Vec<PolicyProblem>) {
        let (mut set, mut problems) = Self::new([], None, Verdict::Deny);
        set.refused = Some(format!("{}: unusable", file_name(&directory)));
        problems.push(PolicyProblem {
            path: directory,
            place: None,
            fault,
        });
        (set, problems)
    }

    /// Whether the caller may have this action of this agent done on this node, or which data source must be asked to tell.
    pub fn judge(&self, asked: &Question<'_>, known: &Known) -> Progress<'_, Decision> {
        self.ruling(asked, known)
            .map(|ruling| ruling.decision(asked, known))
    }

    /// The same, where nobody is asked: whatever is not among what is known is unknown.
    pub fn decide(&self, asked: &Question<'_>, known: &Known) -> Decision {
        self.settle(asked, known.clone()).0
    }

    /// The same, with every rule that was looked at.
    pub fn explain(&self, asked: &Question<'_>, known: &Known) -> Explanation {
        let (decision, settled) = self.settle(asked, known.clone());
        let (policy, steps) = match self.book(asked.agent) {
            Some(Book::Read { name, file, .. }) if self.refused.is_none() => {
                (Some(name.clone()), file.steps(asked, &settled))
            }
            _ => (None, Vec::new()),
        };
        Explanation {
            policy,
            steps,
            decision,
            unknown: settled.unanswered().cloned().collect(),
        }
    }

    /// Whether this other caller may approve what the question's caller asks for: it must be among those that the deciding rule
    /// names, or, where it names nobody, may itself ask for the same here.
    pub fn may_approve(
        &self,
        asked: &Question<'_>,
        approver: &Question<'_>,
        known: &Known,
    ) -> Progress<'_, bool> {
        match self.ruling(asked, known) {
            Progress::Needs(lookup) => return Progress::Needs(lookup),
            Progress::Decided(Ruling::Rule(_, rule, _)) => {
                if let Some(approvers) = rule.approvers() {
                    return Progress::Decided(approvers.include(approver.caller));
                }
            }
            Progress::Decided(_) => {}
        }
        self.judge(approver, known).map(|decision| decision.allowed)
    }

    /// The decision, and what was known for it: what it needed beyond that is noted as unknown.
    fn settle(&self, asked: &Question<'_>, mut known: Known) -> (Decision, Known) {
        loop {
            match self.judge(asked, &known) {
                Progress::Decided(decision) => return (decision, known),
                Progress::Needs(lookup) => {
                    known.insert(
                        lookup.clone(),
                        Found::Unknown("nobody was asked".to_owned()),
                    );
                }
            }
        }
    }

    fn ruling(&self, asked: &Question<'_>, known: &Known) -> Progress<'_, Ruling<'_>> {
        if let Some(rule) = &self.refused {
            return Progress::Decided(Ruling::Refused(rule));
        }
        match self.book(asked.agent) {
            None => Progress::Decided(Ruling::NoFile(self.default)),
            Some(Book::Refused { rule }) => Progress::Decided(Ruling::Refused(rule)),
            Some(Book::Read { name, file, .. }) => {
                file.first(asked, known)
                    .map(|first| match (first, file.default_verdict()) {
                        (Some((rule, fit)), _) => Ruling::Rule(name, rule, fit),
                        (None, Some((line, verdict))) => Ruling::Default(name, line, verdict),
                        (None, None) => Ruling::Silent(name),
                    })
            }
        }
    }

    /// What speaks of an agent.
    fn book(&self, agent: &Name) -> Option<&Book> {
        self.files
            .get(agent.as_str())
            .or_else(|| self.files.get(DEFAULT))
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The files that were understood, and those that are built in: the agent that each is for, its path, and what it says.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Path, &PolicyFile)> {
        self.files.iter().filter_map(|(agent, book)| match book {
            Book::Read { path, file, .. } => Some((agent.as_str(), path.as_path(), file)),
            Book::Refused { .. } => None,
        })
    }
}

impl Ruling<'_> {
    fn decision(&self, asked: &Question<'_>, known: &Known) -> Decision {
        let (verdict, rule) = match self {
            Self::Rule(name, rule, fit) => {
                let mut place = format!("{name}:{}", rule.line());
                if *fit == Fit::Unknown {
                    let unknown = rule.unknown(asked, known).join(", ");
                    place = format!("{place} (unknown: {unknown})");
                }
                (rule.verdict(), place)
            }
            Self::Default(name, line, verdict) => (*verdict, format!("{name}:{line} (default)")),
            Self::Silent(name) => (Verdict::Deny, format!("{name} (no line matches)")),
            Self::Refused(rule) => (Verdict::Deny, (*rule).to_owned()),
            Self::NoFile(verdict) => (*verdict, format!("default (no {}.policy)", asked.agent)),
        };
        let approvers = match self {
            Self::Rule(_, rule, _) => rule.approvers().map(Callers::to_string),
            _ => None,
        };
        Decision {
            allowed: verdict == Verdict::Allow,
            rule,
            approved_by: approvers,
        }
    }
}

/// A reading under way.
struct Reading {
    set: PolicySet,
    problems: Vec<PolicyProblem>,
}

impl Reading {
    /// The groups; no file is no groups.
    fn groups(&mut self, source: Option<Source>) -> Result<Groups, String> {
        let Some(Source { path, text }) = source else {
            return Ok(Groups::default());
        };
        let text = text.map_err(|fault| self.problem(&path, fault))?;
        Groups::parse(&text).map_err(|flaws| self.flawed(&path, flaws))
    }

    fn add(&mut self, source: Source) {
        let Source { path, text } = source;
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let agent = match Name::parse(stem.as_deref().unwrap_or_default()) {
            Ok(agent) => agent,
            Err(error) => {
                self.problem(&path, PolicyFault::FileName(error));
                return;
            }
        };
        let twice = self.set.files.contains_key(agent.as_str());
        let read = if twice {
            let fault = PolicyFault::Twice(agent.as_str().to_owned());
            Err(self.problem(&path, fault))
        } else {
            self.read(&path, text)
        };
        let book = match read {
            Ok(file) => Book::Read {
                name: file_name(&path),
                path,
                file,
            },
            Err(rule) => Book::Refused { rule },
        };
        self.set.files.insert(agent.into(), book);
    }

    fn read(
        &mut self,
        path: &Path,
        text: Result<String, PolicyFault>,
    ) -> Result<PolicyFile, String> {
        let text = text.map_err(|fault| self.problem(path, fault))?;
        PolicyFile::parse(&text, &self.set.groups).map_err(|flaws| self.flawed(path, flaws))
    }

    fn add_builtin(&mut self) {
        let files = &mut self.set.files;
        if files.contains_key(DEFAULT) {
            return;
        }
        for agent in OPEN
            .into_iter()
            .filter(|agent| !files.contains_key(*agent))
            .collect::<Vec<_>>()
        {
            if let Ok(file) = PolicyFile::parse(DEFAULT_OPEN, &Groups::default()) {
                let name = format!("built-in {agent}.policy");
                let path = PathBuf::from(&name);
                files.insert(agent.to_owned(), Book::Read { name, path, file });
            }
        }
    }

    /// Notes a problem of a whole file, and gives the rule that decides because of it.
    fn problem(&mut self, path: &Path, fault: PolicyFault) -> String {
        self.problems.push(PolicyProblem {
            path: path.to_owned(),
            place: None,
            fault,
        });
        format!("{}: unusable", file_name(path))
    }

    /// Notes the problems of a file's lines; the first line names the rule that decides because of them.
    fn flawed(&mut self, path: &Path, flaws: Vec<Flaw>) -> String {
        let first = flaws.first().map_or(1, |flaw| flaw.line);
        for flaw in flaws {
            self.problems.push(PolicyProblem {
                path: path.to_owned(),
                place: Some((flaw.line, flaw.column)),
                fault: flaw.fault,
            });
        }
        format!("{}:{first}: malformed", file_name(path))
    }
}

/// The last part of a path: callers need not know where the node keeps its policies.
fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
