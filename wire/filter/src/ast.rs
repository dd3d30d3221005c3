//! The filter type: its parts, construction and limits.
//!
//! `parse`, `pattern`, `words` and `select` parse the elements; `json` implements the JSON form; `eval` implements matching.

use serde::Serialize;

use super::document::DocumentQuery;
use super::error::{FaultContext as _, FilterError, Result, expected_at};
use super::pattern::FilterPattern;
use super::select::SelectExpression;
use super::sources::DeclaredSources;
use super::term::FactTerm;
use super::words;

/// Most elements of one kind.
pub const MAX_FILTER_ELEMENTS: usize = 64;
/// Most bytes of all elements together.
pub const MAX_FILTER_BYTES: usize = 64 * 1024;

/// Selects nodes. The default is the empty filter, which matches every node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeFilter {
    #[serde(rename = "fact", skip_serializing_if = "Vec::is_empty")]
    pub(super) facts: Vec<FactTerm>,
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub(super) classes: Vec<FilterPattern>,
    #[serde(rename = "agent", skip_serializing_if = "Vec::is_empty")]
    pub(super) agents: Vec<FilterPattern>,
    #[serde(rename = "identity", skip_serializing_if = "Vec::is_empty")]
    pub(super) identities: Vec<FilterPattern>,
    /// Boxed, because few filters have an expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) select: Option<Box<SelectExpression>>,
    /// Has at least one condition. Boxed for the same reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<Box<DocumentQuery>>,
}

impl NodeFilter {
    /// Adds a required fact: `-F customer=acme`.
    pub fn with_fact(mut self, text: &str) -> Result<Self, FilterError> {
        self.facts.push(FactTerm::parse(text)?);
        self.check_limits(text)
    }

    /// Adds a required class: `-C mysql::master`, `-C /^role::/`.
    pub fn with_class(mut self, text: &str) -> Result<Self, FilterError> {
        self.classes.push(FilterPattern::parse_class(text)?);
        self.check_limits(text)
    }

    /// Adds a required agent: `-A puppetral`.
    pub fn with_agent(mut self, text: &str) -> Result<Self, FilterError> {
        self.agents.push(FilterPattern::parse(text)?);
        self.check_limits(text)
    }

    /// Adds an alternative identity: `-I db1.acme.net`, `-I /^web/`. The node's identity must match one of them.
    pub fn with_identity(mut self, text: &str) -> Result<Self, FilterError> {
        self.identities.push(FilterPattern::parse(text)?);
        self.check_limits(text)
    }

    /// Adds required words, each a fact or a class: `-W "environment=development mysql::master"`.
    pub fn with_words(mut self, text: &str) -> Result<Self, FilterError> {
        words::parse_words(text, &mut self.facts, &mut self.classes).within_text(text)?;
        self.check_limits(text)
    }

    /// Adds a required expression: `-S "(country=uk or customer=acme) and not apache"`.
    pub fn with_select(self, text: &str) -> Result<Self, FilterError> {
        self.with_parsed(text, SelectExpression::parse(text)?)
    }

    /// Adds a required expression, checked against the declared data sources.
    pub fn with_declared_select(
        self,
        text: &str,
        sources: &DeclaredSources,
    ) -> Result<Self, FilterError> {
        self.with_parsed(text, SelectExpression::parse_declared(text, sources)?)
    }

    fn with_parsed(self, text: &str, select: SelectExpression) -> Result<Self, FilterError> {
        self.and_select(select).within_text(text)?.check_limits(text)
    }

    /// Adds a required query document, or a query in PQL: `-Q "{ 'facts.customer': 'acme', classes: 'mysql::master' }"`. `{}` adds nothing.
    pub fn with_query(self, text: &str) -> Result<Self, FilterError> {
        let query = DocumentQuery::parse_written(text)?;
        self.and_query(query).within_text(text)?.check_limits(text)
    }

    /// Adds a required query document that also compares numbers with texts: `-Q ... --loose`.
    pub fn with_loose_query(self, text: &str) -> Result<Self, FilterError> {
        let query = DocumentQuery::parse_loose(text)?;
        self.and_query(query).within_text(text)?.check_limits(text)
    }

