//! `refresh`: updates the package lists from the repositories.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use crate::package::NodePackages;
use crate::queue::PackageQueue;

pub(crate) struct PackageRefreshAction(pub(crate) Arc<PackageQueue>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PackageRefreshInput {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PackageRefreshOutput {
    output: String,
}

impl AgentAction for PackageRefreshAction {
    const NAME: &'static str = "refresh";
    type Input = PackageRefreshInput;
    type Output = PackageRefreshOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: PackageRefreshInput,
    ) -> Result<PackageRefreshOutput, ActionError> {
        let output = self.0.run_exclusive(cx, NodePackages::refresh_lists).await?;
        Ok(PackageRefreshOutput { output: output.trim_end().to_owned() })
    }
}
