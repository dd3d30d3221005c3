//! Ruby packages through `gem`. Several versions can be installed; any of them satisfies the resource.

use std::path::Path;

use super::{
    PackageInstallStatus, PackageOperation, PackageProvider, PackageState, list_cache, tool,
};
use crate::error::{EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// The gem provider.
#[derive(Debug)]
pub struct GemPackageProvider;

impl PackageProvider for GemPackageProvider {
    fn query_package(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<PackageState> {
        let all = self.list_packages(cx, resource)?;
        let versions: Vec<PackageState> =
            all.into_iter().filter(|package| package.name == resource.name).collect();
        let version = resource.get_text("ensure").unwrap_or_default();
        let is_match = |package: &&PackageState| {
            package.status == PackageInstallStatus::Installed(version.to_owned())
        };
        let found = versions.iter().find(is_match).or(versions.first());
        Ok(found.cloned().unwrap_or_else(|| PackageState::absent(&resource.name)))
    }

    fn candidate_version(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Option<String>> {
        let gem = tool::find_program(cx, resource, &["gem"])?;
        let pattern = format!("\\A{}\\z", resource.name);
        let mut argv = vec![&*gem, "list", "--remote"];
        if let Some(source) = resource.get_text("source") {
            argv.extend(["--source", source]);
        }
        argv.push(&pattern);
        let output = tool::run_query(cx, resource, &argv)?;
        let found = parse_list(&String::from_utf8_lossy(&output.stdout));
        Ok(found.into_iter().find_map(|package| match package.status {
            PackageInstallStatus::Installed(version) if package.name == resource.name => {
                Some(version)
            }
            _ => None,
        }))
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let gem = tool::find_program(cx, resource, &["gem"])?;
        let version = match operation {
            PackageOperation::InstallVersion(version) => Some(version),
            PackageOperation::Install => None,
            PackageOperation::Remove | PackageOperation::Purge => {
                let mut argv = vec![&*gem, "uninstall", "--executables", "--all"];
                argv.push(&resource.name);
                argv.extend(resource.get_list("uninstall_options"));
                return run_gem_change(cx, resource, &argv);
            }
            PackageOperation::Hold | PackageOperation::Unhold => {
                return Err(tool::hold_unsupported_error(resource, "gem"));
            }
        };
        let mut argv = vec![&*gem, "install"];
        argv.extend(resource.get_list("install_options"));
        if let Some(version) = version {
            argv.extend(["-v", version]);
        }
        argv.push("--no-document");
        match resource.get_text("source") {
            None => argv.push(&resource.name),
            Some(source) if source.starts_with("puppet:") => {
                let problem = "puppet:// URLs are not supported as gem sources";
                return Err(EngineError::invalid_value(resource, "source", problem));
            }
            Some(source) if source.starts_with("file://") => {
                argv.push(source.trim_start_matches("file://"));
            }
            Some(source) if source.contains("://") => {
                argv.extend(["--source", source, &resource.name]);
            }
            Some(file) => argv.push(file),
        }
        run_gem_change(cx, resource, &argv)
    }

    fn list_packages(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<PackageState>> {
        let gem = tool::find_program(cx, resource, &["gem"])?;
        let list =
            list_cache::cached_list(cx, resource, &format!("gem {gem}"), Path::new(&gem), || {
                let argv = [&*gem, "list", "--local"];
                let output = tool::run_query(cx, resource, &argv)?;
                Ok(parse_list(&String::from_utf8_lossy(&output.stdout)))
            })?;
        Ok(list.as_ref().clone())
    }
}

/// gem exits with 0 after some errors, so the output is checked.
fn run_gem_change(cx: &ResourceContext<'_>, resource: &Resource, argv: &[&str]) -> Result<()> {
    let output = tool::run_change_command(cx, resource, &tool::build_command(cx, argv))?;
    if output.combined_text().contains("ERROR") {
        return Err(tool::tool_error(resource, &argv.join(" "), &output));
    }
    Ok(())
}

/// Lines `name (2.0, 1.0, default: 0.9 ruby)`: one package for each version, the newest first.
fn parse_list(text: &str) -> Vec<PackageState> {
    let line = |line: &str| {
        let (name, versions) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
        let version = |version: &str| {
            let version = version.trim().trim_start_matches("default: ");
            Some(PackageState {
                name: name.trim().to_owned(),
                status: PackageInstallStatus::Installed(
                    version.split_whitespace().next()?.to_owned(),
                ),
                held: false,
            })
        };
        Some(versions.split(',').filter_map(version).collect::<Vec<_>>())
    };
    text.lines().filter_map(line).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{PackageInstallStatus, parse_list};

    #[test]
    fn every_version_of_a_gem_is_told() {
        let text = "\n*** LOCAL GEMS ***\n\nrake (13.1.0, default: 13.0.6)\nnokogiri (1.16.0 x86_64-linux)\nbroken\n";
        let found: Vec<(String, PackageInstallStatus)> =
            parse_list(text).into_iter().map(|package| (package.name, package.status)).collect();
        let one = |name: &str, version: &str| {
            (name.to_owned(), PackageInstallStatus::Installed(version.to_owned()))
        };
        assert_eq!(
            found,
            [one("rake", "13.1.0"), one("rake", "13.0.6"), one("nokogiri", "1.16.0")]
        );
    }
}
