//! Sample results for the tests of renderers.

use std::time::Duration;

use serde_json::Value;

use crate::report::{NodeReply, RequestReport, RequestStats};

/// A reply that took 3 ms.
pub(crate) fn reply(node: &str, code: u8, message: &str, data: Value) -> NodeReply {
    NodeReply {
        node: node.parse().unwrap(),
        status: code.try_into().unwrap(),
        message: message.to_owned(),
        reason: None,
        data: serde_json::from_value(data).unwrap(),
        took: 3,
        trace: None,
    }
}

/// A report of these replies, from all nodes that received the request.
pub(crate) fn report(agent: &str, action: &str, replies: Vec<NodeReply>) -> RequestReport {
    let ok = replies.iter().filter(|reply| reply.is_ok()).count();
    let stats = RequestStats {
        requests: vec!["01890a5d-ac96-774b-bcce-b302099a8057".to_owned()],
        discovered: replies.len(),
        ok,
        failed: replies.len() - ok,
        discovering: Duration::from_micros(309_678),
        publishing: Duration::from_micros(1_264),
        waiting: Duration::from_micros(36_850),
        started: 1_767_225_600_017,
        ..RequestStats::default()
    };
    RequestReport {
        agent: agent.to_owned(),
        action: action.to_owned(),
        replies,
        summaries: Vec::new(),
        stats,
    }
}

/// The text without colour codes.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
