//! `refresh`: gets the package lists anew, so that there is something to update to.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use crate::package::Packages;
use crate::queue::Queue;

pub(crate) struct Refresh(pub(crate) Arc<Queue>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    output: String,
}

impl Action for Refresh {
    const NAME: &'static str = "refresh";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let said = self.0.change(cx, Packages::refresh).await?;
        Ok(Output {
            output: said.trim_end().to_owned(),
        })
    }
}
