//! Evaluates a filter for a node. Cannot fail, and allocates only to convert a number for a regular expression.
//!
//! A list fact matches if any element does; a map, if any key does. `!=` and `!~` are the exact negations of `==` and
//! `=~`: they are true for missing or null facts, where every other operator is false. Numbers compare numerically if both
//! sides parse as numbers; a JSON number never equals other text. Booleans equal the words of [`parse_boolean`]. Texts compare
//! case-insensitively, in order comparisons too.

use std::cmp::Ordering;

use serde_json::Value;

use super::ast::NodeFilter;
use super::lookup::{EvaluationProgress, KnownLookups, TruthValue};
use super::number::NumericValue;
use super::pattern::FilterPattern;
use super::term::{FactOperand, FactOperator, FactTerm, LiteralOperand, parse_boolean};
use super::text::{compare_ignoring_case, equals_ignoring_case};
use crate::state::{NodeFacts, NodeView};

impl NodeFilter {
    /// The first data source that it reads: only the node itself can evaluate such a filter.
    pub fn data_source(&self) -> Option<&str> {
        let lookups = self.select()?.data_lookups();
        lookups.first().map(|lookup| lookup.source.as_str())
    }

    /// Whether the filter matches the node. All data sources are unknown.
    pub fn matches(&self, node: &NodeView<'_>) -> bool {
        self.matches_identity(node) && self.matches_except_identity(node)
    }

    /// Evaluates the filter, or returns the data source lookup that is needed first. Conditions without lookups are evaluated first.
    pub fn evaluate(&self, node: &NodeView<'_>, known: &KnownLookups) -> EvaluationProgress<'_> {
        if !self.matches_identity(node) {
            return EvaluationProgress::Decided(TruthValue::False);
        }
        self.evaluate_except_identity(node, known)
    }

    /// Evaluates all conditions except identities.
    pub fn evaluate_except_identity(
        &self,
        node: &NodeView<'_>,
        known: &KnownLookups,
    ) -> EvaluationProgress<'_> {
        let facts_and_names = self.evaluate_facts_and_names(node);
        if facts_and_names == TruthValue::False {
            return EvaluationProgress::Decided(TruthValue::False);
        }
        let without_select = facts_and_names.and(self.evaluate_query(node));
        match self.select() {
            Some(select) if without_select != TruthValue::False => {
                select.evaluate(node, known).map(|truth| without_select.and(truth))
            }
            _ => EvaluationProgress::Decided(without_select),
        }
    }

    /// Each condition except identities, as typed, with its truth value; unknown if its data source was not queried.
    pub fn evaluate_conditions(
        &self,
        node: &NodeView<'_>,
        known: &KnownLookups,
    ) -> Vec<(String, TruthValue)> {
        let mut conditions = Vec::new();
        for term in self.facts() {
            conditions.push((format!("-F {term}"), term.evaluate_facts(node.facts)));
        }
        for class in self.classes() {
            conditions.push((format!("-C {class}"), class.matches_node_class(node)));
        }
        for agent in self.agents() {
            conditions.push((format!("-A {agent}"), agent.matches_any(node.agents).into()));
        }
        if let Some(select) = self.select() {
            let select_conditions = select.evaluate_conditions(node, known).into_iter();
            conditions.extend(
                select_conditions.map(|(text, truth)| (text, truth.unwrap_or(TruthValue::Unknown))),
            );
        }
        if let Some(query) = self.query() {
            let query_conditions = query.evaluate_conditions(node).into_iter();
            conditions.extend(query_conditions.map(|(text, truth)| (format!("-Q {text}"), truth)));
        }
        conditions
    }

    /// The unknown conditions except identities. Conditions on data sources that were not queried are not included.
    pub fn unknown_conditions(&self, node: &NodeView<'_>, known: &KnownLookups) -> Vec<String> {
        let unknown =
            |(text, truth): (String, TruthValue)| (truth == TruthValue::Unknown).then_some(text);
        let facts = self.facts().iter();
        let facts = facts.map(|term| (term.to_string(), term.evaluate_facts(node.facts)));
        let classes = self.classes().iter();
        let classes =
            classes.map(|pattern| (pattern.to_string(), pattern.matches_node_class(node)));
        let select = self.select().into_iter();
        let select = select.flat_map(|select| select.evaluate_conditions(node, known));
        let select = select.filter_map(|(text, truth)| Some((text, truth?)));
        let query = self.query().into_iter();
        let query = query.flat_map(|query| query.evaluate_conditions(node));
        facts.chain(classes).chain(select).chain(query).filter_map(unknown).collect()
    }

