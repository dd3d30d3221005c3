//! All policies of a node from one read: selects the file of an agent, and denies where a file is invalid.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use muster_filter::{DataLookupResult, EvaluationProgress, KnownLookups};
use muster_wire::identity::SubjectName;

use super::explain::PolicyExplanation;
use super::fault::{PolicyFault, PolicyLineFault, PolicyProblem};
use super::file::PolicyFile;
use super::groups::CallerGroups;
use super::rule::{PolicyRule, RuleMatch};
use super::{CallerSet, EvaluationInput, PolicyQuery, RuleVerdict};

/// The policy of `rpcutil` and of `data` if neither their own file nor `default.policy` exists. Their actions are read-only, or
/// cancel the caller's own requests. `cancel_any`, and the data source `fstat`, which inspects any path as root, need an explicit rule.
pub const DEFAULT_OPEN_POLICY: &str = "policy default allow\ndeny\t*\tcancel_any fstat\t*\n";

/// Largest policy file in bytes; enforced by the reader.
pub const MAX_POLICY_FILE_BYTES: u64 = 1024 * 1024;

/// The name of the file of groups.
pub const GROUPS_FILE_NAME: &str = "groups";

/// Agents with a built-in policy. `data` stands for the data sources in expressions: its actions are their names.
const DEFAULT_OPEN_AGENTS: [&str; 2] = ["data", "rpcutil"];
/// The name of the policy for agents without one.
const DEFAULT_POLICY_NAME: &str = "default";

/// What ends the rule of a denial by a file with an error in a line.
const MALFORMED: &str = ": malformed";
/// What ends the rule of a denial by a file that cannot be read, or that others can change.
const UNUSABLE: &str = ": unusable";

/// Whether the rule of a denial is no rule, but a file with an error.
pub fn is_fault(rule: &str) -> bool {
    [MALFORMED, UNUSABLE].iter().any(|end| rule.ends_with(end))
}

/// A policy file and its content or read error.
#[derive(Debug)]
pub struct PolicySource {
    /// The file.
    pub path: PathBuf,
    /// Its text, or the read error.
    pub text: Result<String, PolicyFault>,
}

/// All policies of a node, from one read.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// Policies by agent name.
    files: BTreeMap<String, LoadedPolicy>,
    groups: CallerGroups,
    /// The rule name of a fault that denies everything.
    refused: Option<String>,
    default: RuleVerdict,
}

/// A policy with its name for decisions, or the fault that denies its agent.
#[derive(Debug, Clone)]
enum LoadedPolicy {
    Read {
        name: String,
        path: PathBuf,
        file: PolicyFile,
    },
    /// Refused as this rule; the valid rules of the file, if it could be read.
    Refused {
        rule: String,
        path: PathBuf,
        file: Option<PolicyFile>,
    },
}

/// A decision and its rule: `puppetral.policy:12`, or if the rule denies because of an unknown condition,
/// `puppetral.policy:12 (unknown: puppet().enabled==true)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    /// Whether the caller is permitted.
    pub allowed: bool,
    /// File and line of the deciding rule, or the default.
    pub rule: String,
    /// The required approvers, as written in the rule: `sysadmins`. `None` if the rule requires no approval.
    pub approved_by: Option<String>,
}

