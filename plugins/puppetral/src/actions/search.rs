//! `search`: the state of every resource of a type.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engines::{Engines, own_read_only};
use crate::{refusal, shown};

pub(crate) struct Search(pub(crate) Arc<Engines>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    #[serde(rename = "type")]
    type_name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    #[serde(rename = "type")]
    type_name: String,
    /// Properties by title.
    resources: Map<String, Value>,
    count: usize,
}

impl Action for Search {
    const NAME: &'static str = "search";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let engine = self.0.on(&cx.system);
        cx.blocking(move |_| {
            let type_name = input.type_name.to_lowercase();
            let engine = own_read_only(engine, &type_name);
            let found = engine
                .search(&type_name)
                .map_err(|error| refusal::of_engine(&error))?;
            let shown = |values| shown::properties(&engine, &type_name, values).into();
            let resources: Map<String, Value> = found
                .iter()
                .map(|(title, values)| (title.clone(), shown(values)))
                .collect();
            Ok(Output {
                count: resources.len(),
                type_name,
                resources,
            })
        })
        .await?
    }
}
