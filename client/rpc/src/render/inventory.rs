//! All about one node: what its daemon counts, and its agents, data sources, classes and facts.

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use super::WIDTH;
use super::columns::columns;
use super::json::Stats;
use super::printable::line;
use super::value::{compact, hung, lines};
use crate::clock;
use crate::printer::STRONG;
use crate::report::{Reply, Report};

/// What a node told about itself; a part that it did not tell is absent.
#[derive(Debug, Clone, Copy)]
pub struct Inventory<'a> {
    /// The node.
    pub node: &'a Identity,
    /// The outcome of `rpcutil inventory`.
    pub inventory: &'a Report,
    /// The outcome of `rpcutil daemon_stats`.
    pub statistics: &'a Report,
}

/// How a statistic is written.
type Form = fn(&Value) -> String;

/// What the daemon counts, in the order of the page: a title, which answer holds it, where, and its form.
const STATISTICS: [(&str, &str, Form); 15] = [
    ("Version", "/version", compact),
    ("Start Time", "/starttime", instant),
    ("Config File", "/configfile", compact),
    ("Process ID", "/pid", compact),
    ("Threads", "/threads", compact),
    ("Memory", "/memory_bytes", mebibytes),
    ("Total Messages", "/total", compact),
    ("Messages Passed Filters", "/passed", compact),
    ("Messages Filtered", "/filtered", compact),
    ("Messages Not Authentic", "/unvalidated", compact),
    ("Expired Messages", "/ttlexpired", compact),
    ("Replayed Messages", "/replayed", compact),
    ("Denied Requests", "/denied", compact),
    ("Replies Sent", "/replies", compact),
    ("Total Processor Time", "/times", processor_time),
];

impl Inventory<'_> {
    /// The text for people.
    pub fn text(&self) -> String {
        let mut text = format!("Inventory for {STRONG}{}{STRONG:#}:\n", self.node);
        let inventory = data(self.inventory);
        let statistics = data(self.statistics);
        if let Some(statistics) = statistics {
            text.push_str(&section(
                "Server Statistics",
                &self.statistics(statistics, inventory),
            ));
        }
        let Some(inventory) = inventory else {
            return text;
        };
        for (title, name) in [
            ("Agents", "agents"),
            ("Data Plugins", "data_plugins"),
            ("Configuration Management Classes", "classes"),
        ] {
            text.push_str(&section(title, &columns(&names(inventory, name), 6, WIDTH)));
        }
        text + &section("Facts", &facts(inventory))
    }

    fn statistics(
        &self,
        statistics: &Map<String, Value>,
        inventory: Option<&Map<String, Value>>,
    ) -> String {
        let collectives = inventory.map(|inventory| {
            let main = inventory
                .get("main_collective")
                .map_or_else(|| "none".to_owned(), compact);
            [
                ("Collectives", names(inventory, "collectives").join(", ")),
                ("Main Collective", main),
            ]
        });
        let statistics = Value::Object(statistics.clone());
        let counted = STATISTICS
            .iter()
            .filter_map(|(title, at, form)| Some((*title, form(statistics.pointer(at)?))));
        let rows = counted.chain(collectives.into_iter().flatten());
        rows.map(|(title, value)| format!("{title:>30}: {value}\n"))
            .collect()
    }
}

/// A titled part of the page.
fn section(title: &str, body: &str) -> String {
    let body = if body.is_empty() {
        "      none\n"
    } else {
        body
    };
    format!("\n   {STRONG}{title}:{STRONG:#}\n{body}")
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

fn facts(inventory: &Map<String, Value>) -> String {
    let facts = inventory.get("facts").and_then(Value::as_object);
    let mut text = String::new();
    for (name, value) in facts.into_iter().flatten() {
        let lead = format!("      {} => ", line(name));
        let structure = value.is_object() || value.is_array();
        let room = WIDTH.saturating_sub(lead.chars().count());
        let all = lines(value, room);
        let all = match all.len() {
            1 => hung(&lead, all),
            _ if structure => {
                let below = all.iter().map(|line| format!("         {line}"));
                std::iter::once(lead).chain(below).collect()
            }
            _ => hung(&lead, all),
        };
        for line in all {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
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
            inventory,
            statistics,
        } = inventory;
        let failed = inventory
            .replies
            .iter()
            .chain(&statistics.replies)
            .filter(|reply| !reply.is_ok());
        Self {
            schema: "muster.inventory.v1",
            node,
            inventory: data(inventory),
            daemon_stats: data(statistics),
            errors: failed.map(|reply: &Reply| reply.message.as_str()).collect(),
            request_stats: [Stats::new(&inventory.stats), Stats::new(&statistics.stats)],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Document, Inventory};
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
            inventory: &inventory,
            statistics: &statistics,
        };
        insta::assert_snapshot!("inventory", plain(&page.text()));
        insta::assert_snapshot!("inventory_json", json::text(&Document::new(page)).unwrap());
    }

    #[test]
    fn a_part_that_the_node_refuses_is_left_out() {
        let name = "dev1.example.net";
        let inventory = report(
            "rpcutil",
            "inventory",
            vec![reply(name, 0, "OK", json!({"agents": ["rpcutil"]}))],
        );
        let statistics = report(
            "rpcutil",
            "daemon_stats",
            vec![reply(name, 5, "denied", json!({}))],
        );
        let node = name.parse().unwrap();
        let page = Inventory {
            node: &node,
            inventory: &inventory,
            statistics: &statistics,
        };
        let text = plain(&page.text());
        assert!(!text.contains("Server Statistics"), "{text}");
        assert!(text.contains("      rpcutil\n"), "{text}");
        assert_eq!(
            serde_json::to_value(Document::new(page)).unwrap()["errors"],
            json!(["denied"])
        );
    }
}
