//! `update`: updates an installed package to the newest version.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use crate::package::{PackageChangeOutput, PackageNameInput};
use crate::queue::PackageQueue;

pub(crate) struct PackageUpdateAction(pub(crate) Arc<PackageQueue>);

impl AgentAction for PackageUpdateAction {
    const NAME: &'static str = "update";
    type Input = PackageNameInput;
    type Output = PackageChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PackageNameInput,
    ) -> Result<PackageChangeOutput, ActionError> {
        self.0.run_exclusive(cx, move |packages| packages.update_package(&input.package)).await
    }
}
