//! `rpcd apply`: applies a catalog to this machine, without a daemon, a broker or a caller.
//!
//! Events are printed as they occur: in Puppet's format, or with `--jsonl` as one line of JSON per event. The engine does the work.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use muster_engine::catalog::{self, Catalog};
use muster_engine::external::{self, ExternalTypes};
use muster_engine::lock::{CatalogRunLock, puppet_state_dirs};
use muster_engine::puppet::{self, PuppetTypes};
use muster_engine::report::{RunEvent, RunLogEntry, RunLogLevel, RunReport};
use muster_engine::run::{self, RunOptions};
use muster_engine::{ResourceEngine, ResourceTypeSource, lint};
use muster_files::read_limited;
use muster_system::command::CancelFlag;
use muster_system::real::RealSystem;
use muster_system::{StateDir, System};

use crate::process::terminal::{escape_json, escape_text};

/// The default directory of the engine's state, in the root directory of the system that is changed.
const DEFAULT_STATE_DIR: &str = "var/lib/muster/engine";

/// What `rpcd apply` takes.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(after_help = "\
Examples:
  rpcd apply site.toml --noop
                 show what would change; change nothing
  rpcd apply catalog.json --detailed-exitcodes
                 apply a Puppet catalog; return Puppet's exit codes
  puppet catalog compile NODE --render-as json | tail -n +2 | rpcd apply -

Exit codes: 0 success, 1 the run or a resource failed, or refreshes are pending.
With --detailed-exitcodes: 0 no change was necessary, 1 the run itself failed,
2 resources changed or refreshes are pending, 4 resources failed, 6 both 2 and
4.")]
pub struct ApplyArgs {
    /// The catalog: Puppet's JSON, a JSON list of resources, or TOML with [[resource]] tables; `-` reads standard input
    file: PathBuf,
    /// Show what would change; change nothing
    #[arg(long)]
    noop: bool,
    /// Apply the catalog to the system whose root directory is DIR; ledger, locks, reports and caches are below it too
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Directory of the refresh ledger, the run lock, the schedules and the reports [default: var/lib/muster/engine in the root directory]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Directory, in the root directory, with the contents of a static catalog's files, each named by its SHA-256 [default: content in the state directory]
    #[arg(long, value_name = "DIR")]
    content_dir: Option<PathBuf>,
    /// Apply only resources with at least one of these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
    /// Skip resources with at least one of these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    skip_tags: Vec<String>,
    /// Apply resources outside of their schedules too
    #[arg(long)]
    ignore_schedules: bool,
    /// Also write the report to FILE, as JSON in Puppet's format
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Use different exit codes for changes and failures
    #[arg(long)]
    detailed_exitcodes: bool,
    /// Only list the notifications that Puppet would lose, and execs that never run; apply nothing
    #[arg(long)]
    lint: bool,
    /// With --lint: exit with 1 if there are findings
    #[arg(long, requires = "lint")]
    strict: bool,
    /// Print each event as a line of JSON
    #[arg(long)]
    jsonl: bool,
    /// Also print the messages that Puppet prints only with --verbose
    #[arg(long)]
    verbose: bool,
    /// How long to wait for another run, of this engine or of Puppet, to end
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
    /// Directory with the descriptions of external resource types
    #[arg(long, value_name = "DIR", default_value = external::TYPES_DIRECTORY)]
    types_dir: PathBuf,
    /// Puppet's state directory, which contains its locks; default: the directories of Puppet's packages
    #[arg(long, value_name = "DIR")]
    puppet_state: Vec<PathBuf>,
}

pub fn apply_catalog(arguments: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let system: Arc<dyn System> = Arc::new(RealSystem::new(arguments.root.clone()));
    let bytes = read_catalog(arguments)?;
    let catalog = parse_catalog(arguments, &bytes)?;
    let puppet = PuppetTypes::new(Arc::clone(&system), puppet::PuppetBridgeOptions::default());
    let types_dir = std::path::absolute(&arguments.types_dir)?;
    let external = ExternalTypes::new(Arc::clone(&system), types_dir);
    let type_sources: Vec<Arc<dyn ResourceTypeSource>> = vec![Arc::new(external), Arc::new(puppet)];
    let engine = ResourceEngine::new(Arc::clone(&system)).with_type_source(Arc::new(type_sources));
    if arguments.lint {
        return report_lint(&engine, &catalog, arguments.strict);
    }
    let state_dir = arguments.state_dir.clone();
    let state_dir = state_dir.unwrap_or_else(|| system.root().join(DEFAULT_STATE_DIR));
    let state = StateDir::open(&state_dir)?;
    let puppet_dirs = if arguments.puppet_state.is_empty() {
        puppet_state_dirs(system.root())
    } else {
        arguments.puppet_state.clone()
    };
    let _run_lock =
        CatalogRunLock::acquire(&state, &puppet_dirs, Duration::from_secs(arguments.wait))?;
    let options = RunOptions {
        noop: arguments.noop,
        tags: arguments.tags.clone(),
        only: BTreeSet::new(),
        skip_tags: arguments.skip_tags.clone(),
        ignore_schedules: arguments.ignore_schedules,
        verbose: arguments.verbose,
        run_id: uuid::Uuid::now_v7().to_string(),
        cancel: CancelFlag::default(),
        content_directory: arguments.content_dir.clone(),
    };
    let mut printer = EventPrinter::new(arguments.jsonl);
    let mut on_event = |event: &RunEvent| printer.print_event(event);
    let report =
        run::apply_stored_catalog(&engine, &catalog, &bytes, &state, &options, &mut on_event)?;
    if let Some(path) = &arguments.report {
        let json = serde_json::to_vec(&report)?;
        std::fs::write(path, json)
            .with_context(|| format!("cannot write the report {}", path.display()))?;
    }
    printer.print_pending_refreshes(&report);
    Ok(exit_code(&report, arguments.detailed_exitcodes))
}

