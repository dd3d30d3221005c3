//! All policies of a node, as of one reading: which file speaks of an agent, and what follows where one is broken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::explain::PolicyExplanation;
use super::fault::{PolicyFault, PolicyLineFault, PolicyProblem};
use super::file::PolicyFile;
use super::groups::CallerGroups;
use super::rule::{PolicyRule, RuleMatch};
use super::{CallerSet, PolicyQuery, RuleVerdict};
use crate::filter::{DataLookupResult, EvaluationProgress, KnownLookups};
use crate::identity::SubjectName;

/// The policy of `rpcutil` and of `data` where neither a file of their own nor `default.policy` exists. They only read, and
/// take back the caller's own requests. `cancel_any` and the data source `fstat`, which looks at any path as root, need a line of their own.
pub const DEFAULT_OPEN_POLICY: &str = "policy default allow\ndeny\t*\tcancel_any fstat\t*\n";

/// Largest policy file in bytes; who reads one holds to it.
pub const MAX_POLICY_FILE_BYTES: u64 = 1024 * 1024;

/// The name of the file of groups.
pub const GROUPS_FILE_NAME: &str = "groups";

/// What has a policy from us. `data` stands for the data sources that expressions name: its actions are their names.
const DEFAULT_OPEN_AGENTS: [&str; 2] = ["data", "rpcutil"];
/// The name of the policy for agents without one.
const DEFAULT_POLICY_NAME: &str = "default";

/// A file that was read, or could not be.
#[derive(Debug)]
pub struct PolicySource {
    /// The file.
    pub path: PathBuf,
    /// Its text, or why there is none.
    pub text: Result<String, PolicyFault>,
}

/// All policies of the node, as of one reading.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// By the agent's name.
    files: BTreeMap<String, LoadedPolicy>,
    groups: CallerGroups,
    /// What is wrong with all of them, as a rule's name.
    refused: Option<String>,
    default: RuleVerdict,
}

