//! The time that a whole fleet takes to answer: who is measured, in which order, and what becomes of the samples.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Figure, Samples, Section, Table, max, median, min};
use crate::worker::{Part, Worker};

const METHOD: &str = "Milliseconds from the question to the last answer, verified where it is signed. All nodes have a key of their own, and a \
connection of their own unless it is said that they share, and share the machine with the broker and the asker, so on a real fleet the \
nodes' part is free. Both floors and ours are connected all the time and take turns, round by round; idle connections' keep-alives are \
in all figures. The signed floor knows all keys beforehand. A new client verifies a token and a message of each node; a command that \
remembers what the one before has verified, and a client that knows the nodes, only the message; nodes verify a new caller's token once. Ratios are median to median; in brackets, the median of the ratios \
within each round.";

/// One question to the whole fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contender {
    /// Bare NATS: a question of 200 bytes, answers of 300, nothing signed.
    Raw,
    /// The same, with the least that authenticity costs: each node verifies one signature and makes one; the asker verifies all.
    RawSigned,
    /// `rpcutil ping` by a client that has heard all these nodes before.
    Warm,
    /// `rpcutil ping` as a command does it: by a client that has just begun, and remembers which tokens earlier ones have verified.
    Command,
    /// `rpcutil ping` by a client that has just begun, and knows no node's token. The nodes know the caller's.
    NewClient,
    /// `rpcutil ping` by a caller that no node has ever heard.
    First,
}

impl Contender {
    /// All, in the order of a round.
    pub(crate) const ALL: [Self; 6] =
        [Self::Raw, Self::RawSigned, Self::Warm, Self::Command, Self::NewClient, Self::First];

    /// Whether it is measured on bare NATS.
    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Self::Raw | Self::RawSigned)
    }

    /// For people.
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

/// How large a fleet is, and how it is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    /// Connections that all nodes share; `None` if each has its own.
    pub(crate) shared: Option<usize>,
}

impl Size {
    fn title(self) -> String {
        match self.shared {
            Some(shared) => format!("{} nodes over {shared} connections", self.nodes),
            None => format!("{} nodes", self.nodes),
        }
    }
}

/// How many times longer than a floor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Median to median.
    pub(crate) of_medians: f64,
    /// The median of the ratios within each round: drift of the machine cancels out.
    pub(crate) paired: f64,
}

/// Every size in turn, in one section.
pub(crate) fn fan_out(sizes: &[Size], rounds: usize) -> Section {
    let mut section =
        Section::of(format!("How long a fleet takes to answer, {rounds} rounds"), METHOD);
    for size in sizes {
        let samples = compare(*size, rounds);
        add(&mut section, &size.title(), &samples);
    }
    section
}

/// Starts both sides, and lets the contenders take turns.
fn compare(size: Size, rounds: usize) -> Vec<Vec<f64>> {
    let Size { nodes, shared } = size;
    let title = size.title();
    eprintln!("{title}: connecting");
    let mut floor = Worker::start(&Part::Floor { nodes, shared });
    let mut muster = Worker::start(&Part::Muster { nodes, shared });
    let of_each = crate::process::resident(muster.pid()) / u64::try_from(nodes).unwrap();
    eprintln!("{title}: {} KiB of memory for each of our nodes", of_each / 1024);
    let mut samples = vec![Vec::with_capacity(rounds); Contender::ALL.len()];
    for round in 0..=rounds {
        eprintln!("{title}: round {round} of {rounds}");
        for (contender, samples) in Contender::ALL.into_iter().zip(&mut samples) {
            let worker = if contender.is_floor() { &mut floor } else { &mut muster };
            let took = worker.measure(contender).wall;
            if round > 0 {
                samples.push(millis(took));
            }
        }
    }
    samples
}

/// A table of samples in the order of [`Contender::ALL`], and what of them is compared.
fn add(section: &mut Section, title: &str, samples: &[Vec<f64>]) {
    let [raw, signed, ..] = samples else {
        panic!("both floors are measured");
    };
    let mut table = Table::new([title, "median ms", "min", "max", "x raw floor", "x signed floor"]);
    for (contender, samples) in Contender::ALL.into_iter().zip(samples) {
        let (to_raw, to_signed) = (ratio(samples, raw), ratio(samples, signed));
        let shown = |ratio: Ratio| format!("{:.2} ({:.2})", ratio.of_medians, ratio.paired);
        let times = [median(samples), min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        let row = [contender.title().to_owned()].into_iter().chain(times);
        table.rows.push(row.chain([shown(to_raw), shown(to_signed)]).collect());
        let figure = Figure::ratio(
            format!("{title}: {} x signed floor", contender.title()),
            to_signed.paired,
        );
        section.figures.extend(match contender {
            Contender::Raw | Contender::RawSigned => None,
            // What the command does is what we have promised.
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

/// How these samples compare with those of a floor, which were taken in the same rounds.
pub(crate) fn ratio(samples: &[f64], floor: &[f64]) -> Ratio {
    let pairs: Vec<f64> = samples.iter().zip(floor).map(|(ours, floor)| ours / floor).collect();
    Ratio { of_medians: median(samples) / median(floor), paired: median(&pairs) }
}

/// As milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::{add, ratio};
    use crate::report::Section;

    #[test]
    fn ratios_are_to_the_floor_of_the_same_round() {
        let of = ratio(&[4.0, 4.0, 40.0], &[1.0, 2.0, 4.0]);
        assert!((of.of_medians - 2.0).abs() < f64::EPSILON);
        // Round by round: 4, 2, 10.
        assert!((of.paired - 4.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_contender_has_a_row_and_ours_are_compared() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|ms| vec![ms; 3]);
        let mut section = Section::default();
        add(&mut section, "7 nodes", &samples);
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
