//! Packages of the RPM family through `dnf`, `yum` and `zypper`; installed packages are queried with `rpm`.
//! Non-interactive.

use std::path::Path;
use std::sync::Arc;

use super::rpm_version::compare_versions;
use super::{PackageOperation, PackageProvider, PackageState, list_cache, tool};
use crate::error::{EngineError, Result};
use crate::resource_type::BoundResource;

const RPM_DATABASE: &str = "/var/lib/rpm";
const QUERY_FORMAT: &str = "%{NAME} %|EPOCH?{%{EPOCH}}:{0}| %{VERSION} %{RELEASE} %{ARCH}\\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpmPackageProvider {
    /// Fedora and Red Hat.
    Dnf,
    /// Older Red Hat releases.
    Yum,
    /// SUSE.
    Zypper,
}

impl PackageProvider for RpmPackageProvider {
    fn query_package(&self, resource: &BoundResource<'_>) -> Result<PackageState> {
        Ok(find_package(&list_installed(resource)?, &resource.name))
    }

    /// The newer version offered, or the installed one. For a package that is not installed, the tool selects
    /// the newest version at installation.
    fn candidate_version(&self, resource: &BoundResource<'_>) -> Result<Option<String>> {
        let updates = self.list_updates(resource)?;
        let mut status = find_package(&updates, &resource.name).status;
        if status.version().is_none() {
            status = self.query_package(resource)?.status;
        }
        Ok(Some(status.version().unwrap_or("latest").to_owned()))
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let name = resource.name.as_str();
        let options = || resource.get_list("uninstall_options");
        let argv = match (operation, self) {
            (PackageOperation::Install | PackageOperation::InstallVersion(_), _) => {
                return self.install_package(resource, operation.version());
            }
            (PackageOperation::Remove, Self::Zypper) => {
                [vec!["zypper", "remove", "--no-confirm"], options(), vec![name]].concat()
            }
            (PackageOperation::Remove, _) => [vec!["rpm", "-e"], options(), vec![name]].concat(),
            (PackageOperation::Purge, Self::Zypper) => {
                let problem = "zypper cannot purge packages; use `ensure => absent`";
                return Err(EngineError::failed(resource, problem));
            }
            (PackageOperation::Purge, _) => vec![self.program_name(), "-y", "erase", name],
            (PackageOperation::Hold | PackageOperation::Unhold, _) => {
                return Err(tool::hold_unsupported_error(resource, self.program_name()));
            }
        };
        tool::run_change(resource, &argv)
    }

    fn list_packages(&self, resource: &BoundResource<'_>) -> Result<Vec<PackageState>> {
        let bare = |package: &PackageState| PackageState {
            name: without_architecture(&package.name).to_owned(),
            ..package.clone()
        };
        Ok(list_installed(resource)?.iter().map(bare).collect())
    }
}

