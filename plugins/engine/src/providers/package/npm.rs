//! JavaScript packages through `npm`, installed globally.

use std::collections::BTreeMap;

use muster_system::CommandOutput;
use serde::Deserialize;

use super::language::LanguageTool;
use super::{PackageState, tool};
use crate::error::Result;
use crate::resource::Resource;

#[derive(Debug)]
pub struct NpmPackageProvider;

/// Output of `npm list --json`; only the fields used.
#[derive(Debug, Deserialize)]
struct NpmPackageList {
    #[serde(default)]
    dependencies: BTreeMap<String, NpmDependency>,
}

#[derive(Debug, Deserialize)]
struct NpmDependency {
    version: Option<String>,
}

impl LanguageTool for NpmPackageProvider {
    const NAME: &'static str = "npm";
    const LIST_ARGUMENTS: &'static [&'static str] = &["list", "--json", "--global", "--depth=0"];
    // npm exits with 1 if it finds dependency problems, but still lists all packages.
    const LIST_MAY_FAIL: bool = true;

    fn program_names(&self) -> &'static [&'static str] {
        &["npm"]
    }

    fn parse_list(resource: &Resource, output: &CommandOutput) -> Result<Vec<PackageState>> {
        let listed: NpmPackageList = tool::parse_json(resource, "npm list", output)?;
        let package = |(name, dependency): (String, NpmDependency)| {
            Some(PackageState::installed(name, dependency.version?))
        };
        Ok(listed.dependencies.into_iter().filter_map(package).collect())
    }

    fn candidate_arguments(resource: &Resource) -> Vec<String> {
        let spec = resource.get_text("source").unwrap_or(&resource.name);
        ["view", spec, "version"].map(str::to_owned).to_vec()
    }

    fn parse_candidate(_: &Resource, output: &CommandOutput) -> Result<Option<String>> {
        let version = output.stdout_text().trim().to_owned();
        Ok(Some(version).filter(|version| !version.is_empty()))
    }

    fn install_arguments(resource: &Resource, version: Option<&str>) -> Result<Vec<String>> {
        let latest = resource.get_text("ensure").filter(|ensure| *ensure == "latest");
        let spec = match (resource.get_text("source"), version.or(latest)) {
            (Some(source), _) => source.to_owned(),
            (None, Some(version)) => format!("{}@{version}", resource.name),
            (None, None) => resource.name.clone(),
        };
        let mut arguments = vec!["install", "--global"];
        arguments.extend(resource.get_list("install_options"));
        arguments.push(&spec);
        Ok(arguments.into_iter().map(str::to_owned).collect())
    }

    fn uninstall_arguments(resource: &Resource) -> Vec<&str> {
        let options = resource.get_list("uninstall_options");
        [vec!["uninstall", "--global"], options, vec![&resource.name]].concat()
    }
}
