//! The actions of `package`, and its data source: `package("openssl")`. Changes run one after the other, queries concurrently.

use std::sync::Arc;

use muster_api::system::command::CancelFlag;
use muster_api::{ActionError, BlockingContext, CallContext, EmptyInput, NoState};
use muster_contract::package::{
    OutdatedPackageRow, PackageChangeInput, PackageChangeOutput, PackageCheckupdatesOutput,
    PackageInstallInput, PackageNameInput, PackageRefreshInput, PackageRefreshOutput,
    PackageStatusOutput,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::engine_error::from_engine_error;
use crate::package::node_packages::{NodePackages, property_text};
use crate::package::work::PackageWork;
use crate::package::worker::{PackageWorkers, WorkProgress};

/// Makes changes one after the other, in order of arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackageChanges {
    queue: Arc<Mutex<()>>,
    /// `None` to change packages in this process, for machines that are simulated.
    workers: Option<Arc<PackageWorkers>>,
}

impl PackageChanges {
    /// Makes each change in a worker.
    pub(crate) fn in_workers(workers: Arc<PackageWorkers>) -> Self {
        Self { queue: Arc::default(), workers: Some(workers) }
    }
}

/// Whether a package is installed, and its version.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PackageDataOutput {
    installed: bool,
    version: Option<String>,
    ensure: String,
    held: bool,
}

/// Makes a change after all earlier ones have finished: in a worker that outlives the daemon, or in this process without workers.
async fn make_change<T: DeserializeOwned>(
    changes: PackageChanges,
    cx: CallContext,
    work: PackageWork,
) -> Result<T, ActionError> {
    let outputs = if let Some(workers) = &changes.workers {
        change_in_worker(&changes.queue, workers, &cx, work).await?
    } else {
        let guard = changes.queue.lock_owned().await;
        let change = cx.run_blocking_in_context(move |cx| {
            // The guard moves into the task: the tool may still run after the caller has timed out, and the next change must wait for it.
            let _guard = guard;
            work.perform(&NodePackages::new(cx))
        });
        change.await?
    };
    serde_json::from_value(Value::Object(outputs))
        .map_err(|error| ActionError::internal_error(error.to_string()))
}

/// Makes a change in a worker. If the daemon leaves meanwhile, the next one replies. A package tool is never interrupted, because that leaves packages
/// half-configured: a cancelled change continues.
async fn change_in_worker(
    queue: &Arc<Mutex<()>>,
    workers: &Arc<PackageWorkers>,
    cx: &CallContext,
    work: PackageWork,
) -> Result<Map<String, Value>, ActionError> {
    let leaving = cx.node.leaving();
    let guard = tokio::select! {
        guard = Arc::clone(queue).lock_owned() => Some(guard),
        // The workers' own lock keeps the changes apart.
        () = leaving.cancelled() => None,
        () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
    };
    let (workers, id) = (Arc::clone(workers), cx.work_id());
    let starting = tokio::task::spawn_blocking(move || workers.start_work(id, work));
    let change = starting.await.map_err(|error| ActionError::internal_error(error.to_string()))?;
    let change = change.map_err(ActionError::from_cause)?;
    let stop = CancelFlag::default();
    let stopped = stop.clone();
    let mut waiting = tokio::task::spawn_blocking(move || {
        let _guard = guard;
        change.wait_until_ended(&stopped)
    });
    let progress = tokio::select! {
        progress = &mut waiting => progress,
        () = leaving.cancelled() => {
            stop.cancel();
            waiting.await
        }
        () = cx.cancel.cancelled() => return Err(ActionError {
            message: "cancelled; the change of packages that has begun is not interrupted".to_owned(),
            ..ActionError::cancelled()
        }),
    };
    match progress.map_err(|error| ActionError::internal_error(error.to_string()))? {
        WorkProgress::Ended(Some(result)) => result,
        WorkProgress::Ended(None) => Err(ActionError::failed(
            "the process that changed the packages was killed; check them with `dpkg --audit`",
        )),
        WorkProgress::Running => {
            cx.node.hand_over(cx);
            Err(ActionError::failed("the daemon stopped; the next one replies"))
        }
    }
}

