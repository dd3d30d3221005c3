//! The history of the demonstration's fleet, on the node that also runs the directory.

use std::path::Path;

use muster_organisation::Organisation;
use muster_wire::Millis;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::commands::demo::error::DemoError;
use crate::commands::demo::node;

const CREDENTIALS: &str = "history.creds";
const INDEX: &str = "history-index";

/// Writes the credentials. The store of the history is declared because of them.
pub fn prepare(
    organisation: &Organisation,
    directory: &Path,
    now: Millis,
) -> Result<(), DemoError> {
    let lock = organisation.lock()?;
    let out = directory.join(CREDENTIALS);
    node::issue_service(organisation, &lock, ServiceRight::History, out, now)
}

/// The section of the node that keeps the history.
pub fn section(directory: &Path) -> Value {
    json!({
        "enabled": true,
        "credentials": directory.join(CREDENTIALS),
        "directory": directory.join(INDEX),
    })
}
