//! Template values of a reply.

use muster_request::NodeReply;
use muster_wire::Millis;
use serde::Serialize;
use serde_json::{Map, Value};

/// Names available in reply templates.
pub const TEMPLATE_NAMES: [&str; 8] =
    ["sender", "ok", "status", "statuscode", "statusmsg", "reason", "took_ms", "data"];

/// Values of one reply, by these names.
#[derive(Debug, Serialize)]
pub struct ReplyTemplateValues<'a> {
    sender: &'a str,
    ok: bool,
    status: &'static str,
    statuscode: u8,
    statusmsg: &'a str,
    /// The reason code, or empty.
    reason: &'static str,
    took_ms: Millis,
    data: &'a Map<String, Value>,
}

impl<'a> ReplyTemplateValues<'a> {
    /// Extracts the values of this reply.
    pub fn new(reply: &'a NodeReply) -> Self {
        Self {
            sender: reply.node.as_str(),
            ok: reply.is_ok(),
            status: reply.status.display_text(),
            statuscode: reply.status.code(),
            statusmsg: &reply.message,
            reason: reply.reason.as_ref().map_or("", muster_wire::status::ReplyReason::as_str),
            took_ms: reply.took,
            data: &reply.data,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ReplyTemplateValues, TEMPLATE_NAMES};
    use crate::render::fixtures::reply;

    #[test]
    fn every_name_has_a_value() {
        let reply = reply("web1", 0, "OK", json!({"a": 1}));
        let values = serde_json::to_value(ReplyTemplateValues::new(&reply)).unwrap();
        let mut names: Vec<&str> = values.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known = TEMPLATE_NAMES.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