impl RpmPackageProvider {
    fn program_name(self) -> &'static str {
        match self {
            Self::Dnf => "dnf",
            Self::Yum => "yum",
            Self::Zypper => "zypper",
        }
    }

    fn install_package(self, resource: &BoundResource<'_>, version: Option<&str>) -> Result<()> {
        let name = &resource.name;
        let source = resource.get_text("source").filter(|_| self != Self::Zypper);
        let spec = match (source, version) {
            (Some(source), _) => source.to_owned(),
            (None, Some(version)) => format!("{name}-{version}"),
            (None, None) => name.clone(),
        };
        if self == Self::Zypper {
            let mut argv = vec!["zypper", "--quiet", "install", "--auto-agree-with-licenses"];
            argv.push("--no-confirm");
            argv.extend(resource.get_list("install_options"));
            if version.is_some() {
                argv.push("--oldpackage");
            }
            argv.push(&spec);
            return tool::run_change(resource, &argv);
        }
        let found = self.query_package(resource)?.status;
        let subcommand = match (found.version(), version) {
            (None, _) => "install",
            (Some(found), Some(version)) if compare_versions(version, found).is_lt() => "downgrade",
            _ if self == Self::Yum => "update",
            _ => "upgrade",
        };
        let mut argv = vec![self.program_name(), "-q", "-y"];
        argv.extend(resource.get_list("install_options"));
        argv.extend([subcommand, &spec]);
        tool::run_change(resource, &argv)?;
        // The tools exit with 0 even if the version does not exist, so the result is checked.
        let after = self.query_package(resource)?.status;
        let problem = match (after.version(), version) {
            (None, _) => format!("Could not find package {name}"),
            (Some(found), Some(version)) if compare_versions(version, found).is_ne() => {
                format!("Failed to update to version {version}, got version {found} instead")
            }
            _ => return Ok(()),
        };
        Err(EngineError::failed(resource, problem))
    }

    /// Available updates; queried once per run.
    fn list_updates(self, resource: &BoundResource<'_>) -> Result<Arc<Vec<PackageState>>> {
        let key = format!("{} updates", self.program_name());
        list_cache::cached_list(resource, &key, Path::new(RPM_DATABASE), || {
            let argv = match self {
                Self::Zypper => ["zypper", "--quiet", "list-updates"],
                _ => [self.program_name(), "-q", "check-update"],
            };
            let output = tool::run_tool(resource, &argv)?;
            // 100: updates are available.
            if !matches!(output.code, 0 | 100) {
                return Err(tool::tool_error(resource, &argv.join(" "), &output));
            }
            let parse = if self == Self::Zypper { parse_zypper } else { parse_updates };
            Ok(parse(&output.stdout_text()))
        })
    }
}

/// All packages known to rpm; cached until a change.
fn list_installed(resource: &BoundResource<'_>) -> Result<Arc<Vec<PackageState>>> {
    list_cache::cached_list(resource, "rpm", Path::new(RPM_DATABASE), || {
        let output = tool::run_tool(resource, &["rpm", "-qa", "--qf", QUERY_FORMAT])?;
        let text = tool::require_success(resource, "rpm -qa", output)?.stdout_text();
        Ok(text.lines().filter_map(parse_line).collect())
    })
}

/// The package of that name, with or without architecture.
fn find_package(all: &[PackageState], name: &str) -> PackageState {
    let is_match = |package: &&PackageState| {
        package.name == name || without_architecture(&package.name) == name
    };
    let found = all.iter().find(is_match).cloned();
    PackageState { name: name.to_owned(), ..found.unwrap_or_else(|| PackageState::absent(name)) }
}

fn without_architecture(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(bare, _)| bare)
}

/// `name epoch version release architecture`.
fn parse_line(line: &str) -> Option<PackageState> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, epoch, version, release, architecture] = fields.as_slice() else { return None };
    let epoch = if *epoch == "0" { String::new() } else { format!("{epoch}:") };
    let version = format!("{epoch}{version}-{release}");
    Some(PackageState::installed(format!("{name}.{architecture}"), version))
}

/// Lines `name.architecture version repository`; long names wrap to the next line. Stops at the list of obsoleting packages at the
/// end.
fn parse_updates(text: &str) -> Vec<PackageState> {
    let marks = ["\nObsoleting", "\nSecurity:", "\nUpdate"];
    let end = marks.iter().filter_map(|mark| text.find(mark)).min();
    let body = end.and_then(|end| text.get(..end)).unwrap_or(text);
    let words: Vec<&str> = body.split_whitespace().collect();
    let package = |words: &[&str]| {
        let [name, version, ..] = words else { return None };
        (name.contains('.') && version.contains('-'))
            .then(|| PackageState::installed(*name, version.trim_start_matches("0:")))
    };
    words.chunks(3).filter_map(package).collect()
}

/// Lines `v | repository | name | found | offered | architecture`.
fn parse_zypper(text: &str) -> Vec<PackageState> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["v", _, name, _, offered, architecture, ..] = fields.as_slice() else { return None };
        Some(PackageState::installed(format!("{name}.{architecture}"), *offered))
    };
    text.lines().filter_map(line).collect()
}
