//! Renders the list of agents with a known DDL.

use muster_client::DdlStore;
use serde::Serialize;

use super::TextPage;

/// An agent in the list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PluginListEntry<'a> {
    name: &'a str,
    version: &'a str,
    description: &'a str,
    default_action: Option<&'a str>,
    actions: Vec<&'a str>,
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PluginListDocument<'a> {
    schema: &'static str,
    agents: Vec<PluginListEntry<'a>>,
}

impl<'a> PluginListDocument<'a> {
    /// Creates the document of these DDLs.
    pub fn new(store: &'a DdlStore) -> Self {
        let entry = |ddl: &'a muster_ddl::AgentDdl| PluginListEntry {
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
    let widest = store.all().map(|ddl| ddl.name().chars().count()).max().unwrap_or(0);
    let version = store.all().map(|ddl| ddl.version().chars().count()).max().unwrap_or(0);
    let row = |ddl: &muster_ddl::AgentDdl| {
        let (name, shown_version) = (ddl.name(), ddl.version());
        let description = &ddl.metadata().description;
        format!("{name:<widest$}  {shown_version:<version$}  {description}")
    };
    store.all().map(row).collect::<TextPage>().into_text()
}

#[cfg(test)]
mod tests {
    use muster_client::DdlStore;

    use super::{PluginListDocument, render_agent_list};

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
    }
}
