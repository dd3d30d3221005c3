//! Translates filters to `PuppetDB` queries. Pure functions.
//!
//! Filters become `PuppetDB`'s query syntax as JSON (its "AST"), not as text, so a value is always a JSON string and cannot inject syntax. A text of
//! PQL (`-I pql:...`) is sent unchanged, in a query of its own. Results of separate alternatives are united; the resulting sets are intersected with
//! the rest by this client.
//!
//! `PuppetDB` compares differently from a node: string comparison is case-sensitive, and regular expressions are `PostgreSQL`'s. So it would find
//! fewer nodes for a condition, and more for its negation. For `!=` and `!~`, the values of the fact are queried instead, and compared here.

use std::collections::BTreeSet;

use muster_filter::{FactOperator, FactTerm, FilterPattern, parse_boolean};
use serde_json::{Value, json};

use super::super::query::DiscoveryQuery;

/// A condition that `PuppetDB` does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PuppetDbQueryError {
    /// String ordering, which `PuppetDB` does not support.
    #[error(
        "PuppetDB compares only numbers with {operator}; {value:?} of fact {fact} is not a number"
    )]
    Order {
        /// The fact.
        fact: String,
        /// The operator.
        operator: &'static str,
        /// The value.
        value: String,
    },
    /// A fact path that its query syntax cannot express.
    #[error("PuppetDB cannot query fact {fact}: {problem}")]
    Path {
        /// The fact.
        fact: String,
        /// Why it cannot be expressed.
        problem: &'static str,
    },
    /// A regular expression that `PostgreSQL` reads differently.
    #[error(
        "PuppetDB cannot evaluate {pattern}: {part:?} has another meaning there; use another expression, or another discovery method"
    )]
    Pattern {
        /// The regular expression with its slashes.
        pattern: String,
        /// The part with another meaning.
        part: &'static str,
    },
    /// An empty query.
    #[error("`-I pql:` needs a query, as in -I 'pql:nodes[certname] {{ certname ~ \"web\" }}'")]
    Empty,
}

/// A condition that is compared by this client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FactValuesQuery {
    /// The query for certname, name and value of each fact that the term may be about.
    pub(super) query: Value,
    /// The condition.
    pub(super) term: FactTerm,
}

/// Builds the queries for the values of facts that are compared with `!=` and `!~`.
pub(super) fn build_value_queries(query: &DiscoveryQuery) -> Vec<FactValuesQuery> {
    let terms = query.filter.facts().iter().filter(|term| is_negation(term.operator()));
    let build_query = |term: &FactTerm| {
        let path = term.fact_path();
        // A fact whose name has dots precedes a nested one.
        let names = path.segments().next().into_iter().chain([path.as_str()]);
        let names: BTreeSet<&str> = names.collect();
        let names = names.into_iter().map(|name| json!(["=", "name", name])).collect();
        let fields = ["certname", "name", "value"];
        let query = json!(["from", "facts", ["extract", fields, any_of(names)]]);
        FactValuesQuery { query, term: term.clone() }
    };
    terms.map(build_query).collect()
}

fn is_negation(operator: FactOperator) -> bool {
    matches!(operator, FactOperator::NotEqual | FactOperator::NotMatch)
}

/// Builds the queries: a node matches if every set of alternatives contains it, and the value queries do not exclude it. Never empty.
pub(super) fn build_queries(query: &DiscoveryQuery) -> Result<Vec<Vec<Value>>, PuppetDbQueryError> {
    let filter = &query.filter;
    let classes = filter.classes().iter().map(class_condition);
    let mut conditions: Vec<Value> = classes.collect::<Result<_, _>>()?;
    for term in filter.facts().iter().filter(|term| !is_negation(term.operator())) {
        conditions.push(fact_condition(term)?);
    }
    let named = filter.identities().iter().map(name_condition);
    let named: Vec<Value> = named.collect::<Result<_, _>>()?;
    if query.pql.is_empty() {
        if !named.is_empty() {
            conditions.push(any_of(named));
        }
        return Ok(vec![vec![nodes_query(conditions)]]);
    }
    let mut alternatives = Vec::new();
    for text in &query.pql {
        if text.trim().is_empty() {
            return Err(PuppetDbQueryError::Empty);
        }
        alternatives.push(json!(text.trim()));
    }
    if !named.is_empty() {
        alternatives.push(nodes_query(vec![any_of(named)]));
    }
    let mut queries = vec![alternatives];
    if !conditions.is_empty() {
        queries.push(vec![nodes_query(conditions)]);
    }
    Ok(queries)
}

