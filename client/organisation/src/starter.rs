//! The files that each node of `rpc org init --quick` gets besides its bundle: policies for one administrator, and the settings that they need.
//!
//! They are in the organisation's directory `site`, in the form of `rpc config deploy`, so that the administrator narrows them there and deploys them.

use std::fs;
use std::io;
use std::path::Path;

use muster_files::files;
use muster_wire::identity::Identity;

use crate::machines::file::{MachineFile, write_files};
use crate::{MAX_FILE_BYTES, Organisation, OrganisationError};

/// Directories of `site` that nodes get.
const SITE_DIRECTORIES: [&str; 4] = ["checks.d", "conf.d", "facts.d", "policies"];

/// The sample policies of these agents. Every other agent is denied, because `default` is among them.
macro_rules! policies {
    ($($agent:literal),*) => {
        [$(($agent, include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../packaging/policies/", $agent, ".policy"
        )))),*]
    };
}

const POLICIES: [(&str, &str); 15] = policies![
    "again",
    "config",
    "default",
    "directory",
    "filecopy",
    "filemgr",
    "history",
    "package",
    "process",
    "puppet",
    "puppetral",
    "rpcutil",
    "schedule",
    "service",
    "shell"
];

const SETTINGS: &str = "\
# Settings of all nodes, written by `rpc org init --quick`. Change them here, then: rpc config deploy

# `rpc run`. Who may use it is in policies/shell.policy; it is equivalent to root.
[plugins.shell]
enabled = true

# `rpc cp`. Everything below these directories may be read and written.
[plugins.filecopy]
read = [\"/etc\", \"/srv\", \"/tmp\", \"/var/log\"]
write = [\"/etc\", \"/srv\", \"/tmp\"]
";

/// The starter files for one administrator.
fn starter_files(administrator: &Identity) -> Vec<MachineFile> {
    let policies = POLICIES
        .iter()
        .map(|(agent, text)| MachineFile::public(format!("policies/{agent}.policy"), *text));
    let groups =
        format!("# A group per line: its name, then its members.\nsysadmins\t{administrator}\n");
    let others = [
        MachineFile::public("policies/groups", groups),
        MachineFile::public("conf.d/site.toml", SETTINGS),
    ];
    policies.chain(others).collect()
}

impl Organisation {
    /// Writes the starter files for one administrator into the directory `site`.
    pub fn write_starter_site(&self, administrator: &Identity) -> Result<(), OrganisationError> {
        write_files(&self.layout().site_directory(), &starter_files(administrator))
    }

    /// The files that every new node gets: those of the directory `site`. None, if there is no such directory.
    pub fn site_files(&self) -> Result<Vec<MachineFile>, OrganisationError> {
        let mut found = Vec::new();
        for name in SITE_DIRECTORIES {
            let directory = self.layout().site_directory().join(name);
            for file in file_names(&directory)? {
                let content = files::read_text(&directory.join(&file), MAX_FILE_BYTES)?;
                found.push(MachineFile::public(format!("{name}/{file}"), content));
            }
        }
        Ok(found)
    }
}

/// The files of a directory, sorted, without hidden ones. None, if it does not exist.
fn file_names(directory: &Path) -> Result<Vec<String>, OrganisationError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(files::file_error("read", directory)(error).into()),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>().map_err(files::file_error("read", directory));
    let mut names: Vec<String> = names?
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}
