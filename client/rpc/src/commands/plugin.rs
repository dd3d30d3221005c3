//! `rpc plugin`: what the known agents can do, from their schemas; and schemas from nodes that offer more.

pub mod generate;

mod bundle;
mod check;

use muster_ddl::doc;

use super::context::Context;
use super::request::nobody_found;
use super::{form, inquiry};
use crate::ask::{AskError, Fetched, Kept, Schemas};
use crate::cli::plugin::{Doc, Fetch, List, Plugin};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::plugins::{Document, text};
use crate::render::printable::line;

/// Runs one of the commands.
pub async fn run(command: Plugin, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Plugin::List(args) => list(&args, cx),
        Plugin::Doc(args) => document(&args, cx),
        Plugin::Fetch(args) => fetch(args, cx).await,
        Plugin::Generate(args) => generate::run(&args, cx),
        Plugin::Check(args) => check::run(&args, cx),
        Plugin::Pack(args) => bundle::pack(&args, cx),
        Plugin::Install(args) => bundle::install(&args, cx),
        Plugin::Remove(args) => bundle::remove(&args, cx),
    }
}

fn list(args: &List, cx: Context<'_>) -> Result<Exit, Error> {
    let schemas = cx.schemas(cx.settings_if_any()?.as_ref())?;
    if let Some(json) = form::json(&args.json)? {
        cx.json(&Document::new(&schemas.store), &json)?;
    } else {
        cx.printer.text(text(&schemas.store))?;
    }
    Ok(Exit::Passed)
}

fn document(args: &Doc, cx: Context<'_>) -> Result<Exit, Error> {
    let schemas = cx.schemas(cx.settings_if_any()?.as_ref())?;
    let ddl = schemas.agent(&args.agent)?;
    match (form::json(&args.json)?, args.markdown) {
        (Some(json), _) => cx.json(ddl, &json)?,
        (_, true) => cx.printer.text(doc::markdown(ddl))?,
        _ => cx.printer.text(doc::text(ddl))?,
    }
    Ok(Exit::Passed)
}

/// Asks the nodes that offer the agent, and keeps what they agree on.
async fn fetch(args: Fetch, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent(&args.agent)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let plan = inquiry::plan(&schemas, "ddl", &[("agent", &args.agent)])?;
    let report = inquiry::ask_all(&plan, &target, &settings, true, cx).await?;
    cx.warn_of_gaps(&report);
    if report.stats.discovered == 0 {
        nobody_found(&target, cx);
        return Ok(report.stats.exit());
    }
    for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
        let message = line(&reply.message);
        cx.printer.warn(format_args!("{}: {message}", reply.node));
    }
    let fetched = Fetched::agreed(&args.agent, &report).map_err(AskError::from)?;
    let path = Kept::of(&settings, cx.environment)
        .keep(&fetched)
        .map_err(AskError::from)?;
    let (name, version) = (fetched.ddl.name(), line(fetched.ddl.version()).into_owned());
    let nodes = report.stats.ok;
    cx.printer.line(format_args!(
        "{name} {version} from {nodes} nodes, kept in {}",
        path.display()
    ))?;
    if schemas.store.get(name).is_some() {
        cx.printer.warn(format_args!(
            "another DDL of {name} is built in or in {}, and wins",
            settings.ddls.display()
        ));
    }
    Ok(report.stats.exit())
}
