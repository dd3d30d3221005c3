//! `rpc provision release`: frees the names of revoked nodes.

use crate::cli::provision::Release;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::{GOOD, Printer};

/// Runs it. A name whose key is not revoked is refused, and those after it are not looked at.
pub async fn run(
    args: &Release,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let trust = organisation.trust()?;
    let register = organisation.open_names(clock::now()).await?;
    for node in &args.nodes {
        let entry = register.get(node).await?;
        let entry = entry.ok_or_else(|| OrganisationError::Unknown(node.to_string()))?;
        if let Some(key) = entry.keys().find(|key| !trust.has_revocation(key)) {
            let name = node.to_string();
            return Err(OrganisationError::NotRevoked { name, key }.into());
        }
        register.release(node).await?;
        printer.say(format_args!(
            "{GOOD}released{GOOD:#} {node}: another machine may be enrolled under this name"
        ));
    }
    register.close().await?;
    Ok(Exit::Passed)
}
