//! The cost of a fleet's replies for the caller: processor time per reply compared with the floor, and memory of the
//! command.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::measure::Contender;
use crate::process::{find_program, measure_cost, mib};
use crate::report::{Figure, Section, Table, max, median, min};
use crate::worker::{FleetAddress, Worker, WorkerRole};

const METHOD: &str = "Each caller is a process with one thread, separate from the nodes; its processor time is read from the kernel \
(getrusage) for the call alone. It is measured with the nodes on the same two processors, and alone: there the caller pauses until all \
nodes have replied, and the replies wait at the broker, as in a fleet whose nodes have their own machines. Programs are measured \
completely: start, connection, discovery where the command discovers, and output; their memory is the peak.";

/// Permitted additional processor time per reply, compared with the unsigned floor, in microseconds.
const MAX_EXTRA_MICROS: f64 = 25.0;
/// Upper bound of the time that a node needs for a reply on this machine.
const REPLY_TIME: Duration = Duration::from_micros(300);
/// Permitted memory of a command, in MiB.
const MAX_COMMAND_MIB: f64 = 64.0;

/// Measures with a fleet of this size.
pub(crate) fn bench(nodes: usize, rounds: usize) -> Section {
    let title = format!("Cost of {nodes} replies for the caller, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    eprintln!("{nodes} nodes for callers: connecting");
    let floor = Worker::start(&WorkerRole::Floor { nodes, shared: None });
    let muster = Worker::start(&WorkerRole::Muster { nodes, shared: None });
    measure_processor_time(&mut section, &floor, &muster, nodes, rounds);
    measure_programs(&mut section, &muster.address().home, nodes, rounds.min(3));
    section
}

fn measure_processor_time(
    section: &mut Section,
    floor: &Worker,
    muster: &Worker,
    nodes: usize,
    rounds: usize,
) {
    let mut callers = CallerProcesses::start(floor.address(), muster.address(), nodes);
    let together = callers.measure(Duration::ZERO, rounds);
    section.tables.push(table("nodes share the machine", &together));
    // Until all nodes have replied; afterwards only the caller uses the processors.
    let pause = Duration::from_millis(500) + REPLY_TIME * u32::try_from(nodes).unwrap();
    let alone = callers.measure(pause, rounds);
    section.tables.push(table("alone", &alone));
    let [raw, signed, _, command, _] = alone.map(|samples| median(&samples));
    section.figures.extend([
        Figure::of("a reply's cost over the raw floor's", command - raw, "us")
            .aim(MAX_EXTRA_MICROS),
        Figure::ratio("a reply's cost x raw floor's asker", command / raw).within(0.3),
        Figure::ratio("a reply's cost x signed floor's asker", command / signed).within(0.3),
    ]);
    let [raw, signed, _, command, _] = together.map(|samples| median(&samples));
    section.figures.extend([
        Figure::of("a reply's cost over the raw floor's, nodes beside it", command - raw, "us"),
        Figure::ratio("a reply's cost x signed floor's asker, nodes beside it", command / signed)
            .within(0.3),
    ]);
}

/// Microseconds of each contender, in the order of [`CONTENDERS`].
type Samples = [Vec<f64>; CONTENDERS.len()];

const CONTENDERS: [Contender; 5] = [
    Contender::Raw,
    Contender::RawSigned,
    Contender::Warm,
    Contender::Command,
    Contender::NewClient,
];

/// One caller process of each kind.
struct CallerProcesses {
    floor: Worker,
    muster: Worker,
    nodes: u32,
}

impl CallerProcesses {
    fn start(floor: &FleetAddress, address: &FleetAddress, nodes: usize) -> Self {
        Self {
            floor: Worker::start(&WorkerRole::FloorAsker { nodes, url: floor.url.clone() }),
            muster: Worker::start(&WorkerRole::MusterAsker {
                nodes,
                url: address.url.clone(),
                home: address.home.clone(),
                operator: address.operator.clone(),
                collective: address.collective.clone(),
            }),
            nodes: u32::try_from(nodes).unwrap(),
        }
    }

    fn measure(&mut self, pause: Duration, rounds: usize) -> Samples {
        let mut samples = Samples::default();
        for round in 0..=rounds {
            eprintln!("{} nodes for callers: round {round} of {rounds}", self.nodes);
            for (contender, samples) in CONTENDERS.into_iter().zip(&mut samples) {
                let caller = if contender.is_floor() { &mut self.floor } else { &mut self.muster };
                let cpu = caller.measure_after(contender, pause).cpu / self.nodes;
                if round > 0 {
                    samples.push(cpu.as_secs_f64() * 1e6);
                }
            }
        }
        samples
    }
}

fn table(title: &str, samples: &Samples) -> Table {
    let mut table = Table::new([
        &format!("processor time of the caller, {title}"),
        "median us per reply",
        "min",
        "max",
        "more than raw floor",
    ]);
    let raw = median(&samples[0]);
    for (contender, samples) in CONTENDERS.into_iter().zip(samples) {
        let middle = median(samples);
        let numbers = [middle, min(samples), max(samples), middle - raw];
        let row = [contender.title().to_owned()].into_iter();
        table.rows.push(row.chain(numbers.map(|us| format!("{us:.1}"))).collect());
    }
    table
}

/// Measures the real commands.
fn measure_programs(section: &mut Section, home: &Path, nodes: usize, rounds: usize) {
    let mut table = Table::new(["program", "peak memory, MiB", "processor us per node", "ms"]);
    let one = measure_cost(rpc(home, &["--version"]).arg("--quiet")).peak_kib;
    let each = u32::try_from(nodes).unwrap();
    for arguments in [
        &["ping"][..],
        &["find"],
        &["do", "rpcutil", "ping"],
        &["do", "rpcutil", "ping", "-j"],
        &["do", "rpcutil", "inventory"],
    ] {
        let costs: Vec<_> = (0..rounds).map(|_| measure_cost(&rpc(home, arguments))).collect();
        let middle = |value_of: &dyn Fn(&crate::process::ProgramCost) -> f64| {
            median(&costs.iter().map(value_of).collect::<Vec<f64>>())
        };
        let memory = middle(&|cost| mib(cost.peak_kib * 1024));
        let cpu = middle(&|cost| (cost.took.cpu / each).as_secs_f64() * 1e6);
        let wall = middle(&|cost| cost.took.wall.as_secs_f64() * 1e3);
        let name = format!("rpc {}", arguments.join(" "));
        table.rows.push(vec![
            name.clone(),
            format!("{memory:.1}"),
            format!("{cpu:.1}"),
            format!("{wall:.0}"),
        ]);
        if arguments.last() != Some(&"inventory") {
            let figure =
                Figure::of(format!("{nodes} replies: most memory of {name}"), memory, "MiB");
            section.figures.push(figure.aim(MAX_COMMAND_MIB));
            let ratio = memory / mib(one * 1024);
            section.figures.push(
                Figure::ratio(format!("memory of {name} x that of rpc --version"), ratio)
                    .within(0.3),
            );
        }
    }
    section.tables.push(table);
}

/// The `rpc` command as this fleet's caller.
pub(crate) fn rpc(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(find_program("rpc"));
    command
        .args(arguments)
        .env("RPC_CONFIG", home.join("rpc.toml"))
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env_remove("XDG_CACHE_HOME")
        .env_remove("TRACEPARENT");
    command
}
