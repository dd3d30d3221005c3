//! Writes the files of a demonstration node: its configuration and its scratch root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde::Serialize;

use super::DemoError;
use super::fleet::{DEMO_USER, DemoNode};
use muster_organisation::{
    CredentialSpec, Organisation, OrganisationError, OrganisationLock, PrincipalKind, bundle,
};
use muster_secret::files;

/// Validity of the credentials of a demonstration.
pub const CREDENTIAL_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Agents that the demonstration's user may call.
const ALLOWED_AGENTS: [&str; 5] = ["package", "permit", "puppetral", "rpcutil", "service"];

/// Configuration of a node. Paths are relative to its directory.
#[derive(Debug, Serialize)]
struct DemoNodeConfig {
    paths: DemoPathsSection,
    plugins: DemoPluginsSection,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<DemoLogSection>,
}

/// Log settings that omit the connection messages of thousands of nodes.
#[derive(Debug, Serialize)]
struct DemoLogSection {
    level: &'static str,
}

#[derive(Debug, Serialize)]
struct DemoPluginsSection {
    puppetral: DemoPuppetralSection,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<DemoExternalSection>,
}

/// Settings of external agents. If root runs the demonstration, it is below root's home directory, where unprivileged users cannot reach
/// the programs of external agents.
#[derive(Debug, Serialize)]
struct DemoExternalSection {
    agents: BTreeMap<&'static str, DemoExternalAgentSection>,
}

#[derive(Debug, Serialize)]
struct DemoExternalAgentSection {
    user: &'static str,
}

/// Allows every resource type in the scratch root, including `exec`. A real node rejects `exec` unless it is configured otherwise.
#[derive(Debug, Serialize)]
struct DemoPuppetralSection {
    deny_types: [&'static str; 0],
}

fn node_config(log: Option<DemoLogSection>) -> DemoNodeConfig {
    let run_as_root = || DemoExternalSection {
        agents: BTreeMap::from([("*", DemoExternalAgentSection { user: "root" })]),
    };
    DemoNodeConfig {
        paths: PATHS,
        plugins: DemoPluginsSection {
            puppetral: DemoPuppetralSection { deny_types: [] },
            external: nix::unistd::geteuid().is_root().then(run_as_root),
        },
        log,
    }
}

#[derive(Debug, Serialize)]
struct DemoPathsSection {
    state: &'static str,
    facts_d: &'static str,
    classes: &'static str,
    policies: &'static str,
    ddls: &'static str,
    audit: &'static str,
    root: &'static str,
}

const PATHS: DemoPathsSection = DemoPathsSection {
    state: "state",
    facts_d: "facts.d",
    classes: "classes.txt",
    policies: "policies",
    ddls: "ddl",
    audit: "audit.log",
    root: "root",
};

/// Files of the scratch root. Its only user is root, as on a fresh machine.
const ROOT_FILES: [(&str, &str); 6] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
    ("etc/group", "root:x:0:\n"),
    ("etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"),
    ("etc/aliases", "postmaster: root\n"),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
    ("etc/login.defs", "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\n"),
];

/// Files that hold secrets on a real machine.
const ROOT_SECRETS: [(&str, &str); 2] =
    [("etc/shadow", "root:*:19000:0:99999:7:::\n"), ("etc/gshadow", "root:*::\n")];

/// Empty directories of the scratch root.
const ROOT_DIRECTORIES: [&str; 8] = [
    "etc/cron.d",
    "etc/skel",
    "home",
    "root",
    "tmp",
    "var/lib",
    "var/log",
    "var/spool/cron/crontabs",
];

/// Creates the node's files and returns the path of its configuration.
pub fn make_node(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    node: &DemoNode,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let issued = organisation.issue_credentials(lock, &credential_spec(&node.name), now)?;
    organisation.bundle_node(directory, &issued.creds, &node.name, node_config(None))?;
    for subdirectory in [PATHS.state, PATHS.facts_d, PATHS.policies, PATHS.ddls] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    let facts = serde_json::to_vec_pretty(&node.facts)
        .map_err(|error| OrganisationError::Format("the node's facts", error.into()))?;
    files::replace_public(&directory.join("facts.d/demo.json"), &facts)?;
    let classes = node.classes.join("\n") + "\n";
    files::replace_public(&directory.join(PATHS.classes), classes.as_bytes())?;
    write_policies(&directory.join(PATHS.policies))?;
    make_scratch_root(&directory.join(PATHS.root), node)?;
    Ok(directory.join(bundle::name::NODE_CONFIG))
}

/// Writes policies that allow requests of the demonstration's user only.
fn write_policies(directory: &Path) -> Result<(), DemoError> {
    for agent in ALLOWED_AGENTS {
        let policy = format!("policy default deny\nallow\tcaller={DEMO_USER}\t*\t*\t*\n");
        let path = directory.join(format!("{agent}.policy"));
        files::replace_public(&path, policy.as_bytes())?;
    }
    Ok(())
}

/// Creates the files of a process that runs many nodes. Its configuration has a name that no node uses. Returns the configuration's path.
pub fn make_virtual_host(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    name: &Identity,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let spec = credential_spec(name);
    let issued = organisation.issue_credentials(lock, &spec, now)?;
    let extra_config = node_config(Some(DemoLogSection { level: "warn" }));
    organisation.bundle_node(directory, &issued.creds, name, extra_config)?;
    for subdirectory in [PATHS.state, PATHS.policies] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    write_policies(&directory.join(PATHS.policies))?;
    Ok(directory.join(bundle::name::NODE_CONFIG))
}

fn credential_spec(name: &Identity) -> CredentialSpec {
    CredentialSpec {
        kind: PrincipalKind::Node,
        name: name.clone(),
        tags: Vec::new(),
        expires: Some(CREDENTIAL_LIFETIME),
        renew: false,
        out: None,
    }
}

/// Creates the node's scratch root.
fn make_scratch_root(root: &Path, node: &DemoNode) -> Result<(), DemoError> {
    for directory in ROOT_DIRECTORIES {
        files::create_private_directory(&root.join(directory))?;
    }
    for (path, text) in ROOT_FILES {
        files::replace_public(&root.join(path), text.as_bytes())?;
    }
    for (path, text) in ROOT_SECRETS {
        files::replace_secret(&root.join(path), text.as_bytes())?;
    }
    Ok(files::replace_public(&root.join("etc/hostname"), format!("{}\n", node.name).as_bytes())?)
}
