//! `tidy`: removes files by age, size or name. Generates a `file` with `ensure => absent` for each.
//!
//! A directory is removed only together with all its entries: one remaining file keeps it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_system::{FileEntryKind, FileMetadata};

use super::file::FileResourceType;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::glob;
use crate::providers::walk::{DirectoryWalk, DirectoryWalkEntry, collect_limited};
use crate::resource::{Resource, ResourceValue, format_reference};
use crate::resource_type::{
    BoundResource, CatalogResources, GenerationPhase, ResourceType, absent_resource,
};
use crate::schema::AttributeKind::{AbsolutePath, Int, List, Text, Word};
use crate::schema::{TypeSchema, flag_parameter, parameter};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "tidy",
    doc: "Files to remove if they are old or large enough; without `age` and `size`, all files.",
    namevar: "path",
    attributes: &[
        parameter("path", AbsolutePath, "The file or directory to tidy."),
        parameter(
            "recurse",
            Text,
            "Whether to tidy the contents of the directory: `true`, `false`, or a maximum depth.",
        ),
        parameter(
            "max_files",
            Int,
            "Maximum number of entries, more is an error; 0 only warns above 1000.",
        )
        .with_default("0"),
        parameter(
            "matches",
            List,
            "Patterns such as `*.tmp`; only matching names are removed; requires `recurse`.",
        )
        .split_at_commas(),
        parameter("backup", Text, "The `filebucket` that stores removed files; `false`: none.")
            .with_default("false"),
        parameter(
            "age",
            Text,
            "Minimum age: a number with `s`, `m`, `h`, `d` or `w`; the default unit is days.",
        ),
        parameter(
            "size",
            Text,
            "Minimum size: a number with `b`, `k`, `m`, `g` or `t`; the default unit is KiB.",
        ),
        parameter(
            "type",
            Word(&["atime", "mtime", "ctime"]),
            "The timestamp that determines the age: last access, modification or status change.",
        )
        .with_default("atime"),
        flag_parameter(
            "rmdirs",
            "Whether to remove directories too, if all their contents are removed.",
        ),
    ],
};

#[derive(Debug)]
pub struct TidyResourceType;

impl ResourceType for TidyResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        let depth = recursion_depth(&resource)?;
        age_limit(&resource)?;
        size_limit(&resource)?;
        if resource.get("matches").is_some() && depth == Some(0) {
            let problem = "requires `recurse`, because it matches names in a directory";
            return Err(EngineError::invalid_value(&resource, "matches", problem));
        }
        if resource.get_text("backup").is_some_and(|name| name.starts_with('.')) {
            let problem = "is a suffix; removed files can only be stored in a filebucket";
            return Err(EngineError::invalid_value(&resource, "backup", problem));
        }
        Ok(resource)
    }

    fn generation_phase(&self, _: &Resource) -> GenerationPhase {
        GenerationPhase::BeforeTheRunAndFirst
    }

    fn generate_resources(
        &self,
        resource: &BoundResource<'_>,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        let entries = collect_entries(resource)?;
        let rule = TidyRule::from_resource(resource, resource.cx.system.now())?;
        let path = |entry: &DirectoryWalkEntry| path_of(resource, &entry.relative_path);
        let chosen: Vec<&DirectoryWalkEntry> = entries
            .iter()
            .filter(|entry| siblings.find_resource("file", &path(entry)).is_none())
            .filter(|entry| rule.matches_entry(entry, resource))
            .collect();
        let chosen = without_kept(resource, &chosen)?;
        if !chosen.is_empty() {
            resource.cx.log_line(format!("Tidying {} files", chosen.len()));
        }
        // Deepest first.
        chosen
            .iter()
            .rev()
            .map(|relative_path| absent_file(resource, relative_path, &chosen))
            .collect()
    }
}

/// Number of levels below the path, 0 for the path alone; `None` for all.
fn recursion_depth(resource: &Resource) -> Result<Option<usize>> {
    match resource.get_text("recurse") {
        None | Some("false") => Ok(Some(0)),
        Some("true" | "inf") => Ok(None),
        Some(levels) => levels.parse().map(Some).map_err(|_| {
            let problem = format!("is `{levels}`, must be true, false, inf or a number of levels");
            EngineError::invalid_value(resource, "recurse", problem)
        }),
    }
}

/// A number and the first letter of a unit.
fn parse_amount(text: &str, default: char) -> Option<(u64, char)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let plain = unit.chars().all(char::is_alphanumeric);
    let unit = unit.chars().next().unwrap_or(default);
    Some((number.parse().ok().filter(|_| plain)?, unit.to_ascii_lowercase()))
}

fn age_limit(resource: &Resource) -> Result<Option<Duration>> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let expected = "a number and s, m, h, d or w, such as `1w`";
    Ok(amount_limit(resource, "age", 'd', &units, expected)?.map(Duration::from_secs))
}