    fn and_query(mut self, other: DocumentQuery) -> Result<Self> {
        let joined = match self.query.take() {
            Some(first) => first.join_and(other)?,
            None => other,
        };
        self.query = (!joined.is_unconditional()).then(|| Box::new(joined));
        Ok(self)
    }

    /// Merges two filters as if their flags were given together: facts, classes and agents of both are required, expressions and
    /// queries are joined by `and`, and the identities of both are alternatives.
    pub fn merge(mut self, other: Self) -> Result<Self, FilterError> {
        self.facts.extend(other.facts);
        self.classes.extend(other.classes);
        self.agents.extend(other.agents);
        self.identities.extend(other.identities);
        if let Some(select) = other.select {
            self = self.and_select(*select).within_text("")?;
        }
        if let Some(query) = other.query {
            self = self.and_query(*query).within_text("")?;
        }
        self.check_limits("")
    }

    fn and_select(mut self, other: SelectExpression) -> Result<Self> {
        self.select = Some(Box::new(match self.select.take() {
            Some(first) => first.join_and(&other)?,
            None => other,
        }));
        Ok(self)
    }

    /// Whether the filter has no conditions, so that every node matches.
    pub fn is_empty(&self) -> bool {
        self.has_only_identities() && self.identities.is_empty()
    }

    /// The identities of this filter, without its other conditions.
    #[must_use]
    pub fn only_identities(&self) -> Self {
        Self { identities: self.identities.clone(), ..Self::default() }
    }

    fn has_only_identities(&self) -> bool {
        self.facts.is_empty()
            && self.classes.is_empty()
            && self.agents.is_empty()
            && self.select.is_none()
            && self.query.is_none()
    }

    /// The listed nodes, without duplicates and in the given order, if exact names are the only condition. Such a filter
    /// needs no discovery.
    pub fn identities_exact(&self) -> Option<Vec<&str>> {
        if !self.has_only_identities() || self.identities.is_empty() {
            return None;
        }
        let mut names = Vec::with_capacity(self.identities.len());
        for pattern in &self.identities {
            match pattern {
                FilterPattern::Exact(name) if names.contains(&name.as_str()) => {}
                FilterPattern::Exact(name) => names.push(name.as_str()),
                FilterPattern::Regex(_) => return None,
            }
        }
        Some(names)
    }

    /// The required facts.
    pub fn facts(&self) -> &[FactTerm] {
        &self.facts
    }

    /// The required classes.
    pub fn classes(&self) -> &[FilterPattern] {
        &self.classes
    }

    /// The required agents.
    pub fn agents(&self) -> &[FilterPattern] {
        &self.agents
    }

    /// Alternative identities; if any are given, one must match.
    pub fn identities(&self) -> &[FilterPattern] {
        &self.identities
    }

    /// The regular expressions on facts and classes with letters in upper case and without the flag `i`. They match regardless of case.
    pub fn upper_case_patterns(&self) -> Vec<String> {
        let facts = self.facts.iter().filter_map(FactTerm::regex);
        let classes = self.classes.iter().filter_map(|class| match class {
            FilterPattern::Regex(regex) => Some(regex),
            FilterPattern::Exact(_) => None,
        });
        let select = self.select().into_iter().flat_map(SelectExpression::folded_regexes);
        let regexes = facts.chain(classes).chain(select);
        regexes.filter(|regex| regex.looks_case_sensitive()).map(ToString::to_string).collect()
    }

    /// The expression, if any.
    pub fn select(&self) -> Option<&SelectExpression> {
        self.select.as_deref()
    }

    /// The query document, if any.
    pub fn query(&self) -> Option<&DocumentQuery> {
        self.query.as_deref()
    }

