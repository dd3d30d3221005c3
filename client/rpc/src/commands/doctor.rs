//! `rpc doctor`: looks at everything between a command and its answer, and says what is wrong.

use muster_bus::{Server, probe};

use super::context::Context;
use super::form;
use crate::ask::{Fleet, Schemas, Target};
use crate::cli::doctor::Doctor;
use crate::clock;
use crate::diagnostics::chain;
use crate::doctor::{Finding, Section, broker, exit, fleet, local};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::doctor::{Document, text};
use crate::settings::Settings;

/// Runs the command. Each look is told when it is done: the first that fails is often the last one needed.
pub async fn run(args: Doctor, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?;
    let json = form::json(&args.json)?;
    let settings = Settings::load(cx.config, cx.environment)?;
    let mut sections = Vec::new();
    let mut tell = |section: Section| {
        if json.is_none() {
            cx.printer.text(text(&section, cx.printer.screen().width))?;
        }
        sections.push(section);
        Ok::<_, Error>(())
    };
    tell(local::section(&settings, clock::now()))?;
    for url in &settings.urls {
        tell(look_at(url, &settings).await)?;
    }
    tell(look_at_fleet(&settings, &target).await)?;
    if let Some(json) = &json {
        cx.json(&Document::new(&sections), json)?;
    }
    Ok(exit(&sections))
}

async fn look_at(url: &str, settings: &Settings) -> Section {
    match Server::parse(url, settings.plaintext_on_loopback) {
        Ok(server) => broker::section(url, &probe(&server, settings.ca.as_deref()).await),
        Err(error) => Section {
            about: format!("Broker {url}"),
            here: true,
            findings: vec![Finding::error("address", error.to_string())],
        },
    }
}

async fn look_at_fleet(settings: &Settings, target: &Target) -> Section {
    let asked = async {
        let schemas = Schemas::load(Some(settings))?;
        let fleet = Fleet::connect(settings, target).await?;
        let call = fleet.roll_call(&target.filter, "diagnose").await?;
        Ok::<_, crate::ask::AskError>((call, schemas))
    };
    let trouble = |finding| Section {
        about: "Fleet".to_owned(),
        here: true,
        findings: vec![finding],
    };
    match asked.await {
        Err(error) => trouble(Finding::error("connection", chain(&error))),
        Ok((call, _)) if call.answers.is_empty() && call.disbelieved.is_empty() => trouble(
            Finding::error("nodes", "connected, but no node answers")
                .advising("is rpcd running there, in this collective, and does the filter match?"),
        ),
        Ok((call, schemas)) => fleet::section(&call, &schemas),
    }
}
