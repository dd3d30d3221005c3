//! `load run`: which benches there are, how large each is, and what becomes of the report.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::gate::{self, Baseline};
use crate::measure::{Size, fan_out};
use crate::report::{Report, Section};
use crate::{client, daemon, discovery, engine, micro, provision, start, storm};

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// How long a fleet takes to answer, beside both floors
    FanOut,
    /// The same with tens of thousands of nodes over a few connections
    Shared,
    /// What answers cost whoever asks: processor time and memory
    Client,
    /// Command start, and a call of one node
    Start,
    /// Finding nodes, by each method
    Discovery,
    /// Filters, beside closures
    Filters,
    /// Messages and tokens, beside bare signatures
    Signatures,
    /// A daemon's memory and processor time
    Daemon,
    /// Catalogs, beside Puppet
    Engine,
    /// Newcomers that become nodes
    Provision,
    /// A broker's restart under a fleet
    Storm,
}

/// `load run`.
#[derive(Debug, Args)]
pub(crate) struct ScenarioRun {
    /// Only these benches
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Bench>,
    /// Smaller fleets and less waiting, as the gate does; Puppet and the largest fleets are left out
    #[arg(long)]
    short: bool,
    /// Other sizes of fleets that answer
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
    /// Measured rounds of fleets that answer, after one that is not counted
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Runs in a debug build too, whose figures mean nothing: to see whether the benches work
    #[arg(long)]
    pub(crate) any_build: bool,
    /// Writes the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Appends the report as a section of Markdown
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// Compares ratios with those of an earlier run, and fails if one is worse than its tolerance
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Keeps the ratios for later runs
    #[arg(long, value_name = "FILE", conflicts_with = "gate")]
    baseline: Option<PathBuf>,
}

/// Runs the benches, and prints each as soon as it is there.
pub(crate) fn all(wanted: &ScenarioRun, files: u64) -> ExitCode {
    assert!(wanted.rounds > 0, "at least one round is needed");
    let mut report = Report::begin(wanted.short);
    println!("{}", report.machine.line());
    for bench in Bench::value_variants() {
        if let Some(section) = wanted.measure(*bench, files) {
            println!("\n{}", section.text());
            report.sections.push(section);
        }
    }
    if let Some(path) = &wanted.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
    }
    if let Some(path) = &wanted.append {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        write!(file, "\n{}", report.markdown()).unwrap();
    }
    if let Some(path) = &wanted.baseline {
        keep(&report, path);
    }
    match &wanted.gate {
        Some(path) => hold(&report, path),
        None => ExitCode::SUCCESS,
    }
}

impl ScenarioRun {
    /// One bench, if it is wanted.
    fn measure(&self, bench: Bench, files: u64) -> Option<Section> {
        let named = self.only.contains(&bench);
        // What a gate cannot hold: Puppet need not be there, and some take long.
        let left_out = [Bench::Shared, Bench::Engine];
        let usual = self.only.is_empty() && !(self.short && left_out.contains(&bench));
        if !named && !usual {
            return None;
        }
        let (short, rounds) = (self.short, self.rounds);
        let pick = |of_short: usize, of_long: usize| if short { of_short } else { of_long };
        Some(match bench {
            Bench::FanOut => fan_out(&self.sizes(files), rounds),
            Bench::Shared => {
                let size = Size { nodes: pick(5_000, 50_000), shared: Some(64) };
                fan_out(&[size], rounds)
            }
            Bench::Client => client::bench(pick(1_000, 10_000), rounds),
            Bench::Start => start::bench(pick(15, 40)),
            Bench::Discovery => discovery::bench(pick(200, 1_000), pick(5, 9)),
            Bench::Filters => micro::filters(pick(15, 50)),
            Bench::Signatures => micro::signatures(pick(15, 50)),
            Bench::Daemon => daemon::bench(if short { 10_000 } else { 100_000 }),
            Bench::Engine => engine::bench(2_000),
            Bench::Provision => provision::bench(if short { &[100] } else { &[100, 1_000] }),
            Bench::Storm => storm::bench(pick(500, 1_000)),
        })
    }

    fn sizes(&self, files: u64) -> Vec<Size> {
        let usual: &[usize] = if self.short { &[100, 1_000] } else { &[100, 1_000, 5_000, 10_000] };
        let nodes = if self.nodes.is_empty() { usual } else { &self.nodes };
        let size = |nodes: &usize| {
            let needed = u64::try_from(*nodes).unwrap() + 200;
            assert!(
                needed < files,
                "{nodes} connections need more than the {files} open files that a process may have here (ulimit -Hn)"
            );
            Size { nodes: *nodes, shared: None }
        };
        nodes.iter().map(size).collect()
    }
}

/// Writes what later runs are compared with.
fn keep(report: &Report, path: &Path) {
    let (format_date, machine) = (report.format_date.clone(), report.machine.line());
    let baseline = Baseline::of(format_date, machine, report.figures());
    let mut text = serde_json::to_string_pretty(&baseline).unwrap();
    text.push('\n');
    std::fs::write(path, text).unwrap();
    println!("kept {} ratios in {}", baseline.figures.len(), path.display());
}

/// Compares with an earlier run.
fn hold(report: &Report, path: &Path) -> ExitCode {
    let text = std::fs::read(path).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}; `make bench-baseline` makes it", path.display())
    });
    let baseline: Baseline = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{} is no baseline: {error}", path.display()));
    let lines = baseline.compare(report.figures());
    let head = format!("Against the ratios of {}, {}", baseline.format_date, baseline.machine);
    let section = Section {
        title: head,
        tables: vec![gate::table(&lines)],
        method: "Ratios to what was measured beside them; a larger one than \"may be\" is a regression. `make bench-baseline` renews the file.",
        ..Section::default()
    };
    println!("\n{}", section.text());
    let worse = lines.iter().filter(|line| line.verdict.is_regression());
    match worse.count() {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!("{count} ratios are worse than they may be, or were not measured");
            ExitCode::from(1)
        }
    }
}
