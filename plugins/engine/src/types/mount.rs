//! `mount`: a line of fstab, and whether the file system is mounted.
//!
//! Only the machine that we run on can mount something; in a scratch root the line is all there is.

use std::path::Path;

use muster_system::Command;

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::parsed_file::{Format, ParsedFile, Record};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const FSTAB: &str = "/etc/fstab";
/// What the kernel says is mounted.
const MOUNTED: &str = "/proc/self/mounts";
/// Longest list of mounts that is read, in bytes.
const LIMIT: u64 = 16 * 1024 * 1024;
/// The fields of a line, in their order.
const FIELDS: [&str; 4] = ["fstype", "options", "dump", "pass"];

static SCHEMA: Schema = Schema {
    type_name: "mount",
    doc: "A file system in fstab, and whether it is mounted.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["defined", "present", "mounted", "unmounted", "absent"]),
            "Whether fstab has it, and whether it is mounted; `defined` leaves that as it is.",
        ),
        Attribute::property("device", Kind::Text, "What is mounted."),
        Attribute::property("fstype", Kind::Text, "The kind of file system."),
        Attribute::property(
            "options",
            Kind::Text,
            "Options as in fstab, with commas between them.",
        ),
        Attribute::property(
            "pass",
            Kind::Text,
            "In which pass it is checked at boot; 0 is never.",
        )
        .or("0"),
        Attribute::property("dump", Kind::Text, "Whether `dump` saves it: 0 or 1.").or("0"),
        Attribute::property("target", Kind::Path, "The file.").or(FSTAB),
        Attribute::parameter(
            "provider",
            Kind::Word(&["parsed"]),
            "How it is done; there is one way.",
        )
        .or("parsed"),
        Attribute::parameter("name", Kind::Path, "Where it is mounted."),
        Attribute::parameter(
            "atboot",
            Kind::Bool,
            "Accepted for Puppet's sake; on Linux the option `noauto` says it.",
        ),
        Attribute::parameter(
            "remounts",
            Kind::Bool,
            "Whether it can be mounted anew without being unmounted.",
        )
        .or("true"),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Mount;

impl ResourceType for Mount {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        for name in ["fstype", "options", "pass", "dump"] {
            let bad = |text: &&str| text.is_empty() || text.contains(char::is_whitespace);
            if resource.text(name).as_ref().is_some_and(bad) {
                let problem = "must be one word, without blanks";
                return Err(EngineError::invalid(&resource, name, problem));
            }
        }
        if let Some(device) = resource.text("device")
            && (device.is_empty() || device.contains(['\n', '\t', '#']))
        {
            let problem = "must be a device on one line, without tabs and `#`";
            return Err(EngineError::invalid(&resource, "device", problem));
        }
        if resource.text("ensure") == Some("present") {
            resource
                .values
                .insert("ensure".to_owned(), Value::from("defined"));
        }
        Ok(resource)
    }

    /// `ensure` is `mounted`, `unmounted` (fstab has it), `ghost` (mounted, and fstab does not have it) or `absent`.
    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let mut state = file(resource).read(cx, resource)?;
        let mounted = mounted(cx, resource)?.contains(&resource.name);
        let word = match (state.is_absent(), mounted) {
            (true, true) => "ghost",
            (true, false) => "absent",
            (false, true) => "mounted",
            (false, false) => "unmounted",
        };
        state.values.insert("ensure".to_owned(), Value::from(word));
        Ok(state)
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let found = state
            .get("ensure")
            .and_then(Value::as_text)
            .unwrap_or("absent");
        let listed = matches!(found, "mounted" | "unmounted");
        let mut wanted = resource.clone();
        if wanted.text("ensure") == Some("defined") && listed {
            wanted.values.remove("ensure");
        }
        let mut plan = Plan::compare(&SCHEMA, &wanted, state);
        for change in &mut plan.changes {
            if change.property == "ensure" {
                // Unlike other types, this one says it as of any property.
                change.message = match (found, change.to.as_text().unwrap_or_default()) {
                    ("absent", to) => format!("defined 'ensure' as '{to}'"),
                    (from, "absent") => format!("undefined 'ensure' from '{from}'"),
                    (from, to) => format!("ensure changed '{from}' to '{to}'"),
                };
            }
        }
        // What is mounted without a line has no properties to be compared.
        if !listed {
            plan.changes.retain(|change| change.property == "ensure");
        }
        Plan {
            resource: resource.clone(),
            ..plan
        }
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let found = plan.state.get("ensure").and_then(Value::as_text);
        let is_mounted = matches!(found, Some("mounted" | "ghost"));
        let store = || file(resource).apply(cx, &SCHEMA, plan);
        match (change.property.as_str(), change.to.as_text()) {
            ("ensure", Some("absent")) => {
                if is_mounted {
                    run(cx, resource, &["umount", &resource.name])?;
                }
                if found == Some("ghost") {
                    return Ok(());
                }
                store()
            }
            ("ensure", Some("mounted")) => {
                store()?;
                if is_mounted {
                    return Ok(());
                }
                run(cx, resource, &["mount", &resource.name])
            }
            ("ensure", Some("unmounted")) => {
                store()?;
                if is_mounted {
                    run(cx, resource, &["umount", &resource.name])?;
                }
                Ok(())
            }
            _ => store(),
        }
    }

    fn refreshes(&self) -> bool {
        true
    }

    fn refreshes_itself(&self) -> bool {
        true
    }

    /// Mounts it anew, if it is mounted.
    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        let is_swap = resource.text("fstype") == Some("swap");
        if is_swap || !mounted(cx, resource)?.contains(&resource.name) {
            return Ok(());
        }
        cx.say("Remounting");
        let name = resource.name.as_str();
        if resource.flag("remounts") {
            return run(cx, resource, &["mount", "-o", "remount", name]);
        }
        run(cx, resource, &["umount", name])?;
        run(cx, resource, &["mount", name])
    }

    /// The mounts above it, and the file that it is a line of.
    fn autorequires(&self, resource: &Resource, siblings: &dyn Siblings) -> Vec<Wanted> {
        let above = Path::new(&resource.name).ancestors().skip(1);
        let mut wanted: Vec<Wanted> = above
            .map(|path| path.to_string_lossy().into_owned())
            .filter(|path| siblings.find("mount", path).is_some())
            .map(|path| ("mount", path))
            .collect();
        wanted.extend(file(resource).autorequires());
        wanted
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "/")?;
        let mounted = mounted(cx, &all)?;
        let listed = file(&all)
            .instances(cx.system)
            .map_err(EngineError::during(&all, "listing mounts"))?;
        let state = |(name, mut values): (String, Values)| {
            let there = mounted.contains(&name);
            let word = if there { "mounted" } else { "unmounted" };
            values.insert("ensure".to_owned(), Value::from(word));
            (name, values)
        };
        Ok(listed.into_iter().map(state).collect())
    }
}

