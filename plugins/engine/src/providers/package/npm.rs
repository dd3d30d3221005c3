//! JavaScript packages by `npm`, installed for the whole machine.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Action, Package, Packages, Status, memo, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// The provider.
#[derive(Debug)]
pub struct Npm;

/// What `npm list --json` tells, as far as it matters.
#[derive(Debug, Deserialize)]
struct Listed {
    #[serde(default)]
    dependencies: BTreeMap<String, Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    version: Option<String>,
}

impl Packages for Npm {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        let all = self.all(cx, resource)?;
        let found = all.into_iter().find(|known| known.name == resource.name);
        Ok(found.unwrap_or_else(|| Package::absent(&resource.name)))
    }

    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let npm = tool::targeted(cx, resource, &["npm"])?;
        let wanted = resource.text("source").unwrap_or(&resource.name);
        let argv = [&*npm, "view", wanted, "version"];
        let output = tool::run(cx, resource, &argv)?;
        if !output.success() {
            return Err(tool::refused(resource, &argv.join(" "), &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Some(text.trim().to_owned()).filter(|version| !version.is_empty()))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let npm = tool::targeted(cx, resource, &["npm"])?;
        let name = &resource.name;
        let wanted = match (action, resource.text("source")) {
            (Action::Install | Action::InstallVersion(_), Some(source)) => source.to_owned(),
            (Action::InstallVersion(version), None) => format!("{name}@{version}"),
            (Action::Install, None) if resource.text("ensure") == Some("latest") => {
                format!("{name}@latest")
            }
            (Action::Install, None) => name.clone(),
            (Action::Remove | Action::Purge, _) => {
                let mut argv = vec![&*npm, "uninstall", "--global"];
                argv.extend(resource.list("uninstall_options"));
                argv.push(name);
                return tool::change(cx, resource, &argv);
            }
            (Action::Hold | Action::Unhold, _) => return Err(tool::not_held(resource, "npm")),
        };
        let mut argv = vec![&*npm, "install", "--global"];
        argv.extend(resource.list("install_options"));
        argv.push(&wanted);
        tool::change(cx, resource, &argv)
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        let npm = tool::targeted(cx, resource, &["npm"])?;
        let list = memo::list(cx, resource, &format!("npm {npm}"), Path::new(&npm), || {
            let argv = [&*npm, "list", "--json", "--global", "--depth=0"];
            // It ends with 1 when something about the packages is not as it should be, and lists them all the same.
            let output = tool::run(cx, resource, &argv)?;
            let listed: Listed = serde_json::from_slice(&output.stdout)
                .map_err(|error| tool::unreadable(resource, "npm list", &error))?;
            let package = |(name, dependency): (String, Dependency)| {
                Some(Package {
                    name,
                    status: Status::Installed(dependency.version?),
                    held: false,
                })
            };
            Ok(listed
                .dependencies
                .into_iter()
                .filter_map(package)
                .collect())
        })?;
        Ok(list.as_ref().clone())
    }
}