/// Builds the query for node names that satisfy all conditions.
fn nodes_query(conditions: Vec<Value>) -> Value {
    if conditions.is_empty() {
        return json!(["from", "nodes", ["extract", ["certname"]]]);
    }
    json!(["from", "nodes", ["extract", ["certname"], combine_conditions("and", conditions)]])
}

fn any_of(alternatives: Vec<Value>) -> Value {
    combine_conditions("or", alternatives)
}

fn combine_conditions(operator: &str, mut parts: Vec<Value>) -> Value {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    parts.insert(0, json!(operator));
    Value::Array(parts)
}

fn name_condition(pattern: &FilterPattern) -> Result<Value, PuppetDbQueryError> {
    Ok(match pattern {
        FilterPattern::Exact(name) => json!(["=", "certname", name]),
        expression @ FilterPattern::Regex(_) => {
            json!(["~", "certname", postgres_pattern(&expression.to_string())?])
        }
    })
}

fn class_condition(pattern: &FilterPattern) -> Result<Value, PuppetDbQueryError> {
    let title = match pattern {
        FilterPattern::Exact(name) => json!(["=", "title", class_title(name)]),
        expression @ FilterPattern::Regex(_) => {
            let pattern = expression.to_string();
            let source = postgres_pattern(&pattern)?;
            json!(["~", "title", ignoring_case(&source)])
        }
    };
    Ok(in_entity("resources", &json!(["and", ["=", "type", "Class"], title])))
}

/// The source of a regular expression, if `PostgreSQL` reads it as a node does.
fn postgres_pattern(pattern: &str) -> Result<String, PuppetDbQueryError> {
    /// Word boundaries (a backspace there), ends of the text, Unicode classes, characters by number, and groups with flags or names.
    const OTHER_MEANINGS: [&str; 11] =
        ["\\b", "\\B", "\\z", "\\<", "\\>", "\\p", "\\P", "\\x", "\\u", "(?", "&&"];
    let source = strip_slashes(pattern);
    let body = source.strip_prefix("(?i)").unwrap_or(&source);
    let body = body.replace("\\\\", "  ").replace("(?:", "(");
    match OTHER_MEANINGS.into_iter().find(|part| body.contains(part)) {
        Some(part) => Err(PuppetDbQueryError::Pattern { pattern: pattern.to_owned(), part }),
        None => Ok(source),
    }
}

/// The expression with the flag that ignores case, as nodes match facts and classes.
fn ignoring_case(source: &str) -> String {
    format!("(?i){}", source.strip_prefix("(?i)").unwrap_or(source))
}

/// Converts `mysql::master` to the catalog's form, `Mysql::Master`.
fn class_title(class: &str) -> String {
    let capitalise = |part: &str| {
        let mut chars = part.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    };
    class.split("::").map(capitalise).collect::<Vec<_>>().join("::")
}

