//! Checks policies for errors and suspicious rules. Pure: the caller reads files and provides DDLs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_calls::DdlStore;
use muster_ddl::AgentDdl;
use muster_filter::DeclaredSources;
use muster_policy::{CallerWord, PolicyFile, PolicyProblem, PolicyRule, PolicySet, RuleVerdict};
use muster_wire::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use muster_base::nearest_name;

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LintLevel {
    /// A node denies all requests because of it.
    Error,
    /// Valid, but probably not what was intended.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LintFinding {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; null if the finding is about the whole file.
    pub line: Option<usize>,
    /// The column, in characters from 1.
    pub column: Option<usize>,
    /// Severity.
    pub level: LintLevel,
    /// Code of the kind of finding, for programs.
    pub code: &'static str,
    /// What is wrong, and how to fix it.
    pub message: String,
}

/// Returns all findings, by file and line: about the policies, and `problems`, the errors found while parsing them.
pub fn lint_policies(
    policies: &PolicySet,
    problems: &[PolicyProblem],
    schemas: &DdlStore,
    sources: &DeclaredSources,
    now: Millis,
) -> Vec<LintFinding> {
    let mut findings: Vec<LintFinding> = problems.iter().map(malformed_finding).collect();
    let callers = CallerNames::from_policies(policies);
    for (agent, path, file) in policies.readable_policies() {
        if path.starts_with(format!("built-in {agent}.policy")) {
            continue;
        }
        let mut linter = PolicyLinter { path, findings: &mut findings };
        linter.check_agent(agent, file, schemas);
        linter.check_default(file);
        for (index, rule) in file.rules().iter().enumerate() {
            linter.check_reachability(rule, file.rules().split_at(index).0, now);
            linter.check_callers(rule, &callers);
            linter.check_expressions(rule);
            linter.check_upper_case(rule);
            linter.check_data_sources(rule, sources);
        }
    }
    findings.sort_by(|a, b| (&a.path, a.line, a.column).cmp(&(&b.path, b.line, b.column)));
    findings
}

impl LintFinding {
    pub(crate) fn new(
        path: PathBuf,
        location: Option<(usize, usize)>,
        level: LintLevel,
        code: &'static str,
        message: String,
    ) -> Self {
        let (line, column) = location.unzip();
        Self { path, line, column, level, code, message }
    }
}

fn malformed_finding(problem: &PolicyProblem) -> LintFinding {
    let (path, message) = (problem.path.clone(), problem.fault.to_string());
    LintFinding::new(path, problem.location, LintLevel::Error, "malformed", message)
}

/// The caller names in policies.
struct CallerNames<'a> {
    groups: Vec<&'a str>,
    /// Number of occurrences of each name, including group memberships.
    names: BTreeMap<&'a str, usize>,
}

impl<'a> CallerNames<'a> {
    fn from_policies(set: &'a PolicySet) -> Self {
        let mut names = BTreeMap::new();
        let rules = set.readable_policies().flat_map(|(_, _, file)| file.rules());
        let words = rules.flat_map(|rule| rule.callers().words());
        let used_names =
            words.filter(|word| is_name(word)).map(|word| strip_role_prefix(&word.text));
        let members = set.groups().all_members().map(|member| member.name().as_str());
        for name in used_names.chain(members) {
            *names.entry(name).or_default() += 1;
        }
        Self { groups: set.groups().group_names().collect(), names }
    }

    /// Suggests a similar name for a name that occurs only once.
    fn suggest_name(&self, name: &str) -> Option<String> {
        if self.names.get(name).is_some_and(|count| *count > 1) {
            return None;
        }
        if let Some(group) = nearest_name(name, self.groups.iter().copied()) {
            return Some(format!("the group `{group}`"));
        }
        let is_typo_of = |other: &str| {
            name.len() >= 5 && other != name && strsim::damerau_levenshtein(name, other) == 1
        };
        let known = self.names.iter().filter(|(_, count)| **count > 1);
        let mut similar = known.filter(|(other, _)| is_typo_of(other));
        similar.next().map(|(other, _)| format!("`{other}`"))
    }
}

/// Whether a word is the name of a single caller.
fn is_name(word: &CallerWord) -> bool {
    !word.group && word.text != "*" && !strip_role_prefix(&word.text).starts_with('/')
}

/// Removes a role prefix from the name.
fn strip_role_prefix(word: &str) -> &str {
    if word.starts_with('/') {
        return word;
    }
    word.split_once('=').map_or(word, |(_, name)| name)
}

/// Checks one file.
struct PolicyLinter<'a> {
    path: &'a Path,
    findings: &'a mut Vec<LintFinding>,
}

