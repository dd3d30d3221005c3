//! Renders the distribution of one fact's values over the fleet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use console::measure_text_width;
use muster_client::RequestReport;
use muster_contract::rpcutil::RpcutilGetFactOutput;
use muster_display::columns::format_columns;
use muster_display::page::pad_end;
use muster_display::printer::{HINT, STRONG};
use muster_display::ranges::shorten_to_ranges;
use muster_display::screen::Screen;
use muster_display::table::Table;
use muster_display::value::compact_value;
use muster_display::{TextPage, count_text};
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use crate::report::request::balance_line;

/// A value, and the nodes that have it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FactValueGroup {
    value: Value,
    count: usize,
    nodes: BTreeSet<Identity>,
}

impl FactValueGroup {
    /// The value; null if the nodes do not have the fact.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// Groups the values in successful replies to `rpcutil get_fact`: most frequent first, then by value. Nodes without the fact are grouped under null.
pub fn group_fact_values(report: &RequestReport) -> Vec<FactValueGroup> {
    let mut groups: BTreeMap<String, FactValueGroup> = BTreeMap::new();
    for reply in report.successes() {
        let RpcutilGetFactOutput { value, .. } = reply.typed_outputs();
        let group = groups.entry(value.to_string()).or_insert_with(|| FactValueGroup {
            value,
            count: 0,
            nodes: BTreeSet::new(),
        });
        group.nodes.insert(reply.node.clone());
        group.count = group.nodes.len();
    }
    let mut groups: Vec<FactValueGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.count));
    groups
}

/// Maximum width of a value before its bar, in columns.
const MAX_VALUE_WIDTH: usize = 40;

/// Renders bars at a terminal, plain counts elsewhere; `nodes` adds the node names of each value.
pub fn render_fact_bars(
    fact: &str,
    groups: &[FactValueGroup],
    report: &RequestReport,
    nodes: bool,
    screen: Screen,
) -> String {
    let mut page = TextPage::default();
    page.push_heading(format_args!("{STRONG}Report for fact: {fact}{STRONG:#}"));
    let bars = FactBarLayout::new(groups, screen.width);
    for group in groups {
        if screen.is_terminal {
            page.push_line(bars.render_row(group));
        } else {
            let times = count_text(group.nodes.len(), "time", "times");
            let value = group.display_value();
            page.push_line(format_args!("        {} found {times}", pad_end(&value, 39)));
        }
        if nodes {
            let names: Vec<&str> = group.nodes.iter().map(Identity::as_str).collect();
            page.push_text(format_columns(&names, 12, screen.width));
            page.push_gap();
        }
    }
    page.push_gap();
    page.push_text(balance_line(report));
    page.into_text()
}

/// Renders the values as a table, with node ranges if requested.
pub fn render_fact_table(groups: &[FactValueGroup], nodes: bool, screen: Screen) -> String {
    let mut heading = vec!["VALUE", "COUNT"];
    heading.extend(nodes.then_some("NODES"));
    let rows = groups.iter().map(|group| {
        let mut cells = vec![group.display_value(), group.nodes.len().to_string()];
        cells.extend(nodes.then(|| shorten_to_ranges(&group.nodes).join(" ")));
        cells
    });
    Table::new(heading).rows(rows).render(screen.table_width)
}

impl FactValueGroup {
    /// The value on one line; structures as JSON.
    fn display_value(&self) -> String {
        match &self.value {
            Value::Null => "(no such fact)".to_owned(),
            value => compact_value(value),
        }
    }
}

/// Column widths of a row with a bar.
struct FactBarLayout {
    value: usize,
    count: usize,
    bar: usize,
    max_count: usize,
}

impl FactBarLayout {
    fn new(groups: &[FactValueGroup], width: usize) -> Self {
        let widest = groups.iter().map(|group| measure_text_width(&group.display_value())).max();
        let max_count = groups.iter().map(|group| group.nodes.len()).max().unwrap_or(0);
        let value = widest.unwrap_or(0).min(MAX_VALUE_WIDTH);
        let count = max_count.to_string().len();
        let bar = width.saturating_sub(value + count + 6);
        Self { value, count, bar, max_count }
    }

    /// Every value has a bar of at least one character.
    fn render_row(&self, group: &FactValueGroup) -> String {
        let Self { value, count, bar, max_count } = *self;
        let nodes = group.nodes.len();
        let length = (nodes * bar).div_ceil(max_count.max(1)).min(bar);
        let shown = group.display_value();
        let bar = "█".repeat(length);
        let shown = pad_end(&shown, value);
        format!("  {shown}  {nodes:>count$}  {HINT}{bar}{HINT:#}")
    }
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FactsDocument<'a> {
    pub fact: &'a str,
    pub values: &'a [FactValueGroup],
}

#[cfg(test)]
mod tests {
    use console::measure_text_width;
    use muster_display::json;
    use muster_display::screen::Screen;
    use serde_json::json;

    use super::{FactsDocument, group_fact_values, render_fact_bars, render_fact_table};
    use crate::report::documents::ReportDocument;
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn values_are_sorted_by_frequency() {
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
        let groups = group_fact_values(&report);
        insta::assert_snapshot!(
            "facts",
            plain(&render_fact_bars("country", &groups, &report, false, Screen::default()))
        );
        insta::assert_snapshot!(
            "facts_verbose",
            plain(&render_fact_bars("country", &groups, &report, true, Screen::default()))
        );
        let terminal = Screen { width: 60, table_width: 60, is_terminal: true };
        let bars = plain(&render_fact_bars("country", &groups, &report, false, terminal));
        assert!(bars.lines().all(|line| line.chars().count() <= 60), "{bars}");
        insta::assert_snapshot!("facts_bars", bars);
        insta::assert_snapshot!("facts_table", plain(&render_fact_table(&groups, true, terminal)));
        insta::assert_snapshot!(
            "facts_json",
            json::to_safe_text(&ReportDocument::new(
                "muster.facts.v1",
                FactsDocument { fact: "country", values: &groups },
                &report
            ))
            .unwrap()
        );
    }

    #[test]
    fn chinese_values_have_two_columns_per_character() {
        let reply = |node, value| reply(node, 0, "OK", json!({"fact": "city", "value": value}));
        let replies = vec![reply("a.example.net", "東京都"), reply("b.example.net", "bonn")];
        let report = report("rpcutil", "get_fact", replies);
        let groups = group_fact_values(&report);
        let table = plain(&render_fact_table(&groups, false, Screen::default()));
        assert_eq!(table, "VALUE   COUNT\nbonn    1\n東京都  1\n");
        let bars = plain(&render_fact_bars("city", &groups, &report, false, Screen::default()));
        let before = bars.lines().filter_map(|line| line.split_once("found"));
        let columns: Vec<usize> = before.map(|(value, _)| measure_text_width(value)).collect();
        assert_eq!(columns, [48, 48], "{bars}");
    }
}
