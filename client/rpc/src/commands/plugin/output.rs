//! Renders the list of agents with a known DDL.

use muster_calls::DdlStore;
use muster_ddl::AgentDdl;
use muster_display::screen::UNLIMITED_WIDTH;
use muster_display::table::Table;
use serde::Serialize;

/// An agent in the list.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PluginListEntry<'a> {
    name: &'a str,
    version: &'a str,
    description: &'a str,
    default_action: Option<&'a str>,
    actions: Vec<&'a str>,
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PluginListDocument<'a> {
    schema: &'static str,
    agents: Vec<PluginListEntry<'a>>,
}

impl<'a> PluginListDocument<'a> {
    pub fn new(store: &'a DdlStore) -> Self {
        let entry = |ddl: &'a AgentDdl| PluginListEntry {
            name: ddl.name(),
            version: ddl.version(),
            description: &ddl.metadata().description,
            default_action: ddl.default_action(),
            actions: ddl.actions().iter().map(muster_ddl::ActionSchema::name).collect(),
        };
        Self { schema: "muster.plugins.v1", agents: store.all().map(entry).collect() }
    }
}

/// Renders one line per agent.
pub fn render_agent_list(store: &DdlStore) -> String {
    let cells = |ddl: &AgentDdl| {
        [ddl.name().to_owned(), ddl.version().to_owned(), ddl.metadata().description.clone()]
    };
    Table::default().rows(store.all().map(cells)).render(UNLIMITED_WIDTH)
}

/// The document of one agent: its DDL.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PluginDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "PublishedDdl"))]
    ddl: &'a AgentDdl,
}

impl<'a> PluginDocument<'a> {
    pub fn new(ddl: &'a AgentDdl) -> Self {
        Self { schema: "muster.plugin.v1", ddl }
    }
}

/// The keys of a DDL, for the published schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct PublishedDdl {
    /// Name, version, author, licence and timeout.
    metadata: serde_json::Map<String, serde_json::Value>,
    /// The action of a request that names none.
    #[schemars(skip_serializing_if = "Option::is_none")]
    default_action: Option<String>,
    /// Each with its name, description, inputs, outputs and aggregates.
    actions: Vec<serde_json::Map<String, serde_json::Value>>,
}

#[cfg(test)]
mod tests {
    use muster_calls::DdlStore;

    use super::{AgentDdl, PluginDocument, PluginListDocument, render_agent_list};

    #[test]
    fn every_agent_has_a_line_and_an_entry() {
        let store = DdlStore::load(None).unwrap();
        let text = render_agent_list(&store);
        let document = serde_json::to_value(PluginListDocument::new(&store)).unwrap();
        for ddl in store.all() {
            assert!(text.contains(ddl.name()));
            let entries = document["agents"].as_array().unwrap();
            assert!(entries.iter().any(|entry| entry["name"] == ddl.name()));
        }
        assert!(text.contains("rpcutil"), "{text}");
        let document =
            serde_json::to_vec(&PluginDocument::new(store.get("nrpe").unwrap())).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(
            (&value["schema"], &value["metadata"]["name"]),
            (&"muster.plugin.v1".into(), &"nrpe".into())
        );
        let again = AgentDdl::from_slice(&document).unwrap();
        assert_eq!((again.name(), again.warnings()), ("nrpe", &[] as &[String]));
    }
}