/// The deciding policy element.
enum DecisionSource<'a> {
    Rule(&'a str, &'a PolicyRule, RuleMatch),
    Default(&'a str, usize, RuleVerdict),
    NoMatch(&'a str),
    Refused(&'a str),
    NoFile(RuleVerdict),
}

impl PolicySet {
    /// Builds the policies from files. `groups` is the groups file, if any; `default` applies to agents without a policy.
    pub fn new(
        policies: impl IntoIterator<Item = PolicySource>,
        groups: Option<PolicySource>,
        default: RuleVerdict,
    ) -> (Self, Vec<PolicyProblem>) {
        let mut problems = Vec::new();
        let mut set = Self {
            files: BTreeMap::new(),
            groups: CallerGroups::default(),
            refused: None,
            default,
        };
        if let Some(source) = groups {
            // The policies are parsed nevertheless, so that all problems are reported at once.
            match parse_source(&source.path, source.text, CallerGroups::parse, &mut problems) {
                Ok(groups) => set.groups = groups,
                Err(RefusedPolicyFile { rule, parsed }) => {
                    set.refused = Some(rule);
                    set.groups = parsed.unwrap_or_default();
                }
            }
        }
        for source in policies {
            set.add_source(source, &mut problems);
        }
        set.add_builtin();
        (set, problems)
    }

    /// An empty set that denies everything, because the directory cannot be read.
    pub fn deny_all(directory: PathBuf, fault: PolicyFault) -> (Self, Vec<PolicyProblem>) {
        let (mut set, mut problems) = Self::new([], None, RuleVerdict::Deny);
        set.refused = Some(format!("{}{UNUSABLE}", file_name(&directory)));
        problems.push(PolicyProblem { path: directory, location: None, fault });
        (set, problems)
    }

    /// Whether the caller may run this action on this node, or the next needed lookup.
    pub fn evaluate_query(
        &self,
        query: &PolicyQuery<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_, PolicyDecision> {
        let input = EvaluationInput { query, known };
        self.find_decision_source(input).map(|source| source.resolve_decision(input))
    }

    /// Decides without further lookups: all results that are not known count as unknown.
    pub fn decide_query(&self, query: &PolicyQuery<'_>, known: &KnownLookups) -> PolicyDecision {
        self.decide_with_unknowns(query, known.clone()).0
    }

    /// Decides like [`Self::decide_query`], and returns every evaluated rule.
    pub fn explain(&self, query: &PolicyQuery<'_>, known: &KnownLookups) -> PolicyExplanation {
        let (decision, known_lookups) = self.decide_with_unknowns(query, known.clone());
        let (policy, steps) = match self.policy_in_force(query.agent) {
            Some((name, file)) => (
                Some(name.to_owned()),
                file.explain_rules(EvaluationInput { query, known: &known_lookups }),
            ),
            None => (None, Vec::new()),
        };
        let unanswered =
            |(lookup, result)| matches!(result, DataLookupResult::Unknown(_)).then_some(lookup);
        PolicyExplanation {
            policy,
            steps,
            decision,
            unknown: known_lookups.into_iter().filter_map(unanswered).collect(),
        }
    }

    /// Whether this other caller may approve the query's caller's request. It must be among the approvers of the deciding rule or, if
    /// the rule names none, be permitted the same query itself.
    pub fn may_approve(
        &self,
        query: &PolicyQuery<'_>,
        approver: &PolicyQuery<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_, bool> {
        match self.find_decision_source(EvaluationInput { query, known }) {
            EvaluationProgress::Needs(lookup) => return EvaluationProgress::Needs(lookup),
            EvaluationProgress::Decided(DecisionSource::Rule(_, rule, _)) => {
                if let Some(approvers) = rule.approvers() {
                    return EvaluationProgress::Decided(approvers.includes_caller(approver.caller));
                }
            }
            EvaluationProgress::Decided(_) => {}
        }
        self.evaluate_query(approver, known).map(|decision| decision.allowed)
    }

    /// Decides, and returns the lookups extended by unknown results for all that were missing.
    fn decide_with_unknowns(
        &self,
        query: &PolicyQuery<'_>,
        mut known: KnownLookups,
    ) -> (PolicyDecision, KnownLookups) {
        loop {
            match self.evaluate_query(query, &known) {
                EvaluationProgress::Decided(decision) => return (decision, known),
                EvaluationProgress::Needs(lookup) => {
                    let unknown = DataLookupResult::Unknown("no lookup was made".to_owned());
                    known.insert(lookup.clone(), unknown);
                }
            }
        }
    }

    fn add_source(&mut self, source: PolicySource, problems: &mut Vec<PolicyProblem>) {
        let PolicySource { path, mut text } = source;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let agent = match SubjectName::parse(&stem) {
            Ok(agent) => agent,
            Err(error) => {
                let fault = PolicyFault::FileName(error);
                problems.push(PolicyProblem { path, location: None, fault });
                return;
            }
        };
        if self.files.contains_key(agent.as_str()) {
            text = Err(PolicyFault::Duplicate(agent.as_str().to_owned()));
        }
        let parse = |text: &str| PolicyFile::parse(text, &self.groups);
        let policy = match parse_source(&path, text, parse, problems) {
            Ok(file) => LoadedPolicy::Read { name: file_name(&path), path, file },
            Err(RefusedPolicyFile { rule, parsed }) => {
                LoadedPolicy::Refused { rule, path, file: parsed }
            }
        };
        self.files.insert(agent.into(), policy);
    }

    fn add_builtin(&mut self) {
        if self.files.contains_key(DEFAULT_POLICY_NAME) {
            return;
        }
        for agent in DEFAULT_OPEN_AGENTS {
            if let Entry::Vacant(vacant) = self.files.entry(agent.to_owned()) {
                let (file, _) = PolicyFile::parse(DEFAULT_OPEN_POLICY, &CallerGroups::default());
                let name = format!("built-in {agent}.policy");
                vacant.insert(LoadedPolicy::Read { path: PathBuf::from(&name), name, file });
            }
        }
    }

    fn find_decision_source(
        &self,
        input: EvaluationInput<'_>,
    ) -> EvaluationProgress<'_, DecisionSource<'_>> {
        if let Some(rule) = &self.refused {
            return EvaluationProgress::Decided(DecisionSource::Refused(rule));
        }
        match self.policy_for_agent(input.query.agent) {
            None => EvaluationProgress::Decided(DecisionSource::NoFile(self.default)),
            Some(LoadedPolicy::Refused { rule, .. }) => {
                EvaluationProgress::Decided(DecisionSource::Refused(rule))
            }
            Some(LoadedPolicy::Read { name, file, .. }) => {
                file.find_deciding_rule(input).map(|first| match (first, file.default_verdict()) {
                    (Some((rule, rule_match)), _) => DecisionSource::Rule(name, rule, rule_match),
                    (None, Some((line, verdict))) => DecisionSource::Default(name, line, verdict),
                    (None, None) => DecisionSource::NoMatch(name),
                })
            }
        }
    }

    /// The policy of an agent.
    fn policy_for_agent(&self, agent: &SubjectName) -> Option<&LoadedPolicy> {
        self.files.get(agent.as_str()).or_else(|| self.files.get(DEFAULT_POLICY_NAME))
    }

    /// The policy that decides about an agent, with its name; `None` if there is none, or if it is refused.
    pub(super) fn policy_in_force(&self, agent: &SubjectName) -> Option<(&str, &PolicyFile)> {
        match self.policy_for_agent(agent)? {
            LoadedPolicy::Read { name, file, .. } if self.refused.is_none() => Some((name, file)),
            _ => None,
        }
    }

    /// The groups.
    pub fn groups(&self) -> &CallerGroups {
        &self.groups
    }

    /// Parsed and built-in policies: the agent, the path, and the valid rules. For checks only: a node refuses a file that has other lines, too.
    pub fn readable_policies(&self) -> impl Iterator<Item = (&str, &Path, &PolicyFile)> {
        self.files.iter().filter_map(|(agent, policy)| match policy {
            LoadedPolicy::Read { path, file, .. }
            | LoadedPolicy::Refused { path, file: Some(file), .. } => {
                Some((agent.as_str(), path.as_path(), file))
            }
            LoadedPolicy::Refused { file: None, .. } => None,
        })
    }
}

impl DecisionSource<'_> {
    fn resolve_decision(&self, input: EvaluationInput<'_>) -> PolicyDecision {
        let (verdict, rule) = match self {
            Self::Rule(name, rule, rule_match) => {
                let mut location = format!("{name}:{}", rule.line_number());
                if *rule_match == RuleMatch::Unknown {
                    let unknown = rule.unknown_conditions(input).join(", ");
                    location = format!("{location} (unknown: {unknown})");
                }
                (rule.verdict(), location)
            }
            Self::Default(name, line, verdict) => (*verdict, format!("{name}:{line} (default)")),
            Self::NoMatch(name) => (RuleVerdict::Deny, format!("{name} (no line matches)")),
            Self::Refused(rule) => (RuleVerdict::Deny, (*rule).to_owned()),
            Self::NoFile(verdict) => {
                (*verdict, format!("default (no {}.policy)", input.query.agent))
            }
        };
        let approved_by = match self {
            Self::Rule(_, rule, _) => rule.approvers().map(CallerSet::to_string),
            _ => None,
        };
        PolicyDecision { allowed: verdict == RuleVerdict::Allow, rule, approved_by }
    }
}

/// A file that cannot be used.
struct RefusedPolicyFile<T> {
    /// Denies as this rule, instead of one in the file.
    rule: String,
    /// The valid part of the file, if it could be read.
    parsed: Option<T>,
}

/// Parses a file, and adds the problems of one that cannot be used.
fn parse_source<T>(
    path: &Path,
    text: Result<String, PolicyFault>,
    parse: impl FnOnce(&str) -> (T, Vec<PolicyLineFault>),
    problems: &mut Vec<PolicyProblem>,
) -> Result<T, RefusedPolicyFile<T>> {
    let mut add_problem =
        |location, fault| problems.push(PolicyProblem { path: path.to_owned(), location, fault });
    let name = file_name(path);
    match text.map(|text| parse(&text)) {
        Ok((parsed, line_faults)) => {
            let Some(first) = line_faults.first().map(|line_fault| line_fault.line) else {
                return Ok(parsed);
            };
            for PolicyLineFault { line, column, fault } in line_faults {
                add_problem(Some((line, column)), fault);
            }
            Err(RefusedPolicyFile {
                rule: format!("{name}:{first}{MALFORMED}"),
                parsed: Some(parsed),
            })
        }
        Err(fault) => {
            add_problem(None, fault);
            Err(RefusedPolicyFile { rule: format!("{name}{UNUSABLE}"), parsed: None })
        }
    }
}

/// The last component of a path: callers must not learn the node's directory layout.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
