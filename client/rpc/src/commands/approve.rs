//! `rpc approve`: shows what another wants to ask, and signs it with the approver's own key. Asks no node.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use muster_ddl::Action;
use muster_wire::approval::Inputs;
use muster_wire::limits;

use super::context::Context;
use crate::approval::{ApprovingError, person, read, write};
use crate::ask::Schemas;
use crate::cli::approve::Approve;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::GOOD;
use crate::render::proposal::page;

/// Runs the command.
pub fn run(args: &Approve, cx: Context<'_>) -> Result<Exit, Error> {
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let person = person(&settings)?;
    let bytes = read(&args.file, limits::PROPOSAL_BYTES)?;
    let void = |source| ApprovingError::Void {
        path: args.file.clone(),
        source,
    };
    let proposed = person.read_proposal(&bytes).map_err(void)?;
    let proposal = &proposed.proposal;
    let ddl = schemas.store.get(proposal.agent.as_str());
    let action = ddl.and_then(|ddl| ddl.action(proposal.action.as_str()));
    let in_time = proposed.in_time(clock::now());
    cx.printer.text(page(
        &proposed,
        action,
        in_time.is_err(),
        cx.printer.screen().width,
    ))?;
    if args.show {
        return Ok(Exit::Passed);
    }
    in_time.map_err(void)?;
    refuse_hidden(&proposal.inputs, action)?;
    let own = &person.signer;
    if proposal.caller == *own.identity() || proposed.caller.key == own.public() {
        return Err(ApprovingError::Oneself(own.identity().clone()).into());
    }
    if !args.yes && !agreed(own.identity().as_str(), cx)? {
        cx.printer.say("not approved; nothing was written");
        return Ok(Exit::Local);
    }
    let approval = person.approve(&bytes).map_err(ApprovingError::from)?;
    let path = args.output.clone().unwrap_or_else(|| {
        let mut name = args.file.clone().into_os_string();
        name.push(".approved");
        PathBuf::from(name)
    });
    if path.as_os_str() == "-" {
        cx.printer.line(String::from_utf8_lossy(&approval))?;
        return Ok(Exit::Passed);
    }
    write(&path, &approval)?;
    cx.printer.say(format_args!(
        "{GOOD}approved{GOOD:#} as {}: {}",
        own.identity(),
        path.display()
    ));
    cx.printer.hint(format_args!(
        "{} asks with `rpc {} {} ... --approve {}`",
        proposal.caller,
        proposal.agent,
        proposal.action,
        path.display()
    ));
    Ok(Exit::Passed)
}

/// Only what the schema calls secret may be hidden from an approver.
fn refuse_hidden(inputs: &Inputs, action: Option<&Action>) -> Result<(), ApprovingError> {
    let is_secret = |name: &str| action.is_some_and(|action| action.is_sensitive(name));
    match inputs.secret.keys().find(|name| !is_secret(name)) {
        Some(name) => Err(ApprovingError::Hidden(name.clone())),
        None => Ok(()),
    }
}

/// Asks, and takes nothing but a clear yes for one.
fn agreed(approver: &str, cx: Context<'_>) -> Result<bool, ApprovingError> {
    if !io::stdin().is_terminal() {
        return Err(ApprovingError::NobodyToAsk);
    }
    cx.printer
        .ask(format_args!("Approve this as {approver}? [y/N]"));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
