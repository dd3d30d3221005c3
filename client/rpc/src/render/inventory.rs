//! Renders everything about one node: daemon statistics, agents, data sources, classes and facts.

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use super::columns::format_columns;
use super::json::RequestStatsDocument;
use super::page::TextPage;
use super::printable::escape_to_line;
use super::value::{compact_value, hang_lines, value_lines};
use crate::clock;
use crate::printer::STRONG;
use crate::report::RequestReport;

/// A node's replies about itself; parts without a reply are absent.
#[derive(Debug, Clone, Copy)]
pub struct NodeInventory<'a> {
    /// The node.
    pub node: &'a Identity,
    /// The result of `rpcutil inventory`.
    pub known: &'a RequestReport,
    /// The result of `rpcutil daemon_stats`.
    pub statistics: &'a RequestReport,
}

/// Formats a statistic.
type StatisticFormatFn = fn(&Value) -> String;

/// The statistics in display order: title, output name and format.
const STATISTICS: [(&str, &str, StatisticFormatFn); 15] = [
    ("Version", "version", compact_value),
    ("Start Time", "starttime", format_instant),
    ("Config File", "configfile", compact_value),
    ("Process ID", "pid", compact_value),
    ("Threads", "threads", compact_value),
    ("Memory", "memory_bytes", format_mebibytes),
    ("Total Messages", "total", compact_value),
    ("Messages Passed Filters", "passed", compact_value),
    ("Messages Filtered", "filtered", compact_value),
    ("Messages Not Authentic", "unvalidated", compact_value),
    ("Expired Messages", "ttlexpired", compact_value),
    ("Replayed Messages", "replayed", compact_value),
    ("Denied Requests", "denied", compact_value),
    ("Replies Sent", "replies", compact_value),
    ("Total Processor Time", "times", format_processor_time),
];

impl NodeInventory<'_> {
    /// Renders the text.
    pub fn render_text(&self, width: usize) -> String {
        let mut page = TextPage::default();
        page.push_line(format_args!(
            "Inventory for {STRONG}{}{STRONG:#}:",
            self.node
        ));
        let inventory = first_reply_data(self.known);
        if let Some(statistics) = first_reply_data(self.statistics) {
            add_section(
                "Server Statistics",
                &render_statistics(statistics, inventory),
                &mut page,
            );
        }
        if let Some(inventory) = inventory {
            for (title, name) in [
                ("Agents", "agents"),
                ("Data Plugins", "data_plugins"),
                ("Configuration Management Classes", "classes"),
            ] {
                add_section(
                    title,
                    &format_columns(&list_names(inventory, name), 6, width),
                    &mut page,
                );
            }
            let problems = render_agent_problems(inventory);
            if !problems.is_empty() {
                add_section("Agents That Cannot Be Offered", &problems, &mut page);
            }
            add_section("Facts", &render_facts(inventory, width), &mut page);
        }
        page.into_text()
    }
}

/// Renders the daemon's statistics and its collectives.
fn render_statistics(
    statistics: &Map<String, Value>,
    inventory: Option<&Map<String, Value>>,
) -> String {
    let mut page = TextPage::default();
    let mut row = |title: &str, value: String| page.push_line(format_args!("{title:>30}: {value}"));
    for (title, name, form) in STATISTICS {
        if let Some(value) = statistics.get(name) {
            row(title, form(value));
        }
    }
    if let Some(inventory) = inventory {
        row(
            "Collectives",
            list_names(inventory, "collectives").join(", "),
        );
        let main = inventory.get("main_collective");
        row(
            "Main Collective",
            main.map_or_else(|| "none".to_owned(), compact_value),
        );
    }
    page.into_text()
}

/// Adds a section with a title.
fn add_section(title: &str, body: &str, page: &mut TextPage) {
    page.push_gap();
    page.push_line(format_args!("   {STRONG}{title}:{STRONG:#}"));
    page.push_text(if body.is_empty() {
        "      none\n"
    } else {
        body
    });
}

fn first_reply_data(report: &RequestReport) -> Option<&Map<String, Value>> {
    report
        .replies
        .first()
        .filter(|reply| reply.is_ok())
        .map(|reply| &reply.data)
}

fn list_names(inventory: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = inventory.get(key).and_then(Value::as_array);
    items.into_iter().flatten().map(compact_value).collect()
}

/// Renders invalid agent files and their errors; an earlier version of such an agent may still be available.
fn render_agent_problems(inventory: &Map<String, Value>) -> String {
    let all = inventory.get("agent_problems").and_then(Value::as_array);
    let mut page = TextPage::default();
    for problem in all.into_iter().flatten() {
        let said = |name: &str| problem.get(name).map(compact_value).unwrap_or_default();
        page.push_line(format_args!("      {}", said("path")));
        page.push_line(format_args!("         {}", said("problem")));
    }
    page.into_text()
}

