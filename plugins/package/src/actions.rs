//! The actions of `package`, and its data source: `package("openssl")`. Changes run one after the other, queries concurrently.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext, CallContext, EmptyInput, NoState};
use muster_engine::EngineError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::package::{NodePackages, property_text};

/// Queue of changes, in order of arrival.
pub(crate) type PackageQueue = Arc<Mutex<()>>;

/// The input of the actions on one package.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PackageNameInput {
    pub(crate) package: String,
}

/// The input of the actions that change one package.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PackageChangeInput {
    package: String,
    noop: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PackageRefreshInput {
    noop: Option<bool>,
}

/// The result of a change, or with `noop` what it would be.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageChangeOutput {
    pub(crate) name: String,
    /// A version, `absent` or `purged`.
    pub(crate) ensure: String,
    /// What `ensure` was before.
    pub(crate) previous: String,
    pub(crate) changed: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PackageInstallInput {
    package: String,
    /// The DDL requires a leading digit, because other values of `ensure`, such as `absent`, have a meaning in the engine.
    version: Option<String>,
    noop: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageStatusOutput {
    name: String,
    /// A version, `absent` or `purged`.
    ensure: String,
    /// `hold` or `none`.
    mark: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageCheckupdatesOutput {
    package_manager: String,
    outdated_packages: Vec<OutdatedPackageRow>,
    count: usize,
}

/// A package with an available update. The field names are those of the `MCollective` agent `package`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct OutdatedPackageRow {
    package: String,
    installed: String,
    /// The newest available version.
    version: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageRefreshOutput {
    output: String,
}

/// Whether a package is installed, and its version.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageDataOutput {
    installed: bool,
    version: Option<String>,
    ensure: String,
    held: bool,
}

/// Runs a changing operation after all earlier ones have finished.
async fn run_exclusive<T: Send + 'static>(
    queue: PackageQueue,
    cx: CallContext,
    work: impl FnOnce(&NodePackages) -> Result<T, EngineError> + Send + 'static,
) -> Result<T, ActionError> {
    let guard = queue.lock_owned().await;
    let work = cx.run_blocking_in_context(move |cx| {
        // The guard moves into the task: the tool may still run after the caller has timed out, and the next change must wait for it.
        let _guard = guard;
        work(&NodePackages::new(cx)).map_err(to_action_error)
    });
    work.await
}

/// Installs a missing package, or changes it to a given version.
pub(crate) async fn install_package(
    queue: PackageQueue,
    cx: CallContext,
    PackageInstallInput { package, version, noop }: PackageInstallInput,
) -> Result<PackageChangeOutput, ActionError> {
    let ensure = version.unwrap_or_else(|| "present".to_owned());
    run_exclusive(queue, cx, move |packages| {
        packages.ensure_state(&package, &ensure, noop == Some(true))
    })
    .await
}

/// Updates an installed package to the newest version.
pub(crate) async fn update_package(
    queue: PackageQueue,
    cx: CallContext,
    PackageChangeInput { package, noop }: PackageChangeInput,
) -> Result<PackageChangeOutput, ActionError> {
    let noop = noop == Some(true);
    run_exclusive(queue, cx, move |packages| packages.update_package(&package, noop)).await
}

/// Removes a package: `absent` keeps its configuration, `purged` removes that as well.
pub(crate) async fn remove_package(
    queue: PackageQueue,
    cx: CallContext,
    PackageChangeInput { package, noop }: PackageChangeInput,
    ensure: &'static str,
) -> Result<PackageChangeOutput, ActionError> {
    let noop = noop == Some(true);
    run_exclusive(queue, cx, move |packages| packages.ensure_state(&package, ensure, noop)).await
}

/// Updates the package lists from the repositories.
pub(crate) async fn refresh_lists(
    queue: PackageQueue,
    cx: CallContext,
    PackageRefreshInput { noop }: PackageRefreshInput,
) -> Result<PackageRefreshOutput, ActionError> {
    if noop == Some(true) {
        return Ok(PackageRefreshOutput { output: "would update the package lists".to_owned() });
    }
    let output = run_exclusive(queue, cx, NodePackages::refresh_lists).await?;
    Ok(PackageRefreshOutput { output: output.trim_end().to_owned() })
}

/// Shows whether a package is installed, and its version. Changes nothing.
pub(crate) fn query_package(
    _: &NoState,
    cx: &BlockingContext,
    PackageNameInput { package: name }: PackageNameInput,
) -> Result<PackageStatusOutput, ActionError> {
    let found = NodePackages::new(cx).query_package(&name).map_err(to_action_error)?;
    let (ensure, mark) = (property_text(&found, "ensure"), property_text(&found, "mark"));
    Ok(PackageStatusOutput { name, ensure, mark })
}

/// Lists packages with newer versions. Changes nothing and contacts no repository; `refresh` does.
pub(crate) fn list_updates(
    _: &NoState,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<PackageCheckupdatesOutput, ActionError> {
    let (tool, outdated) = NodePackages::new(cx).list_outdated().map_err(to_action_error)?;
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

pub(crate) fn find_package(
    _: &NoState,
    cx: &BlockingContext,
    name: &str,
) -> Result<PackageDataOutput, ActionError> {
    let found = NodePackages::new(cx).query_package(name).map_err(to_action_error)?;
    let ensure = property_text(&found, "ensure");
    let installed = !matches!(ensure.as_str(), "" | "absent" | "purged");
    Ok(PackageDataOutput {
        installed,
        version: installed.then(|| ensure.clone()),
        held: property_text(&found, "mark") == "hold",
        ensure,
    })
}

/// Reports an invalid request with status 4 and a failure of the machine with status 1.
#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn to_action_error(error: EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid_input(error.one_line_message())
    } else {
        ActionError::failed(error.one_line_message())
    }
}