impl PolicyLinter<'_> {
    /// Adds a warning about the whole file, or about a line and column.
    fn add_warning(
        &mut self,
        location: Option<(usize, usize)>,
        code: &'static str,
        message: String,
    ) {
        let (path, level) = (self.path.to_owned(), LintLevel::Warning);
        self.findings.push(LintFinding::new(path, location, level, code, message));
    }

    /// Checks that the agent exists and has the named actions.
    fn check_agent(&mut self, agent: &str, file: &PolicyFile, schemas: &DdlStore) {
        // `data` is for data sources, which differ between nodes.
        if ["default", "data"].contains(&agent) {
            return;
        }
        let Some(ddl) = schemas.get(agent) else {
            let suggestion = nearest_name(agent, schemas.all().map(AgentDdl::name))
                .map(|name| format!("; did you mean `{name}.policy`?"));
            let message = format!(
                "there is no DDL of an agent `{agent}`{}",
                suggestion.unwrap_or_else(|| ", so its actions were not checked".to_owned())
            );
            self.add_warning(None, "unknown-agent", message);
            return;
        };
        for rule in file.rules() {
            for action in rule.actions().into_iter().flatten() {
                if ddl.find_action(action.as_str()).is_some() {
                    continue;
                }
                let known = || ddl.actions().iter().map(muster_ddl::ActionSchema::name);
                let suggestion = nearest_name(action.as_str(), known()).map_or_else(
                    || format!("its actions are {}", known().collect::<Vec<_>>().join(", ")),
                    |name| format!("did you mean `{name}`?"),
                );
                let message = format!("agent `{agent}` has no action `{action}`; {suggestion}");
                self.add_warning(Some((rule.line_number(), 1)), "unknown-action", message);
            }
        }
    }

    fn check_default(&mut self, file: &PolicyFile) {
        if let Some((line, RuleVerdict::Allow)) = file.default_verdict() {
            let message = "requests that no line denies are allowed for all callers; `policy default deny` is safer".to_owned();
            self.add_warning(Some((line, 1)), "default-allow", message);
        }
    }

    /// Checks that a rule can match at all.
    fn check_reachability(&mut self, rule: &PolicyRule, earlier_rules: &[PolicyRule], now: Millis) {
        if rule.until().is_some_and(|until| until <= now) {
            let message = "the line has expired and never applies; remove it".to_owned();
            self.add_warning(Some((rule.line_number(), 1)), "over", message);
        } else if let Some(first) = earlier_rules.iter().find(|earlier| earlier.covers_rule(rule)) {
            let message = format!(
                "never applies, because line {} already covers it; move it before that line, or remove it",
                first.line_number()
            );
            self.add_warning(Some((rule.line_number(), 1)), "unreachable", message);
        }
    }

    /// Checks that the data sources of a rule are declared and have the outputs that it uses.
    fn check_data_sources(&mut self, rule: &PolicyRule, sources: &DeclaredSources) {
        for (column, error) in rule.undeclared_sources(sources) {
            let effect = match rule.verdict() {
                RuleVerdict::Allow => "never matches",
                RuleVerdict::Deny => "always matches",
            };
            let message = format!(
                "expected {}; if a node cannot evaluate this, the line {effect}",
                error.expected()
            );
            self.add_warning(Some((rule.line_number(), column)), "data-source", message);
        }
    }

    /// Checks for expressions that match one name only, as those of `MCollective` match every name that contains it.
    fn check_expressions(&mut self, rule: &PolicyRule) {
        for word in rule.callers().words() {
            let name = strip_role_prefix(&word.text).strip_prefix('/');
            let name = name.map(|text| text.trim_end_matches('i').trim_end_matches('/'));
            let Some(name) = name.map(|text| text.trim_start_matches('^').trim_end_matches('$'))
            else {
                continue;
            };
            if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
                let message = format!(
                    "`{}` matches only the whole name `{name}`; write `/.*{name}.*/` for every name that contains it, or the name itself",
                    word.text
                );
                let location = Some((rule.line_number(), word.column));
                self.add_warning(location, "whole-name", message);
            }
        }
    }

    /// Checks for expressions that are written as if they distinguished upper and lower case.
    fn check_upper_case(&mut self, rule: &PolicyRule) {
        for pattern in rule.upper_case_patterns() {
            let message = format!("`{pattern}` ignores case, as in Choria; write it in lower case");
            self.add_warning(Some((rule.line_number(), 1)), "upper-case", message);
        }
    }

    /// Checks names for typos.
    fn check_callers(&mut self, rule: &PolicyRule, callers: &CallerNames<'_>) {
        for word in rule.callers().words().iter().filter(|word| is_name(word)) {
            if let Some(suggestion) = callers.suggest_name(strip_role_prefix(&word.text)) {
                let message = format!(
                    "`{}` is not a group, and occurs nowhere else; did you mean {suggestion}?",
                    word.text
                );
                self.add_warning(
                    Some((rule.line_number(), word.column)),
                    "unknown-caller",
                    message,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use muster_calls::{DataDdlStore, DdlStore};
    use muster_policy::{PolicySet, PolicySource, RuleVerdict, parse_instant};

    use super::{LintLevel, lint_policies};

    fn codes(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(name, text): &(&str, &str)| PolicySource {
            path: PathBuf::from(name),
            text: Ok((*text).to_owned()),
        };
        let (groups, policies): (Vec<_>, Vec<_>) =
            files.iter().partition(|(name, _)| *name == "groups");
        let (set, problems) = PolicySet::new(
            policies.iter().map(source),
            groups.first().map(source),
            RuleVerdict::Deny,
        );
        let now = parse_instant("2026-11-22T10:00Z").unwrap();
        let sources = DataDdlStore::load(None).unwrap().declared_sources();
        let found = lint_policies(&set, &problems, &DdlStore::load(None).unwrap(), &sources, now);
        let told = |finding: &super::LintFinding| {
            assert_eq!(finding.level == LintLevel::Error, finding.code == "malformed");
            format!("{}:{} {}", finding.path.display(), finding.line.unwrap_or(0), finding.code)
        };
        found.iter().map(told).collect()
    }

    #[test]
    fn expressions_with_upper_case_are_warned_about() {
        let text = "policy default deny\nallow\t*\tstatus\tenvironment=/^Prod/\tmysql\nallow\t*\tstatus\tenvironment=/^\\Wprod/\t/^Role/i\n\
                    deny\t*\tstop\t*\t/^Role::/\n";
        let expected = ["service.policy:2 upper-case", "service.policy:4 upper-case"];
        assert_eq!(codes(&[("service.policy", text)]), expected);
    }

    #[test]
    fn valid_policies_have_no_findings() {
        let service = "policy default deny\nallow\tadmins\t*\t*\nallow\toncall anna\tstatus restart\tcustomer=acme\n\
                       deny\t/ci-.*/\t*\t*\nallow\t*\tstatus\t*\tuntil=2026-11-23T00:00Z\n";
        let files = [
            ("groups", "admins rip eve\noncall joe\n"),
            ("service.policy", service),
            ("default.policy", "policy default deny\nallow\tadmins\twhatever\t*\n"),
        ];
        assert_eq!(codes(&files), Vec::<String>::new());
    }

    #[test]
    fn findings_have_line_numbers() {
        let service = "policy default allow\nallow\tadmin\tstatus\t*\nallow\trip\trestrat\t*\nallow\t*\t*\t*\tuntil=2026-11-22T10:00Z\n\
                       deny\t*\tstop\t*\nallow\trip\tstop\tcustomer=acme\n";
        let files = [
            ("groups", "admins rip eve\n"),
            ("service.policy", service),
            ("sevice.policy", "allow\trip\t*\t*\n"),
            ("package.policy", "allow rip * *\nallow\trip\t*\n"),
        ];
        assert_eq!(
            codes(&files),
            [
                "package.policy:1 malformed",
                "package.policy:2 malformed",
                "service.policy:1 default-allow",
                "service.policy:2 unknown-caller",
                "service.policy:3 unknown-action",
                "service.policy:4 over",
                "service.policy:6 unreachable",
                "sevice.policy:0 unknown-agent",
            ]
        );
    }

    #[test]
    fn all_errors_of_all_kinds_are_reported_at_once() {
        let service = "allow\tr!p\tre*\tcustomer\tapache or\nallow\trip\trestrat\t*\n\
                       deny\t/^cert=ops/ /ops/\t*\t*\n";
        let files = [
            ("groups", "admins rip\nadmins eve\nops uid=500\n"),
            ("service.policy", service),
            ("package.policy", "allow\tcert=anna /web/\t*\t*\n"),
        ];
        assert_eq!(
            codes(&files),
            [
                "groups:2 malformed",
                "groups:3 malformed",
                "package.policy:1 whole-name",
                "service.policy:1 malformed",
                "service.policy:1 malformed",
                "service.policy:1 malformed",
                "service.policy:1 malformed",
                "service.policy:2 unknown-action",
                "service.policy:3 malformed",
            ]
        );
    }

    #[test]
    fn data_source_lookups_are_checked_against_their_schemas() {
        let package = "allow\trip\t*\tcustomer=acme and puppet().enabled=false\n\
                       allow\trip\tstatus\t*\tpupet().enabled\n\
                       allow\trip\tstatus\t*\tpuppet().enabled > 1\n\
                       deny\trip\tpurge\tservice().running\tpuppet().on\n";
        let found = codes(&[("package.policy", package)]);
        assert_eq!(
            found,
            [
                "package.policy:2 data-source",
                "package.policy:3 data-source",
                "package.policy:4 data-source",
                "package.policy:4 data-source",
            ]
        );
    }

    #[test]
    fn caller_similar_to_another_is_reported() {
        let package =
            "allow\tmallory\tstatus\t*\nallow\tmallory\tinstall\t*\nallow\tmalory\tupdate\t*\n";
        let found = codes(&[("package.policy", package)]);
        assert_eq!(found, ["package.policy:3 unknown-caller"]);
    }
}
