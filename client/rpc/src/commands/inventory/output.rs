//! Renders everything about one node: daemon statistics, agents, data sources, classes and facts.

use std::time::Duration;

use console::measure_text_width;
use muster_base::{NodeText, format_duration};
use muster_client::{NodeReply, RequestReport};
use muster_contract::rpcutil::{
    AgentProblemRow, CpuTimes, RpcutilDaemonStatsOutput, RpcutilInventoryOutput,
};
use muster_display::TextPage;
use muster_display::columns::format_columns;
use muster_display::printer::STRONG;
use muster_display::value::{hang_lines, value_lines};
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::report::documents::RequestStatsDocument;

/// A node's replies about itself; parts without a reply are absent.
#[derive(Debug, Clone, Copy)]
pub struct NodeInventory<'a> {
    pub node: &'a Identity,
    /// The result of `rpcutil inventory`.
    pub known: &'a RequestReport,
    /// The result of `rpcutil daemon_stats`.
    pub statistics: &'a RequestReport,
}

impl NodeInventory<'_> {
    pub fn render_text(&self, width: usize) -> String {
        let mut page = TextPage::default();
        page.push_line(format_args!("Inventory for {STRONG}{}{STRONG:#}:", self.node));
        let inventory: Option<RpcutilInventoryOutput> =
            first_reply(self.known).map(NodeReply::typed_outputs);
        if let Some(statistics) = first_reply(self.statistics) {
            let statistics = render_statistics(&statistics.typed_outputs(), inventory.as_ref());
            add_section("Server Statistics", &statistics, &mut page);
        }
        if let Some(inventory) = inventory {
            for (title, names) in [
                ("Agents", &inventory.agents),
                ("Data Plugins", &inventory.data_plugins),
                ("Configuration Management Classes", &inventory.classes),
            ] {
                let names = format_columns(names, 6, width);
                add_section(title, &names, &mut page);
            }
            let problems = render_agent_problems(&inventory.agent_problems);
            if !problems.is_empty() {
                add_section("Agents That Cannot Be Offered", &problems, &mut page);
            }
            add_section("Facts", &render_facts(&inventory.facts, width), &mut page);
        }
        page.into_text()
    }
}

/// Renders the daemon's statistics and its collectives; leaves out values that the node did not report.
fn render_statistics(
    statistics: &RpcutilDaemonStatsOutput,
    inventory: Option<&RpcutilInventoryOutput>,
) -> String {
    let count = |count: Option<u64>| Some(count?.to_string());
    let text = |text: &Option<String>| text.clone();
    let processor_time = statistics.times.and_then(|CpuTimes { user, system }| {
        let format = |seconds| Duration::try_from_secs_f64(seconds).map(format_duration);
        let (total, system) = (format(user + system).ok()?, format(system).ok()?);
        Some(format!("{total}, {system} of it system time"))
    });
    let rows = [
        ("Version", text(&statistics.version)),
        ("Start Time", statistics.starttime.map(muster_display::time::format_time)),
        ("Config File", text(&statistics.configfile)),
        ("Process ID", count(statistics.pid.map(u64::from))),
        ("Threads", count(statistics.threads)),
        ("Memory", statistics.memory_bytes.map(|bytes| format!("{} MiB", bytes / (1024 * 1024)))),
        ("Total Messages", count(statistics.total)),
        ("Messages Passed Filters", count(statistics.passed)),
        ("Messages Filtered", count(statistics.filtered)),
        ("Messages Not Authentic", count(statistics.unvalidated)),
        ("Expired Messages", count(statistics.ttlexpired)),
        ("Replayed Messages", count(statistics.replayed)),
        ("Denied Requests", count(statistics.denied)),
        ("Replies Sent", count(statistics.replies)),
        ("Total Processor Time", processor_time),
    ];
    let mut page = TextPage::default();
    page.push_fields(30, rows.into_iter().filter_map(|(title, value)| Some((title, value?))));
    if let Some(inventory) = inventory {
        let main = inventory.main_collective.as_deref().unwrap_or("none");
        let collectives = inventory.collectives.join(", ");
        page.push_fields(30, [("Collectives", &*collectives), ("Main Collective", main)]);
    }
    page.into_text()
}

