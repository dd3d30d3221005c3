//! One `allow` or `deny` line: how it is read, and whether it is about a question.

use std::collections::BTreeSet;

use super::callers::Callers;
use super::explain::Mismatch;
use super::fault::PolicyFault;
use super::groups::Groups;
use super::options::{self, Options};
use super::span::Span;
use super::{Question, Verdict};
use crate::Millis;
use crate::filter::{
    Filter, FilterError, Known, Lookup, Pattern, Progress, Select, Sources, Truth,
};
use crate::identity::Name;

/// One line of a policy.
#[derive(Debug, Clone)]
pub struct Rule {
    line: usize,
    text: Box<str>,
    verdict: Verdict,
    callers: Callers,
    /// Nothing means every action.
    actions: Option<BTreeSet<Name>>,
    facts: Demand,
    classes: Demand,
    options: Options,
}

/// What a rule demands of the node in one of its fields.
#[derive(Debug, Clone, Default)]
struct Demand {
    filter: Filter,
    /// As it was written, where it asks data sources.
    written: Option<(usize, Box<str>)>,
}

/// How a rule stands to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is about it.
    Matches,
    /// Its time is over.
    Over,
    /// It is for other callers.
    Caller,
    /// It is for other actions.
    Action,
    /// It is for other nodes.
    Node,
    /// Nobody can tell whether it is for this node.
    Unknown,
}

impl Rule {
    /// Reads a line; what is wrong comes with its column.
    pub(super) fn read(
        line: usize,
        span: Span<'_>,
        groups: &Groups,
    ) -> Result<Self, (usize, PolicyFault)> {
        let mut fields: Vec<Span<'_>> = span.fields().collect();
        let options = match fields.last() {
            Some(last) if fields.len() > 4 && options::are_meant(*last) => {
                let options = Options::read(*last, groups)?;
                fields.pop();
                options
            }
            _ => Options::default(),
        };
        let (word, callers, actions, facts, classes) = match *fields {
            [word, callers, actions, facts] => (word, callers, actions, facts, None),
            [word, callers, actions, facts, classes] => {
                (word, callers, actions, facts, Some(classes))
            }
            _ => return Err((span.column(), not_a_rule(span, fields.len()))),
        };
        let verdict = Verdict::read(word.text()).ok_or((word.column(), PolicyFault::Unknown))?;
        if verdict == Verdict::Deny && options.approvers.is_some() {
            return Err((span.column(), PolicyFault::ApprovedDenial));
        }
        Ok(Self {
            line,
            text: span.text().into(),
            verdict,
            callers: Callers::read(callers.words(), groups)?,
            actions: read_actions(actions)?,
            facts: read_node(facts, Place::Facts)?,
            classes: classes.map_or_else(
                || Ok(Demand::default()),
                |classes| read_node(classes, Place::Classes),
            )?,
            options,
        })
    }

