//! What a whole fleet's answers cost whoever asks: processor time for each of them beside the floor's asker, and memory of the command.

#![expect(clippy::disallowed_types, reason = "what is measured are whole programs")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::measure::Contender;
use crate::process::{beside, cost, mib};
use crate::report::{Figure, Section, Table, max, median, min};
use crate::worker::{EnrolmentService, Part, Worker};

const METHOD: &str = "Askers are processes of their own with one thread, and nodes are others': what an asker costs is told by the kernel \
(getrusage), for the call alone. Once while the nodes share the two processors with the asker, and once alone: there the asker stops \
until all nodes have answered, and the answers wait at the broker, as on a fleet whose nodes have machines of their own. The programs are whole: start, connection, discovery where the command discovers, and output, and their \
memory is the most that they had at once.";

/// What a reply may cost more than the unsigned floor's, in microseconds.
const AIM_MICROS: f64 = 25.0;
/// What it takes a node at most to answer, of this machine's time.
const A_NODES_SHARE: Duration = Duration::from_micros(300);
/// What a command may need, in MiB.
const AIM_MIB: f64 = 64.0;

/// Measures with a fleet of this size.
pub(crate) fn bench(nodes: usize, rounds: usize) -> Section {
    let title = format!("What {nodes} answers cost whoever asks, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    eprintln!("{nodes} nodes for askers: connecting");
    let floor = Worker::start(&Part::Floor { nodes, shared: None });
    let muster = Worker::start(&Part::Muster { nodes, shared: None });
    processor_time(&mut section, &floor, &muster, nodes, rounds);
    programs(&mut section, &muster.door().home, nodes, rounds.min(3));
    section
}

fn processor_time(
    section: &mut Section,
    floor: &Worker,
    muster: &Worker,
    nodes: usize,
    rounds: usize,
) {
    let mut askers = Askers::start(floor.door(), muster.door(), nodes);
    let beside = askers.measure(Duration::ZERO, rounds);
    section.tables.push(table("nodes share the machine", &beside));
    // Until all have answered, and nobody else needs the processors.
    let pause = Duration::from_millis(500) + A_NODES_SHARE * u32::try_from(nodes).unwrap();
    let alone = askers.measure(pause, rounds);
    section.tables.push(table("alone", &alone));
    let [raw, signed, _, command, _] = alone.map(|samples| median(&samples));
    section.figures.extend([
        Figure::of("a reply's cost over the raw floor's", command - raw, "us").aim(AIM_MICROS),
        Figure::ratio("a reply's cost x raw floor's asker", command / raw).within(0.3),
        Figure::ratio("a reply's cost x signed floor's asker", command / signed).within(0.3),
    ]);
    let [raw, signed, _, command, _] = beside.map(|samples| median(&samples));
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

/// One asker of each kind.
struct Askers {
    bare: Worker,
    ours: Worker,
    nodes: u32,
}

impl Askers {
    fn start(bare: &EnrolmentService, door: &EnrolmentService, nodes: usize) -> Self {
        Self {
            bare: Worker::start(&Part::FloorAsker { nodes, url: bare.url.clone() }),
            ours: Worker::start(&Part::MusterAsker {
                nodes,
                url: door.url.clone(),
                home: door.home.clone(),
                operator: door.operator.clone(),
                collective: door.collective.clone(),
            }),
            nodes: u32::try_from(nodes).unwrap(),
        }
    }

    fn measure(&mut self, pause: Duration, rounds: usize) -> Samples {
        let mut samples = Samples::default();
        for round in 0..=rounds {
            eprintln!("{} nodes for askers: round {round} of {rounds}", self.nodes);
            for (contender, samples) in CONTENDERS.into_iter().zip(&mut samples) {
                let asker = if contender.is_floor() { &mut self.bare } else { &mut self.ours };
                let cpu = asker.measure_after(contender, pause).cpu / self.nodes;
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
        &format!("processor time of the asker, {title}"),
        "median us a reply",
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

/// The real commands.
fn programs(section: &mut Section, home: &Path, nodes: usize, rounds: usize) {
    let mut table = Table::new(["program", "most memory, MiB", "processor us a node", "ms"]);
    let one = cost(rpc(home, &["--version"]).arg("--quiet")).peak_kib;
    let each = u32::try_from(nodes).unwrap();
    for words in [
        &["ping"][..],
        &["find"],
        &["do", "rpcutil", "ping"],
        &["do", "rpcutil", "ping", "-j"],
        &["do", "rpcutil", "inventory"],
    ] {
        let costs: Vec<_> = (0..rounds).map(|_| cost(&rpc(home, words))).collect();
        let middle = |of: &dyn Fn(&crate::process::Cost) -> f64| {
            median(&costs.iter().map(of).collect::<Vec<f64>>())
        };
        let memory = middle(&|cost| mib(cost.peak_kib * 1024));
        let cpu = middle(&|cost| (cost.took.cpu / each).as_secs_f64() * 1e6);
        let wall = middle(&|cost| cost.took.wall.as_secs_f64() * 1e3);
        let name = format!("rpc {}", words.join(" "));
        table.rows.push(vec![
            name.clone(),
            format!("{memory:.1}"),
            format!("{cpu:.1}"),
            format!("{wall:.0}"),
        ]);
        if words.last() != Some(&"inventory") {
            let figure =
                Figure::of(format!("{nodes} replies: most memory of {name}"), memory, "MiB");
            section.figures.push(figure.aim(AIM_MIB));
            let ratio = memory / mib(one * 1024);
            section.figures.push(
                Figure::ratio(format!("memory of {name} x that of rpc --version"), ratio)
                    .within(0.3),
            );
        }
    }
    section.tables.push(table);
}

/// The command, as this fleet's caller.
pub(crate) fn rpc(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(beside("rpc"));
    command
        .args(words)
        .env("RPC_CONFIG", home.join("rpc.toml"))
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env_remove("XDG_CACHE_HOME")
        .env_remove("TRACEPARENT");
    command
}