fn file(resource: &Resource) -> ParsedFile {
    ParsedFile::plain(&FstabFormat, resource.text("target").unwrap_or(FSTAB))
}

/// Every place where something is mounted.
fn mounted(cx: &Cx<'_>, resource: &Resource) -> Result<Vec<String>, EngineError> {
    let text = match cx.system.read(Path::new(MOUNTED), LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => {
            return Err(EngineError::during(resource, format!("reading {MOUNTED}"))(
                error,
            ));
        }
    };
    let place = |line: &str| line.split(' ').nth(1).map(plain);
    Ok(text.lines().filter_map(place).collect())
}

fn run(cx: &Cx<'_>, resource: &Resource, argv: &[&str]) -> Result<(), EngineError> {
    if cx.system.root() != Path::new("/") {
        let problem = "only the machine itself mounts file systems, and this is a scratch root; use `ensure => defined`";
        return Err(EngineError::failed(resource, problem));
    }
    let mut command = Command::new(argv.iter().copied());
    command.cancel = cx.cancel.clone();
    let running = format!("running {}", argv.join(" "));
    let output = cx
        .system
        .run(&command)
        .map_err(EngineError::during(resource, running))?;
    if output.success() {
        return Ok(());
    }
    let problem = format!(
        "Execution of '{}' returned {}: {}",
        argv.join(" "),
        output.code,
        output.text().trim()
    );
    Err(EngineError::failed(resource, problem))
}

/// `device place fstype options dump pass`; blanks are written as `\040`.
#[derive(Debug)]
pub struct FstabFormat;

impl Format for FstabFormat {
    fn take(&self, lines: &[&str]) -> (usize, Option<Record>) {
        (1, lines.first().and_then(|line| parse(line)))
    }

    fn render(&self, record: &Record) -> Result<String, String> {
        let text = |name: &str| record.values.get(name).and_then(Value::as_text);
        let device = text("device").ok_or("a mount needs `device`")?;
        let fstype = text("fstype").ok_or("a mount needs `fstype`")?;
        let options = text("options").unwrap_or("defaults");
        let (dump, pass) = (text("dump").unwrap_or("0"), text("pass").unwrap_or("0"));
        Ok(format!(
            "{}\t{}\t{fstype}\t{options}\t{dump}\t{pass}\n",
            escaped(device),
            escaped(&record.name)
        ))
    }
}

fn parse(line: &str) -> Option<Record> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split_whitespace();
    let device = plain(fields.next()?);
    let name = plain(fields.next()?);
    let trimmed = name.trim_end_matches('/');
    let mut values = Values::from([("device".to_owned(), Value::Text(device))]);
    for (field, text) in FIELDS.iter().zip(fields) {
        values.insert((*field).to_owned(), Value::from(text));
    }
    Some(Record {
        name: if trimmed.is_empty() {
            name
        } else {
            trimmed.to_owned()
        },
        values,
    })
}

fn escaped(text: &str) -> String {
    text.replace(' ', "\\040")
}

fn plain(text: &str) -> String {
    text.replace("\\040", " ")
}
