//! The filter itself: what it may hold, how it is put together, and its limits.
//!
//! Reading the elements is the business of `parse`, `pattern`, `words` and `select`; JSON of `json`; matching of `eval`.

use super::error::{Fault, FilterError};
use super::pattern::Pattern;
use super::select::Select;
use super::sources::Sources;
use super::term::FactTerm;
use super::words::{self, Word};

/// Most elements of one kind.
pub const MAX_ELEMENTS: usize = 64;
/// Most bytes of all elements together.
pub const MAX_FILTER_BYTES: usize = 64 * 1024;

/// Which nodes are meant. The default is the empty filter: every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    facts: Vec<FactTerm>,
    classes: Vec<Pattern>,
    agents: Vec<Pattern>,
    identities: Vec<Pattern>,
    /// Boxed, for few filters have one.
    select: Option<Box<Select>>,
}

impl Filter {
    /// Also demands a fact: `-F customer=acme`.
    pub fn with_fact(mut self, text: &str) -> Result<Self, FilterError> {
        self.facts.push(FactTerm::parse(text)?);
        self.within_limits(text)
    }

    /// Also demands a class: `-C mysql::master`, `-C /^role::/`.
    pub fn with_class(mut self, text: &str) -> Result<Self, FilterError> {
        self.classes.push(Pattern::parse(text)?);
        self.within_limits(text)
    }

    /// Also demands an agent: `-A puppetral`.
    pub fn with_agent(mut self, text: &str) -> Result<Self, FilterError> {
        self.agents.push(Pattern::parse(text)?);
        self.within_limits(text)
    }

    /// Names a node, or one more: `-I db1.acme.net`, `-I /^web/`. The node's identity must be one of them.
    pub fn with_identity(mut self, text: &str) -> Result<Self, FilterError> {
        self.identities.push(Pattern::parse(text)?);
        self.within_limits(text)
    }

    /// Also demands every word, a fact or a class: `-W "environment=development mysql::master"`.
    pub fn with_words(mut self, text: &str) -> Result<Self, FilterError> {
        for word in words::read(text).map_err(|fault| fault.within(text))? {
            match word {
                Word::Fact(term) => self.facts.push(term),
                Word::Class(pattern) => self.classes.push(pattern),
            }
        }
        self.within_limits(text)
    }

    /// Also demands an expression: `-S "(country=uk or customer=acme) and not apache"`.
    pub fn with_select(self, text: &str) -> Result<Self, FilterError> {
        self.with_parsed(text, Select::parse(text)?)
    }

    /// The same, checked against the data sources that are declared.
    pub fn with_declared_select(self, text: &str, sources: &Sources) -> Result<Self, FilterError> {
        self.with_parsed(text, Select::parse_declared(text, sources)?)
    }

    fn with_parsed(self, text: &str, select: Select) -> Result<Self, FilterError> {
        self.and_select(select)
            .map_err(|fault| fault.within(text))?
            .within_limits(text)
    }

    /// Both filters as though their flags had been given together: facts, classes and agents of both are
    /// demanded, expressions are joined by `and`, and the identities of both are alternatives.
    pub fn merge(mut self, other: Self) -> Result<Self, FilterError> {
        self.facts.extend(other.facts);
        self.classes.extend(other.classes);
        self.agents.extend(other.agents);
        self.identities.extend(other.identities);
        if let Some(select) = other.select {
            self = self.and_select(*select).map_err(|fault| fault.within(""))?;
        }
        self.within_limits("")
    }

    fn and_select(mut self, further: Select) -> Result<Self, Fault> {
        self.select = Some(Box::new(match self.select.take() {
            Some(first) => first.and(&further)?,
            None => further,
        }));
        Ok(self)
    }

    /// A filter of its parts.
    pub(super) fn from_parts(
        facts: Vec<FactTerm>,
        classes: Vec<Pattern>,
        agents: Vec<Pattern>,
        identities: Vec<Pattern>,
        select: Option<Select>,
    ) -> Result<Self, FilterError> {
        Self {
            facts,
            classes,
            agents,
            identities,
            select: select.map(Box::new),
        }
        .within_limits("")
    }

