//! How one fact's values are spread over the fleet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use super::columns::columns;
use super::grid::{Cell, grid};
use super::json::Stats;
use super::page::Page;
use super::printable::line;
use super::ranges::ranges;
use super::request::balance;
use super::value::compact;
use crate::printer::{HINT, STRONG};
use crate::report::Report;
use crate::screen::Screen;

/// A value, and who has it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// How many columns a value may take before its bar.
const VALUE: usize = 40;

/// The text for people: bars at a terminal, plain counts elsewhere; `nodes` names the nodes under each value.
pub fn text(fact: &str, groups: &[Group], report: &Report, nodes: bool, screen: Screen) -> String {
    let mut page = Page::default();
    page.line(format_args!(
        "{STRONG}Report for fact: {}{STRONG:#}\n",
        line(fact)
    ));
    let bars = Bars::new(groups, screen.width);
    for group in groups {
        if screen.is_terminal {
            page.line(bars.row(group));
        } else {
            let count = group.nodes.len();
            let times = if count == 1 { "time" } else { "times" };
            page.line(format_args!(
                "        {:<39} found {count} {times}",
                group.shown()
            ));
        }
        if nodes {
            let names: Vec<&str> = group.nodes.iter().map(Identity::as_str).collect();
            page.add(columns(&names, 12, screen.width));
            page.gap();
        }
    }
    page.gap();
    page.add(balance(report));
    page.text()
}

/// The values as a table, with the nodes shortened to ranges if they are wanted.
pub fn table(groups: &[Group], nodes: bool, screen: Screen) -> String {
    let mut heading = vec!["VALUE".to_owned(), "COUNT".to_owned()];
    heading.extend(nodes.then(|| "NODES".to_owned()));
    let rows = groups.iter().map(|group| {
        let mut row = vec![
            Cell::plain(group.shown()),
            Cell::plain(group.nodes.len().to_string()),
        ];
        row.extend(nodes.then(|| Cell::plain(ranges(&group.nodes).join(" "))));
        row
    });
    grid(&heading, &rows.collect::<Vec<_>>(), screen.width, None).text
}

impl Group {
    /// The value on a line: structures as JSON.
    fn shown(&self) -> String {
        match &self.value {
            Value::Null => "(no such fact)".to_owned(),
            value => compact(value),
        }
    }
}

/// How wide the parts of a row with a bar are.
struct Bars {
    value: usize,
    count: usize,
    bar: usize,
    most: usize,
}

impl Bars {
    fn new(groups: &[Group], width: usize) -> Self {
        let widest = groups
            .iter()
            .map(|group| group.shown().chars().count())
            .max();
        let most = groups
            .iter()
            .map(|group| group.nodes.len())
            .max()
            .unwrap_or(0);
        let value = widest.unwrap_or(0).min(VALUE);
        let count = most.to_string().len();
        let bar = width.saturating_sub(value + count + 6);
        Self {
            value,
            count,
            bar,
            most,
        }
    }

    /// Whoever has the value has a bar, however small.
    fn row(&self, group: &Group) -> String {
        let Self {
            value,
            count,
            bar,
            most,
        } = *self;
        let nodes = group.nodes.len();
        let length = (nodes * bar).div_ceil(most.max(1)).min(bar);
        let shown = group.shown();
        let bar = "█".repeat(length);
        format!("  {shown:<value$}  {nodes:>count$}  {HINT}{bar}{HINT:#}")
    }
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

    use super::{Document, groups, table, text};
    use crate::render::fixtures::{plain, reply, report};
    use crate::render::json;
    use crate::screen::Screen;

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
        insta::assert_snapshot!(
            "facts",
            plain(&text("country", &groups, &report, false, Screen::default()))
        );
        insta::assert_snapshot!(
            "facts_verbose",
            plain(&text("country", &groups, &report, true, Screen::default()))
        );
        let terminal = Screen {
            width: 60,
            is_terminal: true,
        };
        let bars = plain(&text("country", &groups, &report, false, terminal));
        assert!(
            bars.lines().all(|line| line.chars().count() <= 60),
            "{bars}"
        );
        insta::assert_snapshot!("facts_bars", bars);
        insta::assert_snapshot!("facts_table", plain(&table(&groups, true, terminal)));
        insta::assert_snapshot!(
            "facts_json",
            json::text(&Document::new("country", &groups, &report)).unwrap()
        );
    }
}
