//! What the actions use: the parts of the instance, and how they read names and filters.

use std::sync::Arc;

use muster_api::ActionError;
use muster_api::base::error_chain;
use muster_bus::BucketError;
use muster_directory::QueryError;
use muster_wire::identity::Identity;

use crate::code::CodeStore;
use crate::handle::CompilerHandle;
use crate::options::Environment;
use crate::releases::ReleaseStore;
use crate::worker::CompileWorker;

/// What the actions use.
#[derive(Debug, Clone)]
pub struct CompilerActions {
    pub handle: CompilerHandle,
    pub code: CodeStore,
    pub releases: ReleaseStore,
    /// Compiles for checks.
    pub checker: Arc<CompileWorker>,
}

pub(super) fn find_environment<'a>(
    actions: &'a CompilerActions,
    name: &str,
) -> Result<&'a Environment, ActionError> {
    let environments = actions.handle.environments();
    environments.iter().find(|environment| environment.name == name).ok_or_else(|| {
        let known: Vec<&str> = environments.iter().map(|one| one.name.as_str()).collect();
        let known = known.join(", ");
        ActionError::invalid_input(format!("there is no environment {name}; there are: {known}"))
    })
}

pub(super) fn parse_node(text: &str) -> Result<Identity, ActionError> {
    Identity::parse(text).map_err(|error| ActionError::invalid_input(format!("node: {error}")))
}

pub(super) fn invalid_query(error: &QueryError) -> ActionError {
    ActionError::invalid_input(error_chain(error))
}

pub(super) fn store_failure(error: BucketError) -> ActionError {
    ActionError::from_cause(error)
}
