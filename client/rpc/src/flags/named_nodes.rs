//! Names of nodes, as arguments and in `-I`: `db1.acme.net`, short names such as `db1`, and ranges such as `web[1-40].acme.net`. They are alternatives.

use std::fmt;

use clap::Args;
use muster_wire::identity::Identity;

use crate::flags::filters::FilterArgs;

/// Most nodes that one argument names.
const MAX_RANGE_NODES: usize = 10_000;

/// What follows the name in the regular expression for a name without a domain.
const SHORT_NAME_END: &str = r"(\.|$)";

/// Nodes as arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct NamedNodeArgs {
    /// Nodes: names, short names such as db1, or ranges such as web[1-40].acme.net
    #[arg(value_name = "NODE", value_parser = NodeNames::parse)]
    pub named: Vec<NodeNames>,
}

impl NamedNodeArgs {
    pub fn add_to(&self, filters: &mut FilterArgs) {
        let names = self.named.iter().flat_map(|names| names.0.iter());
        let conditions = names
            .map(|name| if name.contains('.') { name.clone() } else { short_name_pattern(name) });
        filters.conditions.identities.extend(conditions);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNames(Vec<String>);

impl NodeNames {
    /// Expands the ranges of an argument.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = expand_ranges(text)?;
        for name in &names {
            Identity::parse(name)
                .map_err(|error| format!("{error}; other conditions need an option, as in `-C`"))?;
        }
        Ok(Self(names))
    }

    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for NodeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [first, .., last] => write!(f, "{first} ... {last}"),
            names => f.write_str(&names.concat()),
        }
    }
}

/// Checks the ranges in a value of `-I`, which may also be a regular expression, a group or a query.
pub fn parse_identity_condition(text: &str) -> Result<String, String> {
    if is_name(text) {
        expand_ranges(text)?;
    }
    Ok(text.to_owned())
}

/// The conditions for the values of `-I`: ranges are expanded, and a name without a domain is that of a node with any domain if `is_short` says that
/// there is one. Other names need no discovery.
pub fn expand_identities(texts: &[String], is_short: impl Fn(&str) -> bool) -> Vec<String> {
    let expand = |text: &String| match expand_ranges(text) {
        Ok(names) if is_name(text) => names,
        _ => vec![text.clone()],
    };
    let names = texts.iter().flat_map(expand);
    let is_short = |name: &str| is_name(name) && !name.contains('.') && is_short(name);
    names.map(|name| if is_short(&name) { short_name_pattern(&name) } else { name }).collect()
}

fn is_name(text: &str) -> bool {
    !text.starts_with('/') && !text.contains(':')
}

/// The value of `-I` for a name without a domain.
fn short_name_pattern(name: &str) -> String {
    let literal: String = name
        .chars()
        .flat_map(|character| {
            let is_plain = character.is_ascii_alphanumeric() || "_-".contains(character);
            (!is_plain).then_some('\\').into_iter().chain([character])
        })
        .collect();
    format!("/^{literal}{SHORT_NAME_END}/")
}

/// The name without a domain that became this regular expression.
pub fn short_name(regex: &str) -> Option<String> {
    let literal = regex.strip_prefix('^')?.strip_suffix(SHORT_NAME_END)?;
    Some(literal.replace('\\', ""))
}

/// All names of a text with ranges in brackets, in their order.
fn expand_ranges(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((range, after)) = after.split_once(']') else {
            return Err("a range has no `]`; write it like web[1-40].acme.net".to_owned());
        };
        let numbers = expand_range(range)?;
        if names.len().saturating_mul(numbers.len()) > MAX_RANGE_NODES {
            return Err(format!("it names more than {MAX_RANGE_NODES} nodes"));
        }
        let expanded = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}")));
        names = expanded.collect();
        rest = after;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// The numbers of `1-40,50`. Leading zeros give all numbers of a range the same width.
fn expand_range(range: &str) -> Result<Vec<String>, String> {
    let invalid = || format!("{range:?} is no range; write it like [1-40] or [01-09,12]");
    let mut numbers = Vec::new();
    for part in range.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let width = if first.starts_with('0') { first.len() } else { 0 };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (from, until): (u32, u32) = match (first.parse(), last.parse()) {
            (Ok(from), Ok(until)) if is_number(first) && is_number(last) && from <= until => {
                (from, until)
            }
            _ => return Err(invalid()),
        };
        let count = usize::try_from(until - from).unwrap_or(usize::MAX);
        if width > 10 || numbers.len().saturating_add(count) >= MAX_RANGE_NODES {
            return Err(format!("it names more than {MAX_RANGE_NODES} nodes"));
        }
        numbers.extend((from..=until).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{NodeNames, expand_identities, parse_identity_condition};

    fn names(text: &str) -> Vec<String> {
        NodeNames::parse(text).unwrap().0
    }

    #[test]
    fn ranges_are_expanded_in_their_order() {
        assert_eq!(names("db1.acme.net"), ["db1.acme.net"]);
        assert_eq!(names("web[9-10].acme.net"), ["web9.acme.net", "web10.acme.net"]);
        assert_eq!(names("web[08-10,12]"), ["web08", "web09", "web10", "web12"]);
        assert_eq!(names("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(names("web[1-10000]").len(), 10_000);
        for text in ["web[1-", "web[]", "web[2-1]", "web[a-b]", "web[1-10001]", "web[+1-2]", "a b"]
        {
            assert!(NodeNames::parse(text).is_err(), "{text}");
        }
        assert!(NodeNames::parse("a[1-1000]b[1-1000]").is_err());
    }

    #[test]
    fn short_name_is_that_of_a_node_with_any_domain() {
        let expand = |text: &str| expand_identities(&[text.to_owned()], |name| name != "solo");
        assert_eq!(expand("db1.acme.net"), ["db1.acme.net"]);
        assert_eq!(expand("db-1"), ["/^db-1(\\.|$)/"]);
        assert_eq!(expand("db[1-2]"), ["/^db1(\\.|$)/", "/^db2(\\.|$)/"]);
        assert_eq!(expand("web[1-2].acme.net"), ["web1.acme.net", "web2.acme.net"]);
        for text in ["solo", "/web[1-2]/", "group:web", "pql:inventory[certname] {}"] {
            assert_eq!(expand(text), [text]);
        }
        assert!(parse_identity_condition("web[2-1]").is_err());
        assert!(parse_identity_condition("/web[2-1]/").is_ok());
    }

    proptest! {
        #[test]
        fn any_argument_is_expanded_or_refused(text in "[a-c\\[\\],0-9-]{0,20}") {
            if let Ok(names) = NodeNames::parse(&text) {
                prop_assert!(!names.0.is_empty() && names.0.len() <= super::MAX_RANGE_NODES);
            }
        }
    }
}
