//! One policy file: its rules and its default. Pure; see the room's head for the format.

use std::collections::BTreeSet;

use muster_wire::filter::{Filter, Pattern};
use muster_wire::identity::{Identity, Name};
use muster_wire::state::NodeView;

use super::error::PolicyFault;
use super::groups::{Groups, lines};
use crate::config::Verdict;

/// A file that was understood as a whole.
#[derive(Debug, Clone)]
pub(super) struct PolicyFile {
    rules: Vec<Rule>,
    default: Option<(usize, Verdict)>,
}

/// One `allow` or `deny` line.
#[derive(Debug, Clone)]
struct Rule {
    line: usize,
    verdict: Verdict,
    /// Nothing means everybody.
    callers: Option<BTreeSet<Identity>>,
    /// Nothing means every action.
    actions: Option<BTreeSet<Name>>,
    node: Filter,
}

/// What a file says of a request, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// This line decided.
    Line(usize, Verdict),
    /// No line matched; the default, with its line.
    Default(usize, Verdict),
    /// No line matched, and there is no default.
    Silent,
}

impl PolicyFile {
    /// Reads the whole file, or nothing of it: a line that is skipped may have been a `deny`. Errors carry the line.
    pub(super) fn parse(text: &str, groups: &Groups) -> Result<Self, (usize, PolicyFault)> {
        let mut file = Self {
            rules: Vec::new(),
            default: None,
        };
        for (number, line) in lines(text) {
            file.add(number, line, groups)
                .map_err(|fault| (number, fault))?;
        }
        Ok(file)
    }

    fn add(&mut self, line: usize, text: &str, groups: &Groups) -> Result<(), PolicyFault> {
        if let ["policy", "default", word] = *text.split_whitespace().collect::<Vec<_>>() {
            let verdict = verdict(word).ok_or(PolicyFault::Unknown)?;
            return match self.default.replace((line, verdict)) {
                Some((first, _)) => Err(PolicyFault::SecondDefault(first)),
                None => Ok(()),
            };
        }
        let fields: Vec<&str> = text
            .split('\t')
            .map(str::trim)
            .filter(|field| !field.is_empty())
            .collect();
        let (word, callers, actions, facts, classes) = match *fields {
            [word, callers, actions, facts] => (word, callers, actions, facts, "*"),
            [word, callers, actions, facts, classes] => (word, callers, actions, facts, classes),
            [word, ..] if verdict(word).is_some() => return Err(PolicyFault::Fields(fields.len())),
            _ => return Err(unknown(text)),
        };
        self.rules.push(Rule {
            line,
            verdict: verdict(word).ok_or(PolicyFault::Unknown)?,
            callers: read_callers(callers, groups)?,
            actions: read_actions(actions)?,
            node: read_facts(facts)?.merge(read_classes(classes)?)?,
        });
        Ok(())
    }

    /// The first line that matches decides.
    pub(super) fn rule(&self, caller: &Identity, action: &Name, node: &NodeView<'_>) -> Ruling {
        let matches = |rule: &&Rule| {
            rule.callers
                .as_ref()
                .is_none_or(|callers| callers.contains(caller))
                && rule
                    .actions
                    .as_ref()
                    .is_none_or(|actions| actions.contains(action))
                && rule.node.matches(node)
        };
        match (self.rules.iter().find(matches), self.default) {
            (Some(rule), _) => Ruling::Line(rule.line, rule.verdict),
            (None, Some((line, verdict))) => Ruling::Default(line, verdict),
            (None, None) => Ruling::Silent,
        }
    }
}

fn verdict(word: &str) -> Option<Verdict> {
    match word {
        "allow" => Some(Verdict::Allow),
        "deny" => Some(Verdict::Deny),
        _ => None,
    }
}

/// A rule written with spaces for tabs has one field too few, and deserves that hint.
fn unknown(text: &str) -> PolicyFault {
    match text.split_whitespace().next().and_then(verdict) {
        Some(_) => PolicyFault::Fields(text.split('\t').count()),
        None => PolicyFault::Unknown,
    }
}

fn read_callers(field: &str, groups: &Groups) -> Result<Option<BTreeSet<Identity>>, PolicyFault> {
    if field == "*" {
        return Ok(None);
    }
    let mut callers = BTreeSet::new();
    for word in field.split_whitespace() {
        callers.extend(groups.callers(word)?);
    }
    Ok(Some(callers))
}

fn read_actions(field: &str) -> Result<Option<BTreeSet<Name>>, PolicyFault> {
    let name = |word: &str| {
        Name::parse(word).map_err(|error| PolicyFault::Action {
            word: word.to_owned(),
            error,
        })
    };
    match field {
        "*" => Ok(None),
        words => words
            .split_whitespace()
            .map(name)
            .collect::<Result<_, _>>()
            .map(Some),
    }
}

fn read_facts(field: &str) -> Result<Filter, PolicyFault> {
    if field == "*" {
        return Ok(Filter::default());
    }
    let filter = Filter::default().with_words(field)?;
    if let Some(class) = filter.classes().first() {
        return Err(PolicyFault::ClassAmongFacts(class.to_string()));
    }
    match filter
        .facts()
        .iter()
        .find(|term| term.fact().as_str().contains(['(', ')']))
    {
        Some(term) => Err(PolicyFault::Compound(term.to_string())),
        None => Ok(filter),
    }
}

fn read_classes(field: &str) -> Result<Filter, PolicyFault> {
    if field == "*" {
        return Ok(Filter::default());
    }
    let filter = Filter::default().with_words(field)?;
    if let Some(fact) = filter.facts().first() {
        return Err(PolicyFault::FactAmongClasses(fact.to_string()));
    }
    match filter.classes().iter().find(|class| !can_be_class(class)) {
        Some(class) => Err(PolicyFault::Compound(class.to_string())),
        None => Ok(filter),
    }
}

/// Whether the word could be a class. `and`, `!apache` and the like are a compound expression's, and would silently
/// never match.
fn can_be_class(class: &Pattern) -> bool {
    match class {
        Pattern::Exact(name) => {
            let of_class =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
            !matches!(name.as_str(), "and" | "or" | "not") && name.chars().all(of_class)
        }
        _ => true,
    }
}
