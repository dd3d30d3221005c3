//! Reads policies from directories and single files with the rules of the daemon: hidden files are skipped, because editors create them.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_files::check_protected;
use muster_files::files::{self, FileAccessError};
use muster_policy::{
    GROUPS_FILE_NAME, MAX_POLICY_FILE_BYTES, PolicyFault, PolicyProblem, PolicySet, PolicySource,
    RuleVerdict,
};

use crate::policy::error::PolicyError;
use crate::policy::lint::{LintFinding, LintLevel};

/// The policies of one directory, or some of them.
#[derive(Debug)]
pub struct PolicyFilesReading {
    /// The policies.
    pub set: PolicySet,
    /// Errors in them.
    pub problems: Vec<PolicyProblem>,
    /// The files.
    pub files: Vec<PathBuf>,
    /// The group file, if there is one.
    pub groups: Option<PathBuf>,
}

impl PolicyFilesReading {
    /// Findings for files that other users can change. A node rejects such files, where they must belong to root; in a checkout this is only a
    /// warning.
    pub fn unprotected_findings(&self) -> Vec<LintFinding> {
        let groups = self.groups.as_ref();
        let files = self.files.iter().chain(groups);
        let checked = files.filter_map(|path| Some((path, check_protected(path).err()?)));
        checked
            .map(|(path, problem)| {
                let level = if is_installed(path) { LintLevel::Error } else { LintLevel::Warning };
                let message = format!("nodes reject this file: {problem}");
                LintFinding::new(path.clone(), None, level, "unprotected", message)
            })
            .collect()
    }
}

/// Whether this process is root, or root owns the file: then a node probably reads it.
fn is_installed(path: &Path) -> bool {
    nix::unistd::geteuid().is_root() || fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Reads all policies of a directory.
pub fn read_directory(
    path: &Path,
    default: RuleVerdict,
) -> Result<PolicyFilesReading, PolicyError> {
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(files::file_error("read", path))?;
    let paths = entries.iter().map(DirEntry::path);
    let mut files: Vec<PathBuf> = paths.filter(|path| is_policy(path)).collect();
    if files.is_empty() {
        return Err(PolicyError::NoPolicy(path.to_owned()));
    }
    files.sort();
    Ok(read_policies(path, files, default))
}

/// Reads each path: all of a directory, or one file. Files of one directory are read together.
pub fn read_paths(
    given: &[PathBuf],
    default: RuleVerdict,
) -> Result<Vec<PolicyFilesReading>, PolicyError> {
    let mut readings = Vec::new();
    let mut files_by_directory: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in given {
        let kind = fs::metadata(path).map_err(files::file_error("read", path))?;
        if kind.is_dir() {
            readings.push(read_directory(path, default)?);
        } else {
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            files_by_directory.entry(directory).or_default().push(path.clone());
        }
    }
    for (directory, mut files) in files_by_directory {
        files.retain(|file| file.file_name().is_none_or(|name| name != GROUPS_FILE_NAME));
        readings.push(read_policies(&directory, files, default));
    }
    Ok(readings)
}

fn read_policies(
    directory: &Path,
    files: Vec<PathBuf>,
    default: RuleVerdict,
) -> PolicyFilesReading {
    let groups = read_source(directory.join(GROUPS_FILE_NAME));
    let groups = match &groups.text {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(groups),
    };
    let groups_file = groups.as_ref().map(|groups| groups.path.clone());
    let (set, problems) = PolicySet::new(files.iter().cloned().map(read_source), groups, default);
    PolicyFilesReading { set, problems, files, groups: groups_file }
}

fn is_policy(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|extension| extension == "policy")
}

fn read_source(path: PathBuf) -> PolicySource {
    let text = files::read_text(&path, MAX_POLICY_FILE_BYTES);
    let text = text.map_err(|error| match error {
        FileAccessError::System { source, .. } => PolicyFault::Read(source),
        _ => PolicyFault::TooLarge(MAX_POLICY_FILE_BYTES),
    });
    PolicySource { path, text }
}
