//! Members of each collective: as a table, a document, or a `GraphViz` graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use muster_client::RequestReport;
use muster_contract::rpcutil::RpcutilCollectiveInfoOutput;
use muster_display::printable::escape_to_line;
use muster_display::table::Table;
use muster_wire::identity::Identity;
use serde::Serialize;

#[derive(Debug, Default)]
pub struct CollectiveMembers<'a>(pub BTreeMap<String, BTreeSet<&'a Identity>>);

impl<'a> CollectiveMembers<'a> {
    /// Parses the replies to `rpcutil collective_info`.
    pub fn from_report(report: &'a RequestReport) -> Self {
        let mut collectives = Self::default();
        for reply in report.successes() {
            let output: RpcutilCollectiveInfoOutput = reply.typed_outputs();
            for name in output.collectives {
                collectives.0.entry(name).or_default().insert(&reply.node);
            }
        }
        collectives
    }

    /// Renders the table, largest collective first.
    pub fn render_table(&self, width: usize) -> String {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        let rows = rows.into_iter().map(|(name, nodes)| [name.clone(), nodes.len().to_string()]);
        Table::new(["COLLECTIVE", "NODES"]).rows(rows).render(width)
    }

    pub fn render_dot(&self) -> String {
        let mut text = "graph fleet {\n  overlap=false;\n".to_owned();
        for (name, nodes) in &self.0 {
            let (name, count) = (quote_dot(name), nodes.len());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name} [shape=box, xlabel=\"{count}\"];");
            for node in nodes {
                let _ = writeln!(text, "  {name} -- {};", quote_dot(node.as_str()));
            }
        }
        text.push_str("}\n");
        text
    }
}

/// Quotes a text for DOT; removes characters that names cannot contain.
fn quote_dot(text: &str) -> String {
    let escaped = escape_to_line(text).replace(['\\', '"'], "");
    format!("\"{escaped}\"")
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CollectivesDocument<'a> {
    pub collectives: &'a BTreeMap<String, BTreeSet<&'a Identity>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CollectiveMembers, CollectivesDocument};
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn renders_a_table_and_a_graph() {
        let told = |node, names: &[&str]| reply(node, 0, "", json!({"collectives": names}));
        let replies = vec![
            told("db1", &["muster", "eu"]),
            told("web1", &["muster"]),
            told("evil", &["a\" -- b; \u{1b}[2J"]),
            reply("odd", 0, "", json!({"collectives": 7})),
            reply("no", 5, "denied", json!({"collectives": ["muster"]})),
        ];
        let report = report("rpcutil", "collective_info", replies);
        let collectives = CollectiveMembers::from_report(&report);
        let table = plain(&collectives.render_table(80));
        assert!(table.starts_with("COLLECTIVE "), "{table}");
        assert!(table.lines().nth(1).unwrap().starts_with("muster "));
        insta::assert_snapshot!(collectives.render_dot(), @r#"
        graph fleet {
          overlap=false;
          "a -- b; x1b[2J" [shape=box, xlabel="1"];
          "a -- b; x1b[2J" -- "evil";
          "eu" [shape=box, xlabel="1"];
          "eu" -- "db1";
          "muster" [shape=box, xlabel="2"];
          "muster" -- "db1";
          "muster" -- "web1";
        }
        "#);
        let document =
            serde_json::to_value(CollectivesDocument { collectives: &collectives.0 }).unwrap();
        assert_eq!(document["collectives"]["muster"], json!(["db1", "web1"]));
    }
}
