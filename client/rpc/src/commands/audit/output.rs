//! Renders an audit log and the result of its verification.

use std::path::PathBuf;

use muster_display::page::{TextPage, fixed_cells};
use muster_display::value::compact_value;
use muster_wire::audit::{
    AuditFinding, AuditNote, ChainVerification, LineLocation, VerifiedCheckpoint,
};
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug)]
pub struct VerifiedAuditLog<'a> {
    /// Its files, in chain order.
    pub files: &'a [PathBuf],
    pub verification: ChainVerification,
    /// Whether unsigned lines count as failures.
    pub strict: bool,
}

impl VerifiedAuditLog<'_> {
    pub fn has_passed(&self) -> bool {
        self.verification.is_intact() && !(self.strict && self.verification.unsigned > 0)
    }

    fn format_location(&self, location: LineLocation) -> String {
        let file = self.files.get(location.file);
        let file = file.map(|file| file.display().to_string());
        format!("{}:{}", file.unwrap_or_default(), location.line)
    }

    /// A message of the verification, prefixed with its line.
    fn finding_text(&self, location: Option<LineLocation>, sentence: &str) -> String {
        match location {
            Some(location) => format!("{}: {sentence}", self.format_location(location)),
            None => sentence.to_owned(),
        }
    }
}

/// Renders the findings, line by line, and a summary.
pub fn render_verdict(verified: &VerifiedAuditLog<'_>) -> String {
    let verification = &verified.verification;
    let mut page = TextPage::default();
    for finding in &verification.findings {
        page.push_line(verified.finding_text(finding.line_location(), &finding.to_string()));
    }
    if verification.unlisted > 0 {
        page.push_line(format_args!("and {} more", verification.unlisted));
    }
    for note in &verification.notes {
        let location = match note {
            AuditNote::Torn { at, .. } | AuditNote::TornEnd { at, .. } => Some(*at),
            AuditNote::BeginsLate { .. } => None,
        };
        page.push_line(format_args!(
            "note: {}",
            verified.finding_text(location, &note.to_string())
        ));
    }
    let state = if verification.is_intact() { "intact" } else { "NOT intact" };
    page.push_line(format_args!("The log is {state}."));
    let signed = match &verification.signed {
        Some(VerifiedCheckpoint { seq, time, .. }) => format!("up to number {seq} at {time}"),
        None => "nothing".to_owned(),
    };
    let unsigned = Some(verification.unsigned).filter(|unsigned| *unsigned > 0);
    let rows = [
        ("node", Some(verification.node.as_ref().map_or("unknown", Identity::as_str).to_owned())),
        ("lines", Some(verification.lines.to_string())),
        ("signed", Some(signed)),
        ("", unsigned.map(|unsigned| format!("{unsigned} later lines have no signature yet"))),
        ("anchor", verification.last.map(|last| last.to_string())),
    ];
    page.push_labels(2, 8, rows.into_iter().filter_map(|(label, value)| Some((label, value?))));
    page.into_text()
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
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

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct DescribedFinding<'a, T> {
    #[serde(flatten)]
    finding: &'a T,
    text: String,
}

impl<'a> AuditVerdictDocument<'a> {
    pub fn new(verified: &'a VerifiedAuditLog<'_>) -> Self {
        let verification = &verified.verification;
        let describe = |finding: &'a AuditFinding| DescribedFinding {
            text: verified.finding_text(finding.line_location(), &finding.to_string()),
            finding,
        };
        Self {
            schema: "muster.audit.verdict.v1",
            passed: verified.has_passed(),
            intact: verification.is_intact(),
            files: verified.files,
            node: verification.node.as_ref(),
            keys: &verification.keys,
            lines: verification.lines,
            signed: verification.signed.as_ref(),
            unsigned: verification.unsigned,
            anchor: verification.last.map(|last| last.to_string()),
            findings: verification.findings.iter().map(describe).collect(),
            unlisted: verification.unlisted,
            notes: &verification.notes,
        }
    }
}

/// Renders a record on one line.
pub fn render_record(fields: &Map<String, Value>) -> String {
    let field_text = |field: &str| fields.get(field).map_or("-".to_owned(), compact_value);
    let action = match fields.get("agent") {
        Some(_) => format!("{}.{}", field_text("agent"), field_text("action")),
        None => field_text("claimed"),
    };
    let mut page = TextPage::default();
    let cells = [&*field_text("time"), &field_text("verdict"), &field_text("caller"), &action];
    page.push_text(fixed_cells([0, 8, 12, 20], &cells));
    for field in ["statuscode", "reason", "rule", "count"] {
        if fields.contains_key(field) {
            page.push_text(format_args!(" {field}={}", field_text(field)));
        }
    }
    page.push_line("");
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::render_record;

    #[test]
    fn record_is_one_line_without_escape_sequences() {
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
