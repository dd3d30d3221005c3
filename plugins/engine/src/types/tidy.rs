//! `tidy`: files that are old, or big, or simply in the way, are removed. Brings a `file` with `ensure => absent` for each.
//!
//! A directory goes only together with everything in it: one file that stays keeps it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_system::{FileKind, Metadata};

use super::file::File;
use crate::error::EngineError;
use crate::munge::munge;
use crate::plan::{Change, Plan, State};
use crate::providers::glob;
use crate::providers::walk::{Entry, Walk};
use crate::resource::{Resource, Value, reference};
use crate::resource_type::{Cx, Generates, ResourceType, Siblings};
use crate::schema::{Attribute, Kind, METAPARAMETERS, RELATIONS, Schema};

static SCHEMA: Schema = Schema {
    type_name: "tidy",
    doc: "Files that are removed when they are old or big enough; without `age` and `size`, all of them.",
    namevar: "path",
    attributes: &[
        Attribute::parameter("path", Kind::Path, "The file or directory to tidy."),
        Attribute::parameter(
            "recurse",
            Kind::Text,
            "Whether what is in the directory is tidied: `true`, `false`, or a number of levels.",
        ),
        Attribute::parameter(
            "max_files",
            Kind::Int,
            "More entries than these are refused; 0 only warns above 1000.",
        )
        .or("0"),
        Attribute::parameter(
            "matches",
            Kind::List,
            "Patterns such as `*.tmp`, of which a name must match one; needs `recurse`.",
        ),
        Attribute::parameter(
            "backup",
            Kind::Text,
            "The `filebucket` that keeps what is removed; `false`: none.",
        )
        .or("false"),
        Attribute::parameter(
            "age",
            Kind::Text,
            "How old a file is at least: a number and `s`, `m`, `h`, `d` or `w`; days, when nothing is said.",
        ),
        Attribute::parameter(
            "size",
            Kind::Text,
            "How big it is at least: a number and `b`, `k`, `m`, `g` or `t`; KiB, when nothing is said.",
        ),
        Attribute::parameter(
            "type",
            Kind::Word(&["atime", "mtime", "ctime"]),
            "Since when it counts as old: last read, written or changed in any way.",
        )
        .or("atime"),
        Attribute::parameter(
            "rmdirs",
            Kind::Bool,
            "Whether directories go too, when all that is in them goes.",
        )
        .or("false"),
    ],
};

/// So many entries are worth a warning.
const MANY: usize = 1000;

/// The type.
#[derive(Debug)]
pub struct Tidy;

impl ResourceType for Tidy {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        let depth = depth(&resource)?;
        age(&resource)?;
        size(&resource)?;
        if resource.get("matches").is_some() && matches!(depth, Depth::Itself) {
            let problem = "needs `recurse`: it is about the names in a directory";
            return Err(EngineError::invalid(&resource, "matches", problem));
        }
        if resource
            .text("backup")
            .is_some_and(|name| name.starts_with('.'))
        {
            let problem = "is a suffix; what is tidied can only be kept in a filebucket";
            return Err(EngineError::invalid(&resource, "backup", problem));
        }
        Ok(resource)
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, _: &Cx<'_>, _: &Plan, _: &Change) -> Result<(), EngineError> {
        Ok(())
    }

    fn generates(&self, _: &Resource) -> Generates {
        Generates::BeforeTheRunAndFirst
    }

    fn generate(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        siblings: &dyn Siblings,
    ) -> Result<Vec<Resource>, EngineError> {
        let found = entries(cx, resource)?;
        let rule = Rule::of(resource, cx.system.now())?;
        let path = |entry: &Entry| path_of(resource, &entry.below);
        let chosen: Vec<&Entry> = found
            .iter()
            .filter(|entry| siblings.find("file", &path(entry)).is_none())
            .filter(|entry| rule.chooses(entry, resource))
            .collect();
        let chosen = without_kept(cx, resource, &chosen)?;
        if !chosen.is_empty() {
            cx.say(format!("Tidying {} files", chosen.len()));
        }
        // The deepest first.
        chosen
            .iter()
            .rev()
            .map(|below| absent(resource, below, &chosen))
            .collect()
    }
}

enum Depth {
    Itself,
    Levels(usize),
    All,
}

fn depth(resource: &Resource) -> Result<Depth, EngineError> {
    match resource.text("recurse") {
        None | Some("false" | "0") => Ok(Depth::Itself),
        Some("true" | "inf") => Ok(Depth::All),
        Some(levels) => levels.parse().map(Depth::Levels).map_err(|_| {
            let problem = format!("is `{levels}`, must be true, false, inf or a number of levels");
            EngineError::invalid(resource, "recurse", problem)
        }),
    }
}

/// A number and the first letter of a unit.
fn amount(text: &str, default: char) -> Option<(u64, char)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let plain = unit.chars().all(char::is_alphanumeric);
    let unit = unit.chars().next().unwrap_or(default);
    Some((
        number.parse().ok().filter(|_| plain)?,
        unit.to_ascii_lowercase(),
    ))
}

fn age(resource: &Resource) -> Result<Option<Duration>, EngineError> {
    let Some(text) = resource.text("age") else {
        return Ok(None);
    };
    let seconds = amount(text, 'd').and_then(|(number, unit)| {
        let unit = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        number.checked_mul(unit)
    });
    seconds
        .map(|seconds| Some(Duration::from_secs(seconds)))
        .ok_or_else(|| {
            let problem =
                format!("is `{text}`, must be a number and s, m, h, d or w, such as `1w`");
            EngineError::invalid(resource, "age", problem)
        })
}

