//! How an audit log and what verifying it told look, to people and to programs.

use std::path::PathBuf;

use muster_wire::audit::{Finding, Note, Place, Signed, Verdict};
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use serde::Serialize;
use serde_json::{Map, Value};

use super::page::Page;
use super::printable;

/// A verified log.
#[derive(Debug)]
pub struct Verified<'a> {
    /// Its files, in the chain's order.
    pub files: &'a [PathBuf],
    /// What was found.
    pub verdict: Verdict,
    /// Whether lines without a signature are a failure.
    pub strict: bool,
}

impl Verified<'_> {
    /// Whether nothing is wrong.
    pub fn passes(&self) -> bool {
        self.verdict.is_intact() && !(self.strict && self.verdict.unsigned > 0)
    }

    fn at(&self, place: Place) -> String {
        let file = self.files.get(place.file);
        let file = file.map(|file| file.display().to_string());
        format!("{}:{}", file.unwrap_or_default(), place.line)
    }

    /// A sentence of the wire, with the line it is about.
    fn told(&self, place: Option<Place>, sentence: &str) -> String {
        match place {
            Some(place) => format!("{}: {sentence}", self.at(place)),
            None => sentence.to_owned(),
        }
    }
}

/// For people: what is wrong, line by line, and a summary.
pub fn text(verified: &Verified<'_>) -> String {
    let verdict = &verified.verdict;
    let mut page = Page::default();
    for finding in &verdict.findings {
        page.line(printable::line(
            &verified.told(finding.place(), &finding.to_string()),
        ));
    }
    if verdict.unlisted > 0 {
        page.line(format_args!("and {} more", verdict.unlisted));
    }
    for note in &verdict.notes {
        let place = match note {
            Note::Torn { at, .. } | Note::TornEnd { at } => Some(*at),
            Note::BeginsLate { .. } => None,
        };
        page.line(format_args!(
            "note: {}",
            verified.told(place, &note.to_string())
        ));
    }
    let state = if verdict.is_intact() {
        "intact"
    } else {
        "NOT intact"
    };
    page.line(format_args!("The log is {state}."));
    let node = verdict.node.as_ref().map_or("unknown", Identity::as_str);
    page.line(format_args!("  node    {node}"));
    page.line(format_args!("  lines   {}", verdict.lines));
    match &verdict.signed {
        Some(signed) => page.line(format_args!(
            "  signed  up to number {} at {}",
            signed.seq,
            printable::line(&signed.time)
        )),
        None => page.line("  signed  nothing"),
    }
    if verdict.unsigned > 0 {
        page.line(format_args!(
            "          {} lines behind that have no signature yet",
            verdict.unsigned
        ));
    }
    if let Some(last) = verdict.last {
        page.line(format_args!("  anchor  {last}"));
    }
    page.text()
}

/// For programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    passed: bool,
    intact: bool,
    files: &'a [PathBuf],
    node: Option<&'a Identity>,
    keys: &'a [PublicKey],
    lines: u64,
    signed: Option<&'a Signed>,
    unsigned: u64,
    anchor: Option<String>,
    findings: Vec<Told<'a, Finding>>,
    unlisted: u64,
    notes: &'a [Note],
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Told<'a, T> {
    #[serde(flatten)]
    what: &'a T,
    text: String,
}

impl<'a> Document<'a> {
    /// The document of a verified log.
    pub fn new(verified: &'a Verified<'_>) -> Self {
        let verdict = &verified.verdict;
        let told = |finding: &'a Finding| Told {
            text: verified.told(finding.place(), &finding.to_string()),
            what: finding,
        };
        Self {
            schema: "muster.audit.verdict.v1",
            passed: verified.passes(),
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

/// A record as one line for people.
pub fn record(fields: &Map<String, Value>) -> String {
    let word = |field: &str| match fields.get(field) {
        Some(Value::String(text)) => printable::line(text).into_owned(),
        Some(other) => printable::line(&other.to_string()).into_owned(),
        None => "-".to_owned(),
    };
    let asked = match fields.get("agent") {
        Some(_) => format!("{}.{}", word("agent"), word("action")),
        None => word("claimed"),
    };
    let mut page = Page::default();
    page.add(format_args!("{} {:<8} ", word("time"), word("verdict")));
    page.add(format_args!("{:<12} {asked:<20}", word("caller")));
    for field in ["statuscode", "reason", "rule", "count"] {
        if fields.contains_key(field) {
            page.add(format_args!(" {field}={}", word(field)));
        }
    }
    page.line("");
    page.text()
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn a_record_is_one_line_and_steers_no_terminal() {
        let fields = serde_json::from_str(
            r#"{"time":"2026-01-31T23:59:59.123Z","verdict":"denied","caller":"rip","agent":"service",
               "action":"stop","rule":"service.policy:4\u001b[2J","statuscode":5}"#,
        );
        assert_eq!(
            record(&fields.unwrap()),
            "2026-01-31T23:59:59.123Z denied   rip          service.stop         statuscode=5 rule=service.policy:4\\x1b[2J\n"
        );
    }
}
