//! The central services of the demonstration: directory, history, scheduler and provisioner. One node runs all of them, with the same credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_organisation::bundle::name;
use muster_organisation::{CredentialSpec, Organisation, PrincipalKind};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::commands::demo::error::{DemoError, name_error};
use crate::commands::demo::fleet::SERVICE_NAME;
use crate::commands::demo::node::credential_spec;

const RIGHTS: [ServiceRight; 4] = [
    ServiceRight::Directory,
    ServiceRight::History,
    ServiceRight::Schedule,
    ServiceRight::Provision,
];
const CREDENTIALS: &str = "services.creds";
const HISTORY_INDEX: &str = "history-index";
/// The files with which the provisioner enrols machines.
const PROVISIONER_DIRECTORY: &str = "provisioner";

/// Writes the credentials, also of the compiler if there is one. The stores of the services are declared because of them.
pub fn issue_credentials(
    organisation: &mut Organisation,
    directory: &Path,
    has_compiler: bool,
    now: Millis,
) -> Result<(), DemoError> {
    let lock = organisation.lock()?;
    organisation.add_newcomers_account(&lock, now)?;
    let mut rights = RIGHTS.to_vec();
    rights.extend(has_compiler.then_some(ServiceRight::Compile));
    let provisioner = directory.join(PROVISIONER_DIRECTORY);
    let enroller = provisioner.join(name::NEWCOMERS_CREDS);
    let service = Identity::parse(SERVICE_NAME).map_err(name_error)?;
    for (kind, tags, out) in [
        (PrincipalKind::Service, ServiceRight::tags(&rights), credentials(directory)),
        (PrincipalKind::Enroller, Vec::new(), enroller),
    ] {
        let spec = CredentialSpec { tags, out: Some(out), ..credential_spec(kind, &service) };
        organisation.issue_credentials(&lock, &spec, now)?;
    }
    Ok(organisation.bundle_provisioner(&provisioner)?)
}

/// The credentials of all services.
pub fn credentials(directory: &Path) -> PathBuf {
    directory.join(CREDENTIALS)
}

/// The sections of the node that runs the services. Without a Puppet CA, the provisioner only enrols machines.
pub fn sections(directory: &Path) -> BTreeMap<&'static str, Value> {
    let credentials = credentials(directory);
    let provisioner = directory.join(PROVISIONER_DIRECTORY);
    let common = json!({"enabled": true, "credentials": credentials});
    BTreeMap::from([
        ("directory", common.clone()),
        ("schedule", common),
        (
            "history",
            json!({
                "enabled": true,
                "credentials": credentials,
                "directory": directory.join(HISTORY_INDEX),
            }),
        ),
        (
            "provisioner",
            json!({
                "enabled": true,
                "credentials": credentials,
                "puppet": false,
                "newcomers": {
                    "credentials": provisioner.join(name::NEWCOMERS_CREDS),
                    "account": provisioner.join(name::NEWCOMERS),
                    "node_key": provisioner.join(name::NODE_KEY),
                },
            }),
        ),
    ])
}
