//! Ruby packages by `gem`. Several versions of one can be installed; any of them is the one that is wanted.

use std::path::Path;

use super::{Action, Package, Packages, Status, memo, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// The provider.
#[derive(Debug)]
pub struct Gem;

impl Packages for Gem {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        let all = self.all(cx, resource)?;
        let versions: Vec<Package> = all
            .into_iter()
            .filter(|known| known.name == resource.name)
            .collect();
        let wanted = resource.text("ensure").unwrap_or_default();
        let is_wanted = |package: &&Package| package.status == Status::Installed(wanted.to_owned());
        let found = versions.iter().find(is_wanted).or(versions.first());
        Ok(found
            .cloned()
            .unwrap_or_else(|| Package::absent(&resource.name)))
    }

    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let gem = tool::targeted(cx, resource, &["gem"])?;
        let pattern = format!("\\A{}\\z", resource.name);
        let mut argv = vec![&*gem, "list", "--remote"];
        if let Some(source) = resource.text("source") {
            argv.extend(["--source", source]);
        }
        argv.push(&pattern);
        let output = tool::run(cx, resource, &argv)?;
        if !output.success() {
            return Err(tool::refused(resource, &argv.join(" "), &output));
        }
        let found = parse(&String::from_utf8_lossy(&output.stdout));
        Ok(found.into_iter().find_map(|package| match package.status {
            Status::Installed(version) if package.name == resource.name => Some(version),
            _ => None,
        }))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let gem = tool::targeted(cx, resource, &["gem"])?;
        let version = match action {
            Action::InstallVersion(version) => Some(version),
            Action::Install => None,
            Action::Remove | Action::Purge => {
                let mut argv = vec![&*gem, "uninstall", "--executables", "--all"];
                argv.push(&resource.name);
                argv.extend(resource.list("uninstall_options"));
                return change(cx, resource, &argv);
            }
            Action::Hold | Action::Unhold => return Err(tool::not_held(resource, "gem")),
        };
        let mut argv = vec![&*gem, "install"];
        argv.extend(resource.list("install_options"));
        if let Some(version) = version {
            argv.extend(["-v", version]);
        }
        argv.push("--no-document");
        match resource.text("source") {
            None => argv.push(&resource.name),
            Some(source) if source.starts_with("puppet:") => {
                let problem = "puppet:// URLs are not supported as gem sources";
                return Err(EngineError::invalid(resource, "source", problem));
            }
            Some(source) if source.starts_with("file://") => {
                argv.push(source.trim_start_matches("file://"));
            }
            Some(source) if source.contains("://") => {
                argv.extend(["--source", source, &resource.name]);
            }
            Some(file) => argv.push(file),
        }
        change(cx, resource, &argv)
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        let gem = tool::targeted(cx, resource, &["gem"])?;
        let list = memo::list(cx, resource, &format!("gem {gem}"), Path::new(&gem), || {
            let argv = [&*gem, "list", "--local"];
            let output = tool::run(cx, resource, &argv)?;
            if !output.success() {
                return Err(tool::refused(resource, &argv.join(" "), &output));
            }
            Ok(parse(&String::from_utf8_lossy(&output.stdout)))
        })?;
        Ok(list.as_ref().clone())
    }
}

/// Gem ends with 0 after some of its errors.
fn change(cx: &Cx<'_>, resource: &Resource, argv: &[&str]) -> Result<(), EngineError> {
    let output = tool::change_by(cx, resource, &tool::command(cx, argv))?;
    if output.text().contains("ERROR") {
        return Err(tool::refused(resource, &argv.join(" "), &output));
    }
    Ok(())
}

/// Lines `name (2.0, 1.0, default: 0.9 ruby)`: one package for each version, the newest first.
fn parse(text: &str) -> Vec<Package> {
    let line = |line: &str| {
        let (name, versions) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
        let version = |version: &str| {
            let version = version.trim().trim_start_matches("default: ");
            Some(Package {
                name: name.trim().to_owned(),
                status: Status::Installed(version.split_whitespace().next()?.to_owned()),
                held: false,
            })
        };
        Some(versions.split(',').filter_map(version).collect::<Vec<_>>())
    };
    text.lines().filter_map(line).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{Status, parse};

    #[test]
    fn every_version_of_a_gem_is_told() {
        let text = "\n*** LOCAL GEMS ***\n\nrake (13.1.0, default: 13.0.6)\nnokogiri (1.16.0 x86_64-linux)\nbroken\n";
        let found: Vec<(String, Status)> = parse(text)
            .into_iter()
            .map(|package| (package.name, package.status))
            .collect();
        let one =
            |name: &str, version: &str| (name.to_owned(), Status::Installed(version.to_owned()));
        assert_eq!(
            found,
            [
                one("rake", "13.1.0"),
                one("rake", "13.0.6"),
                one("nokogiri", "1.16.0")
            ]
        );
    }
}
