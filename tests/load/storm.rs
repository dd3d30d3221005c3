//! A broker that is killed and started again under a fleet: how its nodes come back, and what becomes of questions meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_bus::{Bus, BusEvent};
use muster_client::CallTarget;
use muster_wire::identity::Identity;

use crate::caller::ping;
use crate::fleet::Fleet;
use crate::measure::millis;
use crate::report::{Figure, Section, Table, number};

const METHOD: &str = "The broker is killed, and started again at once on the same port, with all nodes and a caller connected; the caller asks some \
nodes again and again meanwhile. Connections are counted by the nodes, in stretches of 100 ms from the first to the last; the mean is over \
the stretches in between. Everybody is back when a question to all is answered by all. A question is accounted for when each of its nodes \
has answered, or is reported as missing.";

/// How long a stretch is.
const STRETCH: Duration = Duration::from_millis(100);
/// More connections in a stretch than this many times the mean are a storm.
const AIM_PEAK: f64 = 3.0;
/// When all should be back, in seconds.
const AIM_BACK: f64 = 10.0;
/// A fleet that is not back by then never comes.
const PATIENCE: Duration = Duration::from_mins(2);
/// Nodes that are asked while the broker is away.
const ASKED: usize = 20;

/// Measures with a fleet of this size.
pub(crate) fn bench(nodes: usize) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let storm = runtime.block_on(Storm::over(nodes));
    runtime.shutdown_background();
    storm.section(nodes)
}

/// What happened.
struct Storm {
    /// When each node was connected again, since the broker was killed; sorted.
    connected: Vec<Duration>,
    /// How long the broker was away.
    away: Duration,
    /// When everybody answered again.
    back: Duration,
    questions: Questions,
}

/// What became of the questions that were asked meanwhile.
#[derive(Debug, Default)]
struct Questions {
    asked: usize,
    answered: usize,
    reported: usize,
}

impl Storm {
    async fn over(nodes: usize) -> Self {
        eprintln!("{nodes} nodes for a storm: connecting");
        let fleet = Fleet::connect(nodes, None).await;
        let buses = fleet.buses();
        let some: BTreeSet<Identity> =
            buses.iter().take(ASKED).map(|(node, _)| node.clone()).collect();
        let begun = Instant::now();
        let returns = buses.into_iter().map(|(_, bus)| tokio::spawn(returned(bus, begun)));
        let returns: Vec<_> = returns.collect();
        let client = fleet.caller().client().clone();
        let stop = tokio_util::sync::CancellationToken::new();
        let asking = tokio::spawn(ask(client, some, stop.clone()));
        let fleet = fleet.restart_broker().await;
        let away = begun.elapsed();
        let mut connected = Vec::new();
        for back in returns {
            connected.push(back.await.unwrap());
        }
        connected.sort_unstable();
        let all = async { while !everybody(&fleet, nodes).await {} };
        tokio::time::timeout(PATIENCE, all)
            .await
            .unwrap_or_else(|_| panic!("not all of {nodes} nodes came back"));
        let back = begun.elapsed();
        stop.cancel();
        Self { connected, away, back, questions: asking.await.unwrap() }
    }

    fn section(self, nodes: usize) -> Section {
        let mut section = Section::of(format!("A broker's restart under {nodes} nodes"), METHOD);
        let shape = Shape::of(&self.connected);
        let Questions { asked, answered, reported } = self.questions;
        let mut table = Table::new(["", "value"]);
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        for (name, value) in [
            ("the broker was away", format!("{:.0} ms", millis(self.away))),
            ("first connection after", seconds(shape.first)),
            ("last connection after", seconds(shape.last)),
            ("a question to all answered by all after", seconds(self.back)),
            ("connections in 100 ms, mean", number(shape.mean)),
            ("connections in 100 ms, most", shape.most.to_string()),
            ("questions to nodes meanwhile", asked.to_string()),
            ("answered", answered.to_string()),
            ("reported as missing", reported.to_string()),
        ] {
            table.rows.push(vec![name.to_owned(), value]);
        }
        section.tables.push(table);
        let lost = f64::from(u32::try_from(asked.saturating_sub(answered + reported)).unwrap());
        section.figures = vec![
            Figure::ratio("most connections in 100 ms x the mean", shape.peak())
                .aim(AIM_PEAK)
                .within(0.5),
            Figure::of("everybody is back after", self.back.as_secs_f64(), "s").aim(AIM_BACK),
            Figure::of("questions that nobody was told of", lost, "").aim(0.0),
        ];
        section
    }
}

