//! The files that each node of `rpc org init --quick` gets besides its bundle: policies for one administrator, and the settings that they need.
//!
//! They are in the organisation's directory `site`, in the form of `rpc config deploy`, so that the administrator narrows them there and deploys them.

use muster_wire::identity::Identity;

use crate::machines::file::{MachineFile, write_files};
use crate::{Organisation, OrganisationError};

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
}
