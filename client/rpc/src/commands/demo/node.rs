//! Writes the files of a demonstration node: its configuration, policies and scratch root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::files;
use muster_organisation::bundle::name;
use muster_organisation::{
    AccountRealm, CredentialSpec, Organisation, OrganisationError, OrganisationLock, PrincipalKind,
};
use muster_wire::Millis;
use muster_wire::enrol::{NamePattern, TokenGrant, TokenGrantError};
use muster_wire::identity::Identity;
use serde_json::{Value, json};

use crate::commands::demo::error::{DemoError, name_error};
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

/// Credentials with which a new machine requests enrolment.
const BOOTSTRAP_CREDS: &str = "bootstrap.creds";

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
        ("motd", json!({"prompt_cache": "/run/prompt.json"})),
        ("puppet", json!({"engine": "native", "catalog": CATALOG_PATH})),
    ])
}

fn node_config(plugins: &BTreeMap<&'static str, Value>) -> DemoNodeConfig {
    BTreeMap::from([("paths", json!(BTreeMap::from(NODE_PATHS))), ("plugins", json!(plugins))])
}

/// Creates the node's files, with these sections of plugins in addition, and returns the path of its configuration.
pub fn make_node(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    (node, policies): (&DemoNode, &DemoPolicies),
    more: BTreeMap<&'static str, Value>,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let config = machine_config(more);
    let path = make_daemon(organisation, lock, (directory, &node.name), (config, policies), now)?;
    write_machine(directory, node)?;
    Ok(path)
}

/// Creates the files of a machine that has a bootstrap token for its name instead of credentials, and returns the path of its configuration.
pub fn make_new_machine(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    (node, policies): (&DemoNode, &DemoPolicies),
    more: BTreeMap<&'static str, Value>,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let pattern = NamePattern::parse(node.name.as_str()).map_err(TokenGrantError::from);
    let names = vec![pattern.map_err(OrganisationError::from)?];
    let grant = TokenGrant { names, uses: Some(1), facts: BTreeMap::new() };
    let token = Identity::parse(&format!("bootstrap-{}", node.name)).map_err(name_error)?;
    let spec = CredentialSpec {
        tags: grant.to_tags().map_err(OrganisationError::from)?,
        out: Some(directory.join(BOOTSTRAP_CREDS)),
        ..credential_spec(PrincipalKind::Newcomer, &token)
    };
    files::create_private_directory(directory)?;
    organisation.issue_credentials(lock, &spec, now)?;
    let newcomers = organisation.token_text(AccountRealm::Newcomers)?;
    files::replace_public(&directory.join(name::NEWCOMERS), newcomers.as_bytes())?;
    let authority = organisation.authority_text()?.unwrap_or_default();
    files::replace_public(&directory.join(name::AUTHORITY), authority.as_bytes())?;
    let profile = organisation.profile();
    let mut config = machine_config(more);
    // The daemon writes the files in `state` when it is enrolled.
    config.extend([
        ("identity", json!(node.name)),
        ("collectives", json!(profile.collectives)),
        (
            "broker",
            json!({
                "urls": profile.broker.urls,
                "ca": name::AUTHORITY,
                "credentials": "state/node.creds",
            }),
        ),
        ("trust", json!({"operator": profile.operator, "account": "state/account.jwt"})),
        ("provisioning", json!({"credentials": BOOTSTRAP_CREDS, "account": name::NEWCOMERS})),
    ]);
    let text = toml::to_string(&config)
        .map_err(|error| OrganisationError::Format("the configuration", error.into()))?;
    let path = directory.join(name::NODE_CONFIG);
    files::replace_public(&path, text.as_bytes())?;
    write_daemon_directories(directory, policies)?;
    write_machine(directory, node)?;
    Ok(path)
}

/// Configuration of a node with a scratch root.
fn machine_config(more: BTreeMap<&'static str, Value>) -> DemoNodeConfig {
    let plugins = common_config().into_iter().chain(program_config());
    let mut config = node_config(&plugins.chain(more).collect());
    // The directory follows changes at once, and notices within 34 s that a node has stopped.
    config.insert("registration", json!({"heartbeat_seconds": 2, "min_interval_seconds": 0}));
    config
}

/// Writes the node's facts, classes and scratch root.
fn write_machine(directory: &Path, node: &DemoNode) -> Result<(), DemoError> {
    for subdirectory in ["facts.d", "ddl"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    let facts = serde_json::to_vec_pretty(&node.facts)
        .map_err(|error| OrganisationError::Format("the node's facts", error.into()))?;
    files::replace_public(&directory.join("facts.d/demo.json"), &facts)?;
    let classes = node.classes.join("\n") + "\n";
    files::replace_public(&directory.join("classes.txt"), classes.as_bytes())?;
    Ok(machine::make_scratch_root(&directory.join("root"), node)?)
}

/// Creates the files of a process that runs many nodes. Its configuration has a name that no node uses. Returns the configuration's path.
pub fn make_virtual_host(
    organisation: &Organisation,
    lock: &OrganisationLock,
    directory: &Path,
    host: &Identity,
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let policies = DemoPolicies::from_schemas()?;
    let mut config = node_config(&common_config());
    // The default level has connection messages of thousands of nodes.
    config.insert("log", json!({"level": "warn"}));
    make_daemon(organisation, lock, (directory, host), (config, &policies), now)
}

/// Creates the files of a daemon: credentials, policies and its configuration, whose path is returned.
fn make_daemon(
    organisation: &Organisation,
    lock: &OrganisationLock,
    (directory, node): (&Path, &Identity),
    (config, policies): (DemoNodeConfig, &DemoPolicies),
    now: Millis,
) -> Result<PathBuf, DemoError> {
    let issued =
        organisation.issue_credentials(lock, &credential_spec(PrincipalKind::Node, node), now)?;
    organisation.bundle_node(directory, &issued.creds, node, config)?;
    write_daemon_directories(directory, policies)?;
    Ok(directory.join(name::NODE_CONFIG))
}

fn write_daemon_directories(directory: &Path, policies: &DemoPolicies) -> Result<(), DemoError> {
    for subdirectory in ["state", "policies"] {
        files::create_private_directory(&directory.join(subdirectory))?;
    }
    Ok(policies.write(&directory.join("policies"))?)
}

pub fn credential_spec(kind: PrincipalKind, name: &Identity) -> CredentialSpec {
    CredentialSpec {
        kind,
        name: name.clone(),
        tags: Vec::new(),
        expires: Some(CREDENTIAL_LIFETIME),
        renew: false,
        out: None,
    }
}
