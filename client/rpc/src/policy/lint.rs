//! What is wrong or odd about policies. Pure: files are read, and schemas known, before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_client::DdlStore;
use muster_ddl::Ddl;
use muster_wire::Millis;
use muster_wire::filter::Sources;
use muster_wire::policy::{CallerWord, PolicyFile, PolicyProblem, PolicySet, Rule, Verdict};
use serde::Serialize;

use crate::ask::nearest;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A node denies everything because of it.
    Error,
    /// It does what it says, which is probably not what was meant.
    Warning,
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, if one is meant.
    pub line: Option<usize>,
    /// Where in it, in characters from 1.
    pub column: Option<usize>,
    /// How bad it is.
    pub level: Level,
    /// A word for its kind, for programs.
    pub code: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Policies that were read.
#[derive(Debug, Clone, Copy)]
pub struct Loaded<'a> {
    /// What was understood.
    pub set: &'a PolicySet,
    /// What was not.
    pub problems: &'a [PolicyProblem],
}

/// Everything that is wrong or odd, by file and line.
pub fn look_over(
    loaded: Loaded<'_>,
    schemas: &DdlStore,
    sources: &Sources,
    now: Millis,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = loaded.problems.iter().map(malformed).collect();
    let callers = Callers::of(loaded.set);
    for (agent, path, file) in loaded.set.policies() {
        if path.starts_with(format!("built-in {agent}.policy")) {
            continue;
        }
        let mut look = Look {
            path,
            findings: &mut findings,
        };
        look.agent(agent, file, schemas);
        look.default(file);
        for (index, rule) in file.rules().iter().enumerate() {
            look.reach(rule, file.rules().get(..index).unwrap_or_default(), now);
            look.callers(rule, &callers);
            look.sources(rule, sources);
        }
    }
    findings.sort_by(|a, b| (&a.path, a.line, a.column).cmp(&(&b.path, b.line, b.column)));
    findings
}

fn malformed(problem: &PolicyProblem) -> Finding {
    Finding {
        path: problem.path.clone(),
        line: problem.place.map(|(line, _)| line),
        column: problem.place.map(|(_, column)| column),
        level: Level::Error,
        code: "malformed",
        message: problem.fault.to_string(),
    }
}

/// The names that policies use for callers.
struct Callers<'a> {
    groups: Vec<&'a str>,
    /// Each name, and in how many words it is said, membership of a group among them.
    names: BTreeMap<&'a str, usize>,
}

impl<'a> Callers<'a> {
    fn of(set: &'a PolicySet) -> Self {
        let mut names = BTreeMap::new();
        let rules = set.policies().flat_map(|(_, _, file)| file.rules());
        let words = rules.flat_map(|rule| rule.callers().words());
        let said = words
            .filter(|word| is_name(word))
            .map(|word| bare(&word.text));
        let members = set.groups().everybody();
        let members = members.map(|member| member.name().as_str());
        for name in said.chain(members) {
            *names.entry(name).or_default() += 1;
        }
        Self {
            groups: set.groups().names().collect(),
            names,
        }
    }

    /// What was probably meant by a name that is said once only.
    fn instead_of(&self, name: &str) -> Option<String> {
        if self.names.get(name).is_some_and(|count| *count > 1) {
            return None;
        }
        if let Some(group) = nearest(name, self.groups.iter().copied()) {
            return Some(format!("the group `{group}`"));
        }
        let one_slip = |other: &str| {
            name.len() >= 5 && other != name && strsim::damerau_levenshtein(name, other) == 1
        };
        let known = self.names.iter().filter(|(_, count)| **count > 1);
        let mut near = known.filter(|(other, _)| one_slip(other));
        near.next().map(|(other, _)| format!("`{other}`"))
    }
}

/// Whether a word is one caller's name.
fn is_name(word: &CallerWord) -> bool {
    !word.group && word.text != "*" && !bare(&word.text).starts_with('/')
}

/// The name without what may stand before it.
fn bare(word: &str) -> &str {
    if word.starts_with('/') {
        return word;
    }
    word.split_once('=').map_or(word, |(_, name)| name)
}

/// Looks at one file.
struct Look<'a> {
    path: &'a Path,
    findings: &'a mut Vec<Finding>,
}