    fn matches_identity(&self, node: &NodeView<'_>) -> bool {
        self.selects_identity(node.identity)
    }

    /// Whether the identities of the filter permit a node of this name, whatever its other conditions are.
    pub fn selects_identity(&self, name: &str) -> bool {
        let identities = self.identities();
        identities.is_empty() || identities.iter().any(|pattern| pattern.matches(name))
    }

    /// Whether all conditions except identities are true. For callers that have more alternatives to the filter's identities, such
    /// as inventory groups. Data sources are unknown.
    pub fn matches_except_identity(&self, node: &NodeView<'_>) -> bool {
        self.evaluate_facts_and_names(node) == TruthValue::True
            && self.evaluate_query(node) == TruthValue::True
            && self.select().is_none_or(|select| select.matches(node))
    }

    fn evaluate_query(&self, node: &NodeView<'_>) -> TruthValue {
        self.query().map_or(TruthValue::True, |query| query.evaluate(node))
    }

    /// Agents, classes and facts, all of which must match.
    fn evaluate_facts_and_names(&self, node: &NodeView<'_>) -> TruthValue {
        let has_agents = self.agents().iter().all(|pattern| pattern.matches_any(node.agents));
        let classes = self.classes().iter();
        let classes = classes.map(|pattern| pattern.matches_node_class(node));
        let facts = self.facts().iter().map(|term| term.evaluate_facts(node.facts));
        classes.chain(facts).fold(TruthValue::from(has_agents), TruthValue::and)
    }
}

impl FilterPattern {
    /// Whether the pattern matches this name.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => equals_ignoring_case(exact, name),
            Self::Regex(expression) => expression.is_match(name),
        }
    }

    /// Whether the pattern matches one of these names.
    pub(super) fn matches_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.matches(name))
    }

    /// Whether the node has a matching class; unknown until its classes were read once.
    pub(super) fn matches_node_class(&self, node: &NodeView<'_>) -> TruthValue {
        if node.classes_known { self.matches_any(node.classes).into() } else { TruthValue::Unknown }
    }
}

impl FactTerm {
    /// Whether the condition is true for these facts.
    pub fn matches(&self, facts: &NodeFacts) -> bool {
        self.operator.compare_value(&self.operand, facts.get_path(&self.path))
    }

    /// Evaluates the condition; unknown if a fact source that was never read could decide it.
    pub(super) fn evaluate_facts(&self, facts: &NodeFacts) -> TruthValue {
        if facts.is_known(&self.path) { self.matches(facts).into() } else { TruthValue::Unknown }
    }
}

impl FactOperand {
    /// Whether a value matches, before negation.
    fn matches_value(&self, operator: FactOperator, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(items) => items.iter().any(|item| self.matches_value(operator, item)),
            Value::Object(map) => map.keys().any(|key| self.matches_text(operator, key)),
            Value::String(text) => self.matches_text(operator, text),
            Value::Bool(value) => match self {
                Self::Regex(expression) => expression.is_match(bool_text(*value)),
                Self::Literal(literal) => {
                    matches!(operator, FactOperator::Equal | FactOperator::NotEqual)
                        && parse_boolean(&literal.text) == Some(*value)
                }
            },
            Value::Number(number) => match self {
                Self::Regex(expression) => expression.is_match(&number.to_string()),
                Self::Literal(literal) => {
                    let pair = NumericValue::from_json(number).zip(literal.number);
                    pair.and_then(|(actual, expected)| actual.compare(expected))
                        .is_some_and(|order| operator.accepts_ordering(order))
                }
            },
        }
    }

    fn matches_text(&self, operator: FactOperator, text: &str) -> bool {
        match self {
            Self::Regex(expression) => expression.is_match(text),
            Self::Literal(literal) => operator.accepts_ordering(literal.compare_text(text)),
        }
    }
}

impl FactOperator {
    /// Compares a value, or its absence, with the operand.
    pub(super) fn compare_value(self, operand: &FactOperand, value: Option<&Value>) -> bool {
        value.is_some_and(|value| operand.matches_value(self, value)) != self.is_negation()
    }

    /// Whether the operator accepts this ordering of fact to value, before negation.
    fn accepts_ordering(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal | Self::NotEqual => ordering.is_eq(),
            Self::AtMost => ordering.is_le(),
            Self::AtLeast => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::Greater => ordering.is_gt(),
            Self::Match | Self::NotMatch => false,
        }
    }
}