/// How connections were spread over time.
#[derive(Debug, PartialEq)]
struct Shape {
    first: Duration,
    last: Duration,
    mean: f64,
    most: usize,
}

impl Shape {
    /// Of these times, sorted, of which there is at least one.
    fn of(times: &[Duration]) -> Self {
        let (first, last) = (*times.first().unwrap(), *times.last().unwrap());
        let stretch = |time: &Duration| time.saturating_sub(first).as_nanos() / STRETCH.as_nanos();
        let stretches = stretch(&last) + 1;
        let most = times
            .chunk_by(|one, other| stretch(one) == stretch(other))
            .map(<[Duration]>::len)
            .max();
        let count = |number: u128| f64::from(u32::try_from(number).unwrap());
        Self {
            first,
            last,
            mean: count(times.len() as u128) / count(stretches),
            most: most.unwrap(),
        }
    }

    fn peak(&self) -> f64 {
        f64::from(u32::try_from(self.most).unwrap()) / self.mean
    }
}

/// When this connection has been lost and made again.
async fn returned(bus: Bus, begun: Instant) -> Duration {
    let mut events = bus.subscribe_events();
    let again = async {
        let mut lost = false;
        loop {
            match events.recv().await.unwrap() {
                BusEvent::Disconnected => lost = true,
                BusEvent::Connected if lost => return begun.elapsed(),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap()
}

/// Whether everybody answers.
async fn everybody(fleet: &Fleet, nodes: usize) -> bool {
    let client = fleet.caller().client();
    let mut call =
        ping(CallTarget::Filter(muster_filter::NodeFilter::default()), Duration::from_secs(2));
    call.expect = Some(nodes);
    let stats = attempt(client, call).await;
    stats.is_some_and(|stats| stats.ok == nodes)
}

/// Asks these nodes until it is told to stop, and counts what became of it.
async fn ask(
    client: muster_client::Client,
    nodes: BTreeSet<Identity>,
    stop: tokio_util::sync::CancellationToken,
) -> Questions {
    let mut questions = Questions::default();
    while !stop.is_cancelled() {
        let call = ping(CallTarget::Nodes(nodes.clone()), Duration::from_secs(1));
        questions.asked += nodes.len();
        match attempt(&client, call).await {
            Some(stats) => {
                questions.answered += stats.response_count();
                questions.reported += stats.missing.len();
            }
            // The caller is told that the call broke off.
            None => questions.reported += nodes.len(),
        }
    }
    questions
}

/// The balance of a call; `None` if it broke off.
async fn attempt(
    client: &muster_client::Client,
    call: muster_client::RpcCall,
) -> Option<Box<muster_client::CallStats>> {
    let mut events = client.call(call);
    loop {
        match events.next().await? {
            muster_client::CallEvent::Finished(stats) => return Some(stats),
            muster_client::CallEvent::Failed(_) => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Shape;

    #[test]
    fn the_mean_is_over_the_stretches_between_the_first_and_the_last() {
        let at = |ms: &[u64]| ms.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        let even = Shape::of(&at(&[500, 600, 700, 800]));
        assert!((even.mean - 1.0).abs() < f64::EPSILON && even.most == 1);
        let burst = Shape::of(&at(&[500, 510, 520, 599, 600, 890]));
        assert_eq!(burst.most, 4);
        assert!((burst.mean - 1.5).abs() < f64::EPSILON);
        assert!((burst.peak() - 4.0 / 1.5).abs() < 1e-9);
        let one = Shape::of(&at(&[7]));
        assert!((one.peak() - 1.0).abs() < f64::EPSILON);
    }
}
