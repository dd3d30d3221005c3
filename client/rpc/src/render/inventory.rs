//! All about one node: what its daemon counts, and its agents, data sources, classes and facts.

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use super::columns::columns;
use super::json::Stats;
use super::page::Page;
use super::printable::line;
use super::value::{compact, hung, lines};
use crate::clock;
use crate::printer::STRONG;
use crate::report::Report;

/// What a node told about itself; a part that it did not tell is absent.
#[derive(Debug, Clone, Copy)]
pub struct Inventory<'a> {
    /// The node.
    pub node: &'a Identity,
    /// The outcome of `rpcutil inventory`.
    pub known: &'a Report,
    /// The outcome of `rpcutil daemon_stats`.
    pub statistics: &'a Report,
}

/// How a statistic is written.
type Form = fn(&Value) -> String;

/// What the daemon counts, in the order of the page: a title, the output's name, and its form.
const STATISTICS: [(&str, &str, Form); 15] = [
    ("Version", "version", compact),
    ("Start Time", "starttime", instant),
    ("Config File", "configfile", compact),
    ("Process ID", "pid", compact),
    ("Threads", "threads", compact),
    ("Memory", "memory_bytes", mebibytes),
    ("Total Messages", "total", compact),
    ("Messages Passed Filters", "passed", compact),
    ("Messages Filtered", "filtered", compact),
    ("Messages Not Authentic", "unvalidated", compact),
    ("Expired Messages", "ttlexpired", compact),
    ("Replayed Messages", "replayed", compact),
    ("Denied Requests", "denied", compact),
    ("Replies Sent", "replies", compact),
    ("Total Processor Time", "times", processor_time),
];

impl Inventory<'_> {
    /// The text for people.
    pub fn text(&self, width: usize) -> String {
        let mut page = Page::default();
        page.line(format_args!(
            "Inventory for {STRONG}{}{STRONG:#}:",
            self.node
        ));
        let inventory = data(self.known);
        if let Some(statistics) = data(self.statistics) {
            section(
                "Server Statistics",
                &counts(statistics, inventory),
                &mut page,
            );
        }
        if let Some(inventory) = inventory {
            for (title, name) in [
                ("Agents", "agents"),
                ("Data Plugins", "data_plugins"),
                ("Configuration Management Classes", "classes"),
            ] {
                section(
                    title,
                    &columns(&names(inventory, name), 6, width),
                    &mut page,
                );
            }
            let problems = problems(inventory);
            if !problems.is_empty() {
                section("Agents That Cannot Be Offered", &problems, &mut page);
            }
            section("Facts", &facts(inventory, width), &mut page);
        }
        page.text()
    }
}

/// What the daemon counts, and the collectives it is in.
fn counts(statistics: &Map<String, Value>, inventory: Option<&Map<String, Value>>) -> String {
    let mut page = Page::default();
    let mut row = |title: &str, value: String| page.line(format_args!("{title:>30}: {value}"));
    for (title, name, form) in STATISTICS {
        if let Some(value) = statistics.get(name) {
            row(title, form(value));
        }
    }
    if let Some(inventory) = inventory {
        row("Collectives", names(inventory, "collectives").join(", "));
        let main = inventory.get("main_collective");
        row(
            "Main Collective",
            main.map_or_else(|| "none".to_owned(), compact),
        );
    }
    page.text()
}

/// A titled part of the page.
fn section(title: &str, body: &str, page: &mut Page) {
    page.gap();
    page.line(format_args!("   {STRONG}{title}:{STRONG:#}"));
    page.add(if body.is_empty() {
        "      none\n"
    } else {
        body
    });
}

fn data(report: &Report) -> Option<&Map<String, Value>> {
    report
        .replies
        .first()
        .filter(|reply| reply.is_ok())
        .map(|reply| &reply.data)
}

fn names(inventory: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = inventory.get(key).and_then(Value::as_array);
    items.into_iter().flatten().map(compact).collect()
}

/// The files of agents that are not in order, with what is wrong; a version before it may still be offered.
fn problems(inventory: &Map<String, Value>) -> String {
    let all = inventory.get("agent_problems").and_then(Value::as_array);
    let mut page = Page::default();
    for problem in all.into_iter().flatten() {
        let said = |name: &str| problem.get(name).map(compact).unwrap_or_default();
        page.line(format_args!("      {}", said("path")));
        page.line(format_args!("         {}", said("problem")));
    }
    page.text()
}

fn facts(inventory: &Map<String, Value>, width: usize) -> String {
    let facts = inventory.get("facts").and_then(Value::as_object);
    let mut page = Page::default();
    for (name, value) in facts.into_iter().flatten() {
        let lead = format!("      {} => ", line(name));
        let room = width.saturating_sub(lead.chars().count());
        let all = lines(value, room);
        let is_outline = all.len() > 1 && (value.is_object() || value.is_array());
        if is_outline || value.as_object().is_some_and(|entries| !entries.is_empty()) {
            page.line(lead);
            for line in all {
                page.line(format_args!("         {line}"));
            }
        } else {
            for line in hung(&lead, all) {
                page.line(line);
            }
        }
    }
    page.text()
}

fn instant(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| compact(value), clock::written)
}

fn mebibytes(value: &Value) -> String {
    value.as_u64().map_or_else(
        || compact(value),
        |bytes| format!("{} MiB", bytes / (1024 * 1024)),
    )
}

fn processor_time(value: &Value) -> String {
    let seconds = |name: &str| value.get(name).and_then(Value::as_f64).unwrap_or_default();
    let (user, system) = (seconds("user"), seconds("system"));
    format!(
        "{:.2} seconds, {system:.2} of them in the system",
        user + system
    )
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    node: &'a Identity,
    inventory: Option<&'a Map<String, Value>>,
    daemon_stats: Option<&'a Map<String, Value>>,
    errors: Vec<&'a str>,
    request_stats: [Stats<'a>; 2],
}

impl<'a> Document<'a> {
    /// The document of what this node told.
    pub fn new(inventory: Inventory<'a>) -> Self {
        let Inventory {
            node,
            known,
            statistics,
        } = inventory;
        let replies = known.replies.iter().chain(&statistics.replies);
        let failed = replies.filter(|reply| !reply.is_ok());
        Self {
            schema: "muster.inventory.v1",
            node,
            inventory: data(known),
            daemon_stats: data(statistics),
            errors: failed.map(|reply| reply.message.as_str()).collect(),
            request_stats: [Stats::new(&known.stats), Stats::new(&statistics.stats)],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Document, Inventory};
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
        let page = Inventory {
            node: &node,
            known: &inventory,
            statistics: &statistics,
        };
        insta::assert_snapshot!("inventory", plain(&page.text(WIDTH)));
        insta::assert_snapshot!("inventory_json", json::text(&Document::new(page)).unwrap());
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
        let page = Inventory {
            node: &node,
            known: &inventory,
            statistics: &statistics,
        };
        let text = plain(&page.text(WIDTH));
        assert!(!text.contains("Server Statistics"), "{text}");
        assert!(text.contains("      rpcutil\n"), "{text}");
        let problem = "Offered:\n      /etc/muster/ddl/disk.json\n         no JSON\n";
        assert!(text.contains(problem), "{text}");
        assert_eq!(
            serde_json::to_value(Document::new(page)).unwrap()["errors"],
            json!(["denied"])
        );
    }
}
