//! Describes a filter in English: `nodes whose fact customer equals "acme" and that have class mysql::master`.
//!
//! For display only; it is never parsed. Filters contain no control characters, so the text is safe to print.

use super::ast::NodeFilter;
use super::pattern::FilterPattern;
use super::term::{FactOperand, FactOperator, FactTerm};
use super::text::join_phrases;

impl NodeFilter {
    /// The filter as an English phrase.
    pub fn explain(&self) -> String {
        if self.is_empty() {
            return "all nodes".to_owned();
        }
        let identities = self.identities().iter().map(explain_identity);
        let mut clauses: Vec<String> = self.facts().iter().map(explain_fact).collect();
        clauses.extend(self.classes().iter().map(|class| explain_name("a", "class", class, false)));
        clauses.extend(self.agents().iter().map(|agent| explain_name("an", "agent", agent, false)));
        if !self.identities().is_empty() {
            clauses.push(format!("whose identity {}", join_phrases(identities, "or")));
        }
        if let Some(query) = self.query() {
            clauses.extend(query.explain_clauses());
        }
        if let Some(select) = self.select() {
            if clauses.is_empty() {
                return format!("nodes {}", select.explain());
            }
            clauses.extend(select.explain_clauses());
        }
        format!("nodes {}", join_phrases(clauses, "and"))
    }
}

fn explain_fact(term: &FactTerm) -> String {
    let value = explain_operand(&term.operand);
    format!("whose fact {} {} {value}", term.fact_path(), operator_phrase(term.operator()))
}

/// The English phrase of an operator.
pub(super) fn operator_phrase(operator: FactOperator) -> &'static str {
    match operator {
        FactOperator::Equal => "equals",
        FactOperator::NotEqual => "does not equal",
        FactOperator::Match => "matches",
        FactOperator::NotMatch => "does not match",
        FactOperator::AtMost => "is at most",
        FactOperator::AtLeast => "is at least",
        FactOperator::Less => "is less than",
        FactOperator::Greater => "is greater than",
    }
}

pub(super) fn explain_operand(operand: &FactOperand) -> String {
    match operand {
        FactOperand::Literal(literal) => format!("\"{}\"", literal.text),
        FactOperand::Regex(expression) => expression.to_string(),
    }
}

/// `that have class mysql::master`, `that do not have any class matching /^role::/`.
pub(super) fn explain_name(
    article: &str,
    kind: &str,
    pattern: &FilterPattern,
    negated: bool,
) -> String {
    let (verb, article) = if negated { ("do not have", "any") } else { ("have", article) };
    match pattern {
        FilterPattern::Exact(name) => format!("that {verb} {kind} {name}"),
        FilterPattern::Regex(regex) => format!("that {verb} {article} {kind} matching {regex}"),
    }
}

fn explain_identity(pattern: &FilterPattern) -> String {
    match pattern {
        FilterPattern::Exact(name) => format!("is {name}"),
        FilterPattern::Regex(expression) => format!("matches {expression}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::NodeFilter;

    #[test]
    fn filters_are_explained_in_english() {
        let words = |text: &str| NodeFilter::default().with_words(text).unwrap();
        assert_eq!(NodeFilter::default().explain(), "all nodes");
        assert_eq!(
            words("customer=acme mysql::master").explain(),
            "nodes whose fact customer equals \"acme\" and that have class mysql::master"
        );
        let named = words("load>=2 kernel!=/^4/ /^role::/").with_agent("puppetral").unwrap();
        let named = named.with_identity("db1").unwrap().with_identity("/^web/i").unwrap();
        assert_eq!(
            named.explain(),
            "nodes whose fact load is at least \"2\", whose fact kernel does not match /^4/, \
             that have a class matching /^role::/, that have agent puppetral \
             and whose identity is db1 or matches /^web/i"
        );
    }
}
