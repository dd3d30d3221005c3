//! What a whole fleet's answers cost whoever asks: processor time for each of them beside the floor's asker, and memory of the command.

#![expect(
    clippy::disallowed_types,
    reason = "what is measured are whole programs"
)]

use std::path::Path;
use std::process::Command;

use crate::measure::Contender;
use crate::process::{beside, cost, mib};
use crate::report::{Figure, Section, Table, max, median, min};
use crate::worker::{Part, Worker};

const METHOD: &str = "Askers are processes of their own with one thread, and nodes are others': what an asker costs is told by the kernel \
(getrusage), for the call alone. The programs are whole: start, connection, discovery where the command discovers, and output, and their \
memory is the most that they had at once.";

/// What a reply may cost more than the unsigned floor's, in microseconds.
const AIM_MICROS: f64 = 25.0;
/// What a command may need, in MiB.
const AIM_MIB: f64 = 64.0;

/// Measures with a fleet of this size.
pub(crate) fn bench(nodes: usize, rounds: usize) -> Section {
    let title = format!("What {nodes} answers cost whoever asks, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    eprintln!("{nodes} nodes for askers: connecting");
    let floor = Worker::start(&Part::Floor {
        nodes,
        shared: None,
    });
    let muster = Worker::start(&Part::Muster {
        nodes,
        shared: None,
    });
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
    let (bare, door) = (floor.door(), muster.door());
    let mut bare = Worker::start(&Part::FloorAsker {
        nodes,
        url: bare.url.clone(),
    });
    let mut ours = Worker::start(&Part::MusterAsker {
        nodes,
        url: door.url.clone(),
        home: door.home.clone(),
        operator: door.operator.clone(),
        collective: door.collective.clone(),
    });
    let contenders = [
        Contender::Raw,
        Contender::RawSigned,
        Contender::Warm,
        Contender::Command,
    ];
    let each = u32::try_from(nodes).unwrap();
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        eprintln!("{nodes} nodes for askers: round {round} of {rounds}");
        for (contender, samples) in contenders.into_iter().zip(&mut samples) {
            let asker = if contender.is_floor() {
                &mut bare
            } else {
                &mut ours
            };
            let cpu = asker.measure(contender).cpu / each;
            if round > 0 {
                samples.push(cpu.as_secs_f64() * 1e6);
            }
        }
    }
    let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
    let [raw, signed, _, command] = medians.as_slice() else {
        panic!("all four are measured");
    };
    let mut table = Table::new([
        "processor time of the asker",
        "median us a reply",
        "min",
        "max",
        "more than raw floor",
    ]);
    for ((contender, samples), middle) in contenders.into_iter().zip(&samples).zip(&medians) {
        let numbers = [*middle, min(samples), max(samples), middle - raw];
        let row = [contender.title().to_owned()].into_iter();
        table
            .rows
            .push(row.chain(numbers.map(|us| format!("{us:.1}"))).collect());
    }
    section.tables.push(table);
    section.figures.extend([
        Figure::of("a reply's cost over the raw floor's", command - raw, "us").aim(AIM_MICROS),
        Figure::ratio("a reply's cost x raw floor's asker", command / raw).within(0.3),
        Figure::ratio("a reply's cost x signed floor's asker", command / signed).within(0.3),
    ]);
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
            let figure = Figure::of(
                format!("{nodes} replies: most memory of {name}"),
                memory,
                "MiB",
            );
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
