//! What is measured, in which order, and what becomes of the samples.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::worker::Worker;

/// Who is measured; each is a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Bare NATS.
    Floor,
    /// Our daemons.
    Muster,
}

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
    /// `rpcutil ping` by a client that has just begun, as the command is: it knows no node's token. The nodes know the caller's.
    Command,
    /// `rpcutil ping` by a caller that no node has ever heard.
    First,
}

impl Contender {
    /// All, in the order of a round.
    pub(crate) const ALL: [Self; 5] = [
        Self::Raw,
        Self::RawSigned,
        Self::Warm,
        Self::Command,
        Self::First,
    ];

    /// Who measures it.
    pub(crate) fn side(self) -> Side {
        match self {
            Self::Raw | Self::RawSigned => Side::Floor,
            Self::Warm | Self::Command | Self::First => Side::Muster,
        }
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Raw => "floor: raw NATS, unsigned",
            Self::RawSigned => "floor: raw NATS, signed and verified",
            Self::Warm => "rpcutil ping, client knows the nodes",
            Self::Command => "rpcutil ping, new client",
            Self::First => "rpcutil ping, new caller",
        }
    }
}

/// The samples of one contender.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) contender: Contender,
    /// Milliseconds from the question to the last verified answer, round by round.
    pub(crate) samples: Vec<f64>,
    /// The median of them.
    pub(crate) median: f64,
    /// The quickest round.
    pub(crate) min: f64,
    /// The slowest round.
    pub(crate) max: f64,
    /// Against the unsigned floor.
    pub(crate) to_raw: Ratio,
    /// Against the signed floor.
    pub(crate) to_raw_signed: Ratio,
}

/// How many times longer than a floor.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ratio {
    /// Median to median.
    pub(crate) of_medians: f64,
    /// The median of the ratios within each round: drift of the machine cancels out.
    pub(crate) paired: f64,
}

/// A fleet of one size.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// How many nodes.
    pub(crate) nodes: usize,
    /// What the broker calls itself.
    pub(crate) broker: String,
    /// One row for each contender.
    pub(crate) rows: Vec<Row>,
}

/// Starts both sides, and lets the contenders take turns.
pub(crate) fn compare(nodes: usize, rounds: usize) -> Comparison {
    eprintln!("{nodes} nodes: connecting");
    let mut floor = Worker::start(Side::Floor, nodes);
    let mut muster = Worker::start(Side::Muster, nodes);
    let mut samples = vec![Vec::with_capacity(rounds); Contender::ALL.len()];
    for round in 0..=rounds {
        eprintln!("{nodes} nodes: round {round} of {rounds}");
        for (contender, samples) in Contender::ALL.into_iter().zip(&mut samples) {
            let took = match contender.side() {
                Side::Floor => floor.measure(contender),
                Side::Muster => muster.measure(contender),
            };
            if round > 0 {
                samples.push(millis(took));
            }
        }
    }
    Comparison {
        nodes,
        broker: muster.broker().to_owned(),
        rows: rows(samples),
    }
}

/// The rows of samples in the order of [`Contender::ALL`].
pub(crate) fn rows(samples: Vec<Vec<f64>>) -> Vec<Row> {
    let floors: Vec<Vec<f64>> = samples.iter().take(2).cloned().collect();
    let [raw, signed] = floors.as_slice() else {
        panic!("both floors are measured");
    };
    let row = |(contender, samples): (Contender, Vec<f64>)| Row {
        contender,
        median: median(&samples),
        min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        max: samples.iter().copied().fold(0.0, f64::max),
        to_raw: ratio(&samples, raw),
        to_raw_signed: ratio(&samples, signed),
        samples,
    };
    Contender::ALL.into_iter().zip(samples).map(row).collect()
}

fn ratio(samples: &[f64], floor: &[f64]) -> Ratio {
    let pairs: Vec<f64> = samples
        .iter()
        .zip(floor)
        .map(|(ours, floor)| ours / floor)
        .collect();
    Ratio {
        of_medians: median(samples) / median(floor),
        paired: median(&pairs),
    }
}

/// The middle one; the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let middle = if sorted.len().is_multiple_of(2) {
        sorted.get(half.saturating_sub(1)..=half)
    } else {
        sorted.get(half..=half)
    };
    let middle = middle.unwrap();
    middle.iter().sum::<f64>() / if middle.len() == 2 { 2.0 } else { 1.0 }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
