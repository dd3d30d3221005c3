//! Translates filters to `PuppetDB` queries. Pure functions.
//!
//! Filters become `PuppetDB`'s query syntax as JSON (its "AST"), not as text, so a value is always a JSON string and cannot inject syntax. A text of
//! PQL (`-I pql:...`) is sent unchanged, in a query of its own. Results of separate alternatives are united; the resulting sets are intersected with
//! the rest by this client.
//!
//! `PuppetDB` compares differently from a node: string comparison is case-sensitive, and regular expressions are `PostgreSQL`'s.

use muster_filter::{FactOperator, FactTerm, FilterPattern};
use serde_json::{Value, json};

use super::super::DiscoveryQuery;

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
    /// An empty query.
    #[error("`-I pql:` needs a query, as in -I 'pql:nodes[certname] {{ certname ~ \"web\" }}'")]
    Empty,
}

/// Builds the queries: a node matches if every set of alternatives contains it. Never empty.
pub(super) fn build_queries(query: &DiscoveryQuery) -> Result<Vec<Vec<Value>>, PuppetDbQueryError> {
    let filter = &query.filter;
    let mut conditions: Vec<Value> = filter.classes().iter().map(class_condition).collect();
    for term in filter.facts() {
        conditions.push(fact_condition(term)?);
    }
    let named: Vec<Value> = filter.identities().iter().map(name_condition).collect();
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

fn name_condition(pattern: &FilterPattern) -> Value {
    match pattern {
        FilterPattern::Exact(name) => json!(["=", "certname", name]),
        expression @ FilterPattern::Regex(_) => {
            json!(["~", "certname", strip_slashes(&expression.to_string())])
        }
    }
}

fn class_condition(pattern: &FilterPattern) -> Value {
    let title = match pattern {
        FilterPattern::Exact(name) => json!(["=", "title", class_title(name)]),
        // Nodes compare classes in lower case; PuppetDB stores them capitalised.
        expression @ FilterPattern::Regex(_) => {
            let source = strip_slashes(&expression.to_string());
            let source = source.strip_prefix("(?i)").unwrap_or(&source);
            json!(["~", "title", format!("(?i){source}")])
        }
    };
    in_entity("resources", &json!(["and", ["=", "type", "Class"], title]))
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
        if let Ok(boolean) = value.to_ascii_lowercase().parse::<bool>() {
            alternatives.push(json!(["=", path, boolean]));
        }
        in_entity("inventory", &any_of(alternatives))
    };
    let matching = || in_entity("inventory", &json!(["~", path, strip_slashes(&value)]));
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
        FactOperator::NotEqual => Ok(json!(["not", equal()])),
        FactOperator::Match => Ok(matching()),
        FactOperator::NotMatch => Ok(json!(["not", matching()])),
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
            .with_fact("virtual!=true")
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
          ["in",["certname"],["from","inventory",["extract",["certname"],[">=","facts.processors.count",4]]]],["not",
          ["in",["certname"],["from","inventory",["extract",["certname"],["or",["=","facts.virtual","true"],["=","facts.virtual",true]]]]]],
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
            prop_assume!(value.to_ascii_lowercase().parse::<bool>().is_err());
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
