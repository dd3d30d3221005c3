//! Package managers of programming languages: they differ only in their arguments and in the output that they print.

use std::path::Path;

use muster_system::CommandOutput;

use super::{PackageOperation, PackageProvider, PackageState, list_cache, tool};
use crate::error::Result;
use crate::resource::Resource;
use crate::resource_type::BoundResource;

/// Describes one package manager.
pub(super) trait LanguageTool: Sync {
    const NAME: &'static str;
    const LIST_ARGUMENTS: &'static [&'static str];
    /// Whether the list is valid whatever the exit code.
    const LIST_MAY_FAIL: bool = false;
    /// A text in the output of a change that failed with exit code 0.
    const ERROR_MARK: Option<&'static str> = None;

    /// Names of the program; the first one that is installed is used.
    fn program_names(&self) -> &'static [&'static str];

    fn parse_list(resource: &Resource, output: &CommandOutput) -> Result<Vec<PackageState>>;

    /// Arguments that query the newest version.
    fn candidate_arguments(resource: &Resource) -> Vec<String>;

    fn parse_candidate(resource: &Resource, output: &CommandOutput) -> Result<Option<String>>;

    /// Arguments that install this version, or the newest one.
    fn install_arguments(resource: &Resource, version: Option<&str>) -> Result<Vec<String>>;

    fn uninstall_arguments(resource: &Resource) -> Vec<&str>;

    /// Makes different spellings of one name equal.
    fn normalise_name(name: &str) -> String {
        name.to_owned()
    }
}

impl<T: LanguageTool> PackageProvider for T {
    /// If several versions are installed, the desired one, or else the first.
    fn query_package(&self, resource: &BoundResource<'_>) -> Result<PackageState> {
        let name = T::normalise_name(&resource.name);
        let all = self.list_packages(resource)?;
        let versions = || all.iter().filter(|package| T::normalise_name(&package.name) == name);
        let desired = resource.get_text("ensure").unwrap_or_default();
        let found = versions().find(|package| package.status.version() == Some(desired));
        let found = found.or_else(|| versions().next()).cloned();
        let absent = || PackageState::absent(&resource.name);
        Ok(PackageState { name: resource.name.clone(), ..found.unwrap_or_else(absent) })
    }

    fn candidate_version(&self, resource: &BoundResource<'_>) -> Result<Option<String>> {
        let program = tool::find_program(resource, self.program_names())?;
        let arguments = T::candidate_arguments(resource);
        let argv: Vec<&str> =
            std::iter::once(&program).chain(&arguments).map(String::as_str).collect();
        T::parse_candidate(resource, &tool::run_query(resource, &argv)?)
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let program = tool::find_program(resource, self.program_names())?;
        let installed;
        let arguments = match operation {
            PackageOperation::Install | PackageOperation::InstallVersion(_) => {
                installed = T::install_arguments(resource, operation.version())?;
                installed.iter().map(String::as_str).collect()
            }
            PackageOperation::Remove | PackageOperation::Purge => T::uninstall_arguments(resource),
            PackageOperation::Hold | PackageOperation::Unhold => {
                return Err(tool::hold_unsupported_error(resource, T::NAME));
            }
        };
        let argv = [vec![program.as_str()], arguments].concat();
        let output = tool::run_change_command(resource, &tool::build_command(resource.cx, &argv))?;
        match T::ERROR_MARK.filter(|mark| output.combined_text().contains(mark)) {
            Some(_) => Err(tool::tool_error(resource, &argv.join(" "), &output)),
            None => Ok(()),
        }
    }

    fn list_packages(&self, resource: &BoundResource<'_>) -> Result<Vec<PackageState>> {
        let program = tool::find_program(resource, self.program_names())?;
        let key = format!("{} {program}", T::NAME);
        let list = list_cache::cached_list(resource, &key, Path::new(&program), || {
            let argv = [&[program.as_str()], T::LIST_ARGUMENTS].concat();
            let output = tool::run_tool(resource, &argv)?;
            if !T::LIST_MAY_FAIL && !output.is_success() {
                return Err(tool::tool_error(resource, &argv.join(" "), &output));
            }
            T::parse_list(resource, &output)
        })?;
        Ok(list.as_ref().clone())
    }
}
