//! Writes the files of a demonstration node: its configuration and its scratch root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_organisation::{
    CredentialSpec, Organisation, OrganisationError, OrganisationLock, PrincipalKind, bundle,
};
use muster_secret::files;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Value, json};

use super::DemoError;
use super::fleet::{DEMO_USER, DemoNode};

/// Validity of the credentials of a demonstration.
pub const CREDENTIAL_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Agents that the demonstration's user may call.
const ALLOWED_AGENTS: [&str; 5] = ["package", "permit", "puppetral", "rpcutil", "service"];

/// `[paths]` of a node's configuration, relative to its directory.
const NODE_PATHS: [(&str, &str); 7] = [
    ("state", "state"),
    ("facts_d", "facts.d"),
    ("classes", "classes.txt"),
    ("policies", "policies"),
    ("ddls", "ddl"),
    ("audit", "audit.log"),
    ("root", "root"),
];

/// The sections of a configuration.
type DemoNodeConfig = BTreeMap<&'static str, Value>;

/// Configuration of a node. A log level above the default omits the connection messages of thousands of nodes.
fn node_config(log_level: Option<&str>) -> DemoNodeConfig {
    // Allows every resource type in the scratch root, including `exec`. A real node rejects `exec` unless it is configured otherwise.
    let mut plugins = BTreeMap::from([("puppetral", json!({"deny_types": []}))]);
    // The demonstration of root is below root's home directory, where unprivileged users cannot reach the programs of external agents.
    if nix::unistd::geteuid().is_root() {
        plugins.insert("external", json!({"agents": {"*": {"user": "root"}}}));
    }
    let paths = json!(BTreeMap::from(NODE_PATHS));
    let mut config = BTreeMap::from([("paths", paths), ("plugins", json!(plugins))]);
    config.extend(log_level.map(|level| ("log", json!({"level": level}))));
    config
}

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
    let config = node_config(None);
    let path = make_daemon(organisation, lock, (directory, &node.name), config, now)?;
    for subdirectory in ["facts.d", "ddl"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    let facts = serde_json::to_vec_pretty(&node.facts)
        .map_err(|error| OrganisationError::Format("the node's facts", error.into()))?;
    files::replace_public(&directory.join("facts.d/demo.json"), &facts)?;
    let classes = node.classes.join("\n") + "\n";
    files::replace_public(&directory.join("classes.txt"), classes.as_bytes())?;
    make_scratch_root(&directory.join("root"), node)?;
    Ok(path)
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
    make_daemon(organisation, lock, (directory, name), node_config(Some("warn")), now)
}

/// Creates the files of a daemon: credentials, policies and its configuration, whose path is returned.
fn make_daemon(
    organisation: &Organisation,
    lock: &OrganisationLock,
    (directory, name): (&Path, &Identity),
    config: DemoNodeConfig,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let issued = organisation.issue_credentials(lock, &credential_spec(name), now)?;
    organisation.bundle_node(directory, &issued.creds, name, config)?;
    for subdirectory in ["state", "policies"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    write_policies(&directory.join("policies"))?;
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
