//! `rpc doctor`: checks each step between a command and its replies, and reports errors.

pub mod output;

use std::collections::BTreeSet;

use muster_base::{error_chain, unix_millis_now};
use muster_display::count_text;
use muster_operations::doctor::{
    DiagnosisFinding, DiagnosisSection, check_broker, check_fleet, check_local_files,
    describe_left_address,
};
use muster_wire::identity::Identity;

use crate::commands::doctor::output::{DoctorDocument, render_section};
use crate::flags::filters::QueryArgs;
use crate::flags::org_directory::OrgDirectoryArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error};

pub const AFTER_HELP: &str = "Examples:
  rpc doctor                         the client, the brokers, the whole fleet
  rpc doctor -I db1.acme.net         the same, with one node only
  rpc doctor -j                      print one JSON document

Checks the client's configuration, credentials and trust; names, connections
and TLS of the brokers; clocks, duplicate names, versions and DDLs of the nodes,
and problems that daemons report: policies, facts, disks, audit, credentials.
Changes nothing. Exits with 1 for an error of the client or a broker, with 2 for
an error of a node; warnings do not count.";

/// Prints each check when it is done, because later checks usually depend on the first that fails.
pub async fn run(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.filters)?;
    let json = args.json.form()?;
    let settings = cx.settings()?;
    let mut sections = Vec::new();
    let mut add_section = |section: DiagnosisSection| {
        if json.is_none() {
            cx.printer.print_text(render_section(&section, cx.width()))?;
        }
        sections.push(section);
        Ok::<_, Error>(())
    };
    add_section(check_local_files(settings, unix_millis_now()))?;
    let left = settings.left_broker_urls();
    let mut is_answered = false;
    for url in settings.broker_place().urls {
        let mut section = check_broker(&url, settings).await;
        if is_answered && left.contains(&url) {
            section = describe_left_address(section);
        }
        is_answered |= !section.has_errors();
        add_section(section)?;
    }
    let describe_absent =
        |replied: &BTreeSet<&Identity>| cx.describe_absent(&target, replied.iter().copied());
    if let Some(section) = check_servers(cx).await {
        add_section(section)?;
    }
    for section in check_fleet(settings, &target, describe_absent).await {
        add_section(section)?;
    }
    if let Some(json) = &json {
        cx.print_json(&DoctorDocument::new(&sections), json)?;
    }
    Ok(exit_code(&sections))
}

/// What `rpc broker status` finds, on the organisation's machine; `None` anywhere else.
async fn check_servers(cx: CommandContext<'_>) -> Option<DiagnosisSection> {
    let organisation = cx.open_organisation(&OrgDirectoryArgs::default()).ok()?;
    let status = organisation.query_broker_status(unix_millis_now()).await;
    Some(DiagnosisSection {
        about: "Broker's servers".to_owned(),
        is_local: false,
        findings: match status {
            Ok(status) if status.problems.is_empty() => {
                let count = status.servers.len();
                vec![DiagnosisFinding::ok(
                    "servers",
                    count_text(count, "server runs", "servers run"),
                )]
            }
            Ok(status) => status
                .problems
                .iter()
                .map(|text| DiagnosisFinding::error("servers", text))
                .collect(),
            Err(error) => vec![DiagnosisFinding::error("servers", error_chain(&error))],
        },
    })
}

/// The exit code: local errors take precedence over other errors; warnings do not count.
fn exit_code(sections: &[DiagnosisSection]) -> CommandExitCode {
    let mut failed = sections.iter().filter(|section| section.has_errors()).peekable();
    if failed.peek().is_none() {
        CommandExitCode::Passed
    } else if failed.any(|section| section.is_local) {
        CommandExitCode::Local
    } else {
        CommandExitCode::SomeFailed
    }
}

#[cfg(test)]
mod tests {
    use muster_operations::doctor::{DiagnosisFinding, DiagnosisSection};

    use super::exit_code;
    use crate::outcome::exit::CommandExitCode;

    #[test]
    fn local_errors_take_precedence_in_the_exit_code() {
        let section =
            |is_local, findings| DiagnosisSection { about: String::new(), is_local, findings };
        let fine = || {
            section(true, vec![DiagnosisFinding::ok("a", ""), DiagnosisFinding::warning("b", "")])
        };
        let node = || section(false, vec![DiagnosisFinding::error("c", "")]);
        assert_eq!(exit_code(&[fine()]), CommandExitCode::Passed);
        assert_eq!(exit_code(&[fine(), node()]), CommandExitCode::SomeFailed);
        let local = section(true, vec![DiagnosisFinding::error("d", "")]);
        assert_eq!(exit_code(&[local, node()]), CommandExitCode::Local);
    }
}
