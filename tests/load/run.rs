//! `load run`: the benches, their sizes, and the output of the report.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::gate::{self, Baseline};
use crate::measure::{FleetSize, fan_out};
use crate::report::{Report, Section};
use crate::{
    broker_restart, checks, client, cluster, compiles, content, daemon, directory, directory_fleet,
    discovery, engine, gateway, history, micro, provision, regions, slow_link, start, tunnel,
};

/// The benches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// Time until a fleet has replied, next to both floors
    FanOut,
    /// The same with tens of thousands of nodes over a few connections
    Shared,
    /// Cost of replies for the caller: processor time and memory
    Client,
    /// Command start, and a call of one node
    Start,
    /// A check on all nodes, next to a ping
    Checks,
    /// Throughput of a tunnel, next to a direct connection
    Tunnel,
    /// Throughput of the content store, next to a copy
    Content,
    /// Discovery of nodes, by each method
    Discovery,
    /// Filters, next to closures
    Filters,
    /// Messages and tokens, next to bare signatures
    Signatures,
    /// Memory and processor time of a daemon
    Daemon,
    /// Catalogs, next to Puppet
    Engine,
    /// Catalogs that are compiled ahead, next to Puppet
    Compiles,
    /// Provisioning of machines
    Provision,
    /// Restart of a broker with a fleet
    Storm,
    /// Known nodes, asked over slow links
    SlowLink,
    /// A large fleet behind a cluster, of which a server is killed
    Cluster,
    /// Queries of the directory
    Directory,
    /// The same with the records of 50,000 nodes and two instances
    DirectoryLarge,
    /// Commands with a directory of real daemons, next to a broadcast
    DirectoryCommands,
    /// The index of the history
    History,
    /// The same with the runs of 10,000 nodes in 30 days; takes half an hour, only if it is named
    HistoryLarge,
    /// The runs of a fleet of Puppet agents at once, against the gateway
    Gateway,
    /// Registration of a fleet with an empty bucket
    Registration,
    /// Regions behind one hub: all replies, or pages of a gatherer for each region
    Regions,
}

/// Arguments of `load run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run only these benches
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Bench>,
    /// Use smaller fleets and shorter waits, as the gate does; skips Puppet and the largest fleets
    #[arg(long)]
    short: bool,
    /// Use these sizes of fleets that reply
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
    /// Number of measured rounds of fleets that reply, after one that is not counted
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Run in a debug build too, with meaningless figures, to test the benches
    #[arg(long)]
    pub(crate) any_build: bool,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Append the report as a section of Markdown
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// Compare ratios with those of an earlier run, and fail if one is worse than its tolerance
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Store the ratios for later runs
    #[arg(long, value_name = "FILE", conflicts_with = "gate")]
    baseline: Option<PathBuf>,
}