fn read_catalog(arguments: &ApplyArgs) -> anyhow::Result<Vec<u8>> {
    let path = arguments.file.display();
    let reader: Box<dyn Read> = if arguments.file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = std::fs::File::open(&arguments.file);
        Box::new(file.with_context(|| format!("cannot read the catalog {path}"))?)
    };
    match read_limited(reader, catalog::MAX_CATALOG_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            bail!("the catalog {path} exceeds {} bytes", catalog::MAX_CATALOG_BYTES)
        }
        read => read.with_context(|| format!("cannot read the catalog {path}")),
    }
}

fn parse_catalog(arguments: &ApplyArgs, bytes: &[u8]) -> anyhow::Result<Catalog> {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    Catalog::parse(bytes, &host.unwrap_or_default())
        .with_context(|| format!("cannot apply the catalog {}", arguments.file.display()))
}

fn report_lint(
    engine: &ResourceEngine,
    catalog: &Catalog,
    strict: bool,
) -> anyhow::Result<ExitCode> {
    let findings = lint::lint_catalog(engine, catalog)?;
    let mut out = io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{}", escape_text(&finding.to_string()))?;
    }
    Ok(if strict && !findings.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn exit_code(report: &RunReport, detailed: bool) -> ExitCode {
    let code = report.exit_code();
    if detailed {
        ExitCode::from(code)
    } else if code == 1 || code & 4 != 0 || !report.pending_refreshes.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints events on standard output.
struct EventPrinter {
    jsonl: bool,
    colour: bool,
    out: io::Stdout,
}

impl EventPrinter {
    fn new(jsonl: bool) -> Self {
        let out = io::stdout();
        let colour =
            out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { jsonl, colour, out }
    }

    /// A closed standard output does not stop a run halfway.
    fn print_event(&mut self, event: &RunEvent) {
        if self.jsonl {
            if let Ok(line) = serde_json::to_string(event) {
                let _ = writeln!(self.out, "{}", escape_json(&line));
            }
        } else if let RunEvent::Log(log) = event {
            let _ = writeln!(self.out, "{}", self.format_line(log));
        }
    }

    fn format_line(&self, log: &RunLogEntry) -> String {
        let (label, colour) = match log.level {
            RunLogLevel::Debug => ("Debug", ""),
            RunLogLevel::Info => ("Info", "32"),
            RunLogLevel::Notice => ("Notice", ""),
            RunLogLevel::Warning => ("Warning", "33"),
            RunLogLevel::Err => ("Error", "31"),
            RunLogLevel::Alert => ("Alert", "31"),
            RunLogLevel::Emerg => ("Emergency", "31"),
            RunLogLevel::Crit => ("Critical", "31"),
        };
        let text = if log.source == "Puppet" {
            format!("{label}: {}", escape_text(&log.message))
        } else {
            format!("{label}: {}: {}", escape_text(&log.source), escape_text(&log.message))
        };
        if self.colour && !colour.is_empty() {
            format!("\u{1b}[{colour}m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    /// Prints pending refreshes last: they are the reason why the machine is not in the described state.
    fn print_pending_refreshes(&mut self, report: &RunReport) {
        if self.jsonl {
            return;
        }
        for refresh in &report.pending_refreshes {
            let reason = refresh.reason.as_deref().unwrap_or("reason not known yet");
            let remarks = refresh.remarks();
            let separator = if remarks.is_empty() { "" } else { "; " };
            let _ = writeln!(
                self.out,
                "Warning: the refresh of {} by {} is still pending: {}{separator}{remarks}",
                escape_text(&refresh.target),
                escape_text(&refresh.source),
                escape_text(reason)
            );
        }
    }
}
