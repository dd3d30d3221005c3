//! `rpc doctor`: checks each step between a command and its replies, and reports errors.

use muster_base::{error_chain, unix_millis_now};
use muster_bus::{BrokerAddress, probe_broker};
use muster_doctor::{DiagnosisFinding, DiagnosisSection, broker, exit_code, fleet, local};
use muster_request::{AgentSchemas, FleetConnection, RpcSettings, TargetSelection};

use super::form;
use crate::cli::filters::QueryArgs;
use crate::commands::context::{CommandContext, CommandResult, Error};
use crate::render::doctor::{DoctorDocument, render_section};

/// Runs the command. Prints each check when it is done, because later checks usually depend on the first that fails.
pub async fn run(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.filters)?;
    let json = form::parse_json_form(&args.json)?;
    let settings = cx.settings()?;
    let mut sections = Vec::new();
    let mut add_section = |section: DiagnosisSection| {
        if json.is_none() {
            cx.printer.print_text(render_section(&section, cx.width()))?;
        }
        sections.push(section);
        Ok::<_, Error>(())
    };
    add_section(check_local_files(&settings, unix_millis_now()))?;
    for url in &settings.urls {
        add_section(check_broker(url, &settings).await)?;
    }
    add_section(check_fleet(&settings, &target).await)?;
    if let Some(json) = &json {
        cx.print_json(&DoctorDocument::new(&sections), json)?;
    }
    Ok(exit_code(&sections))
}

/// A section about a problem of this machine.
fn problem_section(about: impl Into<String>, finding: DiagnosisFinding) -> DiagnosisSection {
    DiagnosisSection { about: about.into(), is_local: true, findings: vec![finding] }
}

async fn check_broker(url: &str, settings: &RpcSettings) -> DiagnosisSection {
    match BrokerAddress::parse(url, settings.plaintext_on_loopback) {
        Ok(server) => {
            broker::broker_section(url, &probe_broker(&server, settings.ca.as_deref()).await)
        }
        Err(error) => {
            let finding = DiagnosisFinding::error("address", error.to_string());
            problem_section(format!("Broker {url}"), finding)
        }
    }
}

async fn check_fleet(settings: &RpcSettings, target: &TargetSelection) -> DiagnosisSection {
    let roll_call = async {
        let schemas = AgentSchemas::load(Some(settings))?;
        let fleet = FleetConnection::connect(settings, target).await?;
        let call = fleet.roll_call(&target.filter, "diagnose").await?;
        Ok::<_, muster_request::FleetRequestError>((call, schemas))
    };
    match roll_call.await {
        Err(error) => {
            problem_section("Fleet", DiagnosisFinding::error("connection", error_chain(&error)))
        }
        Ok((call, _)) if call.answers.is_empty() && call.rejected.is_empty() => {
            let finding = DiagnosisFinding::error("nodes", "connected, but no node replies");
            problem_section("Fleet", finding.with_advice(
                "check that rpcd runs on the nodes in this collective, and that the filter matches",
            ))
        }
        Ok((call, schemas)) => fleet::fleet_section(&call, &schemas),
    }
}
