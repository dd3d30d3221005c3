//! Says a filter in English: `nodes whose fact customer equals "acme" and that have class mysql::master`.
//!
//! For people only; nothing reads it back. Filters hold no control characters, so it is safe to print.

use super::ast::Filter;
use super::pattern::Pattern;
use super::term::{FactTerm, Operand, Operator};

impl Filter {
    /// The filter as an English phrase.
    pub fn explain(&self) -> String {
        if self.is_empty() {
            return "all nodes".to_owned();
        }
        let identities = self
            .identities()
            .iter()
            .map(explain_identity)
            .collect::<Vec<_>>();
        let mut clauses: Vec<String> = self.facts().iter().map(explain_fact).collect();
        clauses.extend(
            self.classes()
                .iter()
                .map(|class| explain_having("a class", "class", class)),
        );
        clauses.extend(
            self.agents()
                .iter()
                .map(|agent| explain_having("an agent", "agent", agent)),
        );
        if !identities.is_empty() {
            clauses.push(format!("whose identity {}", listed(&identities, "or")));
        }
        if let Some(select) = self.select() {
            if clauses.is_empty() {
                return format!("nodes {}", select.explain());
            }
            clauses.extend(select.clauses());
        }
        format!("nodes {}", listed(&clauses, "and"))
    }
}

fn explain_fact(term: &FactTerm) -> String {
    let value = explain_operand(&term.operand);
    format!(
        "whose fact {} {} {value}",
        term.fact(),
        relation(term.operator())
    )
}

/// What a term says of its fact.
pub(super) fn relation(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "equals",
        Operator::NotEqual => "does not equal",
        Operator::Match => "matches",
        Operator::NotMatch => "does not match",
        Operator::AtMost => "is at most",
        Operator::AtLeast => "is at least",
        Operator::Less => "is less than",
        Operator::Greater => "is greater than",
    }
}

pub(super) fn explain_operand(operand: &Operand) -> String {
    match operand {
        Operand::Literal(literal) => format!("\"{}\"", literal.text),
        Operand::Regex(expression) => expression.to_string(),
    }
}

fn explain_having(one: &str, kind: &str, pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(name) => format!("that have {kind} {name}"),
        Pattern::Regex(expression) => format!("that have {one} matching {expression}"),
    }
}

fn explain_identity(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(name) => format!("is {name}"),
        Pattern::Regex(expression) => format!("matches {expression}"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(parts: &[String], conjunction: &str) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} {conjunction} {last}", firsts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;

    #[test]
    fn filters_read_as_english() {
        let words = |text: &str| Filter::default().with_words(text).unwrap();
        assert_eq!(Filter::default().explain(), "all nodes");
        assert_eq!(
            words("customer=acme mysql::master").explain(),
            "nodes whose fact customer equals \"acme\" and that have class mysql::master"
        );
        let named = words("load>=2 kernel!=/^4/ /^role::/")
            .with_agent("puppetral")
            .unwrap();
        let named = named
            .with_identity("db1")
            .unwrap()
            .with_identity("/^web/i")
            .unwrap();
        assert_eq!(
            named.explain(),
            "nodes whose fact load is at least \"2\", whose fact kernel does not match /^4/, \
             that have a class matching /^role::/, that have agent puppetral \
             and whose identity is db1 or matches /^web/i"
        );
    }
}
