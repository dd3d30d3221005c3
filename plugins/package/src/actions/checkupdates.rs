//! `checkupdates`: lists packages with newer versions. Changes nothing and contacts no repository; `refresh` does.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use crate::package::NodePackages;
use crate::queue::run_blocking;

pub(crate) struct PackageCheckupdatesAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PackageCheckupdatesInput {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PackageCheckupdatesOutput {
    package_manager: String,
    outdated_packages: Vec<OutdatedPackageRow>,
    count: usize,
}

/// A package with an available update. The field names are those of the `MCollective` agent `package`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct OutdatedPackageRow {
    package: String,
    installed: String,
    /// The newest available version.
    version: String,
}

impl AgentAction for PackageCheckupdatesAction {
    const NAME: &'static str = "checkupdates";
    type Input = PackageCheckupdatesInput;
    type Output = PackageCheckupdatesOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: PackageCheckupdatesInput,
    ) -> Result<PackageCheckupdatesOutput, ActionError> {
        let (tool, outdated) = run_blocking(cx, NodePackages::list_outdated).await?;
        let outdated = outdated.into_iter().map(|found| OutdatedPackageRow {
            package: found.name,
            installed: found.installed,
            version: found.newest,
        });
        let outdated_packages: Vec<OutdatedPackageRow> = outdated.collect();
        Ok(PackageCheckupdatesOutput {
            package_manager: tool.to_owned(),
            count: outdated_packages.len(),
            outdated_packages,
        })
    }
}
