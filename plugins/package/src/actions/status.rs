//! `status`: whether a package is installed, and in which version. Changes nothing.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use crate::package::{Input, word};
use crate::queue::look;

pub(crate) struct Status;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    name: String,
    /// A version, `absent` or `purged`.
    ensure: String,
    /// `hold` or `none`.
    mark: String,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        look(cx, move |packages| {
            let found = packages.find(&input.package)?;
            Ok(Output {
                ensure: word(&found, "ensure"),
                mark: word(&found, "mark"),
                name: input.package,
            })
        })
        .await
    }
}
