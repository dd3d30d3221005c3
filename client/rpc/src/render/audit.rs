//! Renders an audit log and the result of its verification.

use std::path::PathBuf;

use muster_wire::audit::{
    AuditFinding, AuditNote, ChainVerification, LineLocation, VerifiedCheckpoint,
};
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use serde::Serialize;
use serde_json::{Map, Value};

use super::page::TextPage;
use super::printable;

/// A verified log.
#[derive(Debug)]
pub struct VerifiedAuditLog<'a> {
    /// Its files, in chain order.
    pub files: &'a [PathBuf],
    /// The result of the verification.
    pub verdict: ChainVerification,
    /// Whether unsigned lines count as failures.
    pub strict: bool,
}

impl VerifiedAuditLog<'_> {
    /// Whether the verification succeeded.
    pub fn has_passed(&self) -> bool {
        self.verdict.is_intact() && !(self.strict && self.verdict.unsigned > 0)
    }

    fn format_place(&self, place: LineLocation) -> String {
        let file = self.files.get(place.file);
        let file = file.map(|file| file.display().to_string());
        format!("{}:{}", file.unwrap_or_default(), place.line)
    }

    /// A message of the verification, prefixed with its line.
    fn finding_text(&self, place: Option<LineLocation>, sentence: &str) -> String {
        match place {
            Some(place) => format!("{}: {sentence}", self.format_place(place)),
            None => sentence.to_owned(),
        }
    }
}

/// Renders the findings, line by line, and a summary.
pub fn render_verdict(verified: &VerifiedAuditLog<'_>) -> String {
    let verdict = &verified.verdict;
    let mut page = TextPage::default();
    for finding in &verdict.findings {
        page.push_line(printable::escape_to_line(
            &verified.finding_text(finding.line_location(), &finding.to_string()),
        ));
    }
    if verdict.unlisted > 0 {
        page.push_line(format_args!("and {} more", verdict.unlisted));
    }
    for note in &verdict.notes {
        let place = match note {
            AuditNote::Torn { at, .. } | AuditNote::TornEnd { at } => Some(*at),
            AuditNote::BeginsLate { .. } => None,
        };
        page.push_line(format_args!(
            "note: {}",
            verified.finding_text(place, &note.to_string())
        ));
    }
    let state = if verdict.is_intact() {
        "intact"
    } else {
        "NOT intact"
    };
    page.push_line(format_args!("The log is {state}."));
    let node = verdict.node.as_ref().map_or("unknown", Identity::as_str);
    page.push_line(format_args!("  node    {node}"));
    page.push_line(format_args!("  lines   {}", verdict.lines));
    match &verdict.signed {
        Some(signed) => page.push_line(format_args!(
            "  signed  up to number {} at {}",
            signed.seq,
            printable::escape_to_line(&signed.time)
        )),
        None => page.push_line("  signed  nothing"),
    }
    if verdict.unsigned > 0 {
        page.push_line(format_args!(
            "          {} later lines have no signature yet",
            verdict.unsigned
        ));
    }
    if let Some(last) = verdict.last {
        page.push_line(format_args!("  anchor  {last}"));
    }
    page.into_text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditVerdictDocument<'a> {
    schema: &'static str,
    passed: bool,
    intact: bool,
    files: &'a [PathBuf],
    node: Option<&'a Identity>,
    keys: &'a [PublicKey],
    lines: u64,
    signed: Option<&'a VerifiedCheckpoint>,
    unsigned: u64,
    anchor: Option<String>,
    findings: Vec<DescribedFinding<'a, AuditFinding>>,
    unlisted: u64,
    notes: &'a [AuditNote],
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DescribedFinding<'a, T> {
    #[serde(flatten)]
    what: &'a T,
    text: String,
}

impl<'a> AuditVerdictDocument<'a> {
    /// Creates the document of a verified log.
    pub fn new(verified: &'a VerifiedAuditLog<'_>) -> Self {
        let verdict = &verified.verdict;
        let told = |finding: &'a AuditFinding| DescribedFinding {
            text: verified.finding_text(finding.line_location(), &finding.to_string()),
            what: finding,
        };
        Self {
            schema: "muster.audit.verdict.v1",
            passed: verified.has_passed(),
            intact: verdict.is_intact(),
            files: verified.files,
            node: verdict.node.as_ref(),
            keys: &verdict.keys,
            lines: verdict.lines,
            signed: verdict.signed.as_ref(),
            unsigned: verdict.unsigned,
            anchor: verdict.last.map(|last| last.to_string()),
            findings: verdict.findings.iter().map(told).collect(),
            unlisted: verdict.unlisted,
            notes: &verdict.notes,
        }
    }
}

/// Renders a record on one line.
pub fn render_record(fields: &Map<String, Value>) -> String {
    let word = |field: &str| match fields.get(field) {
        Some(Value::String(text)) => printable::escape_to_line(text).into_owned(),
        Some(other) => printable::escape_to_line(&other.to_string()).into_owned(),
        None => "-".to_owned(),
    };
    let asked = match fields.get("agent") {
        Some(_) => format!("{}.{}", word("agent"), word("action")),
        None => word("claimed"),
    };
    let mut page = TextPage::default();
    page.push_text(format_args!("{} {:<8} ", word("time"), word("verdict")));
    page.push_text(format_args!("{:<12} {asked:<20}", word("caller")));
    for field in ["statuscode", "reason", "rule", "count"] {
        if fields.contains_key(field) {
            page.push_text(format_args!(" {field}={}", word(field)));
        }
    }
    page.push_line("");
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::render_record;

    #[test]
    fn a_record_is_one_line_and_steers_no_terminal() {
        let fields = serde_json::from_str(
            r#"{"time":"2026-01-31T23:59:59.123Z","verdict":"denied","caller":"rip","agent":"service",
               "action":"stop","rule":"service.policy:4\u001b[2J","statuscode":5}"#,
        );
        assert_eq!(
            render_record(&fields.unwrap()),
            "2026-01-31T23:59:59.123Z denied   rip          service.stop         statuscode=5 rule=service.policy:4\\x1b[2J\n"
        );
    }
}
