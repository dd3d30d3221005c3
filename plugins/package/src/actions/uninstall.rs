//! `uninstall`: removes a package and keeps its configuration.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use crate::package::{PackageChangeOutput, PackageNameInput};
use crate::queue::PackageQueue;

pub(crate) struct PackageUninstallAction(pub(crate) Arc<PackageQueue>);

impl AgentAction for PackageUninstallAction {
    const NAME: &'static str = "uninstall";
    type Input = PackageNameInput;
    type Output = PackageChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PackageNameInput,
    ) -> Result<PackageChangeOutput, ActionError> {
        self.0
            .run_exclusive(cx, move |packages| packages.ensure_state(&input.package, "absent"))
            .await
    }
}
