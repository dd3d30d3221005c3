//! `rpc org list`: lists all issued credentials by kind and name.

use muster_base::unix_millis_now;
use muster_display::table::Table;
use muster_display::time::format_time;
use muster_organisation::{AccountTrusts, CredentialRecord, CredentialState, PrincipalKind};
use muster_wire::token::{PublicKey, Seconds};
use serde::Serialize;

use crate::flags::org_directory::OrgDocumentArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// The document that `-j` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct OrgListDocument {
    schema: &'static str,
    organisation: String,
    parties: Vec<CredentialRow>,
}

/// Credentials of one principal. Times are in seconds since the epoch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct CredentialRow {
    pub(super) kind: PrincipalKind,
    pub(super) name: String,
    pub(super) key: PublicKey,
    pub(super) state: CredentialState,
    pub(super) issued_at: Seconds,
    pub(super) expires: Option<Seconds>,
    pub(super) revoked_at: Option<Seconds>,
}

impl CredentialRow {
    pub(super) fn new(record: &CredentialRecord, trusts: &AccountTrusts, now: Seconds) -> Self {
        Self {
            kind: record.kind,
            name: record.name.to_string(),
            key: record.key,
            state: trusts.credential_state(record, now),
            issued_at: record.issued_at,
            expires: record.expires,
            revoked_at: trusts.revoked_at(record),
        }
    }

    fn table_cells(&self) -> [String; 7] {
        [
            self.kind.to_string(),
            self.name.clone(),
            self.state.to_string(),
            format_optional_time(Some(self.issued_at)),
            format_optional_time(self.expires),
            format_optional_time(self.revoked_at),
            self.key.to_string(),
        ]
    }
}

/// A time, or `-`.
pub(super) fn format_optional_time(at: Option<Seconds>) -> String {
    at.map_or_else(|| "-".to_owned(), format_time)
}

pub fn run(args: &OrgDocumentArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let trusts = organisation.account_trusts()?;
    let mut records = organisation.newest_records()?;
    records.sort_by(|a, b| (a.kind, &a.name, a.issued_at).cmp(&(b.kind, &b.name, b.issued_at)));
    let now = unix_millis_now() / 1000;
    let parties: Vec<CredentialRow> =
        records.iter().map(|record| CredentialRow::new(record, &trusts, now)).collect();
    if args.json {
        let organisation = organisation.profile().name.clone();
        let document = OrgListDocument { schema: "muster.org.list.v1", organisation, parties };
        printer.print_json(&document)?;
        return Ok(CommandExitCode::Passed);
    }
    if parties.is_empty() {
        printer.print_message("no credentials were issued yet");
        printer.print_hint("run `rpc org add user NAME` or `rpc org add node NAME` to issue some");
        return Ok(CommandExitCode::Passed);
    }
    let heading = ["KIND", "NAME", "STATE", "ISSUED", "EXPIRES", "REVOKED", "KEY"];
    let rows = parties.iter().map(CredentialRow::table_cells);
    printer.print_text(Table::new(heading).rows(rows).render(cx.table_width()))?;
    Ok(CommandExitCode::Passed)
}
