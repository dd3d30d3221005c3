//! Template values of a node's inventory.

use muster_request::NodeReply;
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

/// Names available in inventory templates: the node, and the outputs of `rpcutil inventory`.
pub const TEMPLATE_NAMES: [&str; 9] = [
    "node",
    "facts",
    "classes",
    "agents",
    "collectives",
    "main_collective",
    "version",
    "data_plugins",
    "agent_problems",
];

/// Values of one node, by these names.
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
    use serde_json::json;

    use super::{InventoryTemplateValues, TEMPLATE_NAMES};
    use crate::render::fixtures::reply;
    use crate::render::template::OutputTemplate;

    #[test]
    fn every_output_of_an_inventory_has_its_name() {
        let ddl = AgentDdl::from_slice(builtin_agent("rpcutil").unwrap().as_bytes()).unwrap();
        let outputs = ddl.find_action("inventory").unwrap().outputs().iter();
        let mut declared: BTreeSet<&str> = outputs.map(|output| output.name.as_str()).collect();
        declared.insert("node");
        assert_eq!(BTreeSet::from(TEMPLATE_NAMES), declared);
    }

    #[test]
    fn facts_are_values_as_nested_as_they_are() {
        let told =
            json!({"facts": {"os": {"family": "Debian"}}, "classes": ["apache", "mysql::master"]});
        let text = "{{ node }} {{ facts.os.family }} {{ classes | join('+') }}{{ facts.none }}";
        let template = OutputTemplate::new(text, &TEMPLATE_NAMES).unwrap();
        let reply = reply("web1", 0, "OK", told);
        assert_eq!(
            template.render(&InventoryTemplateValues::new(&reply)).unwrap(),
            "web1 Debian apache+mysql::master\n"
        );
    }
}