    /// How the rule stands to this question, or which data source must be asked to tell. Whatever costs nothing is looked at first.
    pub(super) fn fit(&self, asked: &Question<'_>, known: &Known) -> Progress<'_, Fit> {
        let over = |until: Millis| until <= asked.now;
        if self.options.until.is_some_and(over) {
            return Progress::Decided(Fit::Over);
        }
        if !self.callers.include(asked.caller) {
            return Progress::Decided(Fit::Caller);
        }
        if !self.is_about(asked.action) {
            return Progress::Decided(Fit::Action);
        }
        self.node(asked, known).map(|truth| match truth {
            Truth::True => Fit::Matches,
            Truth::False => Fit::Node,
            Truth::Unknown => Fit::Unknown,
        })
    }

    /// Whether a rule that stands so decides. What is unknown is denied, and never allowed.
    pub(super) fn decides(&self, fit: Fit) -> bool {
        match fit {
            Fit::Matches => true,
            Fit::Unknown => self.verdict == Verdict::Deny,
            Fit::Over | Fit::Caller | Fit::Action | Fit::Node => false,
        }
    }

    /// Why a rule that stands so does not decide; nothing, if it does.
    pub(super) fn mismatch(
        &self,
        fit: Fit,
        asked: &Question<'_>,
        known: &Known,
    ) -> Option<Mismatch> {
        if self.decides(fit) {
            return None;
        }
        Some(match fit {
            Fit::Over => Mismatch::Over(self.options.until.unwrap_or_default()),
            Fit::Caller => Mismatch::Caller(self.callers.to_string()),
            Fit::Action => {
                let actions = self.actions.iter().flatten();
                Mismatch::Action(actions.map(|action| action.as_str().to_owned()).collect())
            }
            Fit::Matches | Fit::Node => Mismatch::Node(self.demanded(Truth::False, asked, known)),
            Fit::Unknown => Mismatch::Unknown(self.demanded(Truth::Unknown, asked, known)),
        })
    }

    /// The conditions that nobody can tell.
    pub(super) fn unknown(&self, asked: &Question<'_>, known: &Known) -> Vec<String> {
        self.filters()
            .flat_map(|filter| filter.unknown_conditions(asked.node, known))
            .collect()
    }

    /// Both fields, which must both hold.
    fn node(&self, asked: &Question<'_>, known: &Known) -> Progress<'_, Truth> {
        let mut both = Progress::Decided(Truth::True);
        for filter in self.filters() {
            match (filter.evaluate(asked.node, known), both) {
                (Progress::Decided(Truth::False), _) => return Progress::Decided(Truth::False),
                (needs @ Progress::Needs(_), Progress::Decided(_)) => both = needs,
                (Progress::Decided(Truth::Unknown), Progress::Decided(_)) => {
                    both = Progress::Decided(Truth::Unknown);
                }
                _ => {}
            }
        }
        both
    }

    /// The first demand that is worth this, in English.
    fn demanded(&self, truth: Truth, asked: &Question<'_>, known: &Known) -> String {
        let worth =
            |filter: &&Filter| filter.evaluate(asked.node, known) == Progress::Decided(truth);
        let found = self.filters().find(worth);
        found.map(Filter::explain).unwrap_or_default()
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        [&self.facts.filter, &self.classes.filter].into_iter()
    }

    /// The questions to data sources that it may need answered.
    pub fn lookups(&self) -> impl Iterator<Item = &Lookup> {
        let selects = self.filters().filter_map(Filter::select);
        selects.flat_map(Select::lookups)
    }

    /// What no declared data source can answer in its expressions: where in the line, in characters from 1, and what is wrong.
    pub fn undeclared(&self, sources: &Sources) -> Vec<(usize, FilterError)> {
        let demands = [&self.facts, &self.classes].into_iter();
        let written = demands.filter_map(|demand| demand.written.as_ref());
        written
            .filter_map(|(column, text)| {
                let error = Select::parse_declared(text, sources).err()?;
                Some((column + error.column() - 1, error))
            })
            .collect()
    }

    fn is_about(&self, action: &Name) -> bool {
        self.actions
            .as_ref()
            .is_none_or(|actions| actions.contains(action))
    }

    /// Whether a later rule can never decide, because whatever it is about is decided here.
    pub fn covers(&self, later: &Self) -> bool {
        let outlasts = match (self.options.until, later.options.until) {
            (None, _) => true,
            (Some(own), Some(other)) => other <= own,
            (Some(_), None) => false,
        };
        let actions = match (&self.actions, &later.actions) {
            (None, _) => true,
            (Some(own), Some(others)) => others.is_subset(own),
            (Some(_), None) => false,
        };
        let node = |own: &Filter, other: &Filter| own.is_empty() || own == other;
        outlasts
            && actions
            && self.callers.cover(&later.callers)
            && node(&self.facts.filter, &later.facts.filter)
            && node(&self.classes.filter, &later.classes.filter)
            && (self.verdict == Verdict::Deny || self.lookups().next().is_none())
    }

    /// Its line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The line as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whom it is about.
    pub fn callers(&self) -> &Callers {
        &self.callers
    }

    /// The actions that it is about; nothing means every action.
    pub fn actions(&self) -> Option<&BTreeSet<Name>> {
        self.actions.as_ref()
    }

    /// From when on it counts no more.
    pub fn until(&self) -> Option<Millis> {
        self.options.until
    }

    /// One of these must have approved what it allows.
    pub fn approvers(&self) -> Option<&Callers> {
        self.options.approvers.as_ref()
    }
}

/// What a line is that has not the fields of a rule. One that is written with spaces for tabs deserves that hint.
fn not_a_rule(span: Span<'_>, fields: usize) -> PolicyFault {
    let words: Vec<&str> = span.words().map(Span::text).collect();
    match words.first().copied().and_then(Verdict::read) {
        Some(_) if fields < 4 && words.len() >= 4 => PolicyFault::Spaces,
        Some(_) => PolicyFault::Fields(fields),
        None => PolicyFault::Unknown,
    }
}

fn read_actions(field: Span<'_>) -> Result<Option<BTreeSet<Name>>, (usize, PolicyFault)> {
    if field.text() == "*" {
        return Ok(None);
    }
    let name = |word: Span<'_>| {
        Name::parse(word.text()).map_err(|error| {
            let text = word.text().to_owned();
            (word.column(), PolicyFault::Action { word: text, error })
        })
    };
    field.words().map(name).collect::<Result<_, _>>().map(Some)
}

/// Which of the two fields about the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Facts,
    Classes,
}

