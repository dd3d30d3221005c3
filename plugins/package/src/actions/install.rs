//! `install`: installs a missing package, or changes it to a given version.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Deserialize;

use crate::package::PackageChangeOutput;
use crate::queue::PackageQueue;

pub(crate) struct PackageInstallAction(pub(crate) Arc<PackageQueue>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PackageInstallInput {
    package: String,
    /// The DDL requires a leading digit, because other values of `ensure`, such as `absent`, have a meaning in the engine.
    version: Option<String>,
}

impl AgentAction for PackageInstallAction {
    const NAME: &'static str = "install";
    type Input = PackageInstallInput;
    type Output = PackageChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PackageInstallInput,
    ) -> Result<PackageChangeOutput, ActionError> {
        self.0
            .run_exclusive(cx, move |packages| {
                packages.ensure_state(&input.package, input.version.as_deref().unwrap_or("present"))
            })
            .await
    }
}