/// A policy and its name in decisions, or why there is none to trust.
#[derive(Debug, Clone)]
enum LoadedPolicy {
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
pub struct PolicyDecision {
    /// Whether the caller may.
    pub allowed: bool,
    /// File and line, or the default that decided.
    pub rule: String,
    /// Who must approve it, as the rule says it: `sysadmins`. Nothing, where the rule asks for nobody.
    pub approved_by: Option<String>,
}

/// What decides, and where it stands.
enum DecisionSource<'a> {
    Rule(&'a str, &'a PolicyRule, RuleMatch),
    Default(&'a str, usize, RuleVerdict),
    Silent(&'a str),
    Refused(&'a str),
    NoFile(RuleVerdict),
}

impl PolicySet {
    /// The policies of these files. `groups` is the file of that name, if there is one; `default` is for agents without a policy.
    pub fn new(
        policies: impl IntoIterator<Item = PolicySource>,
        groups: Option<PolicySource>,
        default: RuleVerdict,
    ) -> (Self, Vec<PolicyProblem>) {
        let mut reading = PolicySetBuilder {
            set: Self {
                files: BTreeMap::new(),
                groups: CallerGroups::default(),
                refused: None,
                default,
            },
            problems: Vec::new(),
        };
        match reading.parse_groups(groups) {
            Ok(groups) => {
                reading.set.groups = groups;
                for source in policies {
                    reading.add_source(source);
                }
                reading.add_builtin();
            }
            Err(rule) => reading.set.refused = Some(rule),
        }
        (reading.set, reading.problems)
    }

    /// No policies, because their directory cannot be read: everything is denied.
    pub fn deny_all(directory: PathBuf, fault: PolicyFault) -> (Self, Vec<PolicyProblem>) {
        let (mut set, mut problems) = Self::new([], None, RuleVerdict::Deny);
        set.refused = Some(format!("{}: unusable", file_name(&directory)));
        problems.push(PolicyProblem {
            path: directory,
            place: None,
            fault,
        });
        (set, problems)
    }

    /// Whether the caller may have this action of this agent done on this node, or which data source must be asked to tell.
    pub fn evaluate_query(
        &self,
        asked: &PolicyQuery<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_, PolicyDecision> {
        self.find_decision_source(asked, known)
            .map(|ruling| ruling.resolve_decision(asked, known))
    }

    /// The same, where nobody is asked: whatever is not among what is known is unknown.
    pub fn decide_query(&self, asked: &PolicyQuery<'_>, known: &KnownLookups) -> PolicyDecision {
        self.decide_with_unknowns(asked, known.clone()).0
    }

    /// The same, with every rule that was looked at.
    pub fn explain(&self, asked: &PolicyQuery<'_>, known: &KnownLookups) -> PolicyExplanation {
        let (decision, settled) = self.decide_with_unknowns(asked, known.clone());
        let (policy, steps) = match self.policy_for_agent(asked.agent) {
            Some(LoadedPolicy::Read { name, file, .. }) if self.refused.is_none() => {
                (Some(name.clone()), file.explain_rules(asked, &settled))
            }
            _ => (None, Vec::new()),
        };
        PolicyExplanation {
            policy,
            steps,
            decision,
            unknown: settled.unanswered_lookups().cloned().collect(),
        }
    }

    /// Whether this other caller may approve what the question's caller asks for: it must be among those that the deciding rule
    /// names, or, where it names nobody, may itself ask for the same here.
    pub fn may_approve(
        &self,
        asked: &PolicyQuery<'_>,
        approver: &PolicyQuery<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_, bool> {
        match self.find_decision_source(asked, known) {
            EvaluationProgress::Needs(lookup) => return EvaluationProgress::Needs(lookup),
            EvaluationProgress::Decided(DecisionSource::Rule(_, rule, _)) => {
                if let Some(approvers) = rule.approvers() {
                    return EvaluationProgress::Decided(approvers.includes_caller(approver.caller));
                }
            }
            EvaluationProgress::Decided(_) => {}
        }
        self.evaluate_query(approver, known)
            .map(|decision| decision.allowed)
    }

    /// The decision, and what was known for it: what it needed beyond that is noted as unknown.
    fn decide_with_unknowns(
        &self,
        asked: &PolicyQuery<'_>,
        mut known: KnownLookups,
    ) -> (PolicyDecision, KnownLookups) {
        loop {
            match self.evaluate_query(asked, &known) {
                EvaluationProgress::Decided(decision) => return (decision, known),
                EvaluationProgress::Needs(lookup) => {
                    known.insert(
                        lookup.clone(),
                        DataLookupResult::Unknown("nobody was asked".to_owned()),
                    );
                }
            }
        }
    }

    fn find_decision_source(
        &self,
        asked: &PolicyQuery<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_, DecisionSource<'_>> {
        if let Some(rule) = &self.refused {
            return EvaluationProgress::Decided(DecisionSource::Refused(rule));
        }
        match self.policy_for_agent(asked.agent) {
            None => EvaluationProgress::Decided(DecisionSource::NoFile(self.default)),
            Some(LoadedPolicy::Refused { rule }) => {
                EvaluationProgress::Decided(DecisionSource::Refused(rule))
            }
            Some(LoadedPolicy::Read { name, file, .. }) => file
                .find_deciding_rule(asked, known)
                .map(|first| match (first, file.default_verdict()) {
                    (Some((rule, fit)), _) => DecisionSource::Rule(name, rule, fit),
                    (None, Some((line, verdict))) => DecisionSource::Default(name, line, verdict),
                    (None, None) => DecisionSource::Silent(name),
                }),
        }
    }

    /// What speaks of an agent.
    fn policy_for_agent(&self, agent: &SubjectName) -> Option<&LoadedPolicy> {
        self.files
            .get(agent.as_str())
            .or_else(|| self.files.get(DEFAULT_POLICY_NAME))
    }

    /// The groups.
    pub fn groups(&self) -> &CallerGroups {
        &self.groups
    }

    /// The files that were understood, and those that are built in: the agent that each is for, its path, and what it says.
    pub fn readable_policies(&self) -> impl Iterator<Item = (&str, &Path, &PolicyFile)> {
        self.files.iter().filter_map(|(agent, book)| match book {
            LoadedPolicy::Read { path, file, .. } => Some((agent.as_str(), path.as_path(), file)),
            LoadedPolicy::Refused { .. } => None,
        })
    }
}

impl DecisionSource<'_> {
    fn resolve_decision(&self, asked: &PolicyQuery<'_>, known: &KnownLookups) -> PolicyDecision {
        let (verdict, rule) = match self {
            Self::Rule(name, rule, fit) => {
                let mut place = format!("{name}:{}", rule.line_number());
                if *fit == RuleMatch::Unknown {
                    let unknown = rule.unknown_conditions(asked, known).join(", ");
                    place = format!("{place} (unknown: {unknown})");
                }
                (rule.verdict(), place)
            }
            Self::Default(name, line, verdict) => (*verdict, format!("{name}:{line} (default)")),
            Self::Silent(name) => (RuleVerdict::Deny, format!("{name} (no line matches)")),
            Self::Refused(rule) => (RuleVerdict::Deny, (*rule).to_owned()),
            Self::NoFile(verdict) => (*verdict, format!("default (no {}.policy)", asked.agent)),
        };
        let approvers = match self {
            Self::Rule(_, rule, _) => rule.approvers().map(CallerSet::to_string),
            _ => None,
        };
        PolicyDecision {
            allowed: verdict == RuleVerdict::Allow,
            rule,
            approved_by: approvers,
        }
    }
}

/// A reading under way.
struct PolicySetBuilder {
    set: PolicySet,
    problems: Vec<PolicyProblem>,
}

impl PolicySetBuilder {
    /// The groups; no file is no groups.
    fn parse_groups(&mut self, source: Option<PolicySource>) -> Result<CallerGroups, String> {
        let Some(PolicySource { path, text }) = source else {
            return Ok(CallerGroups::default());
        };
        let text = text.map_err(|fault| self.add_problem(&path, fault))?;
        CallerGroups::parse(&text).map_err(|flaws| self.add_line_faults(&path, flaws))
    }

    fn add_source(&mut self, source: PolicySource) {
        let PolicySource { path, text } = source;
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let agent = match SubjectName::parse(stem.as_deref().unwrap_or_default()) {
            Ok(agent) => agent,
            Err(error) => {
                self.add_problem(&path, PolicyFault::FileName(error));
                return;
            }
        };
        let twice = self.set.files.contains_key(agent.as_str());
        let read = if twice {
            let fault = PolicyFault::Twice(agent.as_str().to_owned());
            Err(self.add_problem(&path, fault))
        } else {
            self.parse_policy(&path, text)
        };
        let book = match read {
            Ok(file) => LoadedPolicy::Read {
                name: file_name(&path),
                path,
                file,
            },
            Err(rule) => LoadedPolicy::Refused { rule },
        };
        self.set.files.insert(agent.into(), book);
    }

    fn parse_policy(
        &mut self,
        path: &Path,
        text: Result<String, PolicyFault>,
    ) -> Result<PolicyFile, String> {
        let text = text.map_err(|fault| self.add_problem(path, fault))?;
        PolicyFile::parse(&text, &self.set.groups)
            .map_err(|flaws| self.add_line_faults(path, flaws))
    }

    fn add_builtin(&mut self) {
        let files = &mut self.set.files;
        if files.contains_key(DEFAULT_POLICY_NAME) {
            return;
        }
        for agent in DEFAULT_OPEN_AGENTS
            .into_iter()
            .filter(|agent| !files.contains_key(*agent))
            .collect::<Vec<_>>()
        {
            if let Ok(file) = PolicyFile::parse(DEFAULT_OPEN_POLICY, &CallerGroups::default()) {
                let name = format!("built-in {agent}.policy");
                let path = PathBuf::from(&name);
                files.insert(agent.to_owned(), LoadedPolicy::Read { name, path, file });
            }
        }
    }

    /// Notes a problem of a whole file, and gives the rule that decides because of it.
    fn add_problem(&mut self, path: &Path, fault: PolicyFault) -> String {
        self.problems.push(PolicyProblem {
            path: path.to_owned(),
            place: None,
            fault,
        });
        format!("{}: unusable", file_name(path))
    }

    /// Notes the problems of a file's lines; the first line names the rule that decides because of them.
    fn add_line_faults(&mut self, path: &Path, flaws: Vec<PolicyLineFault>) -> String {
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
