//! `get_data`: asks one of the node's data sources.

use muster_api::{Action, ActionError, Context, Data};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) struct GetData;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    source: String,
    query: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    data: Map<String, Value>,
}

impl Action for GetData {
    const NAME: &'static str = "get_data";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let sources = cx.node.data_sources();
        let Some(source) = sources.iter().find(|source| source.name() == input.source) else {
            let known: Vec<&str> = sources.iter().map(Data::name).collect();
            let (asked, known) = (input.source, known.join(", "));
            let message = format!("this node has no data source `{asked}`; it has: {known}");
            return Err(ActionError::invalid(message));
        };
        let data = source.query(cx, input.query.as_deref()).await?;
        Ok(Output { data })
    }
}