    /// Whether nothing is demanded, so that every node matches.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
            && self.classes.is_empty()
            && self.agents.is_empty()
            && self.identities.is_empty()
            && self.select.is_none()
    }

    /// The named nodes, each once and in the order given, if names are all that is demanded: such a filter
    /// needs no discovery.
    pub fn identities_exact(&self) -> Option<Vec<&str>> {
        let only_identities = self.facts.is_empty()
            && self.classes.is_empty()
            && self.agents.is_empty()
            && self.select.is_none();
        if !only_identities || self.identities.is_empty() {
            return None;
        }
        let mut names = Vec::with_capacity(self.identities.len());
        for pattern in &self.identities {
            match pattern {
                Pattern::Exact(name) if names.contains(&name.as_str()) => {}
                Pattern::Exact(name) => names.push(name.as_str()),
                Pattern::Regex(_) => return None,
            }
        }
        Some(names)
    }

    /// Facts, all of them demanded.
    pub fn facts(&self) -> &[FactTerm] {
        &self.facts
    }

    /// Classes, all of them demanded.
    pub fn classes(&self) -> &[Pattern] {
        &self.classes
    }

    /// Agents, all of them demanded.
    pub fn agents(&self) -> &[Pattern] {
        &self.agents
    }

    /// Identities, one of them demanded if there are any.
    pub fn identities(&self) -> &[Pattern] {
        &self.identities
    }

    /// The expression, if there is one.
    pub fn select(&self) -> Option<&Select> {
        self.select.as_deref()
    }

    /// The filter, unless it has grown too large; `text` is what it grew by.
    fn within_limits(self, text: &str) -> Result<Self, FilterError> {
        for (kind, count) in [
            ("facts", self.facts.len()),
            ("classes", self.classes.len()),
            ("agents", self.agents.len()),
            ("identities", self.identities.len()),
        ] {
            if count > MAX_ELEMENTS {
                let expected = format!("at most {MAX_ELEMENTS} {kind} in a filter");
                return Err(Fault::new(0, expected).within(text));
            }
        }
        let patterns = self
            .classes
            .iter()
            .chain(&self.agents)
            .chain(&self.identities);
        let size = self.facts.iter().map(FactTerm::size).sum::<usize>()
            + patterns.map(Pattern::size).sum::<usize>()
            + self.select().map_or(0, Select::size);
        if size > MAX_FILTER_BYTES {
            let expected = format!("a filter of at most {MAX_FILTER_BYTES} bytes");
            return Err(Fault::new(0, expected).within(text));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn names_alone_need_no_discovery() {
        let named = Filter::default().with_identity("DB1.acme.net").unwrap();
        let named = named
            .with_identity("web1")
            .unwrap()
            .with_identity("db1.acme.net")
            .unwrap();
        assert_eq!(named.identities_exact(), Some(vec!["db1.acme.net", "web1"]));
        assert_eq!(Filter::default().identities_exact(), None);
        for other in [
            named.clone().with_identity("/^db/"),
            named.clone().with_fact("a=1"),
            named.clone().with_class("a"),
            named.clone().with_agent("a"),
            named.clone().with_select("a"),
        ] {
            assert_eq!(other.unwrap().identities_exact(), None);
        }
    }

    #[test]
    fn empty_flags_are_errors_and_the_empty_filter_knows_itself() {
        for text in ["", " ", "\t\n"] {
            assert!(Filter::default().with_fact(text).is_err());
            assert!(Filter::default().with_class(text).is_err());
            assert!(Filter::default().with_agent(text).is_err());
            assert!(Filter::default().with_identity(text).is_err());
            assert!(Filter::default().with_words(text).is_err());
            assert!(Filter::default().with_select(text).is_err());
        }
        assert!(Filter::default().is_empty());
        assert!(!Filter::default().with_agent("rpcutil").unwrap().is_empty());
        assert!(!Filter::default().with_select("apache").unwrap().is_empty());
    }

    #[test]
    fn growth_is_limited() {
        let mut filter = Filter::default();
        for number in 0..64 {
            filter = filter.with_class(&format!("c{number}")).unwrap();
        }
        let error = filter.clone().with_class("c64").unwrap_err();
        assert_eq!(error.expected(), "at most 64 classes in a filter");
        assert!(filter.clone().merge(filter).is_err());

        let long = "x".repeat(1024);
        let mut filter = Filter::default();
        for _ in 0..64 {
            filter = filter.with_class(&long).unwrap();
        }
        let error = filter.with_agent("a").unwrap_err();
        assert_eq!(error.expected(), "a filter of at most 65536 bytes");
    }

    #[test]
    fn merging_is_giving_all_flags_together() {
        let first = Filter::default()
            .with_fact("a=1")
            .unwrap()
            .with_identity("db1")
            .and_then(|filter| filter.with_select("a or b"))
            .unwrap();
        let second = Filter::default()
            .with_class("x")
            .unwrap()
            .with_identity("web1")
            .and_then(|filter| filter.with_select("c and d"))
            .unwrap();
        let together = Filter::default().with_words("a=1 x").unwrap();
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
