//! A change of packages as a value: it can be performed in this process or in a worker that outlives it.

use muster_api::ActionError;
use muster_contract::package::PackageRefreshOutput;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine_error::from_engine_error;
use crate::package::node_packages::NodePackages;

/// A change of packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub(crate) enum PackageWork {
    /// Sets `ensure`: `present`, a version, `absent` or `purged`.
    Ensure { package: String, ensure: String },
    /// Updates an installed package to the newest version.
    Update { package: String },
    /// Updates the package lists.
    Refresh,
}

impl PackageWork {
    /// Performs the change, and returns the outputs of the action. Blocks.
    pub(crate) fn perform(
        &self,
        packages: &NodePackages,
    ) -> Result<Map<String, Value>, ActionError> {
        let changed = match self {
            Self::Ensure { package, ensure } => packages.ensure_state(package, ensure, false),
            Self::Update { package } => packages.update_package(package, false),
            Self::Refresh => {
                let output = packages.refresh_lists().map_err(from_engine_error)?;
                return to_outputs(&PackageRefreshOutput { output: output.trim_end().to_owned() });
            }
        };
        to_outputs(&changed.map_err(from_engine_error)?)
    }
}

fn to_outputs(output: &impl Serialize) -> Result<Map<String, Value>, ActionError> {
    match serde_json::to_value(output) {
        Ok(Value::Object(outputs)) => Ok(outputs),
        _ => Err(ActionError::internal_error("the outputs are not a JSON object")),
    }
}
