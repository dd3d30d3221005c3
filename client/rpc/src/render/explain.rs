//! Renders the explanation of a request: the message, the caller, and the checks at nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use muster_ddl::ActionClass;
use muster_wire::identity::Identity;
use muster_wire::request::Request;
use muster_wire::trace::StageName;
use serde::{Serialize, Serializer};

use super::json;
use super::page::TextPage;
use super::plan::node_count_text;
use super::printable::escape_to_line;
use crate::printer::{BAD, STRONG};

/// Maximum subjects shown per message.
const MAX_SHOWN_SUBJECTS: usize = 5;

/// Checks at nodes, in order.
const NODE_CHECKS: [(StageName, &str); 11] = [
    (
        StageName::Decode,
        "is the subject one of this node's collectives, and its name if there is one",
    ),
    (
        StageName::Verify,
        "is the token one of the account's, its role one that may ask, the signature its key's; do body and subject agree. Whatever fails is counted, and not answered",
    ),
    (
        StageName::Fresh,
        "is it within its ttl and the allowed skew; an expired one is answered once. Was it seen before; then it is not answered",
    ),
    (
        StageName::Match,
        "is this node named, or does the filter match it; if not it says nothing",
    ),
    (
        StageName::Validate,
        "is there such an agent and action, and are the inputs what its schema declares",
    ),
    (
        StageName::Authorise,
        "does the node's policy allow this caller this action",
    ),
    (
        StageName::Audit,
        "what is changed is on record before, what was run after, what was refused too",
    ),
    (
        StageName::Journal,
        "what is changed is first remembered on disk, so that it cannot run twice",
    ),
    (
        StageName::Queue,
        "is there a free slot, or room to wait for one; if not it is busy",
    ),
    (StageName::Run, "the action, until its deadline"),
    (
        StageName::Reply,
        "signed, to the caller's own inbox and nowhere else",
    ),
];

/// A request, taken apart.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestExplanation {
    /// The schema of the document, and its version.
    pub schema: &'static str,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Whether the action leaves nodes as they were.
    pub read_only: bool,
    /// What the action can do to a node.
    #[cfg_attr(test, schemars(with = "String"))]
    pub class: ActionClass,
    /// The filter in English.
    pub target: String,
    /// What finds the nodes; nothing when they are named.
    pub discovery: Option<ExplainedMessage>,
    /// What asks them: a message for each group of nodes.
    pub requests: Vec<ExplainedMessage>,
    /// The nodes, if they are named.
    pub nodes: Option<BTreeSet<Identity>>,
    /// Who asks.
    pub caller: ExplainedCaller,
}

/// One signed message.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedMessage {
    /// Where it is published.
    pub subjects: Vec<String>,
    /// Where the first answer goes.
    pub reply_to: Option<String>,
    /// The permission at the broker that lets it pass; none when none does.
    pub allowed_by: Option<String>,
    /// What it says, as it is on the wire.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub body: Request,
    /// The bytes that are signed.
    #[serde(rename = "signed_hex", serialize_with = "serialize_hex")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub signed: Vec<u8>,
    /// The size of the whole message.
    pub sealed_bytes: usize,
}

/// Who asks, as the token says.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedCaller {
    /// The name.
    pub name: String,
    /// The public key.
    pub key: String,
    /// The role, if the token can be believed.
    pub role: Option<&'static str>,
    /// The key that signed the token.
    pub issuer: String,
    /// What the broker fills into the scope.
    pub tags: Vec<String>,
    /// When the token ends.
    pub expires: Option<String>,
    /// Why nobody would believe the token.
    pub refused: Option<String>,
}

/// Wraps words after a prefix, with continuation lines indented to it.
fn hang_words(lead: &str, words: &str, width: usize) -> String {
    let indent = lead.chars().count();
    let mut page = TextPage::default();
    let mut row = lead.to_owned();
    for word in words.split(' ') {
        if row.trim().is_empty() || row.chars().count() + word.chars().count() < width {
            row.push_str(word);
        } else {
            page.push_line(row);
            row = format!("{:indent$}{word}", "");
        }
        row.push(' ');
    }
    page.push_line(row);
    page.into_text()
}

