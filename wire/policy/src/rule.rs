//! Policy rules: parsing and matching of one `allow` or `deny` line.

use std::collections::BTreeSet;

use muster_filter::{
    DataLookup, DeclaredSources, EvaluationProgress, FilterError, FilterPattern, NodeFilter,
    SelectExpression, TruthValue,
};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;

use super::callers::CallerSet;
use super::explain::RuleMismatch;
use super::fault::{FieldResult, LocatedFault, PolicyFault};
use super::groups::CallerGroups;
use super::options::{self, RuleOptions};
use super::span::LineSpan;
use super::{EvaluationInput, RuleVerdict};

/// One rule of a policy.
#[derive(Debug, Clone)]
pub struct PolicyRule {
    line: usize,
    text: Box<str>,
    verdict: RuleVerdict,
    callers: CallerSet,
    /// `None` matches every action.
    actions: Option<BTreeSet<SubjectName>>,
    facts: NodeRequirement,
    classes: NodeRequirement,
    options: RuleOptions,
}

/// The node condition in one field of a rule.
#[derive(Debug, Clone, Default)]
struct NodeRequirement {
    filter: NodeFilter,
    /// Column and text as written, if the condition uses data sources.
    source: Option<(usize, Box<str>)>,
}

/// The faults of the fields of a line.
#[derive(Debug, Default)]
struct FieldFaults(Vec<LocatedFault>);

impl FieldFaults {
    /// The value of a valid field; adds the fault of another one.
    fn check<T>(&mut self, field: FieldResult<T>) -> Option<T> {
        field.map_err(|fault| self.0.push(fault)).ok()
    }
}

/// The result of matching a rule with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleMatch {
    /// The rule matches.
    Matches,
    /// The rule expired.
    Expired,
    /// The rule applies to other callers.
    Caller,
    /// The rule applies to other actions.
    Action,
    /// The rule applies to other inputs.
    Input,
    /// The rule applies to other nodes.
    Node,
    /// Whether the rule applies to this node is unknown.
    Unknown,
}

impl PolicyRule {
    /// Parses a line, or returns the first fault of each field, with its column.
    pub(super) fn parse_line(
        line: usize,
        span: LineSpan<'_>,
        groups: &CallerGroups,
    ) -> Result<Self, Vec<LocatedFault>> {
        let mut fields: Vec<LineSpan<'_>> = span.split_fields().collect();
        let has_options = |last: &LineSpan<'_>| options::has_rule_options(*last);
        let options = if fields.len() > 4 { fields.pop_if(|last| has_options(last)) } else { None };
        let (word, callers, actions, facts, classes) = match *fields {
            [word, callers, actions, facts] => (word, callers, actions, facts, None),
            [word, callers, actions, facts, classes] => {
                (word, callers, actions, facts, Some(classes))
            }
            _ => return Err(vec![(span.column(), malformed_rule_fault(span, fields.len()))]),
        };
        let mut faults = FieldFaults::default();
        let verdict = RuleVerdict::from_word(word.text());
        let verdict = faults.check(verdict.ok_or((word.column(), PolicyFault::Unknown)));
        let callers = faults.check(CallerSet::parse_words(callers.split_words(), groups));
        let actions = faults.check(parse_actions(actions));
        let facts = faults.check(parse_node_field(facts, class_among_facts));
        let classes = classes.map(|classes| parse_node_field(classes, fact_among_classes));
        let classes = faults.check(classes.unwrap_or_else(|| Ok(NodeRequirement::default())));
        let options = options.map(|options| RuleOptions::parse_field(options, groups));
        let options = faults.check(options.unwrap_or_else(|| Ok(RuleOptions::default())));
        if verdict == Some(RuleVerdict::Deny)
            && options.as_ref().is_some_and(|options| options.approvers.is_some())
        {
            faults.0.push((span.column(), PolicyFault::ApprovedDenial));
        }
        match (verdict, callers, actions, facts, classes, options) {
            (
                Some(verdict),
                Some(callers),
                Some(actions),
                Some(facts),
                Some(classes),
                Some(options),
            ) if faults.0.is_empty() => {
                let text = span.text().into();
                Ok(Self { line, text, verdict, callers, actions, facts, classes, options })
            }
            _ => Err(faults.0),
        }
    }

