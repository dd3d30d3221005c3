//! The time until a whole fleet has replied: the contenders, their order, and the evaluation of the samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Figure, Samples, Section, Table, max, median, min};
use crate::worker::{Worker, WorkerRole};

const METHOD: &str = "Milliseconds from the request to the last reply, verified where replies are signed. Each node has its own key, and its own \
connection unless the title states shared ones. The nodes share the machine with the broker and the caller; in a real fleet they do not \
slow the caller down. Both floors and Muster are connected all the time and take turns, round by round; keep-alives of idle connections \
are included in all figures. The signed floor knows all keys beforehand. A new client verifies a token and a message of each node; a \
command with cached tokens, and a client that knows the nodes, verify only the message; nodes verify a new caller's token once. Ratios \
are of medians; in brackets, the median of the ratios within each round.";

/// One kind of call to the whole fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contender {
    /// Plain NATS: a request of 200 bytes, replies of 300, without signatures.
    Raw,
    /// Plain NATS with the minimum of authentication: each node verifies one signature and creates one; the caller
    /// verifies all.
    RawSigned,
    /// `rpcutil ping` by a client that has received replies of all nodes before.
    Warm,
    /// `rpcutil ping` as a command makes it: by a new client that imports the tokens that earlier commands verified.
    Command,
    /// `rpcutil ping` by a new client that knows no node's token. The nodes know the caller's token.
    NewClient,
    /// `rpcutil ping` by a caller that no node knows.
    First,
}

impl Contender {
    /// All contenders, in the order of a round.
    pub(crate) const ALL: [Self; 6] =
        [Self::Raw, Self::RawSigned, Self::Warm, Self::Command, Self::NewClient, Self::First];

    /// Whether it is measured over plain NATS.
    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Self::Raw | Self::RawSigned)
    }

    /// The name in tables and figures.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Raw => "floor: raw NATS, unsigned",
            Self::RawSigned => "floor: raw NATS, signed and verified",
            Self::Warm => "rpcutil ping, client knows the nodes",
            Self::Command => "rpcutil ping, as a command",
            Self::NewClient => "rpcutil ping, new client",
            Self::First => "rpcutil ping, new caller",
        }
    }
}

/// The size of a fleet, and its connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetSize {
    pub(crate) nodes: usize,
    /// Number of connections that all nodes share; `None` if each node has its own.
    pub(crate) shared: Option<usize>,
}

impl FleetSize {
    fn title(self) -> String {
        match self.shared {
            Some(shared) => format!("{} nodes over {shared} connections", self.nodes),
            None => format!("{} nodes", self.nodes),
        }
    }
}

/// How many times longer than a floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FloorRatio {
    /// Ratio of the medians.
    pub(crate) of_medians: f64,
    /// Median of the ratios within each round, which cancels drift of the machine.
    pub(crate) paired: f64,
}

/// Measures every size, in one section.
pub(crate) fn fan_out(sizes: &[FleetSize], rounds: usize) -> Section {
    let mut section =
        Section::of(format!("Time until a fleet has replied, {rounds} rounds"), METHOD);
    for size in sizes {
        let samples = collect_samples(*size, rounds);
        add_table(&mut section, &size.title(), &samples);
    }
    section
}

/// Starts both sides, and measures the contenders in turns.
fn collect_samples(size: FleetSize, rounds: usize) -> Vec<Vec<f64>> {
    let FleetSize { nodes, shared } = size;
    let title = size.title();
    eprintln!("{title}: connecting");
    let mut floor = Worker::start(&WorkerRole::Floor { nodes, shared });
    let mut muster = Worker::start(&WorkerRole::Muster { nodes, shared });
    let bytes_per_node =
        crate::process::resident_memory(muster.pid()) / u64::try_from(nodes).unwrap();
    eprintln!("{title}: {} KiB of memory per node", bytes_per_node / 1024);
    let mut samples = vec![Vec::with_capacity(rounds); Contender::ALL.len()];
    for round in 0..=rounds {
        eprintln!("{title}: round {round} of {rounds}");
        for (contender, samples) in Contender::ALL.into_iter().zip(&mut samples) {
            let worker = if contender.is_floor() { &mut floor } else { &mut muster };
            let elapsed = worker.measure(contender).wall;
            if round > 0 {
                samples.push(millis(elapsed));
            }
        }
    }
    samples
}

/// Adds a table of samples in the order of [`Contender::ALL`], and the figures that are compared.
fn add_table(section: &mut Section, title: &str, samples: &[Vec<f64>]) {
    let [raw, signed, ..] = samples else {
        panic!("both floors are measured");
    };
    let mut table = Table::new([title, "median ms", "min", "max", "x raw floor", "x signed floor"]);
    for (contender, samples) in Contender::ALL.into_iter().zip(samples) {
        let (to_raw, to_signed) = (ratio(samples, raw), ratio(samples, signed));
        let shown = |ratio: FloorRatio| format!("{:.2} ({:.2})", ratio.of_medians, ratio.paired);
        let times = [median(samples), min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        let row = [contender.title().to_owned()].into_iter().chain(times);
        table.rows.push(row.chain([shown(to_raw), shown(to_signed)]).collect());
        let figure = Figure::ratio(
            format!("{title}: {} x signed floor", contender.title()),
            to_signed.paired,
        );
        section.figures.extend(match contender {
            Contender::Raw | Contender::RawSigned => None,
            // The guarantee is about the command.
            Contender::Command => Some(figure.aim(1.5).within(0.25)),
            Contender::Warm | Contender::NewClient | Contender::First => Some(figure.within(0.25)),
        });
        section.samples.push(Samples {
            of: format!("{title}: {}", contender.title()),
            unit: "ms",
            values: samples.clone(),
        });
    }
    section.tables.push(table);
}

/// The ratio of samples to those of a floor from the same rounds.
pub(crate) fn ratio(samples: &[f64], floor: &[f64]) -> FloorRatio {
    let pairs: Vec<f64> = samples.iter().zip(floor).map(|(sample, floor)| sample / floor).collect();
    FloorRatio { of_medians: median(samples) / median(floor), paired: median(&pairs) }
}

/// A duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::{add_table, ratio};
    use crate::report::Section;

    #[test]
    fn ratios_use_the_floor_of_the_same_round() {
        let result = ratio(&[4.0, 4.0, 40.0], &[1.0, 2.0, 4.0]);
        assert!((result.of_medians - 2.0).abs() < f64::EPSILON);
        // Round by round: 4, 2, 10.
        assert!((result.paired - 4.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_contender_has_a_row_and_muster_has_figures() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|ms| vec![ms; 3]);
        let mut section = Section::default();
        add_table(&mut section, "7 nodes", &samples);
        assert_eq!(section.tables[0].rows.len(), 6);
        assert_eq!(
            section.tables[0].rows[3],
            ["rpcutil ping, as a command", "4.0", "4.0", "4.0", "4.00 (4.00)", "2.00 (2.00)"]
        );
        let names: Vec<&str> = section.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), 4);
        assert_eq!(names[0], "7 nodes: rpcutil ping, client knows the nodes x signed floor");
    }
}