fn size(resource: &Resource) -> Result<Option<u64>, EngineError> {
    let Some(text) = resource.text("size") else {
        return Ok(None);
    };
    let bytes = amount(text, 'k').and_then(|(number, unit)| {
        let power = "bkmgt".find(unit)?;
        number.checked_mul(1024_u64.checked_pow(u32::try_from(power).ok()?)?)
    });
    bytes.map(Some).ok_or_else(|| {
        let problem = format!("is `{text}`, must be a number and b, k, m, g or t, such as `10m`");
        EngineError::invalid(resource, "size", problem)
    })
}

/// The path itself and, if asked for, what is below it.
fn entries(cx: &Cx<'_>, resource: &Resource) -> Result<Vec<Entry>, EngineError> {
    let path = Path::new(&resource.name);
    let looking = EngineError::during(resource, format!("looking at {}", resource.name));
    let Some(metadata) = cx.system.metadata(path).map_err(looking)? else {
        return Ok(Vec::new());
    };
    let mut found = vec![Entry {
        below: PathBuf::new(),
        metadata,
    }];
    let depth = match depth(resource)? {
        Depth::Itself => return Ok(found),
        Depth::Levels(levels) => Some(levels),
        Depth::All => None,
    };
    let most = resource
        .get("max_files")
        .and_then(Value::as_int)
        .unwrap_or(0);
    let walk = Walk {
        depth,
        ignore: &[],
        follow: false,
        most: usize::try_from(most).ok().filter(|most| *most > 0),
    };
    let below = walk
        .entries(cx.system, path)
        .map_err(|problem| EngineError::failed(resource, problem.to_string()))?;
    if most == 0 && below.len() > MANY {
        let many = below.len();
        cx.say(format!("The directory '{}' contains {many} entries, which exceeds the default soft limit {MANY}", resource.name));
    }
    found.extend(below);
    Ok(found)
}

/// What makes a file go.
struct Rule<'a> {
    now: SystemTime,
    age: Option<Duration>,
    size: Option<u64>,
    matches: Vec<&'a str>,
    since: &'a str,
    directories: bool,
}

impl<'a> Rule<'a> {
    fn of(resource: &'a Resource, now: SystemTime) -> Result<Self, EngineError> {
        Ok(Self {
            now,
            age: age(resource)?,
            size: size(resource)?,
            matches: resource.list("matches"),
            since: resource.text("type").unwrap_or("atime"),
            directories: resource.flag("rmdirs"),
        })
    }

    fn chooses(&self, entry: &Entry, resource: &Resource) -> bool {
        let path = path_of(resource, &entry.below);
        let name = Path::new(&path)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let metadata = &entry.metadata;
        if metadata.kind == FileKind::Directory && !self.directories {
            return false;
        }
        let named = self.matches.is_empty()
            || self
                .matches
                .iter()
                .any(|pattern| glob::matches(pattern, &name, true));
        let no_test = self.age.is_none() && self.size.is_none();
        named && (no_test || self.is_old(metadata) || self.is_big(metadata))
    }

    fn is_old(&self, metadata: &Metadata) -> bool {
        let since = match self.since {
            "mtime" => metadata.modified,
            "ctime" => metadata.changed,
            _ => metadata.accessed,
        };
        // What comes from the future has the age 0.
        let age = self.now.duration_since(since).unwrap_or_default();
        self.age
            .is_some_and(|least| age.as_secs() >= least.as_secs())
    }

    fn is_big(&self, metadata: &Metadata) -> bool {
        self.size.is_some_and(|least| metadata.size >= least)
    }
}

fn path_of(resource: &Resource, below: &Path) -> String {
    if below.as_os_str().is_empty() {
        return resource.name.clone();
    }
    Path::new(&resource.name)
        .join(below)
        .to_string_lossy()
        .into_owned()
}

/// Takes the directories out in which something stays.
fn without_kept(
    cx: &Cx<'_>,
    resource: &Resource,
    chosen: &[&Entry],
) -> Result<BTreeSet<PathBuf>, EngineError> {
    let mut goes: BTreeSet<PathBuf> = chosen.iter().map(|entry| entry.below.clone()).collect();
    let mut directories: Vec<&Path> = chosen
        .iter()
        .filter(|entry| entry.metadata.kind == FileKind::Directory)
        .map(|entry| entry.below.as_path())
        .collect();
    // The deepest first: what stays there keeps all above it.
    directories.sort_by_key(|below| std::cmp::Reverse(below.components().count()));
    for below in directories {
        let path = path_of(resource, below);
        let listing = EngineError::during(resource, format!("listing {path}"));
        let names = cx.system.read_dir(Path::new(&path)).map_err(listing)?;
        if names.iter().any(|name| !goes.contains(&below.join(name))) {
            goes.remove(below);
        }
    }
    Ok(goes)
}

/// The file that must not be there. A directory comes after what is in it.
fn absent(
    resource: &Resource,
    below: &Path,
    chosen: &BTreeSet<PathBuf>,
) -> Result<Resource, EngineError> {
    let path = path_of(resource, below);
    let words = serde_json::json!({"ensure": "absent", "force": true});
    let words = words.as_object().cloned().unwrap_or_default();
    let mut file = munge(File.schema(), &path, &words)?;
    for name in METAPARAMETERS.iter().map(|attribute| attribute.name) {
        if let Some(value) = resource
            .get(name)
            .filter(|_| !RELATIONS.contains(&name) && name != "alias")
        {
            file.values.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(backup) = resource.get("backup") {
        file.values.insert("backup".to_owned(), backup.clone());
    }
    let inside: Vec<String> = chosen
        .iter()
        .filter(|other| other.as_path() != below && other.parent() == Some(below))
        .map(|other| reference("file", &path_of(resource, other)))
        .collect();
    if !inside.is_empty() {
        file.values
            .insert("require".to_owned(), Value::List(inside));
    }
    Ok(file)
}
