//! `status`: shows whether a package is installed, and its version. Changes nothing.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use crate::package::{PackageNameInput, property_text};
use crate::queue::run_blocking;

pub(crate) struct PackageStatusAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct PackageStatusOutput {
    name: String,
    /// A version, `absent` or `purged`.
    ensure: String,
    /// `hold` or `none`.
    mark: String,
}

impl AgentAction for PackageStatusAction {
    const NAME: &'static str = "status";
    type Input = PackageNameInput;
    type Output = PackageStatusOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PackageNameInput,
    ) -> Result<PackageStatusOutput, ActionError> {
        run_blocking(cx, move |packages| {
            let found = packages.query_package(&input.package)?;
            Ok(PackageStatusOutput {
                ensure: property_text(&found, "ensure"),
                mark: property_text(&found, "mark"),
                name: input.package,
            })
        })
        .await
    }
}
