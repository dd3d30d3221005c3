//! `rpc org program`: the programs to which daemons may be upgraded.

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;
use muster_display::table::Table;
use muster_organisation::{ProgramError, ProgramFile, StoreOptions};
use muster_wire::token::ApprovedProgram;
use serde::Serialize;

use crate::commands::org::args::{OrgProgramAddArgs, OrgProgramCommand, OrgProgramRemoveArgs};
use crate::commands::org::push;
use crate::flags::org_directory::OrgDocumentArgs;
use crate::session::context::{CommandContext, CommandError, CommandExitCode, CommandResult};

impl CommandError for ProgramError {}

/// The document that `-j` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct OrgProgramsDocument {
    schema: &'static str,
    programs: Vec<ProgramRow>,
}

/// A program to which daemons may be upgraded.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct ProgramRow {
    name: String,
    machine: String,
    /// Its size.
    bytes: u64,
    sha256: String,
}

pub async fn run(command: OrgProgramCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        OrgProgramCommand::Add(args) => add(&args, cx).await,
        OrgProgramCommand::List(args) => list(&args, cx),
        OrgProgramCommand::Remove(args) => remove(&args, cx).await,
    }
}

/// Reads all files first, so that nothing is listed if one of them is no program.
async fn add(args: &OrgProgramAddArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let files = args.files.iter().map(|path| ProgramFile::read(path));
    let files: Vec<ProgramFile> = files.collect::<Result<_, _>>()?;
    let lock = organisation.lock()?;
    for file in &files {
        let added = organisation.list_program(&lock, &args.name, file, unix_millis_now())?;
        printer.print_message(format_args!(
            "{GOOD}added{GOOD:#} {} for {}, SHA-256 {}",
            added.name, added.machine, added.sha256
        ));
    }
    drop(lock);
    // The first program needs a new bucket.
    let options = StoreOptions::default();
    let code = push::push_all(organisation, options, printer).await?;
    if code == CommandExitCode::Passed {
        let organisation = cx.open_organisation(&args.organisation)?;
        for file in &files {
            organisation.store_program(file, unix_millis_now()).await?;
        }
        printer.print_hint(format_args!(
            "run `rpc upgrade {} --all --canary 1` to upgrade the nodes",
            args.name
        ));
    }
    Ok(code)
}

fn list(args: &OrgDocumentArgs, cx: CommandContext<'_>) -> CommandResult {
    let programs = cx.open_organisation(&args.organisation)?.programs()?;
    if args.json {
        let programs = programs.iter().map(ProgramRow::new).collect();
        let document = OrgProgramsDocument { schema: "muster.org.programs.v1", programs };
        cx.printer.print_json(&document)?;
    } else if programs.is_empty() {
        cx.printer.print_message("nodes run the programs of their packages only");
        cx.printer.print_hint("run `rpc org program add NAME FILE` to add one for upgrades");
    } else {
        let row = |program: &ApprovedProgram| {
            let ApprovedProgram { name, machine, bytes, sha256, .. } = program;
            [name.clone(), machine.clone(), bytes.to_string(), sha256.to_string()]
        };
        let (heading, rows) = (["NAME", "MACHINE", "BYTES", "SHA-256"], programs.iter().map(row));
        cx.printer.print_text(Table::new(heading).rows(rows).render(cx.table_width()))?;
    }
    Ok(CommandExitCode::Passed)
}

async fn remove(args: &OrgProgramRemoveArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let lock = organisation.lock()?;
    organisation.remove_program(&lock, &args.name, unix_millis_now())?;
    drop(lock);
    printer.print_message(format_args!("{GOOD}removed{GOOD:#} {}", args.name));
    let code = push::push_account_tokens(organisation, printer).await?;
    organisation.collect_programs(unix_millis_now()).await?;
    Ok(code)
}

impl ProgramRow {
    fn new(program: &ApprovedProgram) -> Self {
        let ApprovedProgram { name, machine, bytes, sha256, .. } = program.clone();
        Self { name, machine, bytes, sha256: sha256.to_string() }
    }
}