fn serialize_hex<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&encode_hex(bytes))
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl RequestExplanation {
    /// The document's schema.
    pub const SCHEMA: &str = "muster.explain.v1";

    /// Renders the text; verbose output includes the signed bytes.
    pub fn render_text(&self, verbose: bool, width: usize) -> String {
        let mut page = TextPage::default();
        let kind = match self.class {
            ActionClass::Read => "reads",
            ActionClass::Change => "changes nodes",
            ActionClass::RootEquivalent => "root-equivalent",
        };
        page.push_line(format_args!(
            "{} {} ({kind}), of {}",
            self.agent,
            self.action,
            escape_to_line(&self.target)
        ));
        page.push_gap();
        if let Some(discovery) = &self.discovery {
            page.push_line(format_args!("{STRONG}First, to find the nodes{STRONG:#}"));
            discovery.render_onto(&mut page, verbose);
        }
        let whom = match &self.nodes {
            Some(nodes) => node_count_text(nodes.len()),
            None => "each node that answers".to_owned(),
        };
        page.push_line(format_args!("{STRONG}Then, to {whom}{STRONG:#}"));
        for request in &self.requests {
            request.render_onto(&mut page, verbose);
        }
        self.caller.render_onto(&mut page);
        page.push_line(format_args!(
            "{STRONG}What each node checks, in this order{STRONG:#}"
        ));
        for (stage, what) in NODE_CHECKS {
            page.push_text(hang_words(&format!("   {stage:<11} "), what, width));
        }
        page.into_text()
    }
}

impl ExplainedMessage {
    fn render_onto(&self, page: &mut TextPage, verbose: bool) {
        for subject in self.subjects.iter().take(MAX_SHOWN_SUBJECTS) {
            page.push_line(format_args!("   subject     {subject}"));
        }
        if let Some(more @ 1..) = self.subjects.len().checked_sub(MAX_SHOWN_SUBJECTS) {
            page.push_line(format_args!("   and {more} more"));
        }
        match &self.allowed_by {
            Some(permission) => page.push_line(format_args!("   allowed by  {permission}")),
            None => page.push_line(format_args!(
                "   {BAD}refused at the broker: no permission of yours covers it{BAD:#}"
            )),
        }
        if let Some(reply_to) = &self.reply_to {
            page.push_line(format_args!("   answers to  {reply_to}"));
        }
        page.push_line(format_args!(
            "   signed      {} bytes; {} with token and signature",
            self.signed.len(),
            self.sealed_bytes
        ));
        if verbose {
            page.push_line(format_args!("   signed hex  {}", encode_hex(&self.signed)));
        }
        // The body is serialisable: it was serialised for signing.
        let body = json::to_safe_text(&self.body).unwrap_or_default();
        for row in body.lines() {
            page.push_line(format_args!("   {row}"));
        }
        page.push_gap();
    }
}

impl ExplainedCaller {
    fn render_onto(&self, page: &mut TextPage) {
        page.push_line(format_args!("{STRONG}As whom{STRONG:#}"));
        let rows = [
            ("name", Some(escape_to_line(&self.name).into_owned())),
            ("key", Some(self.key.clone())),
            ("role", self.role.map(str::to_owned)),
            ("signed by", Some(self.issuer.clone())),
            (
                "tags",
                (!self.tags.is_empty()).then(|| escape_to_line(&self.tags.join(" ")).into_owned()),
            ),
            (
                "ends",
                Some(self.expires.clone().unwrap_or_else(|| "never".to_owned())),
            ),
        ];
        for (title, text) in rows {
            if let Some(text) = text {
                page.push_line(format_args!("   {title:<11} {text}"));
            }
        }
        if let Some(why) = &self.refused {
            page.push_line(format_args!(
                "   {BAD}nobody believes this token: {}{BAD:#}",
                escape_to_line(why)
            ));
        }
        page.push_gap();
    }
}
