//! Python packages through `pip`: system-wide, or in the virtual environment whose `pip` is the resource's `command`.

use muster_system::CommandOutput;
use serde::Deserialize;

use super::language::LanguageTool;
use super::{PackageState, tool};
use crate::error::Result;
use crate::resource::Resource;

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

impl LanguageTool for PipPackageProvider {
    const NAME: &'static str = "pip";
    const LIST_ARGUMENTS: &'static [&'static str] =
        &["list", NO_VERSION_CHECK_FLAG, "--format=json"];

    fn program_names(&self) -> &'static [&'static str] {
        self.0
    }

    fn parse_list(resource: &Resource, output: &CommandOutput) -> Result<Vec<PackageState>> {
        let listed: Vec<PipPackage> = tool::parse_json(resource, "pip list", output)?;
        let package = |listed: PipPackage| PackageState::installed(listed.name, listed.version);
        Ok(listed.into_iter().map(package).collect())
    }

    /// Queries the version that pip would install in an empty environment.
    fn candidate_arguments(resource: &Resource) -> Vec<String> {
        let mut arguments = vec!["install", NO_VERSION_CHECK_FLAG, "--quiet", "--dry-run"];
        arguments.extend(["--ignore-installed", "--no-deps", "--report", "-"]);
        arguments.extend(resource.get_list("install_options"));
        let requirement = requirement_argument(resource, None);
        arguments.push(&requirement);
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn parse_candidate(resource: &Resource, output: &CommandOutput) -> Result<Option<String>> {
        let report: PipInstallReport = tool::parse_json(resource, "pip install --report", output)?;
        Ok(report.install.into_iter().next().map(|planned| planned.metadata.version))
    }

    fn install_arguments(resource: &Resource, version: Option<&str>) -> Result<Vec<String>> {
        let mut arguments = vec!["install", NO_VERSION_CHECK_FLAG, "-q"];
        arguments.extend(resource.get_list("install_options"));
        if resource.get_text("ensure") == Some("latest") {
            arguments.push("--upgrade");
        }
        let requirement = requirement_argument(resource, version);
        arguments.push(&requirement);
        Ok(arguments.into_iter().map(str::to_owned).collect())
    }

    fn uninstall_arguments(resource: &Resource) -> Vec<&str> {
        let options = resource.get_list("uninstall_options");
        [vec!["uninstall", "-y", "-q"], options, vec![&resource.name]].concat()
    }

    /// Names that pip treats as one.
    fn normalise_name(name: &str) -> String {
        let bare = name.split('[').next().unwrap_or_default();
        bare.to_lowercase().replace(['_', '.'], "-")
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