fn fact_condition(term: &FactTerm) -> Result<Value, PuppetDbQueryError> {
    let path = fact_path(term)?;
    let value = term.value_text();
    let number = parse_number(&value);
    let equal = || {
        let mut alternatives = vec![json!(["=", path, value])];
        alternatives.extend(number.clone().map(|number| json!(["=", path, number])));
        if let Some(boolean) = parse_boolean(&value) {
            alternatives.push(json!(["=", path, boolean]));
        }
        in_entity("inventory", &any_of(alternatives))
    };
    let ordered = |operator: &'static str| match &number {
        Some(number) => Ok(in_entity("inventory", &json!([operator, path, number]))),
        None => Err(PuppetDbQueryError::Order {
            fact: term.fact_path().to_string(),
            operator,
            value: value.clone(),
        }),
    };
    match term.operator() {
        FactOperator::Equal => Ok(equal()),
        FactOperator::Match => Ok(in_entity(
            "inventory",
            &json!(["~", path, ignoring_case(&postgres_pattern(&value)?)]),
        )),
        operator => ordered(operator.as_str()),
    }
}

/// Builds the subquery for nodes whose rows in another entity match.
fn in_entity(entity: &str, condition: &Value) -> Value {
    json!(["in", ["certname"], ["from", entity, ["extract", ["certname"], condition]]])
}

/// Converts `os.family` to `facts.os.family`, with quotes where a segment needs them.
fn fact_path(term: &FactTerm) -> Result<String, PuppetDbQueryError> {
    let refused =
        |problem| PuppetDbQueryError::Path { fact: term.fact_path().to_string(), problem };
    let mut path = "facts".to_owned();
    for segment in term.fact_path().segments() {
        if segment.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused("it cannot match one element of a list"));
        }
        if segment.contains(['"', '\\']) {
            return Err(refused("a part of its name contains a quote or backslash"));
        }
        let is_plain = segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let quote = if is_plain { "" } else { "\"" };
        path.extend([".", quote, segment, quote]);
    }
    Ok(path)
}

/// Parses a value as a number, with the rules of filters: plain decimals only.
fn parse_number(text: &str) -> Option<Value> {
    let is_numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'));
    let integer = text.parse::<i64>().map(|integer| json!(integer));
    let decimal = || text.parse::<f64>().ok().filter(|value| value.is_finite());
    let number = integer.ok().or_else(|| decimal().map(|value| json!(value)));
    number.filter(|_| is_numeric)
}

