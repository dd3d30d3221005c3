//! Ruby packages through `gem`. Several versions can be installed; any of them satisfies the resource.

use muster_system::CommandOutput;

use super::PackageState;
use super::language::LanguageTool;
use crate::error::{EngineError, Result};
use crate::resource::Resource;

#[derive(Debug)]
pub struct GemPackageProvider;

impl LanguageTool for GemPackageProvider {
    const NAME: &'static str = "gem";
    const LIST_ARGUMENTS: &'static [&'static str] = &["list", "--local"];
    const ERROR_MARK: Option<&'static str> = Some("ERROR");

    fn program_names(&self) -> &'static [&'static str] {
        &["gem"]
    }

    fn parse_list(_: &Resource, output: &CommandOutput) -> Result<Vec<PackageState>> {
        Ok(parse_list(&output.stdout_text()))
    }

    fn candidate_arguments(resource: &Resource) -> Vec<String> {
        let source = resource.get_text("source").map(|source| ["--source", source]);
        let mut arguments = vec!["list", "--remote"];
        arguments.extend(source.into_iter().flatten());
        let pattern = format!("\\A{}\\z", resource.name);
        arguments.push(&pattern);
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn parse_candidate(resource: &Resource, output: &CommandOutput) -> Result<Option<String>> {
        let listed = parse_list(&output.stdout_text()).into_iter();
        let mut versions = listed.filter(|package| package.name == resource.name);
        Ok(versions.find_map(|package| package.status.version().map(str::to_owned)))
    }

    fn install_arguments(resource: &Resource, version: Option<&str>) -> Result<Vec<String>> {
        let mut arguments = vec!["install"];
        arguments.extend(resource.get_list("install_options"));
        arguments.extend(version.into_iter().flat_map(|version| ["-v", version]));
        arguments.push("--no-document");
        match resource.get_text("source") {
            None => arguments.push(&resource.name),
            Some(source) if source.starts_with("puppet:") => {
                let problem = "puppet:// URLs are not supported as gem sources";
                return Err(EngineError::invalid_value(resource, "source", problem));
            }
            Some(source) if source.starts_with("file://") => {
                arguments.push(source.trim_start_matches("file://"));
            }
            Some(source) if source.contains("://") => {
                arguments.extend(["--source", source, &resource.name]);
            }
            Some(file) => arguments.push(file),
        }
        Ok(arguments.into_iter().map(str::to_owned).collect())
    }

    fn uninstall_arguments(resource: &Resource) -> Vec<&str> {
        let arguments = ["uninstall", "--executables", "--all", resource.name.as_str()];
        arguments.into_iter().chain(resource.get_list("uninstall_options")).collect()
    }
}

/// Lines `name (2.0, 1.0, default: 0.9 ruby)`: one package for each version, the newest first.
fn parse_list(text: &str) -> Vec<PackageState> {
    let line = |line: &str| {
        let (name, versions) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
        let version = |version: &str| {
            let version = version.trim().trim_start_matches("default: ");
            Some(PackageState::installed(name.trim(), version.split_whitespace().next()?))
        };
        Some(versions.split(',').filter_map(version).collect::<Vec<_>>())
    };
    text.lines().filter_map(line).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::PackageInstallStatus;
    use super::parse_list;

    #[test]
    fn lists_every_version_of_a_gem() {
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
