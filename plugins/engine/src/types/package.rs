//! `package`: that a package is installed, in which version, or not at all.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State, quoted};
use crate::providers::package::{Action, PROVIDERS, Package as Found, Status, choose};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

/// Under this name a state carries the newest version, where that matters.
const CANDIDATE: &str = "newest version";

static SCHEMA: Schema = Schema {
    type_name: "package",
    doc: "A package of the machine's package system.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::WordOr(&["present", "installed", "absent", "purged", "latest", "held"]),
            "Whether it is installed; a version means exactly that one.",
        )
        .or("present"),
        Attribute::property(
            "mark",
            Kind::Word(&["hold", "none"]),
            "Whether it is kept at its version.",
        ),
        Attribute::parameter("name", Kind::Text, "The name of the package."),
        Attribute::parameter(
            "source",
            Kind::Text,
            "The file or place to install from; dpkg needs one.",
        ),
        Attribute::parameter(
            "install_options",
            Kind::Options,
            "Options for the tool when it installs.",
        ),
        Attribute::parameter(
            "uninstall_options",
            Kind::Options,
            "Options for rpm, zypper, pip, gem and npm when they remove.",
        ),
        Attribute::parameter(
            "allow_virtual",
            Kind::Bool,
            "Whether another package that provides this name is good enough, with apt and dpkg.",
        )
        .or("false"),
        Attribute::parameter(
            "configfiles",
            Kind::Word(&["keep", "replace"]),
            "What happens to changed configuration files, with apt and dpkg.",
        )
        .or("keep"),
        Attribute::parameter(
            "responsefile",
            Kind::Path,
            "Answers for `debconf-set-selections`, with apt.",
        ),
        Attribute::parameter(
            "command",
            Kind::Text,
            "The program itself, with pip, gem and npm: `/opt/venv/bin/pip`.",
        ),
        Attribute::parameter(
            "provider",
            Kind::Word(PROVIDERS),
            "The tool; the machine's own, when it is not given.",
        ),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Package;