    /// Returns the filter unless it exceeds the limits; `text` is the last addition, for the error.
    pub(super) fn check_limits(self, text: &str) -> Result<Self, FilterError> {
        for (kind, count) in [
            ("facts", self.facts.len()),
            ("classes", self.classes.len()),
            ("agents", self.agents.len()),
            ("identities", self.identities.len()),
        ] {
            if count > MAX_FILTER_ELEMENTS {
                let expected = format!("at most {MAX_FILTER_ELEMENTS} {kind} in a filter");
                return expected_at(0, expected).within_text(text);
            }
        }
        let patterns = self.classes.iter().chain(&self.agents).chain(&self.identities);
        let size = self.facts.iter().map(FactTerm::text_bytes).sum::<usize>()
            + patterns.map(FilterPattern::text_bytes).sum::<usize>()
            + self.select().map_or(0, SelectExpression::printed_bytes)
            + self.query().map_or(0, DocumentQuery::printed_bytes);
        if size > MAX_FILTER_BYTES {
            let expected = format!("a filter of at most {MAX_FILTER_BYTES} bytes");
            return expected_at(0, expected).within_text(text);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::NodeFilter;

    #[test]
    fn exact_identities_need_no_discovery() {
        let named = NodeFilter::default().with_identity("DB1.acme.net").unwrap();
        let named = named.with_identity("web1").unwrap().with_identity("db1.acme.net").unwrap();
        assert_eq!(named.identities_exact(), Some(vec!["db1.acme.net", "web1"]));
        assert_eq!(NodeFilter::default().identities_exact(), None);
        for other in [
            named.clone().with_identity("/^db/"),
            named.clone().with_fact("a=1"),
            named.clone().with_class("a"),
            named.clone().with_agent("a"),
            named.clone().with_select("a"),
            named.clone().with_query("{classes: a}"),
        ] {
            assert_eq!(other.unwrap().identities_exact(), None);
        }
    }

    #[test]
    fn empty_conditions_are_errors_and_the_default_filter_is_empty() {
        for text in ["", " ", "\t\n"] {
            assert!(NodeFilter::default().with_fact(text).is_err());
            assert!(NodeFilter::default().with_class(text).is_err());
            assert!(NodeFilter::default().with_agent(text).is_err());
            assert!(NodeFilter::default().with_identity(text).is_err());
            assert!(NodeFilter::default().with_words(text).is_err());
            assert!(NodeFilter::default().with_select(text).is_err());
        }
        assert!(NodeFilter::default().is_empty());
        assert!(!NodeFilter::default().with_agent("rpcutil").unwrap().is_empty());
        assert!(!NodeFilter::default().with_select("apache").unwrap().is_empty());
        assert!(!NodeFilter::default().with_query("{classes: apache}").unwrap().is_empty());
        assert!(NodeFilter::default().with_query("{}").unwrap().is_empty());
        assert!(NodeFilter::default().with_query("{$and: [{}]}").unwrap().is_empty());
    }

    #[test]
    fn number_and_size_of_conditions_are_limited() {
        let mut filter = NodeFilter::default();
        for number in 0..64 {
            filter = filter.with_class(&format!("c{number}")).unwrap();
        }
        let error = filter.clone().with_class("c64").unwrap_err();
        assert_eq!(error.expected(), "at most 64 classes in a filter");
        assert!(filter.clone().merge(filter).is_err());

        let long = "x".repeat(1024);
        let mut filter = NodeFilter::default();
        for _ in 0..64 {
            filter = filter.with_class(&long).unwrap();
        }
        let error = filter.with_agent("a").unwrap_err();
        assert_eq!(error.expected(), "a filter of at most 65536 bytes");
    }

    #[test]
    fn merge_combines_all_conditions() {
        let first = NodeFilter::default()
            .with_fact("a=1")
            .unwrap()
            .with_identity("db1")
            .and_then(|filter| filter.with_select("a or b"))
            .unwrap();
        let second = NodeFilter::default()
            .with_class("x")
            .unwrap()
            .with_identity("web1")
            .and_then(|filter| filter.with_select("c and d"))
            .unwrap();
        let together = NodeFilter::default().with_words("a=1 x").unwrap();
        let together = together
            .with_identity("db1")
            .unwrap()
            .with_identity("web1")
            .and_then(|filter| filter.with_select("a or b"))
            .and_then(|filter| filter.with_select("c and d"))
            .unwrap();
        let printed = together.select().unwrap().to_string();
        assert_eq!(printed, "(a or b) and c and d");
        assert_eq!(first.merge(second).unwrap(), together);
    }
}