impl LiteralOperand {
    /// The ordering of `fact` to this value: numeric if both parse as numbers, else textual.
    fn compare_text(&self, fact: &str) -> Ordering {
        self.number
            .and_then(|expected| NumericValue::parse(fact)?.compare(expected))
            .unwrap_or_else(|| compare_ignoring_case(fact, &self.text))
    }
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::state::{NodeFacts, NodeView};
    use crate::{FactTerm, NodeFilter};

    fn facts() -> NodeFacts {
        NodeFacts::from_value(json!({
            "os": {"family": "Debian", "release": {"major": "12", "full": "12.4"}},
            "memory": 1024, "load": 0.75, "serial": 9_007_199_254_740_993_u64, "virtual": true,
            "tags": ["Blue", "green", 7, ["deep"], null], "mounts": {"/": {}, "/home": {}},
            "nothing": null, "empty": [], "street": "GRÜNE Straße", "version": "1.10",
        }))
        .unwrap()
    }

    fn holds(term: &str) -> bool {
        FactTerm::parse(term).unwrap().matches(&facts())
    }

    #[test]
    fn terms_that_are_true() {
        for term in [
            "os.family=debian",
            "os.family=~Deb",
            "os.family=/^deb/i",
            "os.family!=redhat",
            "os.family!~/^eb/",
            "os.family=~^deb",
            "os.release.major>=12",
            "os.release.major>9",
            "os.release.full>12.10.1",
            "memory=1024",
            "memory=1024.0",
            "memory=+1024",
            "memory>999",
            "memory=~^10",
            "memory!=lots",
            "load<1",
            "load>0.5",
            "serial=9007199254740993",
            "serial!=9007199254740992",
            "virtual=TRUE",
            "virtual=1",
            "virtual=t",
            "virtual!=0",
            "virtual!=F",
            "virtual!=false",
            "virtual=~^tr",
            "tags=blue",
            "tags=7",
            "tags=deep",
            "tags.1=green",
            "tags!=red",
            "tags!~red",
            "mounts=\"/home\"",
            "mounts=/^.home$/",
            "os=FAMILY",
            "nothing!=x",
            "nothing!~x",
            "missing!=x",
            "missing!~x",
            "empty!=x",
            "street=\"grüne STRAßE\"",
            "street>\"grüne s\"",
            "version=1.1",
            "version<1.2",
        ] {
            assert!(holds(term), "{term}");
        }
    }

    #[test]
    fn terms_that_are_false() {
        for term in [
            "os.family!=DEBIAN",
            "os.family=~^eb",
            "os.family!~/^deb/",
            "os.release.major<9",
            "memory=lots",
            "memory<lots",
            "memory>lots",
            "serial=9007199254740992",
            "virtual!=1",
            "virtual=yes",
            "virtual>=true",
            "virtual<=true",
            "tags!=BLUE",
            "tags!~reen",
            "tags=\"null\"",
            "tags=\"\\\"\"",
            "mounts=home",
            "nothing=\"null\"",
            "nothing=~.*",
            "nothing<=x",
            "missing=x",
            "missing=~.",
            "missing<x",
            "missing>=x",
            "empty=~.*",
            "street=\"grüne strasse\"",
        ] {
            assert!(!holds(term), "{term}");
        }
    }

    #[test]
    fn kinds_are_combined_with_and_and_identities_with_or() {
        let facts = facts();
        let classes = ["mysql::master".to_owned(), "role::db".to_owned()];
        let agents = ["puppetral".to_owned(), "rpcutil".to_owned()];
        let node =
            NodeView::new("db1.acme.net", &facts).with_classes(Some(&classes)).with_agents(&agents);
        let words = |text: &str| NodeFilter::default().with_words(text).unwrap();
        assert!(NodeFilter::default().matches(&node));
        assert!(words("os.family=debian Mysql::Master /^role::/").matches(&node));
        assert!(!words("os.family=debian mysql::slave").matches(&node));
        assert!(!words("os.family=redhat mysql::master").matches(&node));
        assert!(!words("mysql").matches(&node));

        let agents = words("/master$/").with_agent("RPCUtil").unwrap();
        assert!(agents.matches(&node));
        assert!(!agents.with_agent("package").unwrap().matches(&node));

        let named = NodeFilter::default().with_identity("web1").unwrap();
        assert!(!named.matches(&node));
        assert!(named.clone().with_identity("DB1.acme.net").unwrap().matches(&node));
        let either = named.with_identity("/^db/").unwrap();
        assert!(either.matches(&node));
        assert!(!either.with_class("apache").unwrap().matches(&node));
    }
}
