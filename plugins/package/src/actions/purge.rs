//! `purge`: removes a package with its configuration.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use crate::package::{PackageChangeOutput, PackageNameInput};
use crate::queue::PackageQueue;

pub(crate) struct PackagePurgeAction(pub(crate) Arc<PackageQueue>);

impl AgentAction for PackagePurgeAction {
    const NAME: &'static str = "purge";
    type Input = PackageNameInput;
    type Output = PackageChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PackageNameInput,
    ) -> Result<PackageChangeOutput, ActionError> {
        self.0
            .run_exclusive(cx, move |packages| packages.ensure_state(&input.package, "purged"))
            .await
    }
}