    /// Matches the rule with a query, or returns the next needed lookup. Conditions without lookups are evaluated first.
    pub(super) fn match_query(
        &self,
        input: EvaluationInput<'_>,
    ) -> EvaluationProgress<'_, RuleMatch> {
        let is_expired = |until: Millis| until <= input.query.now;
        if self.options.until.is_some_and(is_expired) {
            return EvaluationProgress::Decided(RuleMatch::Expired);
        }
        if !self.callers.includes_caller(input.query.caller) {
            return EvaluationProgress::Decided(RuleMatch::Caller);
        }
        let actions = self.actions.as_ref();
        if actions.is_some_and(|actions| !actions.contains(input.query.action)) {
            return EvaluationProgress::Decided(RuleMatch::Action);
        }
        if !self.options.inputs.match_inputs(input.query.inputs) {
            return EvaluationProgress::Decided(RuleMatch::Input);
        }
        self.evaluate_node(input).map(|truth| match truth {
            TruthValue::True => RuleMatch::Matches,
            TruthValue::False => RuleMatch::Node,
            TruthValue::Unknown => RuleMatch::Unknown,
        })
    }

    /// Whether a rule with this match result decides. An unknown match decides for `deny` and not for `allow`.
    pub(super) fn decides_with(&self, rule_match: RuleMatch) -> bool {
        match rule_match {
            RuleMatch::Matches => true,
            RuleMatch::Unknown => self.verdict == RuleVerdict::Deny,
            RuleMatch::Expired
            | RuleMatch::Caller
            | RuleMatch::Action
            | RuleMatch::Input
            | RuleMatch::Node => false,
        }
    }

    /// Why a rule with this match result does not decide; `None` if it does.
    pub(super) fn explain_mismatch(
        &self,
        rule_match: RuleMatch,
        input: EvaluationInput<'_>,
    ) -> Option<RuleMismatch> {
        if self.decides_with(rule_match) {
            return None;
        }
        Some(match rule_match {
            RuleMatch::Expired => RuleMismatch::Expired(self.options.until.unwrap_or_default()),
            RuleMatch::Caller => RuleMismatch::Caller(self.callers.to_string()),
            RuleMatch::Action => {
                let actions = self.actions.iter().flatten();
                RuleMismatch::Action(actions.map(|action| action.as_str().to_owned()).collect())
            }
            RuleMatch::Input => RuleMismatch::Input(self.options.inputs.describe()),
            RuleMatch::Matches | RuleMatch::Node => {
                RuleMismatch::Node(self.explain_requirement(TruthValue::False, input))
            }
            RuleMatch::Unknown => {
                RuleMismatch::Unknown(self.explain_requirement(TruthValue::Unknown, input))
            }
        })
    }

    /// The unknown conditions.
    pub(super) fn unknown_conditions(&self, input: EvaluationInput<'_>) -> Vec<String> {
        self.node_filters()
            .flat_map(|filter| filter.unknown_conditions(input.query.node, input.known))
            .collect()
    }

    /// Evaluates both node fields; both must match.
    fn evaluate_node(&self, input: EvaluationInput<'_>) -> EvaluationProgress<'_, TruthValue> {
        let (mut needs, mut all) = (None, TruthValue::True);
        for filter in self.node_filters() {
            match filter.evaluate(input.query.node, input.known) {
                no @ EvaluationProgress::Decided(TruthValue::False) => return no,
                EvaluationProgress::Decided(truth) => all = all.and(truth),
                pending @ EvaluationProgress::Needs(_) => needs = needs.or(Some(pending)),
            }
        }
        needs.unwrap_or(EvaluationProgress::Decided(all))
    }

    /// The first condition with this truth value, in English.
    fn explain_requirement(&self, truth: TruthValue, input: EvaluationInput<'_>) -> String {
        let has_truth = |candidate: &&NodeFilter| {
            candidate.evaluate(input.query.node, input.known) == EvaluationProgress::Decided(truth)
        };
        let filter = self.node_filters().find(has_truth);
        filter.map(NodeFilter::explain).unwrap_or_default()
    }

    fn node_filters(&self) -> impl Iterator<Item = &NodeFilter> {
        [&self.facts.filter, &self.classes.filter].into_iter()
    }

    /// The data source lookups that the rule may need.
    pub fn data_lookups(&self) -> impl Iterator<Item = &DataLookup> {
        let selects = self.node_filters().filter_map(NodeFilter::select);
        selects.flat_map(SelectExpression::data_lookups)
    }

    /// Data source expressions that contradict the declarations: the column, in characters from 1, and the error.
    pub fn undeclared_sources(&self, sources: &DeclaredSources) -> Vec<(usize, FilterError)> {
        let requirements = [&self.facts, &self.classes].into_iter();
        let expressions = requirements.filter_map(|requirement| requirement.source.as_ref());
        expressions
            .filter_map(|(column, text)| {
                let error = SelectExpression::parse_declared(text, sources).err()?;
                Some((column + error.column() - 1, error))
            })
            .collect()
    }

    /// The regular expressions on facts and classes that contain letters in upper case. They match regardless of case.
    pub fn upper_case_patterns(&self) -> Vec<String> {
        let filters = [&self.facts.filter, &self.classes.filter].into_iter();
        filters.flat_map(NodeFilter::upper_case_patterns).collect()
    }

    /// Whether this rule decides every query that a later rule matches, so that the later one never decides.
    pub fn covers_rule(&self, later_rule: &Self) -> bool {
        let (until, actions) = (later_rule.options.until, later_rule.actions.as_ref());
        let outlasts = self.options.until.is_none_or(|own| until.is_some_and(|until| until <= own));
        let own_actions = self.actions.as_ref();
        let actions =
            own_actions.is_none_or(|own| actions.is_some_and(|others| others.is_subset(own)));
        let inputs = &self.options.inputs;
        let covers_inputs = inputs.is_empty() || *inputs == later_rule.options.inputs;
        let covers_filter = |own: &NodeFilter, other: &NodeFilter| own.is_empty() || own == other;
        outlasts
            && actions
            && self.callers.covers_callers(&later_rule.callers)
            && covers_inputs
            && covers_filter(&self.facts.filter, &later_rule.facts.filter)
            && covers_filter(&self.classes.filter, &later_rule.classes.filter)
            && (self.verdict == RuleVerdict::Deny || self.data_lookups().next().is_none())
    }

    /// The line number, from 1.
    pub fn line_number(&self) -> usize {
        self.line
    }

    /// The line as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The verdict.
    pub fn verdict(&self) -> RuleVerdict {
        self.verdict
    }

    /// The callers of the rule.
    pub fn callers(&self) -> &CallerSet {
        &self.callers
    }

    /// The actions of the rule; `None` matches every action.
    pub fn actions(&self) -> Option<&BTreeSet<SubjectName>> {
        self.actions.as_ref()
    }

    /// The expiry instant.
    pub fn until(&self) -> Option<Millis> {
        self.options.until
    }

    /// The callers of whom one must have approved the request.
    pub fn approvers(&self) -> Option<&CallerSet> {
        self.options.approvers.as_ref()
    }
}