/// Converts `/re/` to `re`, and `/re/i` to the syntax of `PostgreSQL`.
fn strip_slashes(text: &str) -> String {
    let body = text.strip_prefix('/').unwrap_or(text);
    match (body.strip_suffix("/i"), body.strip_suffix('/')) {
        (_, Some(source)) => source.to_owned(),
        (Some(source), None) => format!("(?i){source}"),
        (None, None) => body.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use muster_filter::{FactOperator, FactTerm, NodeFilter};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{PuppetDbQueryError, build_queries};
    use crate::discovery::DiscoveryQuery;

    fn of(filter: NodeFilter, pql: &[&str]) -> Result<Vec<Vec<Value>>, PuppetDbQueryError> {
        build_queries(&DiscoveryQuery {
            filter,
            pql: pql.iter().map(ToString::to_string).collect(),
            ..DiscoveryQuery::default()
        })
    }

    fn text(queries: &[Vec<Value>]) -> String {
        let lines = queries.iter().flatten().map(Value::to_string);
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn filters_are_translated_to_queries() {
        let filter = NodeFilter::default()
            .with_words("os.family=Debian processors.count>=4 mysql::master::x")
            .unwrap();
        let filter = filter
            .with_class("/^role::/")
            .unwrap()
            .with_fact("virtual=true")
            .unwrap()
            .with_fact("'odd-name'=~/^A/i")
            .unwrap()
            .with_identity("db1.acme.net")
            .unwrap()
            .with_identity("/^web[0-9]+/")
            .unwrap();
        insta::assert_snapshot!(text(&of(filter, &[]).unwrap()).replace("[\"in\"", "\n  [\"in\""), @r#"
        ["from","nodes",["extract",["certname"],["and",
          ["in",["certname"],["from","resources",["extract",["certname"],["and",["=","type","Class"],["=","title","Mysql::Master::X"]]]]],
          ["in",["certname"],["from","resources",["extract",["certname"],["and",["=","type","Class"],["~","title","(?i)^role::"]]]]],
          ["in",["certname"],["from","inventory",["extract",["certname"],["=","facts.os.family","Debian"]]]],
          ["in",["certname"],["from","inventory",["extract",["certname"],[">=","facts.processors.count",4]]]],
          ["in",["certname"],["from","inventory",["extract",["certname"],["or",["=","facts.virtual","true"],["=","facts.virtual",true]]]]],
          ["in",["certname"],["from","inventory",["extract",["certname"],["~","facts.\"odd-name\"","(?i)^A"]]]],["or",["=","certname","db1.acme.net"],["~","certname","^web[0-9]+"]]]]]
        "#);
        assert_eq!(
            text(&of(NodeFilter::default(), &[]).unwrap()),
            r#"["from","nodes",["extract",["certname"]]]"#
        );
    }

    #[test]
    fn pql_is_sent_unchanged_and_intersected_with_filters() {
        let filter = NodeFilter::default().with_class("apache").unwrap();
        let filter = filter.with_identity("db1").unwrap();
        let queries = of(filter, &[" nodes[certname] { certname ~ 'x' } "]).unwrap();
        assert_eq!(queries.len(), 2);
        assert_eq!(
            queries[0],
            [
                json!("nodes[certname] { certname ~ 'x' }"),
                json!(["from", "nodes", ["extract", ["certname"], ["=", "certname", "db1"]]])
            ]
        );
        assert!(queries[1][0].to_string().contains("Apache"));
        assert_eq!(of(NodeFilter::default(), &[" "]), Err(PuppetDbQueryError::Empty));
    }

    #[test]
    fn unsupported_filters_are_refused() {
        let of = |text: &str| {
            let filter = NodeFilter::default().with_fact(text).unwrap();
            of(filter, &[]).unwrap_err().to_string()
        };
        assert!(of("disks.0.size>1").contains("one element of a list"));
        assert!(of("'a\"b'=1").contains("quote or backslash"));
        assert!(of("kernel>=linux").contains("compares only numbers with >="));
        assert!(of(r"kernel=/\blinux/").contains(r#""\\b" has another meaning"#));
    }

    #[test]
    fn class_patterns_that_postgres_reads_differently_are_refused() {
        for (pattern, is_allowed) in [
            ("/^role::/", true),
            ("/^Role::/i", true),
            ("/(?:a|b)\\d+$/", true),
            ("/a\\\\b/", true),
            ("/^Role::/", true),
            (r"/\bweb\b/", false),
            (r"/web\z/", false),
            ("/(?P<x>web)/", false),
            ("/a(?i)b/", false),
        ] {
            let filter = NodeFilter::default().with_class(pattern).unwrap();
            assert_eq!(of(filter, &[]).is_ok(), is_allowed, "{pattern}");
        }
    }

    /// The structure of a query: operators and values other than strings.
    fn shape(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(shape).collect(),
            Value::String(text) if text.starts_with(['=', '~']) && text.len() == 1 => value.clone(),
            Value::String(_) => json!("text"),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn values_do_not_change_the_structure_of_a_query(value in "[^\\p{Cc}0-9.-][^\\p{Cc}]{0,40}") {
            prop_assume!(muster_filter::parse_boolean(&value).is_none());
            // `shape` cannot distinguish such a value from an operator.
            prop_assume!(!matches!(value.as_str(), "=" | "~"));
            let filter = |value: &str| {
                let term = FactTerm::new("country", FactOperator::Equal, value).unwrap();
                NodeFilter::default().with_fact(&term.to_string())
            };
            let Ok(odd) = filter(&value) else { return Ok(()) };
            let odd = of(odd, &[]).unwrap();
            let plain = of(filter("uk").unwrap(), &[]).unwrap();
            prop_assert_eq!(shape(&odd[0][0]), shape(&plain[0][0]));
            let has = odd[0][0].pointer("/2/2/2/2/2/2").cloned();
            prop_assert_eq!(has, Some(json!(value)));
        }
    }
}
