//! Python packages by `pip`: of the machine, or of the virtual environment whose `pip` the resource's `command` names.

use std::path::Path;

use serde::Deserialize;

use super::{Action, Package, Packages, Status, memo, tool};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// The provider; by which names it is looked for, the first that there is.
#[derive(Debug)]
pub struct Pip(pub &'static [&'static str]);

/// What is not worth a word, and would ask the network.
const QUIET: &str = "--disable-pip-version-check";

/// A line of `pip list --format=json`.
#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    version: String,
}

/// What `pip install --report` tells, as far as it matters.
#[derive(Debug, Deserialize)]
struct Report {
    install: Vec<Planned>,
}

#[derive(Debug, Deserialize)]
struct Planned {
    metadata: Line,
}

impl Packages for Pip {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Package, EngineError> {
        let all = self.all(cx, resource)?;
        let wanted = normal(&resource.name);
        let found = all.into_iter().find(|known| normal(&known.name) == wanted);
        Ok(Package {
            name: resource.name.clone(),
            ..found.unwrap_or_else(|| Package::absent(&resource.name))
        })
    }

    /// What pip would install if nothing were there.
    fn candidate(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Option<String>, EngineError> {
        let pip = self.command(cx, resource)?;
        let mut argv = vec![&*pip, "install", QUIET, "--quiet", "--dry-run"];
        argv.extend(["--ignore-installed", "--no-deps", "--report", "-"]);
        argv.extend(resource.list("install_options"));
        let wanted = requirement(resource, None);
        argv.push(&wanted);
        let output = tool::run(cx, resource, &argv)?;
        if !output.success() {
            return Err(tool::refused(resource, &argv.join(" "), &output));
        }
        let report: Report = serde_json::from_slice(&output.stdout)
            .map_err(|error| tool::unreadable(resource, "pip install --report", &error))?;
        let mut planned = report.install.into_iter();
        Ok(planned.next().map(|planned| planned.metadata.version))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action<'_>) -> Result<(), EngineError> {
        let pip = self.command(cx, resource)?;
        let version = match action {
            Action::InstallVersion(version) => Some(version),
            Action::Install => None,
            Action::Remove | Action::Purge => {
                let mut argv = vec![&*pip, "uninstall", "-y", "-q"];
                argv.extend(resource.list("uninstall_options"));
                argv.push(&resource.name);
                return tool::change(cx, resource, &argv);
            }
            Action::Hold | Action::Unhold => return Err(tool::not_held(resource, "pip")),
        };
        let mut argv = vec![&*pip, "install", QUIET, "-q"];
        argv.extend(resource.list("install_options"));
        if resource.text("ensure") == Some("latest") {
            argv.push("--upgrade");
        }
        let wanted = requirement(resource, version);
        argv.push(&wanted);
        tool::change(cx, resource, &argv)
    }

    fn all(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Package>, EngineError> {
        let pip = self.command(cx, resource)?;
        let list = memo::list(cx, resource, &format!("pip {pip}"), Path::new(&pip), || {
            let argv = [&*pip, "list", QUIET, "--format=json"];
            let output = tool::run(cx, resource, &argv)?;
            if !output.success() {
                return Err(tool::refused(resource, &argv.join(" "), &output));
            }
            let lines: Vec<Line> = serde_json::from_slice(&output.stdout)
                .map_err(|error| tool::unreadable(resource, "pip list", &error))?;
            let package = |line: Line| Package {
                name: line.name,
                status: Status::Installed(line.version),
                held: false,
            };
            Ok(lines.into_iter().map(package).collect())
        })?;
        Ok(list.as_ref().clone())
    }
}

impl Pip {
    fn command(&self, cx: &Cx<'_>, resource: &Resource) -> Result<String, EngineError> {
        tool::targeted(cx, resource, self.0)
    }
}

/// What is asked for: the name with its version, or the source.
fn requirement(resource: &Resource, version: Option<&str>) -> String {
    let name = &resource.name;
    match (resource.text("source"), version) {
        // A file or directory of this machine knows its own name and version.
        (Some(source), _) if source.starts_with('/') => source.to_owned(),
        (Some(source), Some(version)) => format!("{source}@{version}#egg={name}"),
        (Some(source), None) => format!("{source}#egg={name}"),
        (None, Some(version)) => format!("{name}=={version}"),
        (None, None) => name.clone(),
    }
}

/// Names that mean the same package are the same here.
fn normal(name: &str) -> String {
    let bare = name.split('[').next().unwrap_or_default();
    bare.to_lowercase().replace(['_', '.'], "-")
}
