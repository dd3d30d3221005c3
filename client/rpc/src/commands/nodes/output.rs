//! Renders what the directory knows: lists, counts, and the line for Nagios.

use std::collections::{BTreeMap, BTreeSet};

use muster_client::RegisteredUpdate;
use muster_contract::directory::{DirectoryFacetsOutput, DirectoryNodeRow};
use muster_display::TextPage;
use muster_display::duration::format_age;
use muster_display::table::Table;
use muster_display::value::compact_value;

pub fn render_node_table(
    nodes: &[DirectoryNodeRow],
    fields: &[String],
    is_wide: bool,
    width: usize,
) -> String {
    let wide_heading = ["VERSION", "COLLECTIVES", "CLASSES"].map(str::to_owned);
    let mut heading = ["NODE", "STATE", "SEEN"].map(str::to_owned).to_vec();
    heading.extend(wide_heading.into_iter().filter(|_| is_wide));
    heading.extend(fields.iter().cloned());
    let row = |node: &DirectoryNodeRow| {
        let mut cells = vec![node.node.clone(), node.state.clone(), format_age(node.seen)];
        if is_wide {
            let (collectives, classes) = (node.collectives.join(","), node.classes.to_string());
            cells.extend([node.version.clone(), collectives, classes]);
        }
        cells.extend(
            fields.iter().map(|field| node.fields.get(field).map_or("-".to_owned(), compact_value)),
        );
        cells
    };
    let problem =
        |node: &DirectoryNodeRow| Some(format!("{}: {}", node.node, node.problem.as_deref()?));
    Table::new(heading).rows(nodes.iter().map(row)).render(width)
        + &nodes.iter().filter_map(problem).collect::<TextPage>().into_text()
}

/// The nodes that a live query has shown.
#[derive(Debug, Default)]
pub struct ShownNodes(BTreeMap<String, DirectoryNodeRow>);

impl ShownNodes {
    /// The lines for an update: `+` for a node that matches now, `~` for one whose state or requested facts have changed, `-` for one that does not match any more.
    pub fn apply(&mut self, update: RegisteredUpdate) -> TextPage {
        let (nodes, gone) = match update {
            RegisteredUpdate::Changed { nodes, gone } => (nodes, gone),
            RegisteredUpdate::All(nodes) => {
                let present: BTreeSet<&String> = nodes.iter().map(|row| &row.node).collect();
                let gone = self.0.keys().filter(|name| !present.contains(name));
                let gone = gone.cloned().collect();
                (nodes, gone)
            }
        };
        let gone = gone.into_iter().filter(|name| self.0.remove(name).is_some());
        let mut lines: TextPage = gone.map(|name| format!("- {name}")).collect();
        for row in nodes {
            let before = self.0.get(&row.node);
            let sign = match before {
                None => '+',
                Some(before) if before.state == row.state && before.fields == row.fields => {
                    continue;
                }
                Some(_) => '~',
            };
            let values = row.fields.iter().map(|(name, value)| format!("  {name}={value}"));
            let values = values.collect::<Vec<_>>().concat();
            lines.push_line(format_args!("{sign} {}  {}{values}", row.node, row.state));
            self.0.insert(row.node.clone(), row);
        }
        lines
    }
}

/// The names, one per line.
pub fn render_node_names(nodes: &[DirectoryNodeRow]) -> String {
    nodes.iter().map(|row| &row.node).collect::<TextPage>().into_text()
}

/// Values and how many nodes have them.
pub fn render_facets(output: &DirectoryFacetsOutput, width: usize) -> String {
    let mut table = Table::new(["NODES", "VALUE"]);
    for facet in &output.values {
        table.row([facet.nodes.to_string(), compact_value(&facet.value)]);
    }
    if output.absent > 0 {
        table.row([output.absent.to_string(), "(no value)".to_owned()]);
    }
    let hidden = output.distinct.saturating_sub(output.values.len());
    let more =
        if hidden > 0 { format!("... and {hidden} further values\n") } else { String::new() };
    table.render(width) + &more
}

/// The line of `check_mongodb.rb` in `MCollective`.
pub fn render_registration_check(old: usize, total: usize, interval: u64) -> String {
    let current = total.saturating_sub(old);
    let counts = format!("totalhosts={total} oldhosts={old} currenthosts={current}");
    if old > 0 {
        format!(
            "CRITICAL: {old} / {total} hosts not checked in within {interval} seconds| {counts}\n"
        )
    } else {
        format!("OK: {total} / {total} hosts checked in within {interval} seconds| {counts}\n")
    }
}

#[cfg(test)]
mod tests {
    use muster_display::screen::UNLIMITED_WIDTH;
    use serde_json::Value;

    use super::*;
    use crate::report::testing::plain;

    #[test]
    fn registration_check_prints_the_line_of_mcollective() {
        assert_eq!(
            render_registration_check(2, 10, 300),
            "CRITICAL: 2 / 10 hosts not checked in within 300 seconds| totalhosts=10 oldhosts=2 currenthosts=8\n"
        );
        assert_eq!(
            render_registration_check(0, 10, 300),
            "OK: 10 / 10 hosts checked in within 300 seconds| totalhosts=10 oldhosts=0 currenthosts=10\n"
        );
    }

    #[test]
    fn table_has_the_requested_facts() {
        let node = DirectoryNodeRow {
            node: "db1".to_owned(),
            state: "present".to_owned(),
            seen: Some(7300),
            last_seen: Some(1_700_000_000_000),
            version: "0.1.0".to_owned(),
            collectives: vec!["muster".to_owned()],
            classes: 3,
            document: None,
            problem: None,
            fields: [("os.name".to_owned(), Value::from("Debian\u{1b}[31m"))].into(),
        };
        let fields = ["os.name".to_owned(), "none".to_owned()];
        let text = plain(&render_node_table(&[node], &fields, true, UNLIMITED_WIDTH));
        let expected = "NODE  STATE    SEEN  VERSION  COLLECTIVES  CLASSES  os.name         none\n\
                        db1   present  2h    0.1.0    muster       3        Debian\\x1b[31m  -\n";
        assert_eq!(text, expected);
    }
}