impl Look<'_> {
    fn warn(&mut self, line: Option<usize>, column: usize, code: &'static str, message: String) {
        self.findings.push(Finding {
            path: self.path.to_owned(),
            line,
            column: line.map(|_| column),
            level: Level::Warning,
            code,
            message,
        });
    }

    /// That there is such an agent, and that it has the actions that are named.
    fn agent(&mut self, agent: &str, file: &PolicyFile, schemas: &DdlStore) {
        // `data` stands for data sources, of which each node has its own.
        if ["default", "data"].contains(&agent) {
            return;
        }
        let Some(ddl) = schemas.get(agent) else {
            let meant = nearest(agent, schemas.all().map(Ddl::name))
                .map(|name| format!("; is `{name}.policy` meant?"));
            let message = format!(
                "no agent called `{agent}` is known here{}",
                meant.unwrap_or_else(|| ", so its actions were not checked".to_owned())
            );
            self.warn(None, 1, "unknown-agent", message);
            return;
        };
        for rule in file.rules() {
            for action in rule.actions().into_iter().flatten() {
                if ddl.action(action.as_str()).is_some() {
                    continue;
                }
                let known = || ddl.actions().iter().map(muster_ddl::Action::name);
                let meant = nearest(action.as_str(), known()).map_or_else(
                    || format!("it has {}", known().collect::<Vec<_>>().join(", ")),
                    |name| format!("is `{name}` meant?"),
                );
                let message = format!("agent `{agent}` has no action `{action}`; {meant}");
                self.warn(Some(rule.line()), 1, "unknown-action", message);
            }
        }
    }

    fn default(&mut self, file: &PolicyFile) {
        if let Some((line, Verdict::Allow)) = file.default_verdict() {
            let message = "whatever no line denies is allowed to everybody; `policy default deny` is the careful way".to_owned();
            self.warn(Some(line), 1, "default-allow", message);
        }
    }

    /// That a rule can decide at all.
    fn reach(&mut self, rule: &Rule, before: &[Rule], now: Millis) {
        if rule.until().is_some_and(|until| until <= now) {
            let message = "its time is over, so it never decides; take the line out".to_owned();
            self.warn(Some(rule.line()), 1, "over", message);
        } else if let Some(first) = before.iter().find(|earlier| earlier.covers(rule)) {
            let message = format!(
                "never decides, because line {} is about all of it already; put it before that line, or take it out",
                first.line()
            );
            self.warn(Some(rule.line()), 1, "unreachable", message);
        }
    }

    /// That the data sources that a rule asks are declared, and answer what they are asked.
    fn sources(&mut self, rule: &Rule, sources: &Sources) {
        for (column, error) in rule.undeclared(sources) {
            let effect = match rule.verdict() {
                Verdict::Allow => "never matches",
                Verdict::Deny => "always does",
            };
            let message = format!(
                "expected {}; where a node cannot tell, the line {effect}",
                error.expected()
            );
            self.warn(Some(rule.line()), column, "data-source", message);
        }
    }

    /// That names are not slips of the fingers.
    fn callers(&mut self, rule: &Rule, callers: &Callers<'_>) {
        for word in rule.callers().words().iter().filter(|word| is_name(word)) {
            if let Some(meant) = callers.instead_of(bare(&word.text)) {
                let message = format!(
                    "`{}` is no group, and said nowhere else; is {meant} meant?",
                    word.text
                );
                self.warn(Some(rule.line()), word.column, "unknown-caller", message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use muster_client::{DataStore, DdlStore};
    use muster_wire::policy::{PolicySet, Source, Verdict, instant};

    use super::{Level, Loaded, look_over};

    fn codes(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(name, text): &(&str, &str)| Source {
            path: PathBuf::from(name),
            text: Ok((*text).to_owned()),
        };
        let (groups, policies): (Vec<_>, Vec<_>) =
            files.iter().partition(|(name, _)| *name == "groups");
        let (set, problems) = PolicySet::new(
            policies.iter().map(source),
            groups.first().map(source),
            Verdict::Deny,
        );
        let loaded = Loaded {
            set: &set,
            problems: &problems,
        };
        let now = instant("2026-11-22T10:00Z").unwrap();
        let sources = DataStore::load(None).unwrap().sources();
        let found = look_over(loaded, &DdlStore::load(None).unwrap(), &sources, now);
        let told = |finding: &super::Finding| {
            assert_eq!(finding.level == Level::Error, finding.code == "malformed");
            format!(
                "{}:{} {}",
                finding.path.display(),
                finding.line.unwrap_or(0),
                finding.code
            )
        };
        found.iter().map(told).collect()
    }

    #[test]
    fn what_is_meant_is_left_alone() {
        let service = "policy default deny\nallow\tadmins\t*\t*\nallow\toncall anna\tstatus restart\tcustomer=acme\n\
                       deny\t/ci-.*/\t*\t*\nallow\t*\tstatus\t*\tuntil=2026-11-23T00:00Z\n";
        let files = [
            ("groups", "admins rip eve\noncall joe\n"),
            ("service.policy", service),
            (
                "default.policy",
                "policy default deny\nallow\tadmins\twhatever\t*\n",
            ),
        ];
        assert_eq!(codes(&files), Vec::<String>::new());
    }

    #[test]
    fn oddities_are_found_with_their_lines() {
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
    fn data_sources_are_held_against_their_schemas() {
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
    fn a_name_that_is_nearly_another_is_told() {
        let package =
            "allow\tmallory\tstatus\t*\nallow\tmallory\tinstall\t*\nallow\tmalory\tupdate\t*\n";
        let found = codes(&[("package.policy", package)]);
        assert_eq!(found, ["package.policy:3 unknown-caller"]);
    }
}
