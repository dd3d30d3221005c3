//! The figures as a table for the terminal, a section of Markdown, and JSON.

use std::fmt::Write as _;

use jiff::Zoned;
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::{Comparison, Row};

/// How it was measured; stands below every table, because the figures mean nothing without it.
const METHOD: &str = "Milliseconds from the question to the last answer, verified where it is signed. All nodes have their own \
connection and key and share the machine with the broker and the asker, so on a real fleet the nodes' part is free. Both floors and \
ours are connected all the time and take turns, round by round; idle connections' keep-alives are in all figures. The signed floor \
knows all keys beforehand. A new client verifies a token and a message of each node, one that knows the nodes only the message; nodes \
verify a new caller's token once. Ratios are median to median; in brackets, the median of the ratios within each round.";

/// Everything of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The day, as YYYY-MM-DD.
    date: String,
    machine: Machine,
    rounds: usize,
    method: &'static str,
    fleets: Vec<Comparison>,
}

impl Report {
    /// Nothing measured yet, here and now.
    pub(crate) fn begin(rounds: usize) -> Self {
        Self {
            date: Zoned::now().strftime("%Y-%m-%d").to_string(),
            machine: Machine::here(),
            rounds,
            method: METHOD,
            fleets: Vec::new(),
        }
    }

    /// One more size of fleet.
    pub(crate) fn add(&mut self, fleet: Comparison) {
        self.fleets.push(fleet);
    }

    /// For the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n{} rounds\n", self.machine(), self.rounds);
        for fleet in &self.fleets {
            let head = format!("{} nodes", fleet.nodes);
            let _ = writeln!(
                text,
                "\n{head:<38}{:>9}{:>9}{:>9}   {:<15}x signed floor",
                "median", "min", "max", "x raw floor"
            );
            for row in &fleet.rows {
                let [title, median, min, max, raw, signed] = cells(row);
                let _ = writeln!(
                    text,
                    "{title:<38}{median:>9}{min:>9}{max:>9}   {raw:<15}{signed}"
                );
            }
        }
        let _ = writeln!(text, "\n{METHOD}");
        text
    }

    /// A section of a document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}.\n", self.date, self.machine());
        for fleet in &self.fleets {
            let _ = writeln!(
                text,
                "\n| {} nodes, {} rounds | median ms | min | max | x raw floor | x signed floor |",
                fleet.nodes, self.rounds
            );
            let _ = writeln!(text, "|---|---:|---:|---:|---:|---:|");
            for row in &fleet.rows {
                let _ = writeln!(text, "| {} |", cells(row).join(" | "));
            }
        }
        let _ = writeln!(text, "\n{METHOD}");
        text
    }

    fn machine(&self) -> String {
        let broker = self.fleets.first().map_or("", |fleet| &fleet.broker);
        self.machine.line(broker)
    }
}

fn cells(row: &Row) -> [String; 6] {
    let ratio =
        |ratio: crate::measure::Ratio| format!("{:.2} ({:.2})", ratio.of_medians, ratio.paired);
    [
        row.contender.title().to_owned(),
        format!("{:.1}", row.median),
        format!("{:.1}", row.min),
        format!("{:.1}", row.max),
        ratio(row.to_raw),
        ratio(row.to_raw_signed),
    ]
}
