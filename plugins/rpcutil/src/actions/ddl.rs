//! `ddl`: what an agent of this node takes and answers, as its document, so that callers need no copies.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub(crate) struct Ddl;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    agent: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    version: String,
    /// Of the bytes of `ddl`.
    sha256: String,
    ddl: String,
}

impl Action for Ddl {
    const NAME: &'static str = "ddl";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let Some(ddl) = cx.node.ddl(&input.agent) else {
            let message = format!("this node has no agent {}", input.agent);
            return Err(ActionError::failed(message));
        };
        let text = serde_json::to_string(&*ddl)
            .map_err(|error| ActionError::broken(format!("the DDL is no JSON: {error}")))?;
        let digest = Sha256::digest(text.as_bytes());
        Ok(Output {
            version: ddl.version().to_owned(),
            sha256: format!("{digest:x}"),
            ddl: text,
        })
    }
}