/// Runs the benches, and prints each result as soon as it is available.
pub(crate) fn run_benches(arguments: &RunArgs, files: u64) -> ExitCode {
    assert!(arguments.rounds > 0, "at least one round is needed");
    let mut report = Report::new(arguments.short);
    println!("{}", report.machine.line());
    if arguments.append.is_some()
        && let Err(problem) = report.machine.check_idle()
    {
        eprintln!("{problem}");
        return ExitCode::FAILURE;
    }
    for bench in Bench::value_variants() {
        if let Some(section) = arguments.measure(*bench, files) {
            println!("\n{}", section.text());
            report.sections.push(section);
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
    }
    if let Some(path) = &arguments.append {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        write!(file, "\n{}", report.markdown()).unwrap();
    }
    if let Some(path) = &arguments.baseline {
        write_baseline(&report, path);
    }
    match &arguments.gate {
        Some(path) => compare_with_baseline(&report, path),
        None => ExitCode::SUCCESS,
    }
}

impl RunArgs {
    /// Runs one bench if it is selected.
    fn measure(&self, bench: Bench, files: u64) -> Option<Section> {
        let named = self.only.contains(&bench);
        // Benches that the gate does not run: Puppet may be missing, and some take long.
        let excluded = [
            Bench::Shared,
            Bench::Engine,
            Bench::Compiles,
            Bench::Cluster,
            Bench::Regions,
            Bench::DirectoryLarge,
        ];
        let is_excluded = bench == Bench::HistoryLarge || self.short && excluded.contains(&bench);
        let by_default = self.only.is_empty() && !is_excluded;
        if !named && !by_default {
            return None;
        }
        let (short, rounds) = (self.short, self.rounds);
        let pick =
            |short_value: usize, long_value: usize| if short { short_value } else { long_value };
        Some(match bench {
            Bench::FanOut => fan_out(&self.sizes(files), rounds),
            Bench::Shared => {
                let size = FleetSize { nodes: pick(5_000, 50_000), shared: Some(64) };
                fan_out(&[size], rounds)
            }
            Bench::Client => client::bench(pick(1_000, 10_000), rounds),
            Bench::Start => start::bench(pick(15, 40)),
            Bench::Checks => checks::bench(1_000, pick(5, 9)),
            Bench::Tunnel => tunnel::bench(pick(64, 512), pick(3, 5)),
            Bench::Content => content::bench(pick(16, 64), pick(3, 5)),
            Bench::Discovery => discovery::bench(pick(200, 1_000), pick(5, 9)),
            Bench::Filters => micro::bench_filters(pick(15, 50)),
            Bench::Signatures => micro::bench_signatures(pick(15, 50)),
            Bench::Daemon => daemon::bench(if short { 10_000 } else { 100_000 }),
            Bench::Engine => engine::bench(2_000),
            Bench::Compiles => compiles::bench(pick(100, 1_000)),
            Bench::Provision => provision::bench(if short { &[100] } else { &[100, 1_000] }),
            Bench::Storm => broker_restart::bench(pick(500, 1_000)),
            Bench::Directory => directory::bench(pick(2_000, 10_000), pick(5, 15), 1),
            Bench::DirectoryLarge => directory::bench(pick(5_000, 50_000), pick(5, 15), 2),
            Bench::DirectoryCommands => directory_fleet::bench_commands(pick(10, 50), pick(9, 25)),
            Bench::History => history::bench(pick(100, 1_000), pick(2, 10)),
            Bench::HistoryLarge => history::bench(10_000, 30),
            Bench::Gateway => gateway::bench(pick(100, 1_000)),
            Bench::Registration => directory_fleet::bench_registration(pick(2_000, 10_000)),
            Bench::Regions => regions::bench(8, pick(500, 5_000)),
            Bench::Cluster => cluster::bench(pick(5_000, 50_000)),
            Bench::SlowLink if short => slow_link::bench(&[1_000], &[1_000, 20_000], &[100, 20]),
            Bench::SlowLink => {
                slow_link::bench(&[1_000, 5_000, 20_000], &[1_000, 20_000], &[100, 20, 7])
            }
        })
    }

    fn sizes(&self, files: u64) -> Vec<FleetSize> {
        let by_default: &[usize] =
            if self.short { &[100, 1_000] } else { &[100, 1_000, 5_000, 10_000] };
        let nodes = if self.nodes.is_empty() { by_default } else { &self.nodes };
        let size = |nodes: &usize| {
            let needed = u64::try_from(*nodes).unwrap() + 200;
            assert!(
                needed < files,
                "{nodes} connections need more than the {files} open files that a process may have here (ulimit -Hn)"
            );
            FleetSize { nodes: *nodes, shared: None }
        };
        nodes.iter().map(size).collect()
    }
}

/// Writes the file that later runs are compared with.
fn write_baseline(report: &Report, path: &Path) {
    let (date, machine) = (report.date.clone(), report.machine.line());
    let baseline = Baseline::from_figures(date, machine, report.figures());
    let mut text = serde_json::to_string_pretty(&baseline).unwrap();
    text.push('\n');
    std::fs::write(path, text).unwrap();
    println!("stored {} ratios in {}", baseline.figures.len(), path.display());
}

/// Compares the report with an earlier run.
fn compare_with_baseline(report: &Report, path: &Path) -> ExitCode {
    let text = std::fs::read(path).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}; `make bench-baseline` creates it", path.display())
    });
    let baseline: Baseline = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{} is not a baseline: {error}", path.display()));
    let lines = baseline.compare(report.figures());
    let head = format!("Against the ratios of {}, {}", baseline.date, baseline.machine);
    let section = Section {
        title: head,
        tables: vec![gate::comparison_table(&lines)],
        method: "Ratios to values of the same run; a ratio above \"may be\" is a regression. `make bench-baseline` renews the file.",
        ..Section::default()
    };
    println!("\n{}", section.text());
    let worse = lines.iter().filter(|line| line.verdict.is_regression());
    match worse.count() {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!("{count} ratios exceed their limit or were not measured");
            ExitCode::from(1)
        }
    }
}
