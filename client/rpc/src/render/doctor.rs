//! What a diagnosis found, section by section.

use std::collections::BTreeSet;

use anstyle::Style;
use muster_wire::identity::Identity;
use serde::Serialize;

use super::page::Page;
use super::printable::line;
use crate::doctor::{Level, Section};
use crate::printer::{BAD, GOOD, HINT, STRONG, WARNING};

/// Names of nodes that are shown under a finding; `-j` has them all.
const SHOWN: usize = 5;

/// Where messages begin.
const INDENT: usize = 26;

/// The text of one section, as wide as the screen, with an empty line after it.
pub fn text(section: &Section, width: usize) -> String {
    let mut page = Page::default();
    page.line(format_args!("{STRONG}{}{STRONG:#}", line(&section.about)));
    for finding in &section.findings {
        let style = style(finding.level);
        let word = finding.level.word();
        let mut lines = wrapped(&line(&finding.message), width).into_iter();
        let (check, first) = (line(&finding.check), lines.next().unwrap_or_default());
        page.line(format_args!(
            "  {style}{word:<8}{style:#} {check:<14} {first}"
        ));
        lines.for_each(|more| page.line(format_args!("{:INDENT$}{more}", "")));
        if !finding.nodes.is_empty() {
            for names in wrapped(&names(&finding.nodes), width) {
                page.line(format_args!("{:INDENT$}{names}", ""));
            }
        }
        for advice in finding
            .advice
            .iter()
            .flat_map(|advice| wrapped(advice, width))
        {
            page.line(format_args!("{:INDENT$}{HINT}{advice}{HINT:#}", ""));
        }
    }
    page.gap();
    page.text()
}

/// The words of a text in lines that fit; a word that does not fit is left whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(last)
                if last.chars().count() + word.chars().count() < width.saturating_sub(INDENT) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn style(level: Level) -> Style {
    match level {
        Level::Ok => GOOD,
        Level::Warning => WARNING,
        Level::Error => BAD,
    }
}

fn names(nodes: &BTreeSet<Identity>) -> String {
    let shown: Vec<&str> = nodes.iter().take(SHOWN).map(Identity::as_str).collect();
    match nodes.len().saturating_sub(SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    warnings: usize,
    errors: usize,
    sections: &'a [Section],
}

impl<'a> Document<'a> {
    /// The document of these sections.
    pub fn new(sections: &'a [Section]) -> Self {
        let count = |level: Level| {
            let findings = sections.iter().flat_map(|section| &section.findings);
            findings.filter(|finding| finding.level == level).count()
        };
        Self {
            schema: "muster.doctor.v1",
            warnings: count(Level::Warning),
            errors: count(Level::Error),
            sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, text};
    use crate::doctor::{Finding, Section};
    use crate::render::WIDTH;

    fn section() -> Section {
        let nodes = (0..7).map(|number| format!("web{number}.acme.net").parse().unwrap());
        Section {
            about: "Fleet: 7 nodes".to_owned(),
            here: false,
            findings: vec![
                Finding::ok("clocks", "all within 1 s of this one"),
                Finding::error("disk", "3 MiB (0 %) are left for /var\u{1b}[2J").about(nodes),
                Finding::warning("ddls", "agent service: this side has 1.0.0")
                    .advising("bring both to one version"),
            ],
        }
    }

    #[test]
    fn a_section_says_what_where_and_what_to_do() {
        let text = text(&section(), WIDTH);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r"
        Fleet: 7 nodes
          ok       clocks         all within 1 s of this one
          error    disk           3 MiB (0 %) are left for /var\x1b[2J
                                  web0.acme.net web1.acme.net web2.acme.net
                                  web3.acme.net web4.acme.net and 2 more
          warning  ddls           agent service: this side has 1.0.0
                                  bring both to one version
        ");
    }

    #[test]
    fn the_document_counts() {
        let sections = [section()];
        let document = serde_json::to_value(Document::new(&sections)).unwrap();
        assert_eq!(
            (&document["errors"], &document["warnings"]),
            (&1.into(), &1.into())
        );
        assert_eq!(
            document["sections"][0]["findings"][1]["nodes"]
                .as_array()
                .map(Vec::len),
            Some(7)
        );
        assert_eq!(document["sections"][0]["findings"][0].get("advice"), None);
    }
}
