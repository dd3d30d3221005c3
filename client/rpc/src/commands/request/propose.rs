//! `--request-approval`: what would be asked is written into a file, for a second person. No node is asked to do it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use muster_client::{ClientError, Draft};
use muster_wire::identity::{Identity, Name};

use super::nobody_found;
use crate::approval::{ApprovingError, person, write};
use crate::ask::{Plan, Target};
use crate::commands::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::settings::Settings;

/// What is proposed.
#[derive(Debug)]
pub struct Proposing<'a> {
    /// The request.
    pub plan: &'a Plan<'a>,
    /// Whom it was meant for.
    pub target: &'a Target,
    /// The nodes that were found.
    pub nodes: BTreeSet<Identity>,
    /// How long it may be asked.
    pub lifetime: Duration,
}

/// Writes the proposal.
pub fn propose(
    path: &Path,
    proposing: Proposing<'_>,
    settings: &Settings,
    cx: Context<'_>,
) -> Result<Exit, Error> {
    let Proposing {
        plan,
        target,
        nodes,
        lifetime,
    } = proposing;
    if nodes.is_empty() {
        nobody_found(target, cx);
        return Ok(Exit::Local);
    }
    let name = |text: &str| {
        Name::parse(text).map_err(|error| ApprovingError::from(ClientError::from(error)))
    };
    let secret = plan
        .data
        .keys()
        .filter(|name| plan.action.is_sensitive(name));
    let count = nodes.len();
    let draft = Draft {
        collective: target
            .collective
            .clone()
            .unwrap_or_else(|| settings.collective.clone()),
        agent: name(plan.ddl.name())?,
        action: name(plan.action.name())?,
        nodes,
        data: plan.data.clone(),
        secret: secret.cloned().collect(),
        lifetime,
    };
    let person = person(settings)?;
    let sealed = person.propose(&draft).map_err(ApprovingError::from)?;
    // Whoever reads it holds it to the same limits; better to be told now.
    let void = |source| ApprovingError::Void {
        path: path.to_owned(),
        source,
    };
    person.read_proposal(&sealed).map_err(void)?;
    write(path, &sealed)?;
    cx.printer.line(path.display())?;
    cx.printer.say(format_args!(
        "proposed for {count} {}; nothing was asked",
        if count == 1 { "node" } else { "nodes" }
    ));
    cx.printer.hint(format_args!(
        "a second person runs `rpc approve {}`",
        path.display()
    ));
    Ok(Exit::Passed)
}
