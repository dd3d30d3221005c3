//! `rpc provision retry|pause|resume|retire`: tells the service what somebody wants; whoever leads does it.

use muster_wire::identity::Identity;
use serde_json::Value;

use super::service::Service;
use crate::ask::{agreed, is_terminal};
use crate::cli::provision::Retire;
use crate::commands::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::{BAD, GOOD};
use crate::render::printable::line;

/// Tells it for each node.
pub async fn run(action: &str, nodes: &[Identity], cx: Context<'_>) -> Result<Exit, Error> {
    let Some(service) = Service::find(cx).await? else {
        return Ok(Exit::Local);
    };
    let mut exit = Exit::Passed;
    for node in nodes {
        let reply = match service.ask(action, &[("node", node.as_str())]).await? {
            Ok(reply) => reply,
            Err(report) => {
                cx.warn_of_gaps(&report);
                cx.printer.error("no host of the service answers");
                return Ok(Exit::NoneAnswered);
            }
        };
        if !reply.is_ok() {
            let why = line(&reply.message);
            cx.printer.line(format_args!("{node}: {BAD}{why}{BAD:#}"))?;
            exit = Exit::SomeFailed;
            continue;
        }
        let state = reply.data.get("state").and_then(Value::as_str);
        let state = state.unwrap_or_default();
        let changed = reply.data.get("changed") == Some(&Value::Bool(true));
        let word = if changed { action } else { "nothing to do" };
        cx.printer
            .line(format_args!("{node}: {GOOD}{word}{GOOD:#} ({state})"))?;
    }
    Ok(exit)
}

/// Asks first: a certificate that is revoked stays revoked.
pub async fn retire(args: &Retire, cx: Context<'_>) -> Result<Exit, Error> {
    if !args.yes {
        let names: Vec<&str> = args.nodes.iter().map(AsRef::as_ref).collect();
        let names = names.join(", ");
        if !is_terminal() {
            cx.printer.error(format_args!(
                "retiring {names} cannot be undone; say --yes to do it without being asked"
            ));
            return Ok(Exit::Usage);
        }
        let question =
            format!("Revoke the certificates of {names} and take them out of the fleet? [y/N] ");
        if !agreed(&question, cx.printer).await? {
            cx.printer.say("Nothing was done");
            return Ok(Exit::Local);
        }
    }
    let exit = run("retire", &args.nodes, cx).await?;
    cx.printer.hint(
        "the nodes' own tokens stay valid: `rpc org revoke NODE` ends them, where the organisation's keys are",
    );
    Ok(exit)
}
