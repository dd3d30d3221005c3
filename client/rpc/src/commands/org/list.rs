//! `rpc org list`: everybody who was ever given credentials, by kind and name.

use muster_wire::token::{PublicKey, Seconds};
use serde::Serialize;

use crate::cli::org::List;
use crate::clock;
use crate::commands::table::table;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Kind, Organisation, Record, State, Trusts};
use crate::printer::Printer;

/// The document that `-j` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    schema: &'static str,
    organisation: String,
    parties: Vec<Row>,
}

/// One party's credentials. Instants are seconds since the epoch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) key: PublicKey,
    pub(super) state: State,
    pub(super) issued_at: Seconds,
    pub(super) expires: Option<Seconds>,
    pub(super) revoked_at: Option<Seconds>,
}

impl Row {
    /// What there is to say of a record.
    pub(super) fn new(record: &Record, trusts: &Trusts, now: Seconds) -> Self {
        Self {
            kind: record.kind,
            name: record.name.to_string(),
            key: record.key,
            state: trusts.state(record, now),
            issued_at: record.issued_at,
            expires: record.expires,
            revoked_at: trusts.revoked_at(record),
        }
    }

    fn cells(&self) -> [String; 7] {
        let written = |at: Option<Seconds>| at.map_or_else(|| "-".to_owned(), clock::written);
        [
            self.kind.to_string(),
            self.name.clone(),
            self.state.to_string(),
            written(Some(self.issued_at)),
            written(self.expires),
            written(self.revoked_at),
            self.key.to_string(),
        ]
    }
}

/// Runs it.
pub fn run(args: &List, organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    let trusts = organisation.trusts()?;
    let mut records = organisation.newest_records()?;
    records.sort_by(|a, b| (a.kind, &a.name, a.issued_at).cmp(&(b.kind, &b.name, b.issued_at)));
    let now = clock::now() / 1000;
    let rows = records.iter().map(|record| Row::new(record, &trusts, now));
    let parties: Vec<Row> = rows.collect();
    if args.json {
        let organisation = organisation.profile().name.clone();
        printer.json(&Document {
            schema: "muster.org.list.v1",
            organisation,
            parties,
        })?;
        return Ok(Exit::Passed);
    }
    if parties.is_empty() {
        printer.say("nobody was given credentials yet");
        printer.hint("`rpc org add user NAME` and `rpc org add node NAME` make some");
        return Ok(Exit::Passed);
    }
    let heading = [
        "KIND", "NAME", "STATE", "ISSUED", "EXPIRES", "REVOKED", "KEY",
    ];
    let cells: Vec<_> = parties.iter().map(Row::cells).collect();
    for line in table(heading, &cells) {
        printer.line(line)?;
    }
    Ok(Exit::Passed)
}