/// Installs a missing package, or changes it to a given version.
pub(crate) async fn install_package(
    changes: PackageChanges,
    cx: CallContext,
    PackageInstallInput { package, version, noop }: PackageInstallInput,
) -> Result<PackageChangeOutput, ActionError> {
    let ensure = version.unwrap_or_else(|| "present".to_owned());
    if noop == Some(true) {
        return cx.run_blocking_in_context(move |cx| plan_state(cx, &package, &ensure)).await;
    }
    make_change(changes, cx, PackageWork::Ensure { package, ensure }).await
}

/// Updates an installed package to the newest version.
pub(crate) async fn update_package(
    changes: PackageChanges,
    cx: CallContext,
    PackageChangeInput { package, noop }: PackageChangeInput,
) -> Result<PackageChangeOutput, ActionError> {
    if noop == Some(true) {
        let plan = move |cx: &BlockingContext| {
            NodePackages::new(cx).update_package(&package, true).map_err(from_engine_error)
        };
        return cx.run_blocking_in_context(plan).await;
    }
    make_change(changes, cx, PackageWork::Update { package }).await
}

/// Removes a package: `absent` keeps its configuration, `purged` removes that as well.
pub(crate) async fn remove_package(
    changes: PackageChanges,
    cx: CallContext,
    PackageChangeInput { package, noop }: PackageChangeInput,
    ensure: &'static str,
) -> Result<PackageChangeOutput, ActionError> {
    if noop == Some(true) {
        return cx.run_blocking_in_context(move |cx| plan_state(cx, &package, ensure)).await;
    }
    make_change(changes, cx, PackageWork::Ensure { package, ensure: ensure.to_owned() }).await
}

/// Updates the package lists from the repositories.
pub(crate) async fn refresh_lists(
    changes: PackageChanges,
    cx: CallContext,
    PackageRefreshInput { noop }: PackageRefreshInput,
) -> Result<PackageRefreshOutput, ActionError> {
    if noop == Some(true) {
        return Ok(PackageRefreshOutput { output: "would update the package lists".to_owned() });
    }
    make_change(changes, cx, PackageWork::Refresh).await
}

/// Shows whether a package is installed, and its version. Changes nothing.
pub(crate) fn query_package(
    _: &NoState,
    cx: &BlockingContext,
    PackageNameInput { package: name }: PackageNameInput,
) -> Result<PackageStatusOutput, ActionError> {
    let found = NodePackages::new(cx).query_package(&name).map_err(from_engine_error)?;
    let (ensure, mark) = (property_text(&found, "ensure"), property_text(&found, "mark"));
    Ok(PackageStatusOutput { name, ensure, mark })
}

/// Lists packages with newer versions. Changes nothing and contacts no repository; `refresh` does.
pub(crate) fn list_updates(
    _: &NoState,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<PackageCheckupdatesOutput, ActionError> {
    let (tool, outdated) = NodePackages::new(cx).list_outdated().map_err(from_engine_error)?;
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
    let found = NodePackages::new(cx).query_package(name).map_err(from_engine_error)?;
    let ensure = property_text(&found, "ensure");
    let installed = !matches!(ensure.as_str(), "" | "absent" | "purged");
    Ok(PackageDataOutput {
        installed,
        version: installed.then(|| ensure.clone()),
        held: property_text(&found, "mark") == "hold",
        ensure,
    })
}

/// What setting the state of a package would change.
fn plan_state(
    cx: &BlockingContext,
    package: &str,
    ensure: &str,
) -> Result<PackageChangeOutput, ActionError> {
    NodePackages::new(cx).ensure_state(package, ensure, true).map_err(from_engine_error)
}