/// Reads facts or classes: the words of `-W` if they are nothing else, or one expression of `-S`.
fn read_node(field: Span<'_>, place: Place) -> Result<Demand, (usize, PolicyFault)> {
    if field.text() == "*" {
        return Ok(Demand::default());
    }
    let misplaced = |error: FilterError| {
        let column = field.column() + error.column() - 1;
        (column, PolicyFault::Filter(error))
    };
    let words = Filter::default().with_words(field.text());
    match words {
        Ok(filter) if are_plain(&filter) => match stray(&filter, place) {
            Some(fault) => Err((field.column(), fault)),
            None => Ok(Demand {
                filter,
                written: None,
            }),
        },
        Err(error) if !looks_compound(field.text()) => Err(misplaced(error)),
        _ => {
            let filter = Filter::default()
                .with_select(field.text())
                .map_err(misplaced)?;
            let asks = |select: &Select| !select.lookups().is_empty();
            let asks = filter.select().is_some_and(asks);
            let written = asks.then(|| (field.column(), field.text().into()));
            Ok(Demand { filter, written })
        }
    }
}

/// A class among facts, or a fact among classes.
fn stray(filter: &Filter, place: Place) -> Option<PolicyFault> {
    match place {
        Place::Facts => {
            let class = filter.classes().first()?;
            Some(PolicyFault::ClassAmongFacts(class.to_string()))
        }
        Place::Classes => {
            let fact = filter.facts().first()?;
            Some(PolicyFault::FactAmongClasses(fact.to_string()))
        }
    }
}

/// Whether no word belongs to the language of expressions: then they are words as for `-W`, and must all hold.
fn are_plain(filter: &Filter) -> bool {
    let facts = filter
        .facts()
        .iter()
        .all(|term| !term.fact().as_str().contains(['(', ')', '!']));
    facts && filter.classes().iter().all(can_be_class)
}

/// Whether the word could be a class. `and`, `!apache` and the like are an expression's, and would silently never match.
fn can_be_class(class: &Pattern) -> bool {
    match class {
        Pattern::Exact(name) => {
            let of_class =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
            !is_keyword(name) && name.chars().all(of_class)
        }
        Pattern::Regex(_) => true,
    }
}

/// Whether somebody who wrote this meant an expression, so that its faults are told as those of one.
fn looks_compound(text: &str) -> bool {
    let sign = |word: &str| {
        word.starts_with('!')
            || word.contains('(')
            || word.ends_with(')')
            || ["&&", "||"].contains(&word)
    };
    text.split_whitespace()
        .any(|word| sign(word) || is_keyword(&word.to_ascii_lowercase()))
}

fn is_keyword(word: &str) -> bool {
    ["and", "or", "not", "in", "matches"].contains(&word)
}
