//! Packages through `dpkg-query`, `apt-get`, `apt-cache` and `apt-mark`. Non-interactive; locally modified configuration files
//! are kept.

use super::{OutdatedPackage, PackageOperation, PackageProvider, PackageState, dpkg, tool};
use crate::error::Result;
use crate::resource_type::BoundResource;

#[derive(Debug)]
pub struct AptPackageProvider;

impl PackageProvider for AptPackageProvider {
    fn query_package(&self, resource: &BoundResource<'_>) -> Result<PackageState> {
        dpkg::query_package(resource)
    }

    fn candidate_version(&self, resource: &BoundResource<'_>) -> Result<Option<String>> {
        let output = tool::run_tool(resource, &["apt-cache", "policy", "--", &resource.name])?;
        let output = tool::require_success(resource, "apt-cache policy", output)?;
        Ok(parse_candidate(&output.combined_text()))
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: PackageOperation<'_>,
    ) -> Result<()> {
        let name = resource.name.as_str();
        preseed_answers(resource, operation)?;
        let force = format!("DPkg::Options::={}", dpkg::conffile_flag(resource));
        let exact = operation.version().map(|version| format!("{name}={version}"));
        let mut argv = vec!["apt-get", "-q", "-y"];
        match operation {
            PackageOperation::Install | PackageOperation::InstallVersion(_) => {
                argv.extend(["-o", &force]);
                argv.extend(resource.get_list("install_options"));
                argv.push("install");
                if resource.get_text("source").is_none() && exact.is_some() {
                    argv.push("--allow-downgrades");
                }
                argv.push(resource.get_text("source").or(exact.as_deref()).unwrap_or(name));
            }
            PackageOperation::Remove => argv.extend(["remove", name]),
            PackageOperation::Purge => argv.extend(["remove", "--purge", name]),
            PackageOperation::Hold => argv = vec!["apt-mark", "hold", name],
            PackageOperation::Unhold => argv = vec!["apt-mark", "unhold", name],
        }
        tool::run_change(resource, &argv)
    }

    fn list_packages(&self, resource: &BoundResource<'_>) -> Result<Vec<PackageState>> {
        dpkg::list_packages(resource).map(|list| dpkg::without_architectures(&list))
    }

    fn list_outdated(&self, resource: &BoundResource<'_>) -> Result<Vec<OutdatedPackage>> {
        dpkg::require_database(resource)?;
        // Simulation only, without the lock, so that it does not block real installations.
        let argv = ["apt-get", "-q", "-s", "-o", "Debug::NoLocking=true", "dist-upgrade"];
        let output = tool::run_query(resource, &argv)?;
        Ok(parse_outdated(&output.stdout_text()))
    }

    fn refresh_lists(&self, resource: &BoundResource<'_>) -> Result<String> {
        dpkg::require_database(resource)?;
        // Without this option apt exits with 0 even if no source could be reached.
        let argv = ["apt-get", "-q", "-y", "-o", "APT::Update::Error-Mode=any", "update"];
        tool::run_query(resource, &argv).map(|output| output.combined_text())
    }
}

/// Preseeds the debconf answers of the package.
fn preseed_answers(resource: &BoundResource<'_>, operation: PackageOperation<'_>) -> Result<()> {
    match resource.get_text("responsefile") {
        Some(file) if !matches!(operation, PackageOperation::Hold | PackageOperation::Unhold) => {
            tool::run_change(resource, &["debconf-set-selections", "--", file])
        }
        _ => Ok(()),
    }
}

fn parse_candidate(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?;
    Some(line.trim().to_owned()).filter(|version| version != "(none)")
}

/// Lines `Inst name [installed] (newest source...)`. Additional dependencies have no installed version and are skipped.
fn parse_outdated(text: &str) -> Vec<OutdatedPackage> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" [")?;
        let (installed, rest) = rest.split_once("] (")?;
        Some(OutdatedPackage {
            name: name.to_owned(),
            installed: installed.to_owned(),
            newest: rest.split_whitespace().next()?.to_owned(),
        })
    };
    let mut outdated: Vec<OutdatedPackage> = text.lines().filter_map(line).collect();
    outdated.sort_by(|one, other| one.name.cmp(&other.name));
    outdated
}

#[cfg(test)]
mod tests {
    use super::{OutdatedPackage, parse_candidate, parse_outdated};

    #[test]
    fn only_installed_packages_are_outdated() {
        let text = "NOTE: This is only a simulation!\nReading package lists...\n\
                    Inst zlib1g [1:1.2.13] (1:1.3.0 Debian:12.5/stable [amd64])\n\
                    Inst linux-image-6 (6.1.4 Debian-Security:12/stable-security [amd64])\n\
                    Inst libc6 [2.36-9] (2.36-10 Debian:12.5/stable [amd64]) []\n\
                    Conf libc6 (2.36-10 Debian:12.5/stable [amd64])\nInst [] ()\nInst x [1] (\n";
        let outdated = |name: &str, installed: &str, newest: &str| OutdatedPackage {
            name: name.to_owned(),
            installed: installed.to_owned(),
            newest: newest.to_owned(),
        };
        assert_eq!(
            parse_outdated(text),
            [outdated("libc6", "2.36-9", "2.36-10"), outdated("zlib1g", "1:1.2.13", "1:1.3.0"),]
        );
    }

    #[test]
    fn candidate_is_a_version_or_none() {
        let text = "bash:\n  Installed: 5.2.15-2+b7\n  Candidate: 5.2.15-2+b8\n  Version table:\n";
        assert_eq!(parse_candidate(text), Some("5.2.15-2+b8".to_owned()));
        assert_eq!(parse_candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate(""), None);
    }
}
