//! `inventory`: all that the node knows about itself, in one answer.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Nothing;
use super::agent_inventory::Trouble;

pub(crate) struct Inventory;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    agents: Vec<String>,
    facts: Map<String, Value>,
    classes: Vec<String>,
    version: String,
    main_collective: Option<String>,
    collectives: Vec<String>,
    data_plugins: Vec<String>,
    agent_problems: Vec<Trouble>,
}

impl Action for Inventory {
    const NAME: &'static str = "inventory";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let collectives = super::collectives(cx);
        let sources = cx.node.data_sources().iter();
        Ok(Output {
            agents: super::agents(cx),
            facts: cx.node.facts().as_map().clone(),
            classes: cx.node.classes().to_vec(),
            version: super::VERSION.to_owned(),
            main_collective: collectives.first().cloned(),
            collectives,
            agent_problems: cx
                .node
                .agent_problems()
                .into_iter()
                .map(Trouble::from)
                .collect(),
            data_plugins: sources.map(|source| source.name().to_owned()).collect(),
        })
    }
}