fn add_section(title: &str, body: &str, page: &mut TextPage) {
    page.push_gap();
    page.push_line(format_args!("   {STRONG}{title}:{STRONG:#}"));
    page.push_text(if body.is_empty() { "      none\n" } else { body });
}

/// The reply, if it is a success.
fn first_reply(report: &RequestReport) -> Option<&NodeReply> {
    report.replies.first().filter(|reply| reply.is_ok())
}

/// Renders invalid agent files and their errors; an earlier version of such an agent may still be available.
fn render_agent_problems(problems: &[AgentProblemRow]) -> String {
    let mut page = TextPage::default();
    for AgentProblemRow { path, problem, .. } in problems {
        page.push_line(format_args!("      {}", path.block()));
        page.push_line(format_args!("         {}", problem.block()));
    }
    page.into_text()
}

fn render_facts(facts: &Map<String, Value>, width: usize) -> String {
    let mut page = TextPage::default();
    for (name, value) in facts {
        let prefix = format!("      {name} => ");
        let lines = value_lines(value, width.saturating_sub(measure_text_width(&prefix)));
        let is_outline = lines.len() > 1 && (value.is_object() || value.is_array());
        if is_outline || value.as_object().is_some_and(|entries| !entries.is_empty()) {
            page.push_line(prefix);
            for line in lines {
                page.push_line(format_args!("         {line}"));
            }
        } else {
            for line in hang_lines(&prefix, lines) {
                page.push_line(line);
            }
        }
    }
    page.into_text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeInventoryDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    inventory: Option<&'a Map<String, Value>>,
    daemon_stats: Option<&'a Map<String, Value>>,
    errors: Vec<&'a NodeText>,
    request_stats: [RequestStatsDocument<'a>; 2],
}

impl<'a> NodeInventoryDocument<'a> {
    pub fn new(inventory: NodeInventory<'a>) -> Self {
        let NodeInventory { node, known, statistics } = inventory;
        let failed = known.failures().chain(statistics.failures());
        Self {
            schema: "muster.inventory.v1",
            node,
            inventory: first_reply(known).map(|reply| &reply.data),
            daemon_stats: first_reply(statistics).map(|reply| &reply.data),
            errors: failed.map(|reply| &reply.message).collect(),
            request_stats: [
                RequestStatsDocument::new(&known.stats),
                RequestStatsDocument::new(&statistics.stats),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_display::json;
    use serde_json::json;

    use super::{NodeInventory, NodeInventoryDocument};
    use crate::report::testing::WIDTH;
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn renders_the_inventory_of_a_node() {
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
        let inventory = report("rpcutil", "inventory", vec![reply(name, 0, "OK", inventory)]);
        let statistics = report("rpcutil", "daemon_stats", vec![reply(name, 0, "OK", statistics)]);
        let node = name.parse().unwrap();
        let page = NodeInventory { node: &node, known: &inventory, statistics: &statistics };
        insta::assert_snapshot!("inventory", plain(&page.render_text(WIDTH)));
        insta::assert_snapshot!(
            "inventory_json",
            json::to_safe_text(&NodeInventoryDocument::new(page)).unwrap()
        );
    }

    #[test]
    fn refused_parts_are_omitted() {
        let name = "dev1.example.net";
        let problem =
            json!({"agent": "disk", "path": "/etc/muster/ddl/disk.json", "problem": "no JSON"});
        let known = json!({"agents": ["rpcutil"], "agent_problems": [problem]});
        let inventory = report("rpcutil", "inventory", vec![reply(name, 0, "OK", known)]);
        let statistics =
            report("rpcutil", "daemon_stats", vec![reply(name, 5, "denied", json!({}))]);
        let node = name.parse().unwrap();
        let page = NodeInventory { node: &node, known: &inventory, statistics: &statistics };
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
