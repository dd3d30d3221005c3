//! Packages through `dpkg` alone, each from the file in `source`; also dpkg queries shared with apt.

use std::path::Path;
use std::sync::Arc;

use super::{
    PackageInstallStatus, PackageOperation, PackageProvider, PackageState, list_cache, tool,
};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::BoundResource;

pub(super) const DPKG_STATUS_FILE: &str = "/var/lib/dpkg/status";
const PROVIDES_FORMAT: &str = "${Status} ${Package} ${Version} [${Provides}]\\n";
const LIST_FORMAT: &str = "${Status} ${Package} ${Version} ${Architecture}\\n";

#[derive(Debug)]
pub struct DpkgPackageProvider;

impl PackageProvider for DpkgPackageProvider {
    fn query_package(&self, resource: &BoundResource<'_>) -> Result<PackageState> {
        query_package(resource)
    }

    /// The version in the package file.
    fn candidate_version(&self, resource: &BoundResource<'_>) -> Result<Option<String>> {
        let source = tool::source_file(resource, "dpkg")?;
        let output = tool::run_tool(resource, &["dpkg-deb", "--show", "--", source])?;
        let text = tool::require_success(resource, "dpkg-deb --show", output)?.stdout_text();
        Ok(text.trim_end().split_once('\t').map(|(_, version)| version.to_owned()))
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let name = resource.name.as_str();
        let argv: &[&str] = match operation {
            PackageOperation::Install | PackageOperation::InstallVersion(_) => {
                let source = tool::source_file(resource, "dpkg")?;
                &["dpkg", conffile_flag(resource), "-i", "--", source]
            }
            PackageOperation::Remove => &["dpkg", "-r", "--", name],
            PackageOperation::Purge => &["dpkg", "--purge", "--", name],
            PackageOperation::Hold => return set_selection(resource, "hold"),
            PackageOperation::Unhold => return set_selection(resource, "install"),
        };
        tool::run_change(resource, argv)
    }

    fn list_packages(&self, resource: &BoundResource<'_>) -> Result<Vec<PackageState>> {
        list_packages(resource).map(|list| without_architectures(&list))
    }
}

/// Flag for locally modified configuration files.
pub(super) fn conffile_flag(resource: &Resource) -> &'static str {
    if resource.get_text("configfiles") == Some("replace") {
        "--force-confnew"
    } else {
        "--force-confold"
    }
}

fn set_selection(resource: &BoundResource<'_>, selection: &str) -> Result<()> {
    let mut command = tool::build_command(resource.cx, &["dpkg", "--set-selections"]);
    command.stdin = format!("{} {selection}\n", resource.name).into_bytes();
    tool::run_change_command(resource, &command).map(drop)
}

/// All packages known to dpkg; cached until its database changes.
pub(super) fn list_packages(resource: &BoundResource<'_>) -> Result<Arc<Vec<PackageState>>> {
    require_database(resource)?;
    query_database(resource, "dpkg", LIST_FORMAT, parse_all)
}

fn query_database(
    resource: &BoundResource<'_>,
    key: &str,
    format: &str,
    parse: fn(&str) -> Vec<PackageState>,
) -> Result<Arc<Vec<PackageState>>> {
    list_cache::cached_list(resource, key, Path::new(DPKG_STATUS_FILE), || {
        let output = tool::run_tool(resource, &["dpkg-query", "-W", "-f", format])?;
        // 1: no packages are known.
        if !matches!(output.code, 0 | 1) {
            return Err(tool::tool_error(resource, "dpkg-query", &output));
        }
        Ok(parse(&output.stdout_text()))
    })
}

pub(super) fn without_architectures(list: &[PackageState]) -> Vec<PackageState> {
    let bare = |package: &PackageState| PackageState {
        name: package.name.split(':').next().unwrap_or_default().to_owned(),
        ..package.clone()
    };
    list.iter().map(bare).collect()
}

/// State of one package; with `allow_virtual`, also of a package that provides the name.
pub(super) fn query_package(resource: &BoundResource<'_>) -> Result<PackageState> {
    let found = find_package(&list_packages(resource)?, &resource.name);
    if found.status != PackageInstallStatus::Purged || !resource.get_flag("allow_virtual") {
        return Ok(found);
    }
    let provided = query_database(resource, "dpkg provides", PROVIDES_FORMAT, parse_provides)?;
    Ok(find_package(&provided, &resource.name))
}

/// The package of that name, with or without architecture; prefers the installed one.
pub(super) fn find_package(all: &[PackageState], name: &str) -> PackageState {
    let is_match = |package: &&PackageState| {
        let (bare, architecture) =
            package.name.split_once(':').unwrap_or((&package.name, "native"));
        name.split_once(':').map_or(bare == name, |wanted| (bare, architecture) == wanted)
    };
    let best = all.iter().filter(is_match).max_by_key(|package| package.status.version().is_some());
    let best = best.cloned().unwrap_or_else(|| PackageState::absent(name));
    PackageState { name: name.to_owned(), ..best }
}

