//! `package`: whether a package is installed, and its version.

use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState, compare_properties, quote_value};
use crate::providers::package::choice::choose_provider;
use crate::providers::package::{
    PACKAGE_PROVIDERS, PackageInstallStatus, PackageOperation, PackageState,
};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
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
        let expected = "a package name: letters, digits, `+-.:_`";
        resource.check_name(expected, |name| {
            let is_first =
                |c: char| c.is_ascii_alphanumeric() || (c == '@' && extra_characters.contains(c));
            let is_other = |c| "+-.:_".contains(c) || extra_characters.contains(c);
            name.starts_with(is_first)
                && name.chars().all(|c| c.is_ascii_alphanumeric() || is_other(c))
        })?;
        if resource.get("mark").is_some()
            && matches!(resource.get_text("ensure"), Some("absent" | "purged"))
        {
            let problem = "cannot be given while `ensure` is `absent` or `purged`";
            return Err(EngineError::invalid_value(&resource, "mark", problem));
        }
        let expected = "a keyword or one version; version ranges are not supported";
        resource.check_text("ensure", expected, |text| {
            let is_version_character = |c: char| c.is_ascii_alphanumeric() || "+-.:~_^".contains(c);
            !text.is_empty() && text.chars().all(is_version_character)
        })?;
        for name in ["install_options", "uninstall_options"] {
            let expected = "options that begin with `-`";
            resource.check_items(name, expected, |option| option.starts_with('-'))?;
        }
        resource.check_text("source", "a file or URL", |source| !source.starts_with('-'))?;
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let (_, tool) = choose_provider(resource)?;
        let mut values = package_values(&tool.query_package(resource)?);
        if resource.get_text("ensure") == Some("latest") {
            let newest = tool.candidate_version(resource)?.ok_or_else(|| {
                let problem =
                    "no source provides this package; check its name and refresh the package lists";
                EngineError::failed(resource, problem)
            })?;
            values.insert(CANDIDATE_VERSION_KEY.to_owned(), newest.into());
        }
        Ok(ResourceState { values })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let rest = resource.without_value("ensure");
        let mut changes = Vec::new();
        if let Some((desired, found)) = resource.get("ensure").zip(state.get("ensure"))
            && !is_ensured(desired, found, state)
        {
            let attribute = SCHEMA.find_attribute("ensure");
            changes.extend(attribute.map(|attribute| {
                let mut change = PropertyChange::from_attribute(attribute, Some(found), desired);
                change.message = ensure_message(&change, state);
                change
            }));
        } else if is_installed(state) {
            changes = compare_properties(&SCHEMA, &rest, state);
        }
        ResourcePlan { resource: resource.clone(), state: state.clone(), changes }
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &cx.bind(&plan.resource);
        let (_, tool) = choose_provider(resource)?;
        let run = |operation| tool.run_operation(resource, operation);
        let desired = change.to.as_text().unwrap_or_default();
        let held = plan.state.get_text("mark") == Some("hold");
        if change.property == "mark" {
            let unhold = desired != "hold";
            return run(if unhold { PackageOperation::Unhold } else { PackageOperation::Hold });
        }
        // Apt does not change held packages, so the hold is released for a requested change.
        if held && desired != "held" {
            run(PackageOperation::Unhold)?;
        }
        match desired {
            "absent" => return run(PackageOperation::Remove),
            "purged" => return run(PackageOperation::Purge),
            "held" if is_installed(&plan.state) => {}
            "present" | "installed" | "latest" | "held" => run(PackageOperation::Install)?,
            version => run(PackageOperation::InstallVersion(version))?,
        }
        let mark = resource.get_text("mark");
        if desired == "held" || mark == Some("hold") || (held && mark.is_none()) {
            run(PackageOperation::Hold)?;
        }
        Ok(())
    }

    /// The files named by `responsefile` and `source`, if these are absolute paths.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let files =
            ["responsefile", "source"].into_iter().filter_map(|name| resource.get_text(name));
        files.filter(|path| path.starts_with('/')).map(|path| ("file", path.to_owned())).collect()
    }

    fn provider_name(&self, resource: &BoundResource<'_>) -> Option<String> {
        choose_provider(resource).ok().map(|(name, _)| name.to_owned())
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let found = choose_provider(&cx.bind(&all))?.1.list_packages(&cx.bind(&all))?;
        Ok(found.iter().map(|package| (package.name.clone(), package_values(package))).collect())
    }
}

fn package_values(package: &PackageState) -> ResourceValues {
    let ensure = match &package.status {
        PackageInstallStatus::Installed(version) => version.as_str(),
        PackageInstallStatus::Removed => "absent",
        PackageInstallStatus::Purged => "purged",
    };
    let mark = if package.held { "hold" } else { "none" };
    name_values([("ensure", ensure.into()), ("mark", mark.into())])
}

fn is_gone(found: &ResourceValue) -> bool {
    matches!(found.as_text(), Some("absent" | "purged"))
}

fn is_installed(state: &ResourceState) -> bool {
    state.get("ensure").is_some_and(|found| !is_gone(found))
}

fn is_ensured(desired: &ResourceValue, found: &ResourceValue, state: &ResourceState) -> bool {
    match desired.as_text().unwrap_or_default() {
        "present" | "installed" => !is_gone(found),
        "absent" => is_gone(found),
        "latest" => state.get(CANDIDATE_VERSION_KEY) == Some(found),
        "held" => !is_gone(found) && state.get_text("mark") == Some("hold"),
        _ => desired == found,
    }
}

/// Puppet's messages: `purged` whatever the previous state, `created` if it was absent.
fn ensure_message(change: &PropertyChange, state: &ResourceState) -> String {
    match change.to.as_text() {
        Some("purged") => "purged".to_owned(),
        Some("absent") => "removed".to_owned(),
        _ if change.from.as_ref().is_some_and(is_gone) => "created".to_owned(),
        Some("latest") => {
            let newest = quote_value(state.get(CANDIDATE_VERSION_KEY));
            format!("ensure changed {} to {newest}", quote_value(change.from.as_ref()))
        }
        _ => change.message.clone(),
    }
}
