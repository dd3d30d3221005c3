//! `package`: whether a package is installed, and its version.

use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState, quote_value};
use crate::providers::package::{
    PACKAGE_PROVIDERS, PackageInstallStatus, PackageOperation, PackageState, choose_provider,
};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{AutoRequire, CatalogResources, ResourceContext, ResourceType};
use crate::schema::AttributeKind::{AbsolutePath, Options, Text, Word, WordOr};
use crate::schema::{TypeSchema, flag_parameter, parameter, property};

/// State key for the newest version; set only where needed.
const CANDIDATE_VERSION_KEY: &str = "newest version";

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "package",
    doc: "A software package.",
    namevar: "name",
    attributes: &[
        property(
            "ensure",
            WordOr(&["present", "installed", "absent", "purged", "latest", "held"]),
            "Whether the package is installed; a version requires exactly this version.",
        )
        .with_default("present"),
        property("mark", Word(&["hold", "none"]), "Whether to hold the package at its version."),
        parameter("name", Text, "The name of the package."),
        parameter("source", Text, "The file or URL to install from; required with dpkg."),
        parameter("install_options", Options, "Options of the tool for installations."),
        parameter(
            "uninstall_options",
            Options,
            "Options for removals, with rpm, zypper, pip, gem and npm.",
        ),
        flag_parameter(
            "allow_virtual",
            "Whether a package that provides this name counts as installed, with apt and dpkg.",
        ),
        parameter(
            "configfiles",
            Word(&["keep", "replace"]),
            "Whether to keep or replace modified configuration files, with apt and dpkg.",
        )
        .with_default("keep"),
        parameter(
            "responsefile",
            AbsolutePath,
            "A file of answers for `debconf-set-selections`, with apt.",
        ),
        parameter(
            "command",
            Text,
            "The program to run, with pip, gem and npm: `/opt/venv/bin/pip`.",
        ),
        parameter(
            "provider",
            Word(PACKAGE_PROVIDERS),
            "The package tool; defaults to that of the operating system.",
        ),
    ],
};

/// The resource type.
#[derive(Debug)]
pub struct PackageResourceType;

