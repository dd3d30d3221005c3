//! A broker that is killed and restarted: how its nodes reconnect, and what happens to requests meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_bus::{Bus, BusEvent};
use muster_calls::CallTarget;
use muster_wire::identity::Identity;

use crate::caller::ping_call;
use crate::event_shape::EventShape;
use crate::fleet::DaemonFleet;
use crate::measure::millis;
use crate::report::{Figure, Section, Table, format_number};

const METHOD: &str = "The broker is killed and restarted at once on the same port, with all nodes and a caller connected; the caller keeps sending \
requests to some nodes. The nodes count their connections, in intervals of 100 ms from the first to the last; the mean is over \
the intervals in between. All nodes are back when a request to all of them is answered by all. A request is accounted for when each of its \
nodes has replied, or is reported as missing.";

/// Permitted ratio of the most connections in an interval to the mean.
const MAX_PEAK_RATIO: f64 = 3.0;
/// Permitted time until all nodes are back, in seconds.
const MAX_RECOVERY_SECONDS: f64 = 10.0;
/// A fleet that takes longer fails the measurement.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(2);
/// Number of nodes that get requests while the broker is down.
const CALLED_NODES: usize = 20;

/// Measures with a fleet of this size.
pub(crate) fn bench(nodes: usize) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let storm = runtime.block_on(ReconnectStorm::measure(nodes));
    runtime.shutdown_background();
    storm.section(nodes)
}

/// The measurements of one restart.
struct ReconnectStorm {
    /// Time from the kill of the broker to each node's reconnection; sorted.
    connected: Vec<Duration>,
    /// How long the broker was down.
    down: Duration,
    /// Time until all nodes replied again.
    recovered: Duration,
    requests: RequestCounts,
}

/// The results of the requests during the restart.
#[derive(Debug, Default)]
struct RequestCounts {
    sent: usize,
    answered: usize,
    reported: usize,
}

impl ReconnectStorm {
    async fn measure(nodes: usize) -> Self {
        eprintln!("{nodes} nodes for a broker restart: connecting");
        let fleet = DaemonFleet::connect(nodes, None).await;
        let buses = fleet.buses();
        let targets: BTreeSet<Identity> =
            buses.iter().take(CALLED_NODES).map(|(node, _)| node.clone()).collect();
        let started = Instant::now();
        let returns =
            buses.into_iter().map(|(_, bus)| tokio::spawn(reconnection_time(bus, started)));
        let returns: Vec<_> = returns.collect();
        let client = fleet.caller().client().clone();
        let stop = tokio_util::sync::CancellationToken::new();
        let call_task = tokio::spawn(send_requests(client, targets, stop.clone()));
        let fleet = fleet.restart_broker().await;
        let down = started.elapsed();
        let mut connected = Vec::new();
        for recovered in returns {
            connected.push(recovered.await.unwrap());
        }
        connected.sort_unstable();
        let all = async { while !all_nodes_reply(&fleet, nodes).await {} };
        tokio::time::timeout(RECOVERY_TIMEOUT, all)
            .await
            .unwrap_or_else(|_| panic!("not all of {nodes} nodes came back"));
        let recovered = started.elapsed();
        stop.cancel();
        Self { connected, down, recovered, requests: call_task.await.unwrap() }
    }

    fn section(self, nodes: usize) -> Section {
        let mut section = Section::of(format!("Restart of a broker with {nodes} nodes"), METHOD);
        let shape = EventShape::from_times(&self.connected);
        let RequestCounts { sent, answered, reported } = self.requests;
        let mut table = Table::new(["", "value"]);
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        for (name, value) in [
            ("broker down for", format!("{:.0} ms", millis(self.down))),
            ("first connection after", seconds(shape.first)),
            ("last connection after", seconds(shape.last)),
            ("all nodes replied again after", seconds(self.recovered)),
            ("connections in 100 ms, mean", format_number(shape.mean)),
            ("connections in 100 ms, most", shape.most.to_string()),
            ("requests to nodes meanwhile", sent.to_string()),
            ("answered", answered.to_string()),
            ("reported as missing", reported.to_string()),
        ] {
            table.rows.push(vec![name.to_owned(), value]);
        }
        section.tables.push(table);
        let lost = f64::from(u32::try_from(sent.saturating_sub(answered + reported)).unwrap());
        section.figures = vec![
            Figure::ratio("most connections in 100 ms x the mean", shape.peak())
                .aim(MAX_PEAK_RATIO)
                .within(0.5),
            Figure::of("all nodes replied again after", self.recovered.as_secs_f64(), "s")
                .aim(MAX_RECOVERY_SECONDS),
            Figure::of("requests not accounted for", lost, "").aim(0.0),
        ];
        section
    }
}

/// Waits until this connection has been lost and made again.
async fn reconnection_time(bus: Bus, started: Instant) -> Duration {
    let mut events = bus.subscribe_events();
    let again = async {
        let mut lost = false;
        loop {
            match events.recv().await.unwrap() {
                BusEvent::Disconnected => lost = true,
                BusEvent::Connected if lost => return started.elapsed(),
                _ => {}
            }
        }
    };
    tokio::time::timeout(RECOVERY_TIMEOUT, again).await.unwrap()
}

/// Whether all nodes reply.
async fn all_nodes_reply(fleet: &DaemonFleet, nodes: usize) -> bool {
    let client = fleet.caller().client();
    let mut call =
        ping_call(CallTarget::Filter(muster_filter::NodeFilter::default()), Duration::from_secs(2));
    call.expect = Some(nodes);
    let stats = run_call(client, call).await;
    stats.is_some_and(|stats| stats.ok == nodes)
}

/// Calls these nodes until it is stopped, and counts the results.
async fn send_requests(
    client: muster_calls::Client,
    nodes: BTreeSet<Identity>,
    stop: tokio_util::sync::CancellationToken,
) -> RequestCounts {
    let mut requests = RequestCounts::default();
    while !stop.is_cancelled() {
        let call = ping_call(CallTarget::Nodes(nodes.clone()), Duration::from_secs(1));
        requests.sent += nodes.len();
        match run_call(&client, call).await {
            Some(stats) => {
                requests.answered += stats.response_count();
                requests.reported += stats.missing.len();
            }
            // The caller is informed that the call failed.
            None => requests.reported += nodes.len(),
        }
    }
    requests
}

/// The statistics of a call; `None` if it failed.
async fn run_call(
    client: &muster_calls::Client,
    call: muster_calls::RpcCall,
) -> Option<Box<muster_calls::CallStats>> {
    let mut events = client.call(call);
    loop {
        match events.next().await? {
            muster_calls::CallEvent::Finished(stats) => return Some(stats),
            muster_calls::CallEvent::Failed(_) => return None,
            _ => {}
        }
    }
}