impl ResourceType for Package {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        let more = match resource.text("provider") {
            Some("npm") => "@/",
            Some("pip" | "pip3") => "[],",
            _ => "",
        };
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || "+-.:_".contains(c) || more.contains(c);
        if !resource.name.chars().all(allowed)
            || !resource
                .name
                .starts_with(|c: char| c.is_ascii_alphanumeric() || (c == '@' && more.contains(c)))
        {
            let problem = format!(
                "is `{}`, must be a package's name: letters, digits, `+-.:_`",
                resource.name
            );
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        if resource.get("mark").is_some()
            && matches!(resource.text("ensure"), Some("absent" | "purged"))
        {
            let problem = "cannot be given while `ensure` is `absent` or `purged`";
            return Err(EngineError::invalid(&resource, "mark", problem));
        }
        let version = |c: char| c.is_ascii_alphanumeric() || "+-.:~_^".contains(c);
        if let Some(ensure) = resource
            .text("ensure")
            .filter(|text| text.is_empty() || !text.chars().all(version))
        {
            let problem = format!(
                "is `{ensure}`, must be a word or one version; ranges of versions are not supported"
            );
            return Err(EngineError::invalid(&resource, "ensure", problem));
        }
        for name in ["install_options", "uninstall_options"] {
            let no_option = |option: &&str| !option.starts_with('-');
            if let Some(bad) = resource.list(name).into_iter().find(no_option) {
                let problem = format!("contains `{bad}`, must be options that begin with `-`");
                return Err(EngineError::invalid(&resource, name, problem));
            }
        }
        if let Some(source) = resource
            .text("source")
            .filter(|source| source.starts_with('-'))
        {
            let problem = format!("is `{source}`, must be a file or place");
            return Err(EngineError::invalid(&resource, "source", problem));
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let (_, tool) = choose(cx, resource)?;
        let mut values = values(&tool.query(cx, resource)?);
        if resource.text("ensure") == Some("latest") {
            let newest = tool.candidate(cx, resource)?.ok_or_else(|| {
                EngineError::failed(
                    resource,
                    "no source offers this package; check its name, and refresh the package lists",
                )
            })?;
            values.insert(CANDIDATE.to_owned(), Value::Text(newest));
        }
        Ok(State { values })
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut changes = Vec::new();
        let differs = |(desired, found): &(&Value, &Value)| !is_ensured(desired, found, state);
        let values = resource.get("ensure").zip(state.get("ensure"));
        if let Some((desired, found)) = values.filter(differs) {
            let change = |attribute| {
                ensure(
                    Change::of(attribute, Some(found), desired),
                    state.get(CANDIDATE),
                )
            };
            changes.extend(SCHEMA.attribute("ensure").map(change));
        }
        let installed = state.get("ensure").is_some_and(|found| !is_gone(found));
        if changes.is_empty() && installed {
            changes = crate::plan::compare(&SCHEMA, &without_ensure(resource.clone()), state);
        }
        Plan {
            resource: resource.clone(),
            state: state.clone(),
            changes,
        }
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let (_, tool) = choose(cx, resource)?;
        let desired = change.to.as_text().unwrap_or_default();
        let installed = plan
            .state
            .get("ensure")
            .is_some_and(|found| !is_gone(found));
        let held = plan.state.get("mark").and_then(Value::as_text) == Some("hold");
        if change.property == "mark" {
            return tool.act(
                cx,
                resource,
                if desired == "hold" {
                    Action::Hold
                } else {
                    Action::Unhold
                },
            );
        }
        // Apt does not touch what is held, and somebody asked for a change.
        if held && desired != "held" {
            tool.act(cx, resource, Action::Unhold)?;
        }
        match desired {
            "present" | "installed" | "latest" => tool.act(cx, resource, Action::Install)?,
            "absent" => tool.act(cx, resource, Action::Remove)?,
            "purged" => tool.act(cx, resource, Action::Purge)?,
            "held" => {
                if !installed {
                    tool.act(cx, resource, Action::Install)?;
                }
                tool.act(cx, resource, Action::Hold)?;
            }
            version => tool.act(cx, resource, Action::InstallVersion(version))?,
        }
        let hold_again =
            resource.text("mark") == Some("hold") || (held && resource.get("mark").is_none());
        if hold_again && !matches!(desired, "absent" | "purged" | "held") {
            tool.act(cx, resource, Action::Hold)?;
        }
        Ok(())
    }

    /// The files that it is installed from and by.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        let files = ["responsefile", "source"].into_iter();
        files
            .filter_map(|name| resource.text(name).filter(|path| path.starts_with('/')))
            .map(|path| ("file", path.to_owned()))
            .collect()
    }

    fn provider(&self, cx: &Cx<'_>, resource: &Resource) -> Option<String> {
        let (name, _) = choose(cx, resource).ok()?;
        Some(name.to_owned())
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let found = choose(cx, &all)?.1.all(cx, &all)?;
        Ok(found
            .into_iter()
            .map(|package| (package.name.clone(), values(&package)))
            .collect())
    }
}

fn values(package: &Found) -> Values {
    let ensure = match &package.status {
        Status::Installed(version) => version.as_str(),
        Status::Removed => "absent",
        Status::Purged => "purged",
    };
    let mark = if package.held { "hold" } else { "none" };
    Values::from([
        ("ensure".to_owned(), Value::from(ensure)),
        ("mark".to_owned(), Value::from(mark)),
    ])
}

fn is_gone(found: &Value) -> bool {
    matches!(found.as_text(), Some("absent" | "purged"))
}

fn is_ensured(desired: &Value, found: &Value, state: &State) -> bool {
    match desired.as_text().unwrap_or_default() {
        "present" | "installed" => !is_gone(found),
        "absent" => is_gone(found),
        "latest" => state.get(CANDIDATE) == Some(found),
        "held" => !is_gone(found) && state.get("mark").and_then(Value::as_text) == Some("hold"),
        _ => desired == found,
    }
}

/// Puppet's words: `purged` whatever was before, `created` from nothing at all.
fn ensure(change: Change, newest: Option<&Value>) -> Change {
    let gone = change.from.as_ref().is_some_and(is_gone);
    match change.to.as_text() {
        Some("purged") => change.saying("purged"),
        Some("absent") => change.saying("removed"),
        _ if gone => change.saying("created"),
        Some("latest") => {
            let (from, to) = (quoted(change.from.as_ref()), quoted(newest));
            change.saying(format!("ensure changed {from} to {to}"))
        }
        _ => change,
    }
}

fn without_ensure(mut resource: Resource) -> Resource {
    resource.values.remove("ensure");
    resource
}
