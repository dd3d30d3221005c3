//! `search`: the state of all resources of a type.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engines::{EngineFactory, read_only_for_own_types};
use crate::{action_errors, properties};

pub(crate) struct PuppetralSearchAction(pub(crate) Arc<EngineFactory>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetralSearchInput {
    #[serde(rename = "type")]
    type_name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetralSearchOutput {
    #[serde(rename = "type")]
    type_name: String,
    /// Properties by title.
    resources: Map<String, Value>,
    count: usize,
}

impl AgentAction for PuppetralSearchAction {
    const NAME: &'static str = "search";
    type Input = PuppetralSearchInput;
    type Output = PuppetralSearchOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetralSearchInput,
    ) -> Result<PuppetralSearchOutput, ActionError> {
        let engine = self.0.engine_for(&cx.system);
        cx.run_blocking(move |_| {
            let type_name = input.type_name.to_lowercase();
            let engine = read_only_for_own_types(engine, &type_name);
            let found = engine
                .list_instances(&type_name)
                .map_err(|error| action_errors::from_engine_error(&error))?;
            let declared =
                |values| properties::declared_properties(&engine, &type_name, values).into();
            let resources: Map<String, Value> =
                found.iter().map(|(title, values)| (title.clone(), declared(values))).collect();
            Ok(PuppetralSearchOutput { count: resources.len(), type_name, resources })
        })
        .await?
    }
}
