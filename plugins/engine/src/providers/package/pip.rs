//! Python packages through `pip`: system-wide, or in the virtual environment whose `pip` is the resource's `command`.

use std::path::Path;

use serde::Deserialize;

use super::{
    PackageInstallStatus, PackageOperation, PackageProvider, PackageState, list_cache, tool,
};
use crate::error::Result;
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// The pip provider, with candidate program names; the first one installed is used.
#[derive(Debug)]
pub struct PipPackageProvider(pub &'static [&'static str]);

/// Disables the version check, which accesses the network.
const NO_VERSION_CHECK_FLAG: &str = "--disable-pip-version-check";

/// An element of `pip list --format=json`.
#[derive(Debug, Deserialize)]
struct PipPackage {
    name: String,
    version: String,
}

/// Output of `pip install --report`; only the fields used.
#[derive(Debug, Deserialize)]
struct PipInstallReport {
    install: Vec<PipPlannedInstall>,
}

#[derive(Debug, Deserialize)]
struct PipPlannedInstall {
    metadata: PipPackage,
}

impl PackageProvider for PipPackageProvider {
    fn query_package(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<PackageState> {
        let all = self.list_packages(cx, resource)?;
        let normalised_name = normalise_name(&resource.name);
        let found =
            all.into_iter().find(|package| normalise_name(&package.name) == normalised_name);
        Ok(PackageState {
            name: resource.name.clone(),
            ..found.unwrap_or_else(|| PackageState::absent(&resource.name))
        })
    }

    /// The version that pip would install in an empty environment.
    fn candidate_version(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Option<String>> {
        let pip = self.find_program(cx, resource)?;
        let mut argv = vec![&*pip, "install", NO_VERSION_CHECK_FLAG, "--quiet", "--dry-run"];
        argv.extend(["--ignore-installed", "--no-deps", "--report", "-"]);
        argv.extend(resource.get_list("install_options"));
        let requirement = requirement_argument(resource, None);
        argv.push(&requirement);
        let output = tool::run_query(cx, resource, &argv)?;
        let report: PipInstallReport = serde_json::from_slice(&output.stdout).map_err(|error| {
            tool::unreadable_output_error(resource, "pip install --report", &error)
        })?;
        let mut planned = report.install.into_iter();
        Ok(planned.next().map(|planned| planned.metadata.version))
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let pip = self.find_program(cx, resource)?;
        let version = match operation {
            PackageOperation::InstallVersion(version) => Some(version),
            PackageOperation::Install => None,
            PackageOperation::Remove | PackageOperation::Purge => {
                let mut argv = vec![&*pip, "uninstall", "-y", "-q"];
                argv.extend(resource.get_list("uninstall_options"));
                argv.push(&resource.name);
                return tool::run_change(cx, resource, &argv);
            }
            PackageOperation::Hold | PackageOperation::Unhold => {
                return Err(tool::hold_unsupported_error(resource, "pip"));
            }
        };
        let mut argv = vec![&*pip, "install", NO_VERSION_CHECK_FLAG, "-q"];
        argv.extend(resource.get_list("install_options"));
        if resource.get_text("ensure") == Some("latest") {
            argv.push("--upgrade");
        }
        let requirement = requirement_argument(resource, version);
        argv.push(&requirement);
        tool::run_change(cx, resource, &argv)
    }

    fn list_packages(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<PackageState>> {
        let pip = self.find_program(cx, resource)?;
        let list =
            list_cache::cached_list(cx, resource, &format!("pip {pip}"), Path::new(&pip), || {
                let argv = [&*pip, "list", NO_VERSION_CHECK_FLAG, "--format=json"];
                let output = tool::run_query(cx, resource, &argv)?;
                let lines: Vec<PipPackage> = serde_json::from_slice(&output.stdout)
                    .map_err(|error| tool::unreadable_output_error(resource, "pip list", &error))?;
                let package = |line: PipPackage| PackageState {
                    name: line.name,
                    status: PackageInstallStatus::Installed(line.version),
                    held: false,
                };
                Ok(lines.into_iter().map(package).collect())
            })?;
        Ok(list.as_ref().clone())
    }
}

impl PipPackageProvider {
    fn find_program(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<String> {
        tool::find_program(cx, resource, self.0)
    }
}

/// The requirement: name and version, or the source.
fn requirement_argument(resource: &Resource, version: Option<&str>) -> String {
    let name = &resource.name;
    match (resource.get_text("source"), version) {
        // A local file or directory defines its own name and version.
        (Some(source), _) if source.starts_with('/') => source.to_owned(),
        (Some(source), Some(version)) => format!("{source}@{version}#egg={name}"),
        (Some(source), None) => format!("{source}#egg={name}"),
        (None, Some(version)) => format!("{name}=={version}"),
        (None, None) => name.clone(),
    }
}

/// Normalizes equivalent package names.
fn normalise_name(name: &str) -> String {
    let bare = name.split('[').next().unwrap_or_default();
    bare.to_lowercase().replace(['_', '.'], "-")
}
