//! Renders the explanation of a request: the message, the caller, and the checks at nodes.

use std::collections::BTreeSet;

use muster_base::encode_hex;
use muster_ddl::ActionClass;
use muster_display::columns::wrap_words;
use muster_display::json;
use muster_display::page::label_line;
use muster_display::printer::{BAD, STRONG};
use muster_display::time::format_time;
use muster_display::value::hang_lines;
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use muster_wire::request::Request;
use muster_wire::trace::StageName;
use serde::{Serialize, Serializer};

/// Maximum subjects shown per message.
const MAX_SHOWN_SUBJECTS: usize = 5;
/// Columns before a label.
const INDENT: usize = 3;
/// Columns from a label to its value.
const LABEL_WIDTH: usize = 12;

/// Checks at nodes, in order.
const NODE_CHECKS: [(StageName, &str); 11] = [
    (
        StageName::Decode,
        "the subject contains a collective of this node, and its name if it contains a node name",
    ),
    (
        StageName::Verify,
        "the token belongs to the account, its role may send requests, its key made the signature, and body and subject agree; messages that fail are counted, and get no reply",
    ),
    (
        StageName::Fresh,
        "the request is within its ttl and the allowed clock skew, otherwise it gets one reply; it was not seen before, otherwise it gets no reply",
    ),
    (
        StageName::Match,
        "the request is addressed to this node, or its filter matches; otherwise it gets no reply",
    ),
    (StageName::Validate, "the agent and action exist, and the inputs match the schema"),
    (StageName::Authorise, "the node's policy allows the action for this caller"),
    (
        StageName::Audit,
        "changes are recorded before they run, results afterwards; refused requests are recorded, too",
    ),
    (
        StageName::Journal,
        "a request that makes changes is first stored on disk, so that it cannot run twice",
    ),
    (StageName::Queue, "a slot is free, or a place in the queue; otherwise the node is busy"),
    (StageName::Run, "the action runs, until its deadline"),
    (StageName::Reply, "the reply is signed, and sent to the caller's own inbox only"),
];

/// Explanation of a request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RequestExplanation {
    /// The schema of the document, and its version.
    pub schema: &'static str,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Whether the action makes no changes.
    pub read_only: bool,
    /// The class of the action: its possible effect on a node.
    #[schemars(with = "String")]
    pub class: ActionClass,
    /// The filter in English.
    pub target: String,
    /// The discovery message; null if the nodes are specified by name.
    pub discovery: Option<ExplainedMessage>,
    /// The request messages, one for each group of nodes.
    pub requests: Vec<ExplainedMessage>,
    /// The nodes, if they are specified by name.
    pub nodes: Option<BTreeSet<Identity>>,
    /// The caller.
    pub caller: ExplainedCaller,
}

/// One signed message.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ExplainedMessage {
    /// The subjects to which it is published.
    pub subjects: Vec<String>,
    /// The reply subject of the first publication.
    pub reply_to: Option<String>,
    /// The broker permission that allows it; null if there is none.
    pub allowed_by: Option<String>,
    /// The body, as sent.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub body: Request,
    /// The bytes that are signed.
    #[serde(rename = "signed_hex", serialize_with = "serialize_hex")]
    #[schemars(with = "String")]
    pub signed: Vec<u8>,
    /// The size of the whole message, in bytes.
    pub sealed_bytes: usize,
}

/// The caller, from its token.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ExplainedCaller {
    /// The name.
    pub name: String,
    /// The public key.
    pub key: String,
    /// The role, if the token is valid.
    pub role: Option<&'static str>,
    /// The key that signed the token.
    pub issuer: String,
    /// The tags, which the broker inserts into the permissions.
    pub tags: Vec<String>,
    /// The expiry of the token.
    pub expires: Option<String>,
    /// The same in seconds, for the text.
    #[serde(skip)]
    pub expires_at: Option<u64>,
    /// Why nodes reject the token.
    pub refused: Option<String>,
}

fn serialize_hex<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&encode_hex(bytes))
}

impl RequestExplanation {
    pub const SCHEMA: &str = "muster.explain.v1";

    /// Renders the text; verbose output includes the signed bytes.
    pub fn render_text(&self, verbose: bool, width: usize) -> String {
        let mut page = TextPage::default();
        let kind = match self.class {
            ActionClass::Read => "reads",
            ActionClass::Change => "changes nodes",
            ActionClass::RootEquivalent => "root-equivalent",
        };
        let Self { agent, action, target, .. } = self;
        page.push_line(format_args!("{agent} {action} ({kind}), on {target}"));
        page.push_gap();
        if let Some(discovery) = &self.discovery {
            page.push_line(format_args!("{STRONG}Discovery request{STRONG:#}"));
            discovery.render_onto(&mut page, verbose);
        }
        let recipients = match &self.nodes {
            Some(nodes) => node_count_text(nodes.len()),
            None => "each node that replies".to_owned(),
        };
        page.push_line(format_args!("{STRONG}Request to {recipients}{STRONG:#}"));
        for request in &self.requests {
            request.render_onto(&mut page, verbose);
        }
        self.caller.render_onto(&mut page);
        page.push_line(format_args!("{STRONG}What each node checks, in this order{STRONG:#}"));
        for (stage, check) in NODE_CHECKS {
            let prefix = label_line(INDENT, LABEL_WIDTH, stage, "");
            let lines = wrap_words(check.split(' '), width.saturating_sub(prefix.len() + 1));
            for line in hang_lines(&prefix, lines) {
                page.push_line(line);
            }
        }
        page.into_text()
    }
}

impl ExplainedMessage {
    fn render_onto(&self, page: &mut TextPage, verbose: bool) {
        let subjects = self.subjects.iter().take(MAX_SHOWN_SUBJECTS);
        page.push_labels(INDENT, LABEL_WIDTH, subjects.map(|subject| ("subject", subject)));
        if let Some(more @ 1..) = self.subjects.len().checked_sub(MAX_SHOWN_SUBJECTS) {
            page.push_line(format_args!("   and {more} more"));
        }
        if self.allowed_by.is_none() {
            page.push_line(format_args!(
                "   {BAD}rejected by the broker: your credentials have no permission for it{BAD:#}"
            ));
        }
        let (bytes, sealed) = (self.signed.len(), self.sealed_bytes);
        let signed = format!("{bytes} bytes; {sealed} with token and signature");
        let rows = [
            ("allowed by", self.allowed_by.clone()),
            ("reply to", self.reply_to.clone()),
            ("signed", Some(signed)),
            ("signed hex", verbose.then(|| encode_hex(&self.signed))),
        ];
        let rows = rows.into_iter().filter_map(|(label, value)| Some((label, value?)));
        page.push_labels(INDENT, LABEL_WIDTH, rows);
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
        page.push_line(format_args!("{STRONG}Caller{STRONG:#}"));
        let expires = self.expires_at.map_or_else(|| "never".to_owned(), format_time);
        let rows = [
            ("name", &*self.name),
            ("key", &self.key),
            ("role", self.role.unwrap_or_default()),
            ("signed by", &self.issuer),
            ("tags", &self.tags.join(" ")),
            ("expires", &expires),
        ];
        let rows = rows.iter().filter(|(_, text)| !text.is_empty());
        page.push_labels(INDENT, LABEL_WIDTH, rows.copied());
        if let Some(reason) = &self.refused {
            page.push_line(format_args!("   {BAD}nodes reject this token: {reason}{BAD:#}"));
        }
        page.push_gap();
    }
}
