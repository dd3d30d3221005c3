//! `find`: the state of one resource, and whether Puppet manages it.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use muster_engine::EngineError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engines::{Engines, check_foreign, own_read_only};
use crate::options::Options;
use crate::{managed, refusal, shown};

pub(crate) struct Find(pub(crate) Arc<Options>, pub(crate) Arc<Engines>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    /// True, false, or "unknown".
    managed: Value,
    properties: Map<String, Value>,
}

impl Action for Find {
    const NAME: &'static str = "find";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (system, options) = (Arc::clone(&cx.system), Arc::clone(&self.0));
        let engine = self.1.on(&system);
        cx.blocking(move |_| {
            let (type_name, name) = (input.type_name.to_lowercase(), input.name);
            let refused = |error: EngineError| refusal::of_engine(&error);
            // The name goes to whatever program provides the type, so that an operator has to have allowed the type.
            check_foreign(&options, &engine, &type_name)?;
            let engine = own_read_only(engine, &type_name);
            let state = engine.find(&type_name, &name).map_err(refused)?;
            let resource = engine.named(&type_name, &name).map_err(refused)?;
            let managed = managed::look_up(&*system, &options, &resource)
                .map_err(|error| refusal::of_system(&error))?;
            Ok(Output {
                properties: shown::properties(&engine, &type_name, &state.values),
                managed: managed.into(),
                type_name,
                name,
            })
        })
        .await?
    }
}
