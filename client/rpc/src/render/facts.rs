//! How one fact's values are spread over the fleet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use super::WIDTH;
use super::columns::columns;
use super::json::Stats;
use super::page::Page;
use super::printable::line;
use super::request::balance;
use super::value::compact;
use crate::report::Report;

/// A value, and who has it.
#[derive(Debug, Serialize)]
pub struct Group {
    value: Value,
    count: usize,
    nodes: BTreeSet<Identity>,
}

/// The values that successful replies to `rpcutil get_fact` name: the most frequent first, then by value. Nodes
/// without the fact are under null.
pub fn groups(report: &Report) -> Vec<Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for reply in report.replies.iter().filter(|reply| reply.is_ok()) {
        let value = reply.data.get("value").cloned().unwrap_or_default();
        let group = groups.entry(value.to_string()).or_insert_with(|| Group {
            value,
            count: 0,
            nodes: BTreeSet::new(),
        });
        group.nodes.insert(reply.node.clone());
        group.count = group.nodes.len();
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.count));
    groups
}

/// The text for people; `verbose` names the nodes under each value.
pub fn text(fact: &str, groups: &[Group], report: &Report, verbose: bool) -> String {
    let mut page = Page::default();
    page.line(format_args!("Report for fact: {}\n", line(fact)));
    for Group { value, nodes, .. } in groups {
        let shown = match value {
            Value::Null => "(no such fact)".to_owned(),
            value => compact(value),
        };
        let times = if nodes.len() == 1 { "time" } else { "times" };
        page.line(format_args!(
            "        {shown:<39} found {} {times}",
            nodes.len()
        ));
        if verbose {
            let names: Vec<&str> = nodes.iter().map(Identity::as_str).collect();
            page.add(columns(&names, 12, WIDTH));
            page.gap();
        }
    }
    page.gap();
    page.add(balance(report));
    page.text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    fact: &'a str,
    values: &'a [Group],
    request_stats: Stats<'a>,
}

impl<'a> Document<'a> {
    /// The document of these values.
    pub fn new(fact: &'a str, groups: &'a [Group], report: &'a Report) -> Self {
        Self {
            schema: "muster.facts.v1",
            fact,
            values: groups,
            request_stats: Stats::new(&report.stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Document, groups, text};
    use crate::render::fixtures::{plain, reply, report};
    use crate::render::json;

    #[test]
    fn the_most_frequent_value_comes_first() {
        let values = [
            json!("uk"),
            json!("de"),
            json!(null),
            json!({"a": [1]}),
            json!("de"),
            json!("\u{1b}c"),
        ];
        let replies = values.iter().enumerate();
        let replies = replies.map(|(at, value)| {
            reply(
                &format!("dev{at}.example.net"),
                0,
                "OK",
                json!({"fact": "country", "value": value}),
            )
        });
        let report = report("rpcutil", "get_fact", replies.collect());
        let groups = groups(&report);
        insta::assert_snapshot!("facts", plain(&text("country", &groups, &report, false)));
        insta::assert_snapshot!(
            "facts_verbose",
            plain(&text("country", &groups, &report, true))
        );
        insta::assert_snapshot!(
            "facts_json",
            json::text(&Document::new("country", &groups, &report)).unwrap()
        );
    }
}
