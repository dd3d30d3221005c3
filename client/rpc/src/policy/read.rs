//! Reads policies from directories and single files, as the daemon does: hidden files are an editor's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_secret::check_protected;
use muster_wire::policy::{
    FILE_BYTES, GROUPS, PolicyFault, PolicyProblem, PolicySet, Source, Verdict,
};

use super::error::PolicyError;
use super::lint::{Finding, Level};

/// The policies of one directory, or some of them.
#[derive(Debug)]
pub struct Reading {
    /// The policies.
    pub set: PolicySet,
    /// What is wrong with them.
    pub problems: Vec<PolicyProblem>,
    /// The files.
    pub files: Vec<PathBuf>,
    /// The file of groups, if there is one.
    pub groups: Option<PathBuf>,
}

impl Reading {
    /// What other users could change. A node, where these files are root's, refuses it; in a checkout it is only worth knowing.
    pub fn unprotected(&self) -> Vec<Finding> {
        let groups = self.groups.as_ref();
        let files = self.files.iter().chain(groups);
        let checked = files.filter_map(|path| Some((path, check_protected(path).err()?)));
        checked
            .map(|(path, problem)| Finding {
                path: path.clone(),
                line: None,
                column: None,
                level: if is_installed(path) {
                    Level::Error
                } else {
                    Level::Warning
                },
                code: "unprotected",
                message: format!("a node refuses it: {problem}"),
            })
            .collect()
    }
}

/// Whether root checks a file, or owns it: then it is one that a node reads.
fn is_installed(path: &Path) -> bool {
    nix::unistd::geteuid().is_root() || fs::metadata(path).is_ok_and(|found| found.uid() == 0)
}

/// All policies of a directory.
pub fn directory(path: &Path, default: Verdict) -> Result<Reading, PolicyError> {
    let entries = fs::read_dir(path).map_err(|source| failed(path, source))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|source| failed(path, source))?.path();
        if is_policy(&file) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(PolicyError::Nothing {
            path: path.to_owned(),
        });
    }
    files.sort();
    Ok(read(path, files, default))
}

/// What each of these paths holds: all of a directory, or one file. Files of one directory are read together.
pub fn paths(given: &[PathBuf], default: Verdict) -> Result<Vec<Reading>, PolicyError> {
    let mut readings = Vec::new();
    let mut single: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in given {
        let kind = fs::metadata(path).map_err(|source| failed(path, source))?;
        if kind.is_dir() {
            readings.push(directory(path, default)?);
        } else {
            let beside = path.parent().unwrap_or(Path::new("")).to_owned();
            single.entry(beside).or_default().push(path.clone());
        }
    }
    for (beside, mut files) in single {
        files.retain(|file| file.file_name().is_none_or(|name| name != GROUPS));
        readings.push(read(&beside, files, default));
    }
    Ok(readings)
}

fn read(directory: &Path, files: Vec<PathBuf>, default: Verdict) -> Reading {
    let groups = source(directory.join(GROUPS));
    let groups = match &groups.text {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(groups),
    };
    let groups_file = groups.as_ref().map(|groups| groups.path.clone());
    let (set, problems) = PolicySet::new(files.iter().cloned().map(source), groups, default);
    Reading {
        set,
        problems,
        files,
        groups: groups_file,
    }
}

fn is_policy(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|found| found == "policy")
}

fn source(path: PathBuf) -> Source {
    let text = text(&path, FILE_BYTES);
    let text = text.map_err(|error| match error {
        PolicyError::Read { source, .. } => PolicyFault::Read(source),
        _ => PolicyFault::TooLarge(FILE_BYTES),
    });
    Source { path, text }
}

/// The text of a file of at most this many bytes.
pub(super) fn text(path: &Path, limit: u64) -> Result<String, PolicyError> {
    let mut text = String::new();
    let file = File::open(path).map_err(|source| failed(path, source))?;
    file.take(limit + 1)
        .read_to_string(&mut text)
        .map_err(|source| failed(path, source))?;
    if text.len() as u64 > limit {
        let path = path.to_owned();
        return Err(PolicyError::TooLarge { path, limit });
    }
    Ok(text)
}

fn failed(path: &Path, source: io::Error) -> PolicyError {
    PolicyError::Read {
        path: path.to_owned(),
        source,
    }
}
