//! A change of packages as a value: it can be performed in this process or in a worker that outlives it.

use muster_api::ActionError;
use muster_contract::package::PackageRefreshOutput;
use muster_engine::EngineError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
                let output = packages.refresh_lists().map_err(to_action_error)?;
                return to_outputs(&PackageRefreshOutput { output: output.trim_end().to_owned() });
            }
        };
        to_outputs(&changed.map_err(to_action_error)?)
    }
}

fn to_outputs(output: &impl Serialize) -> Result<Map<String, Value>, ActionError> {
    match serde_json::to_value(output) {
        Ok(Value::Object(outputs)) => Ok(outputs),
        _ => Err(ActionError::internal_error("the outputs are not a JSON object")),
    }
}

/// Reports an invalid request with status 4 and a failure of the machine with status 1.
#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
pub(crate) fn to_action_error(error: EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid_input(error.one_line_message())
    } else {
        ActionError::failed(error.one_line_message())
    }
}
