//! `mount`: a line of fstab, and whether the file system is mounted.
//!
//! File systems are mounted only on the local machine; in a scratch root only the line is managed.

use std::path::Path;

use muster_system::Command;
use muster_system::error::found_or_none;

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::parsed_file::{FileRecord, IncompleteRecord, ParsedFile, RecordFormat};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
use crate::schema::AttributeKind::{AbsolutePath, Bool, Text, Word};
use crate::schema::{TypeSchema, parameter, property, provider_parameter};

const FSTAB_FILE: &str = "/etc/fstab";
/// The kernel's list of mounts.
const MOUNT_TABLE_FILE: &str = "/proc/self/mounts";
const MAX_MOUNT_TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// Managed fields of a line, in order.
const FSTAB_FIELDS: [&str; 4] = ["fstype", "options", "dump", "pass"];

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "mount",
    doc: "An entry of fstab, and whether the file system is mounted.",
    namevar: "name",
    attributes: &[
        property(
            "ensure",
            Word(&["defined", "present", "mounted", "unmounted", "absent"]),
            "Whether fstab has the entry, and whether it is mounted; `defined` manages only fstab.",
        ),
        property("device", Text, "The device to mount."),
        property("fstype", Text, "The type of the file system."),
        property("options", Text, "Mount options as in fstab, separated by commas."),
        property("pass", Text, "Order of file system checks at boot; 0 means no check.")
            .with_default("0"),
        property("dump", Text, "Whether `dump` backs it up: 0 or 1.").with_default("0"),
        property("target", AbsolutePath, "The file.").with_default(FSTAB_FILE),
        provider_parameter(&["parsed"]),
        parameter("name", Text, "The mount point; `none` or `swap` for swap space."),
        parameter(
            "atboot",
            Bool,
            "Accepted for compatibility with Puppet; on Linux use the mount option `noauto`.",
        ),
        parameter(
            "remounts",
            Bool,
            "Whether the file system can be remounted without unmounting it.",
        )
        .with_default("true"),
    ],
};

#[derive(Debug)]
pub struct MountResourceType;

impl ResourceType for MountResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        for name in ["fstype", "options", "pass", "dump"] {
            let is_invalid = |text: &str| text.is_empty() || text.contains(char::is_whitespace);
            if resource.get_text(name).is_some_and(is_invalid) {
                let problem = "must be one word, without blanks";
                return Err(EngineError::invalid_value(&resource, name, problem));
            }
        }
        if let Some(device) = resource.get_text("device")
            && (device.is_empty() || device.contains(['\n', '\t', '#']))
        {
            let problem = "must be a device on one line, without tabs and `#`";
            return Err(EngineError::invalid_value(&resource, "device", problem));
        }
        if resource.name.is_empty() || resource.name.contains(['\n', '\t', '#']) {
            let problem = "must be a mount point on one line, without tabs and `#`";
            return Err(EngineError::invalid_value(&resource, "name", problem));
        }
        let name = trim_slashes(&resource.name).to_owned();
        resource.name.clone_from(&name);
        resource.set_value("name", name);
        if resource.get_text("ensure") == Some("present") {
            resource.set_value("ensure", "defined");
        }
        Ok(resource)
    }

    /// `ensure` is `mounted`, `unmounted` (in fstab only), `ghost` (mounted, not in fstab) or `absent`.
    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let mut state = fstab_file(resource).read_state(resource)?;
        let mounted = mounted_paths(resource)?.contains(&resource.name);
        let word = match (state.is_absent(), mounted) {
            (true, true) => "ghost",
            (true, false) => "absent",
            (false, true) => "mounted",
            (false, false) => "unmounted",
        };
        state.values.insert("ensure".to_owned(), ResourceValue::from(word));
        Ok(state)
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let found = state.get_text("ensure").unwrap_or("absent");
        let in_fstab = matches!(found, "mounted" | "unmounted");
        let mut desired = resource.clone();
        if desired.get_text("ensure") == Some("defined") && in_fstab {
            desired.values.remove("ensure");
        }
        let mut plan = ResourcePlan::compare(&SCHEMA, &desired, state);
        for change in &mut plan.changes {
            if change.property == "ensure" {
                // Unlike other types, Puppet uses the generic property message for `ensure` here.
                change.message = match (found, change.to.as_text().unwrap_or_default()) {
                    ("absent", to) => format!("defined 'ensure' as '{to}'"),
                    (from, "absent") => format!("undefined 'ensure' from '{from}'"),
                    (from, to) => format!("ensure changed '{from}' to '{to}'"),
                };
            }
        }
        // A mount without an fstab line has no properties to compare.
        if !in_fstab {
            plan.changes.retain(|change| change.property == "ensure");
        }
        ResourcePlan { resource: resource.clone(), ..plan }
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &cx.bind(&plan.resource);
        let found = plan.state.get_text("ensure");
        let is_mounted = matches!(found, Some("mounted" | "ghost"));
        let desired = change.to.as_text().filter(|_| change.property == "ensure");
        let run = |program: &str| run_mount_command(resource, &[program, &resource.name]);
        if desired == Some("absent") && is_mounted {
            run("umount")?;
        }
        if desired != Some("absent") || found != Some("ghost") {
            fstab_file(resource).apply_plan(cx, plan)?;
        }
        match desired {
            Some("mounted") if !is_mounted => run("mount"),
            Some("unmounted") if is_mounted => run("umount"),
            _ => Ok(()),
        }
    }

    fn supports_refresh(&self) -> bool {
        true
    }

    fn refreshes_itself(&self) -> bool {
        true
    }

    /// Remounts it if it is mounted.
    fn refresh(&self, resource: &BoundResource<'_>) -> Result<()> {
        let is_swap = resource.get_text("fstype") == Some("swap");
        if is_swap || !mounted_paths(resource)?.contains(&resource.name) {
            return Ok(());
        }
        resource.cx.log_line("Remounting");
        let name = resource.name.as_str();
        if resource.get_flag("remounts") {
            return run_mount_command(resource, &["mount", "-o", "remount", name]);
        }
        run_mount_command(resource, &["umount", name])?;
        run_mount_command(resource, &["mount", name])
    }

    /// The mounts above it, and the file that contains the line.
    fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Vec<AutoRequire> {
        let ancestors = Path::new(&resource.name).ancestors().skip(1);
        let mut targets: Vec<AutoRequire> = ancestors
            .map(|path| path.to_string_lossy().into_owned())
            .filter(|path| siblings.find_resource("mount", path).is_some())
            .map(|path| ("mount", path))
            .collect();
        targets.extend(fstab_file(resource).autorequires());
        targets
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "/")?;
        let mounted = mounted_paths(&cx.bind(&all))?;
        let entries = fstab_file(&all).list_instances(cx.system).during(&all, "listing mounts")?;
        let with_ensure = |(name, mut values): (String, ResourceValues)| {
            let word = if mounted.contains(&name) { "mounted" } else { "unmounted" };
            values.insert("ensure".to_owned(), word.into());
            (name, values)
        };
        Ok(entries.into_iter().map(with_ensure).collect())
    }
}

