//! The values that templates can use: those of a reply, and those of a node's inventory.

use muster_base::NodeText;
use muster_client::NodeReply;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

pub const REPLY_TEMPLATE_NAMES: [&str; 8] =
    ["sender", "ok", "status", "statuscode", "statusmsg", "reason", "took_ms", "data"];

/// Not the reply's own JSON: templates print the reason as a word, and have the status in words.
#[derive(Debug, Serialize)]
pub struct ReplyTemplateValues<'a> {
    sender: &'a str,
    ok: bool,
    status: &'static str,
    statuscode: u8,
    statusmsg: &'a NodeText,
    /// The reason code, or empty.
    reason: &'static str,
    took_ms: Millis,
    data: &'a Map<String, Value>,
}

impl<'a> ReplyTemplateValues<'a> {
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

/// Names available in inventory templates: the node, and the outputs of `rpcutil inventory`.
pub const INVENTORY_TEMPLATE_NAMES: [&str; 10] = [
    "node",
    "facts",
    "classes",
    "state",
    "agents",
    "collectives",
    "main_collective",
    "version",
    "data_plugins",
    "agent_problems",
];

#[derive(Debug, Serialize)]
pub struct InventoryTemplateValues<'a> {
    node: &'a Identity,
    #[serde(flatten)]
    outputs: &'a Map<String, Value>,
}

impl<'a> InventoryTemplateValues<'a> {
    /// Extracts the values from this reply to `rpcutil inventory`.
    pub fn new(reply: &'a NodeReply) -> Self {
        Self { node: &reply.node, outputs: &reply.data }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_ddl::{AgentDdl, builtin_agent};
    use muster_display::template::OutputTemplate;
    use serde_json::json;

    use super::{
        INVENTORY_TEMPLATE_NAMES, InventoryTemplateValues, REPLY_TEMPLATE_NAMES,
        ReplyTemplateValues,
    };
    use crate::report::testing::reply;

    #[test]
    fn reply_values_equal_the_documented_names() {
        let reply = reply("web1", 0, "OK", json!({"a": 1}));
        let values = serde_json::to_value(ReplyTemplateValues::new(&reply)).unwrap();
        let mut names: Vec<&str> = values.as_object().unwrap().keys().map(String::as_str).collect();
        let mut known = REPLY_TEMPLATE_NAMES.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(names, known);
    }

    #[test]
    fn inventory_names_equal_the_outputs_of_the_ddl() {
        let ddl = AgentDdl::from_slice(builtin_agent("rpcutil").unwrap().as_bytes()).unwrap();
        let outputs = ddl.find_action("inventory").unwrap().outputs().iter();
        let mut declared: BTreeSet<&str> = outputs.map(|output| output.name.as_str()).collect();
        declared.insert("node");
        assert_eq!(BTreeSet::from(INVENTORY_TEMPLATE_NAMES), declared);
    }

    #[test]
    fn nested_facts_are_accessible() {
        let told =
            json!({"facts": {"os": {"family": "Debian"}}, "classes": ["apache", "mysql::master"]});
        let text = "{{ node }} {{ facts.os.family }} {{ classes | join('+') }}{{ facts.none }}";
        let template = OutputTemplate::new(text, &INVENTORY_TEMPLATE_NAMES).unwrap();
        let reply = reply("web1", 0, "OK", told);
        assert_eq!(
            template.render(&InventoryTemplateValues::new(&reply)).unwrap(),
            "web1 Debian apache+mysql::master\n"
        );
    }
}