fn render_facts(inventory: &Map<String, Value>, width: usize) -> String {
    let facts = inventory.get("facts").and_then(Value::as_object);
    let mut page = TextPage::default();
    for (name, value) in facts.into_iter().flatten() {
        let lead = format!("      {} => ", escape_to_line(name));
        let room = width.saturating_sub(lead.chars().count());
        let all = value_lines(value, room);
        let is_outline = all.len() > 1 && (value.is_object() || value.is_array());
        if is_outline || value.as_object().is_some_and(|entries| !entries.is_empty()) {
            page.push_line(lead);
            for line in all {
                page.push_line(format_args!("         {line}"));
            }
        } else {
            for line in hang_lines(&lead, all) {
                page.push_line(line);
            }
        }
    }
    page.into_text()
}

fn format_instant(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| compact_value(value), clock::format_utc)
}

fn format_mebibytes(value: &Value) -> String {
    value.as_u64().map_or_else(
        || compact_value(value),
        |bytes| format!("{} MiB", bytes / (1024 * 1024)),
    )
}

fn format_processor_time(value: &Value) -> String {
    let seconds = |name: &str| value.get(name).and_then(Value::as_f64).unwrap_or_default();
    let (user, system) = (seconds("user"), seconds("system"));
    format!(
        "{:.2} seconds, {system:.2} of them system time",
        user + system
    )
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeInventoryDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    inventory: Option<&'a Map<String, Value>>,
    daemon_stats: Option<&'a Map<String, Value>>,
    errors: Vec<&'a str>,
    request_stats: [RequestStatsDocument<'a>; 2],
}

impl<'a> NodeInventoryDocument<'a> {
    /// Creates the document of this node.
    pub fn new(inventory: NodeInventory<'a>) -> Self {
        let NodeInventory {
            node,
            known,
            statistics,
        } = inventory;
        let replies = known.replies.iter().chain(&statistics.replies);
        let failed = replies.filter(|reply| !reply.is_ok());
        Self {
            schema: "muster.inventory.v1",
            node,
            inventory: first_reply_data(known),
            daemon_stats: first_reply_data(statistics),
            errors: failed.map(|reply| reply.message.as_str()).collect(),
            request_stats: [
                RequestStatsDocument::new(&known.stats),
                RequestStatsDocument::new(&statistics.stats),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NodeInventory, NodeInventoryDocument};
    use crate::render::WIDTH;
    use crate::render::fixtures::{plain, reply, report};
    use crate::render::json;

    #[test]
    fn a_page_about_a_node() {
        let inventory = json!({
            "agents": ["puppetral", "rpcutil", "service"],
            "facts": {
                "country": "de",
                "os": {"family": "Debian", "release": {"major": "12"}},
                "disks": ["sda", "sdb"],
                "banner": "hello\nworld",
                "evil\u{1b}": "\u{1b}]0;owned\u{7}",
            },
            "classes": ["apache", "mysql::master"],
            "version": "1.0.0",
            "main_collective": "muster",
            "collectives": ["muster", "eu"],
            "data_plugins": [],
        });
        let statistics = json!({
            "threads": 4, "agents": ["rpcutil"], "pid": 4711, "times": {"user": 0.05, "system": 0.02},
            "validated": 3, "unvalidated": 0, "passed": 2, "filtered": 1, "starttime": 1_767_225_600, "total": 3,
            "replies": 1, "configfile": "/etc/muster/rpcd.toml", "version": "1.0.0", "ttlexpired": 0,
            "replayed": 0, "denied": 0, "memory_bytes": 12_582_912,
        });
        let name = "dev1.example.net";
        let inventory = report(
            "rpcutil",
            "inventory",
            vec![reply(name, 0, "OK", inventory)],
        );
        let statistics = report(
            "rpcutil",
            "daemon_stats",
            vec![reply(name, 0, "OK", statistics)],
        );
        let node = name.parse().unwrap();
        let page = NodeInventory {
            node: &node,
            known: &inventory,
            statistics: &statistics,
        };
        insta::assert_snapshot!("inventory", plain(&page.render_text(WIDTH)));
        insta::assert_snapshot!(
            "inventory_json",
            json::to_safe_text(&NodeInventoryDocument::new(page)).unwrap()
        );
    }

    #[test]
    fn a_part_that_the_node_refuses_is_left_out() {
        let name = "dev1.example.net";
        let problem =
            json!({"agent": "disk", "path": "/etc/muster/ddl/disk.json", "problem": "no JSON"});
        let known = json!({"agents": ["rpcutil"], "agent_problems": [problem]});
        let inventory = report("rpcutil", "inventory", vec![reply(name, 0, "OK", known)]);
        let statistics = report(
            "rpcutil",
            "daemon_stats",
            vec![reply(name, 5, "denied", json!({}))],
        );
        let node = name.parse().unwrap();
        let page = NodeInventory {
            node: &node,
            known: &inventory,
            statistics: &statistics,
        };
        let text = plain(&page.render_text(WIDTH));
        assert!(!text.contains("Server Statistics"), "{text}");
        assert!(text.contains("      rpcutil\n"), "{text}");
        let problem = "Offered:\n      /etc/muster/ddl/disk.json\n         no JSON\n";
        assert!(text.contains(problem), "{text}");
        assert_eq!(
            serde_json::to_value(NodeInventoryDocument::new(page)).unwrap()["errors"],
            json!(["denied"])
        );
    }
}
