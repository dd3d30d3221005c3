//! `rpc plugin`: what the known agents can do, from their schemas. Asks nobody.

use muster_ddl::doc;

use super::context::Context;
use super::form;
use crate::ask::Schemas;
use crate::cli::plugin::{Doc, List, Plugin};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::plugins::{Document, text};

/// Runs one of the commands.
pub fn run(command: Plugin, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Plugin::List(args) => list(&args, cx),
        Plugin::Doc(args) => document(&args, cx),
    }
}

fn list(args: &List, cx: Context<'_>) -> Result<Exit, Error> {
    let schemas = Schemas::load(cx.settings_if_any()?.as_ref())?;
    if let Some(json) = form::json(&args.json)? {
        cx.json(&Document::new(&schemas.store), &json)?;
    } else {
        cx.printer.text(text(&schemas.store))?;
    }
    Ok(Exit::Passed)
}

fn document(args: &Doc, cx: Context<'_>) -> Result<Exit, Error> {
    let schemas = Schemas::load(cx.settings_if_any()?.as_ref())?;
    let ddl = schemas.agent(&args.agent)?;
    match (form::json(&args.json)?, args.markdown) {
        (Some(json), _) => cx.json(ddl, &json)?,
        (_, true) => cx.printer.text(doc::markdown(ddl))?,
        _ => cx.printer.text(doc::text(ddl))?,
    }
    Ok(Exit::Passed)
}