fn fstab_file(resource: &Resource) -> ParsedFile {
    ParsedFile::new(&SCHEMA, &FstabFormat, resource.get_text("target").unwrap_or(FSTAB_FILE))
}

fn mounted_paths(resource: &BoundResource<'_>) -> Result<Vec<String>> {
    let path = Path::new(MOUNT_TABLE_FILE);
    let bytes = found_or_none(resource.cx.system.read_file(path, MAX_MOUNT_TABLE_BYTES))
        .during(resource, format_args!("reading {MOUNT_TABLE_FILE}"))?
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mount_point = |line: &str| line.split(' ').nth(1).map(unescape_field);
    Ok(text.lines().filter_map(mount_point).collect())
}

fn run_mount_command(resource: &BoundResource<'_>, argv: &[&str]) -> Result<()> {
    let cx = resource.cx;
    if cx.system.root() != Path::new("/") {
        let problem = "file systems cannot be mounted in a scratch root; use `ensure => defined`";
        return Err(EngineError::failed(resource, problem));
    }
    let mut command = Command::new(argv.iter().copied());
    command.cancel = cx.cancel.clone();
    let operation = format!("running {}", argv.join(" "));
    let output = cx.system.run_command(&command).during(resource, operation)?;
    if output.is_success() {
        return Ok(());
    }
    Err(EngineError::failed(resource, output.execution_text(&argv.join(" "))))
}

/// `device mountpoint fstype options dump pass`; blanks are written as `\040`.
#[derive(Debug)]
pub struct FstabFormat;

impl RecordFormat for FstabFormat {
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        let line = line.trim_start();
        if line.starts_with('#') {
            return None;
        }
        let mut fields = line.split_whitespace();
        let device = unescape_field(fields.next()?);
        let name = trim_slashes(&unescape_field(fields.next()?)).to_owned();
        let mut values = name_values([("device", device.into())]);
        for (field, text) in FSTAB_FIELDS.iter().zip(fields) {
            values.insert((*field).to_owned(), ResourceValue::from(text));
        }
        Some(FileRecord { name, values })
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let device = escape_field(record.require_text("device", "a mount needs `device`")?);
        let fstype = record.require_text("fstype", "a mount needs `fstype`")?;
        let options = record.get_text("options").unwrap_or("defaults");
        let [dump, pass] = ["dump", "pass"].map(|name| record.get_text(name).unwrap_or("0"));
        let name = escape_field(&record.name);
        Ok(format!("{device}\t{name}\t{fstype}\t{options}\t{dump}\t{pass}\n"))
    }
}

/// The mount point without slashes at the end.
fn trim_slashes(name: &str) -> &str {
    match name.trim_end_matches('/') {
        "" if !name.is_empty() => "/",
        trimmed => trimmed,
    }
}

fn escape_field(text: &str) -> String {
    text.replace(' ', "\\040")
}

fn unescape_field(text: &str) -> String {
    text.replace("\\040", " ")
}
