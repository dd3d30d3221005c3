//! `collective_info`: which collectives the node is a member of.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::Nothing;

pub(crate) struct CollectiveInfo;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    main_collective: Option<String>,
    collectives: Vec<String>,
}

impl Action for CollectiveInfo {
    const NAME: &'static str = "collective_info";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let collectives = super::collectives(cx);
        Ok(Output {
            main_collective: collectives.first().cloned(),
            collectives,
        })
    }
}