pub(super) fn require_database(resource: &BoundResource<'_>) -> Result<()> {
    let found = resource.cx.system.metadata(Path::new(DPKG_STATUS_FILE));
    if found.during(resource, format_args!("inspecting {DPKG_STATUS_FILE}"))?.is_none() {
        let problem = format!(
            "no package database at {DPKG_STATUS_FILE}; on a system without dpkg, specify another `provider`"
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(())
}

/// Lines `want flag status name version architecture`; names without a remaining package count as purged.
fn parse_all(text: &str) -> Vec<PackageState> {
    text.lines().filter_map(parse_line).collect()
}

/// Lines `want flag status name version [provided, provided (= 2)]`: one package per provided name.
fn parse_provides(text: &str) -> Vec<PackageState> {
    let line = |line: &str| {
        let (fields, provided) = line.trim_end().strip_suffix(']')?.split_once(" [")?;
        let package_state = parse_line(fields)?;
        let package = |name: &str| PackageState {
            name: name.split_whitespace().next().unwrap_or_default().to_owned(),
            ..package_state.clone()
        };
        Some(provided.split(',').map(package).collect::<Vec<_>>())
    };
    text.lines().filter_map(line).flatten().collect()
}

fn parse_line(line: &str) -> Option<PackageState> {
    let mut fields = line.split_whitespace();
    let (want, _flag, status, name) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let status = match status {
        "not-installed" => PackageInstallStatus::Purged,
        "installed" | "triggers-awaited" | "triggers-pending" => {
            PackageInstallStatus::Installed(fields.next()?.to_owned())
        }
        // Only configuration files remain, or the package is unpacked or half configured; an install completes it.
        _ => {
            fields.next();
            PackageInstallStatus::Removed
        }
    };
    // A package that is not installed has neither version nor architecture.
    let architecture = fields.next_back().filter(|_| status != PackageInstallStatus::Purged);
    Some(PackageState {
        name: match architecture {
            Some(architecture) => format!("{name}:{architecture}"),
            None => name.to_owned(),
        },
        status,
        held: want == "hold",
    })
}

#[cfg(test)]
mod tests {
    use super::{PackageInstallStatus, PackageState, find_package, parse_all, parse_provides};

    #[test]
    fn provided_names_are_installed_with_their_package() {
        let text = "install ok installed exim4 4.96 [mail-transport-agent, smtpd (= 1)]\ninstall ok installed x 1 []\n";
        let all = parse_provides(text);
        for name in ["mail-transport-agent", "smtpd"] {
            assert_eq!(
                find_package(&all, name).status,
                PackageInstallStatus::Installed("4.96".to_owned())
            );
        }
        assert_eq!(find_package(&all, "exim4").status, PackageInstallStatus::Purged);
    }

    #[test]
    fn parses_the_status_of_each_line() {
        let text = "install ok installed bash 5.2.15-2+b7\nhold ok installed curl 7.88.1-10\n\
                    deinstall ok config-files exim4 4.96-15\nunknown ok not-installed nano \n\
                    install reinstreq half-installed vim 2:9.0\n\nnonsense\n";
        let status: Vec<(String, PackageInstallStatus, bool)> = parse_all(text)
            .into_iter()
            .map(|PackageState { name, status, held }| (name, status, held))
            .collect();
        let installed = |version: &str| PackageInstallStatus::Installed(version.to_owned());
        assert_eq!(
            status,
            [
                ("bash".to_owned(), installed("5.2.15-2+b7"), false),
                ("curl".to_owned(), installed("7.88.1-10"), true),
                ("exim4".to_owned(), PackageInstallStatus::Removed, false),
                ("nano".to_owned(), PackageInstallStatus::Purged, false),
                ("vim".to_owned(), PackageInstallStatus::Removed, false),
            ]
        );
    }

    #[test]
    fn name_finds_the_installed_architecture() {
        let text =
            "deinstall ok config-files libc6 2.36 i386\ninstall ok installed libc6 2.37 amd64\n";
        let all = parse_all(text);
        let status = |name| find_package(&all, name).status;
        assert_eq!(status("libc6"), PackageInstallStatus::Installed("2.37".to_owned()));
        assert_eq!(status("libc6:i386"), PackageInstallStatus::Removed);
        assert_eq!(status("libc6:arm64"), PackageInstallStatus::Purged);
        assert_eq!(find_package(&all, "libc6:amd64").name, "libc6:amd64");
    }
}