fn size_limit(resource: &Resource) -> Result<Option<u64>> {
    let units = [('b', 1), ('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40)];
    let expected = "a number and b, k, m, g or t, such as `10m`";
    amount_limit(resource, "size", 'k', &units, expected)
}

/// The value of an attribute in its smallest unit.
fn amount_limit(
    resource: &Resource,
    name: &str,
    default_unit: char,
    units: &[(char, u64)],
    expected: &str,
) -> Result<Option<u64>> {
    let parse = |text: &str| {
        let (number, unit) = parse_amount(text, default_unit)?;
        let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
        number.checked_mul(*factor)
    };
    resource.check_text(name, expected, |text| parse(text).is_some())?;
    Ok(resource.get_text(name).and_then(parse))
}

/// The path itself and, with `recurse`, everything below it.
fn collect_entries(resource: &BoundResource<'_>) -> Result<Vec<DirectoryWalkEntry>> {
    let path = Path::new(&resource.name);
    let Some(metadata) = resource
        .cx
        .system
        .metadata(path)
        .during(resource, format_args!("inspecting {}", resource.name))?
    else {
        return Ok(Vec::new());
    };
    let mut entries = vec![DirectoryWalkEntry { relative_path: PathBuf::new(), metadata }];
    let depth = recursion_depth(resource)?;
    let walk = DirectoryWalk { depth, ..DirectoryWalk::default() };
    entries.extend(collect_limited(resource, path, walk, "")?);
    Ok(entries)
}

struct TidyRule<'a> {
    now: SystemTime,
    min_age: Option<Duration>,
    min_size: Option<u64>,
    matches: Vec<&'a str>,
    timestamp_kind: &'a str,
    includes_directories: bool,
}

impl<'a> TidyRule<'a> {
    fn from_resource(resource: &'a Resource, now: SystemTime) -> Result<Self> {
        Ok(Self {
            now,
            min_age: age_limit(resource)?,
            min_size: size_limit(resource)?,
            matches: resource.get_list("matches"),
            timestamp_kind: resource.get_text("type").unwrap_or("atime"),
            includes_directories: resource.get_flag("rmdirs"),
        })
    }

    fn matches_entry(&self, entry: &DirectoryWalkEntry, resource: &Resource) -> bool {
        let path = path_of(resource, &entry.relative_path);
        let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
        let metadata = &entry.metadata;
        if metadata.kind == FileEntryKind::Directory && !self.includes_directories {
            return false;
        }
        let name_matches = self.matches.is_empty()
            || self.matches.iter().any(|pattern| glob::matches_pattern(pattern, &name, true));
        let has_no_criteria = self.min_age.is_none() && self.min_size.is_none();
        name_matches && (has_no_criteria || self.is_old(metadata) || self.is_big(metadata))
    }

    fn is_old(&self, metadata: &FileMetadata) -> bool {
        let timestamp = match self.timestamp_kind {
            "mtime" => metadata.modified,
            "ctime" => metadata.changed,
            _ => metadata.accessed,
        };
        // A time in the future counts as age 0.
        let age = self.now.duration_since(timestamp).unwrap_or_default();
        self.min_age.is_some_and(|min_age| age.as_secs() >= min_age.as_secs())
    }

    fn is_big(&self, metadata: &FileMetadata) -> bool {
        self.min_size.is_some_and(|min_size| metadata.size >= min_size)
    }
}

fn path_of(resource: &Resource, relative_path: &Path) -> String {
    if relative_path.as_os_str().is_empty() {
        return resource.name.clone();
    }
    Path::new(&resource.name).join(relative_path).to_string_lossy().into_owned()
}

/// Excludes directories with remaining entries.
fn without_kept(
    resource: &BoundResource<'_>,
    chosen: &[&DirectoryWalkEntry],
) -> Result<BTreeSet<PathBuf>> {
    let mut selected: BTreeSet<PathBuf> =
        chosen.iter().map(|entry| entry.relative_path.clone()).collect();
    let mut directories: Vec<&Path> = chosen
        .iter()
        .filter(|entry| entry.metadata.kind == FileEntryKind::Directory)
        .map(|entry| entry.relative_path.as_path())
        .collect();
    // Deepest first, because an entry that remains keeps all its parents.
    directories.sort_by_key(|relative_path| std::cmp::Reverse(relative_path.components().count()));
    for relative_path in directories {
        let path = path_of(resource, relative_path);
        let names = resource
            .cx
            .system
            .read_dir(Path::new(&path))
            .during(resource, format_args!("listing {path}"))?;
        if names.iter().any(|name| !selected.contains(&relative_path.join(name))) {
            selected.remove(relative_path);
        }
    }
    Ok(selected)
}

/// The absent `file`. A directory comes after its entries.
fn absent_file(
    resource: &Resource,
    relative_path: &Path,
    chosen: &BTreeSet<PathBuf>,
) -> Result<Resource> {
    let path = path_of(resource, relative_path);
    let mut file = absent_resource(&FileResourceType, resource, &path, &[("force", "true")])?;
    if let Some(backup) = resource.get("backup") {
        file.set_value("backup", backup.clone());
    }
    let children: Vec<String> = chosen
        .iter()
        .filter(|other| other.as_path() != relative_path && other.parent() == Some(relative_path))
        .map(|other| format_reference("file", &path_of(resource, other)))
        .collect();
    if !children.is_empty() {
        file.set_value("require", ResourceValue::List(children));
    }
    Ok(file)
}
