//! Renders a diagnosis, section by section.

use muster_display::columns::wrap_words;
use muster_display::printable::TextStyle;
use muster_display::printer::{BAD, GOOD, HINT, STRONG, WARNING};
use muster_display::{TextPage, list_first_nodes};
use muster_operations::doctor::{DiagnosisLevel, DiagnosisSection};
use serde::Serialize;

/// Maximum node names under a finding; `-j` prints all.
const MAX_SHOWN_NODES: usize = 5;

/// Column where messages begin.
const MESSAGE_INDENT: usize = 26;

/// Renders one section for this width, followed by an empty line.
pub fn render_section(section: &DiagnosisSection, width: usize) -> String {
    let mut page = TextPage::default();
    page.push_line(format_args!("{STRONG}{}{STRONG:#}", section.about));
    for finding in &section.findings {
        let style = level_style(finding.level);
        let word = finding.level.as_str();
        let indented =
            |text: &str| wrap_words(text.split(' '), width.saturating_sub(MESSAGE_INDENT));
        let mut lines = indented(&finding.message).into_iter();
        let (check, first) = (&finding.check, lines.next().unwrap_or_default());
        page.push_line(format_args!("  {style}{word:<8}{style:#} {check:<14} {first}"));
        lines.for_each(|line| page.push_line(format_args!("{:MESSAGE_INDENT$}{line}", "")));
        if !finding.nodes.is_empty() {
            for names in indented(&list_first_nodes(&finding.nodes, MAX_SHOWN_NODES, " ")) {
                page.push_line(format_args!("{:MESSAGE_INDENT$}{names}", ""));
            }
        }
        for advice in finding.advice.iter().flat_map(|advice| indented(advice)) {
            page.push_line(format_args!("{:MESSAGE_INDENT$}{HINT}{advice}{HINT:#}", ""));
        }
    }
    page.push_gap();
    page.into_text()
}

fn level_style(level: DiagnosisLevel) -> TextStyle {
    match level {
        DiagnosisLevel::Ok => GOOD,
        DiagnosisLevel::Warning => WARNING,
        DiagnosisLevel::Error => BAD,
    }
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DoctorDocument<'a> {
    schema: &'static str,
    warnings: usize,
    errors: usize,
    sections: &'a [DiagnosisSection],
}

impl<'a> DoctorDocument<'a> {
    pub fn new(sections: &'a [DiagnosisSection]) -> Self {
        let count = |level: DiagnosisLevel| {
            let findings = sections.iter().flat_map(|section| &section.findings);
            findings.filter(|finding| finding.level == level).count()
        };
        Self {
            schema: "muster.doctor.v1",
            warnings: count(DiagnosisLevel::Warning),
            errors: count(DiagnosisLevel::Error),
            sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DoctorDocument, render_section};
    use crate::report::testing::WIDTH;
    use muster_operations::doctor::{DiagnosisFinding, DiagnosisSection};

    fn section() -> DiagnosisSection {
        let nodes = (0..7).map(|number| format!("web{number}.acme.net").parse().unwrap());
        DiagnosisSection {
            about: "Fleet: 7 nodes".to_owned(),
            is_local: false,
            findings: vec![
                DiagnosisFinding::ok("clocks", "all within 1 s of this one"),
                DiagnosisFinding::error("disk", "3 MiB (0 %) are left for /var\u{1b}[2J")
                    .with_nodes(nodes),
                DiagnosisFinding::warning("ddls", "agent service: this side has 1.0.0")
                    .with_advice("bring both to one version"),
            ],
        }
    }

    #[test]
    fn section_lists_findings_nodes_and_advice() {
        let text = render_section(&section(), WIDTH);
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
    fn document_counts_findings() {
        let sections = [section()];
        let document = serde_json::to_value(DoctorDocument::new(&sections)).unwrap();
        assert_eq!((&document["errors"], &document["warnings"]), (&1.into(), &1.into()));
        assert_eq!(
            document["sections"][0]["findings"][1]["nodes"].as_array().map(Vec::len),
            Some(7)
        );
        assert_eq!(document["sections"][0]["findings"][0].get("advice"), None);
    }
}