/// The fault for a line with the wrong number of fields, with a hint if spaces were used instead of tabs.
fn malformed_rule_fault(span: LineSpan<'_>, fields: usize) -> PolicyFault {
    let words: Vec<&str> = span.split_words().map(LineSpan::text).collect();
    match words.first().copied().and_then(RuleVerdict::from_word) {
        Some(_) if fields < 4 && words.len() >= 4 => PolicyFault::Separators,
        Some(_) => PolicyFault::Fields(fields),
        None => PolicyFault::Unknown,
    }
}

fn parse_actions(field: LineSpan<'_>) -> FieldResult<Option<BTreeSet<SubjectName>>> {
    if field.text() == "*" {
        return Ok(None);
    }
    let name = |word: LineSpan<'_>| {
        SubjectName::parse(word.text()).map_err(|error| {
            let text = word.text().to_owned();
            (word.column(), PolicyFault::Action { word: text, error })
        })
    };
    field.split_words().map(name).collect::<Result<_, _>>().map(Some)
}

/// Parses facts or classes: `-W` words if all parts are plain words, else one `-S` expression.
fn parse_node_field(
    field: LineSpan<'_>,
    misplaced_term: fn(&NodeFilter) -> Option<PolicyFault>,
) -> FieldResult<NodeRequirement> {
    if field.text() == "*" {
        return Ok(NodeRequirement::default());
    }
    let to_fault = |error: FilterError| {
        let column = field.column() + error.column() - 1;
        (column, PolicyFault::Filter(error))
    };
    let words = NodeFilter::default().with_words(field.text());
    match words {
        Ok(filter) if is_word_filter(&filter) => match misplaced_term(&filter) {
            Some(fault) => Err((field.column(), fault)),
            None => Ok(NodeRequirement { filter, source: None }),
        },
        Err(error) if !looks_compound(field.text()) => Err(to_fault(error)),
        _ => {
            let filter = NodeFilter::default().with_select(field.text()).map_err(to_fault)?;
            let has_lookups = |select: &SelectExpression| !select.data_lookups().is_empty();
            let has_lookups = filter.select().is_some_and(has_lookups);
            let source = has_lookups.then(|| (field.column(), field.text().into()));
            Ok(NodeRequirement { filter, source })
        }
    }
}

fn class_among_facts(filter: &NodeFilter) -> Option<PolicyFault> {
    Some(PolicyFault::ClassAmongFacts(filter.classes().first()?.to_string()))
}

fn fact_among_classes(filter: &NodeFilter) -> Option<PolicyFault> {
    Some(PolicyFault::FactAmongClasses(filter.facts().first()?.to_string()))
}

/// Whether no word is an expression keyword. Then the field has `-W` semantics: all words must match.
fn is_word_filter(filter: &NodeFilter) -> bool {
    let facts =
        filter.facts().iter().all(|term| !term.fact_path().as_str().contains(['(', ')', '!']));
    facts && filter.classes().iter().all(can_be_class)
}

/// Whether the word can be a class. `and`, `!apache` and similar belong to expressions, and would never match as classes.
fn can_be_class(class: &FilterPattern) -> bool {
    match class {
        FilterPattern::Exact(name) => {
            let is_class_char =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
            !is_keyword(name) && name.chars().all(is_class_char)
        }
        FilterPattern::Regex(_) => true,
    }
}

/// Whether the text looks like an expression, so that its errors are reported as expression errors.
fn looks_compound(text: &str) -> bool {
    let is_operator = |word: &str| {
        word.starts_with('!')
            || word.contains('(')
            || word.ends_with(')')
            || ["&&", "||"].contains(&word)
    };
    text.split_whitespace().any(|word| is_operator(word) || is_keyword(&word.to_ascii_lowercase()))
}

fn is_keyword(word: &str) -> bool {
    ["and", "or", "not", "in", "matches"].contains(&word)
}
