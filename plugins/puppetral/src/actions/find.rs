//! `find`: the state of one resource, and whether Puppet manages it.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_engine::EngineError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engines::{EngineFactory, check_foreign, read_only_for_own_types};
use crate::options::Options;
use crate::{action_errors, managed, properties};

pub(crate) struct PuppetralFindAction(pub(crate) Arc<Options>, pub(crate) Arc<EngineFactory>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetralFindInput {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetralFindOutput {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    /// True, false, or "unknown".
    managed: Value,
    properties: Map<String, Value>,
}

impl AgentAction for PuppetralFindAction {
    const NAME: &'static str = "find";
    type Input = PuppetralFindInput;
    type Output = PuppetralFindOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetralFindInput,
    ) -> Result<PuppetralFindOutput, ActionError> {
        let (system, options) = (Arc::clone(&cx.system), Arc::clone(&self.0));
        let engine = self.1.engine_for(&system);
        cx.run_blocking(move |_| {
            let (type_name, name) = (input.type_name.to_lowercase(), input.name);
            let refused = |error: EngineError| action_errors::from_engine_error(&error);
            // The name is passed to the program that provides the type, so the operator must have allowed the type.
            check_foreign(&options, &engine, &type_name)?;
            let engine = read_only_for_own_types(engine, &type_name);
            let state = engine.find_state(&type_name, &name).map_err(refused)?;
            let resource = engine.empty_resource(&type_name, &name).map_err(refused)?;
            let managed = managed::look_up_managed(&*system, &options, &resource)
                .map_err(|error| action_errors::from_system_error(&error))?;
            Ok(PuppetralFindOutput {
                properties: properties::declared_properties(&engine, &type_name, &state.values),
                managed: managed.into(),
                type_name,
                name,
            })
        })
        .await?
    }
}
