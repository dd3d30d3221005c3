//! Writes the files of a demonstration node: its configuration, policies and scratch root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::files;
use muster_organisation::{
    CredentialSpec, Organisation, OrganisationError, OrganisationLock, PrincipalKind, bundle,
};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::commands::demo::error::DemoError;
use crate::commands::demo::fleet::DemoNode;
use crate::commands::demo::machine;
use crate::commands::demo::machine::CATALOG_PATH;
use crate::commands::demo::policies::DemoPolicies;

pub const CREDENTIAL_LIFETIME: Duration = Duration::from_hours(30 * 24);

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

const DIRECTORY_CREDS: &str = "directory.creds";

type DemoNodeConfig = BTreeMap<&'static str, Value>;

/// Configuration of a node that allows every resource type, including `exec`. A real node rejects `exec` unless it is configured otherwise.
fn common_config() -> BTreeMap<&'static str, Value> {
    let mut plugins = BTreeMap::from([("puppetral", json!({"deny_types": []}))]);
    // The demonstration of root is below root's home directory, where unprivileged users cannot reach the programs of external agents.
    if nix::unistd::geteuid().is_root() {
        plugins.insert("external", json!({"agents": {"*": {"user": "root"}}}));
    }
    plugins
}

/// Sections of plugins that run programs or write files in the scratch root. A real node has these agents only if its operator enables them.
fn program_config() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("shell", json!({"enabled": true})),
        ("filecopy", json!({"write": ["/"], "read": ["/"]})),
        ("catalog", json!({"enabled": true})),
        ("puppet", json!({"engine": "native", "catalog": CATALOG_PATH})),
    ])
}

fn node_config(plugins: &BTreeMap<&'static str, Value>) -> DemoNodeConfig {
    BTreeMap::from([("paths", json!(BTreeMap::from(NODE_PATHS))), ("plugins", json!(plugins))])
}

/// Creates the node's files, for one of them with an instance of the directory, and returns the path of its configuration.
pub fn make_node(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    (node, policies): (&DemoNode, &DemoPolicies),
    (runs_directory, more): (bool, BTreeMap<&'static str, Value>),
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let plugins = common_config().into_iter().chain(program_config());
    let mut plugins: BTreeMap<_, _> = plugins.chain(more).collect();
    if runs_directory {
        plugins.insert("directory", json!({"enabled": true, "credentials": DIRECTORY_CREDS}));
        files::create_private_directory(directory)?;
        let out = directory.join(DIRECTORY_CREDS);
        issue_service(organisation, lock, ServiceRight::Directory, out, now)?;
    }
    let mut config = node_config(&plugins);
    // The directory follows changes at once, and notices within 34 s that a node has stopped.
    config.insert("registration", json!({"heartbeat_seconds": 2, "min_interval_seconds": 0}));
    let path = make_daemon(organisation, lock, (directory, &node.name), (config, policies), now)?;
    for subdirectory in ["facts.d", "ddl"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    let facts = serde_json::to_vec_pretty(&node.facts)
        .map_err(|error| OrganisationError::Format("the node's facts", error.into()))?;
    files::replace_public(&directory.join("facts.d/demo.json"), &facts)?;
    let classes = node.classes.join("\n") + "\n";
    files::replace_public(&directory.join("classes.txt"), classes.as_bytes())?;
    machine::make_scratch_root(&directory.join("root"), node)?;
    Ok(path)
}

/// Writes the credentials of a service, which has the name of its right.
pub fn issue_service(
    organisation: &Organisation,
    lock: &OrganisationLock,
    right: ServiceRight,
    out: PathBuf,
    now: Millis,
) -> Result<(), DemoError> {
    let name = Identity::parse(right.as_str())
        .map_err(|error| OrganisationError::Name(error.to_string()))?;
    let spec = CredentialSpec {
        out: Some(out),
        tags: ServiceRight::tags(&[right]),
        ..credential_spec(PrincipalKind::Service, &name)
    };
    organisation.issue_credentials(lock, &spec, now)?;
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
    let policies = DemoPolicies::from_schemas()?;
    let mut config = node_config(&common_config());
    // The default level has connection messages of thousands of nodes.
    config.insert("log", json!({"level": "warn"}));
    make_daemon(organisation, lock, (directory, name), (config, &policies), now)
}

/// Creates the files of a daemon: credentials, policies and its configuration, whose path is returned.
fn make_daemon(
    organisation: &Organisation,
    lock: &OrganisationLock,
    (directory, name): (&Path, &Identity),
    (config, policies): (DemoNodeConfig, &DemoPolicies),
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let issued =
        organisation.issue_credentials(lock, &credential_spec(PrincipalKind::Node, name), now)?;
    organisation.bundle_node(directory, &issued.creds, name, config)?;
    for subdirectory in ["state", "policies"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    policies.write(&directory.join("policies"))?;
    Ok(directory.join(bundle::name::NODE_CONFIG))
}

fn credential_spec(kind: PrincipalKind, name: &Identity) -> CredentialSpec {
    CredentialSpec {
        kind,
        name: name.clone(),
        tags: Vec::new(),
        expires: Some(CREDENTIAL_LIFETIME),
        renew: false,
        out: None,
    }
}
