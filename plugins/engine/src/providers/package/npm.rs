//! JavaScript packages through `npm`, installed globally.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{
    PackageInstallStatus, PackageOperation, PackageProvider, PackageState, list_cache, tool,
};
use crate::error::Result;
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// The npm provider.
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

impl PackageProvider for NpmPackageProvider {
    fn query_package(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<PackageState> {
        let all = self.list_packages(cx, resource)?;
        let found = all.into_iter().find(|package| package.name == resource.name);
        Ok(found.unwrap_or_else(|| PackageState::absent(&resource.name)))
    }

    fn candidate_version(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Option<String>> {
        let npm = tool::find_program(cx, resource, &["npm"])?;
        let spec = resource.get_text("source").unwrap_or(&resource.name);
        let argv = [&*npm, "view", spec, "version"];
        let output = tool::run_query(cx, resource, &argv)?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Some(text.trim().to_owned()).filter(|version| !version.is_empty()))
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let npm = tool::find_program(cx, resource, &["npm"])?;
        let name = &resource.name;
        let spec = match (operation, resource.get_text("source")) {
            (PackageOperation::Install | PackageOperation::InstallVersion(_), Some(source)) => {
                source.to_owned()
            }
            (PackageOperation::InstallVersion(version), None) => format!("{name}@{version}"),
            (PackageOperation::Install, None) if resource.get_text("ensure") == Some("latest") => {
                format!("{name}@latest")
            }
            (PackageOperation::Install, None) => name.clone(),
            (PackageOperation::Remove | PackageOperation::Purge, _) => {
                let mut argv = vec![&*npm, "uninstall", "--global"];
                argv.extend(resource.get_list("uninstall_options"));
                argv.push(name);
                return tool::run_change(cx, resource, &argv);
            }
            (PackageOperation::Hold | PackageOperation::Unhold, _) => {
                return Err(tool::hold_unsupported_error(resource, "npm"));
            }
        };
        let mut argv = vec![&*npm, "install", "--global"];
        argv.extend(resource.get_list("install_options"));
        argv.push(&spec);
        tool::run_change(cx, resource, &argv)
    }

    fn list_packages(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<PackageState>> {
        let npm = tool::find_program(cx, resource, &["npm"])?;
        let list =
            list_cache::cached_list(cx, resource, &format!("npm {npm}"), Path::new(&npm), || {
                let argv = [&*npm, "list", "--json", "--global", "--depth=0"];
                // npm exits with 1 if it finds dependency problems, but still lists all packages.
                let output = tool::run_tool(cx, resource, &argv)?;
                let listed: NpmPackageList = serde_json::from_slice(&output.stdout)
                    .map_err(|error| tool::unreadable_output_error(resource, "npm list", &error))?;
                let package = |(name, dependency): (String, NpmDependency)| {
                    Some(PackageState {
                        name,
                        status: PackageInstallStatus::Installed(dependency.version?),
                        held: false,
                    })
                };
                Ok(listed.dependencies.into_iter().filter_map(package).collect())
            })?;
        Ok(list.as_ref().clone())
    }
}