impl ResourceType for PackageResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        let extra_characters = match resource.get_text("provider") {
            Some("npm") => "@/",
            Some("pip" | "pip3") => "[],",
            _ => "",
        };
        let is_allowed = |c: char| {
            c.is_ascii_alphanumeric() || "+-.:_".contains(c) || extra_characters.contains(c)
        };
        if !resource.name.chars().all(is_allowed)
            || !resource.name.starts_with(|c: char| {
                c.is_ascii_alphanumeric() || (c == '@' && extra_characters.contains(c))
            })
        {
            let problem =
                format!("is `{}`, must be a package name: letters, digits, `+-.:_`", resource.name);
            return Err(EngineError::invalid_value(&resource, "name", problem));
        }
        if resource.get("mark").is_some()
            && matches!(resource.get_text("ensure"), Some("absent" | "purged"))
        {
            let problem = "cannot be given while `ensure` is `absent` or `purged`";
            return Err(EngineError::invalid_value(&resource, "mark", problem));
        }
        let is_version_character = |c: char| c.is_ascii_alphanumeric() || "+-.:~_^".contains(c);
        if let Some(ensure) = resource
            .get_text("ensure")
            .filter(|text| text.is_empty() || !text.chars().all(is_version_character))
        {
            let problem = format!(
                "is `{ensure}`, must be a keyword or one version; version ranges are not supported"
            );
            return Err(EngineError::invalid_value(&resource, "ensure", problem));
        }
        for name in ["install_options", "uninstall_options"] {
            let is_no_option = |option: &&str| !option.starts_with('-');
            if let Some(option) = resource.get_list(name).into_iter().find(is_no_option) {
                let problem = format!("contains `{option}`, must be options that begin with `-`");
                return Err(EngineError::invalid_value(&resource, name, problem));
            }
        }
        if let Some(source) = resource.get_text("source").filter(|source| source.starts_with('-')) {
            let problem = format!("is `{source}`, must be a file or URL");
            return Err(EngineError::invalid_value(&resource, "source", problem));
        }
        Ok(resource)
    }

    fn read_state(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ResourceState> {
        let (_, tool) = choose_provider(cx, resource)?;
        let mut values = package_values(&tool.query_package(cx, resource)?);
        if resource.get_text("ensure") == Some("latest") {
            let newest = tool.candidate_version(cx, resource)?.ok_or_else(|| {
                EngineError::failed(
                    resource,
                    "no source provides this package; check its name and refresh the package lists",
                )
            })?;
            values.insert(CANDIDATE_VERSION_KEY.to_owned(), ResourceValue::Text(newest));
        }
        Ok(ResourceState { values })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut changes = Vec::new();
        let differs = |(desired, found): &(&ResourceValue, &ResourceValue)| {
            !is_ensured(desired, found, state)
        };
        let values = resource.get("ensure").zip(state.get("ensure"));
        if let Some((desired, found)) = values.filter(differs) {
            let change = |attribute| {
                with_ensure_message(
                    PropertyChange::from_attribute(attribute, Some(found), desired),
                    state.get(CANDIDATE_VERSION_KEY),
                )
            };
            changes.extend(SCHEMA.find_attribute("ensure").map(change));
        }
        let installed = state.get("ensure").is_some_and(|found| !is_gone(found));
        if changes.is_empty() && installed {
            changes =
                crate::plan::compare_properties(&SCHEMA, &without_ensure(resource.clone()), state);
        }
        ResourcePlan { resource: resource.clone(), state: state.clone(), changes }
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &plan.resource;
        let (_, tool) = choose_provider(cx, resource)?;
        let desired = change.to.as_text().unwrap_or_default();
        let installed = plan.state.get("ensure").is_some_and(|found| !is_gone(found));
        let held = plan.state.get("mark").and_then(ResourceValue::as_text) == Some("hold");
        if change.property == "mark" {
            return tool.run_operation(
                cx,
                resource,
                if desired == "hold" { PackageOperation::Hold } else { PackageOperation::Unhold },
            );
        }
        // Apt does not change held packages, so the hold is released for a requested change.
        if held && desired != "held" {
            tool.run_operation(cx, resource, PackageOperation::Unhold)?;
        }
        match desired {
            "present" | "installed" | "latest" => {
                tool.run_operation(cx, resource, PackageOperation::Install)?;
            }
            "absent" => tool.run_operation(cx, resource, PackageOperation::Remove)?,
            "purged" => tool.run_operation(cx, resource, PackageOperation::Purge)?,
            "held" => {
                if !installed {
                    tool.run_operation(cx, resource, PackageOperation::Install)?;
                }
                tool.run_operation(cx, resource, PackageOperation::Hold)?;
            }
            version => {
                tool.run_operation(cx, resource, PackageOperation::InstallVersion(version))?;
            }
        }
        let hold_again =
            resource.get_text("mark") == Some("hold") || (held && resource.get("mark").is_none());
        if hold_again && !matches!(desired, "absent" | "purged" | "held") {
            tool.run_operation(cx, resource, PackageOperation::Hold)?;
        }
        Ok(())
    }

    /// The files named by `responsefile` and `source`, if these are absolute paths.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let files = ["responsefile", "source"].into_iter();
        files
            .filter_map(|name| resource.get_text(name).filter(|path| path.starts_with('/')))
            .map(|path| ("file", path.to_owned()))
            .collect()
    }

    fn provider_name(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Option<String> {
        let (name, _) = choose_provider(cx, resource).ok()?;
        Some(name.to_owned())
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let found = choose_provider(cx, &all)?.1.list_packages(cx, &all)?;
        Ok(found
            .into_iter()
            .map(|package| (package.name.clone(), package_values(&package)))
            .collect())
    }
}

fn package_values(package: &PackageState) -> ResourceValues {
    let ensure = match &package.status {
        PackageInstallStatus::Installed(version) => version.as_str(),
        PackageInstallStatus::Removed => "absent",
        PackageInstallStatus::Purged => "purged",
    };
    let mark = if package.held { "hold" } else { "none" };
    ResourceValues::from([
        ("ensure".to_owned(), ResourceValue::from(ensure)),
        ("mark".to_owned(), ResourceValue::from(mark)),
    ])
}

fn is_gone(found: &ResourceValue) -> bool {
    matches!(found.as_text(), Some("absent" | "purged"))
}

fn is_ensured(desired: &ResourceValue, found: &ResourceValue, state: &ResourceState) -> bool {
    match desired.as_text().unwrap_or_default() {
        "present" | "installed" => !is_gone(found),
        "absent" => is_gone(found),
        "latest" => state.get(CANDIDATE_VERSION_KEY) == Some(found),
        "held" => {
            !is_gone(found) && state.get("mark").and_then(ResourceValue::as_text) == Some("hold")
        }
        _ => desired == found,
    }
}

/// Puppet's messages: `purged` whatever the previous state, `created` if it was absent.
fn with_ensure_message(change: PropertyChange, newest: Option<&ResourceValue>) -> PropertyChange {
    let was_absent = change.from.as_ref().is_some_and(is_gone);
    match change.to.as_text() {
        Some("purged") => change.with_message("purged"),
        Some("absent") => change.with_message("removed"),
        _ if was_absent => change.with_message("created"),
        Some("latest") => {
            let (from, to) = (quote_value(change.from.as_ref()), quote_value(newest));
            change.with_message(format!("ensure changed {from} to {to}"))
        }
        _ => change,
    }
}

fn without_ensure(mut resource: Resource) -> Resource {
    resource.values.remove("ensure");
    resource
}
