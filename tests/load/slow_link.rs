//! Calls of known nodes by a caller on a slow link: whether each reply arrives, and the time next to that of the bytes alone.

use std::time::Duration;

use muster_calls::{CallTarget, Client, DiscoveryWindow, RpcCall};
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::filler::filler_agent;
use muster_tests::organisation::Broker as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::caller::{ConnectionKind, connect, finish};
use crate::fleet::DaemonFleet;
use crate::report::{Figure, Section, Table};

const METHOD: &str = "A caller asks known nodes for replies of a given size, through a proxy that delays each direction by 10 ms and limits its rate. \
Nodes, broker, proxy and caller share the machine; nodes share connections. The ideal is the larger of two times, plus four round trips of 20 ms: the \
bytes that the caller sent or received, whichever are more, at the rate of the link; and the same call without a limit. A reply that does not arrive \
fails the bench.";

/// Delay in each direction.
const DELAY: Duration = Duration::from_millis(10);
/// Round trips that a call may take beside the time of its bytes.
const ROUND_TRIPS: u32 = 4;
/// Permitted ratio of a call's time to the ideal.
const MAX_RATIO: f64 = 1.2;
/// Nodes per connection.
const NODES_PER_CONNECTION: usize = 100;
/// How long each node may take. Less than the transfer takes.
const WAIT: Duration = Duration::from_secs(30);

/// Measures fleets of these sizes, with replies of these bytes, at these rates in Mbit/s.
pub(crate) fn bench(fleets: &[usize], sizes: &[usize], rates: &[u32]) -> Section {
    let mut section = Section::of("Known nodes, asked over a slow link", METHOD);
    let mut table = Table::new([
        "link",
        "nodes",
        "bytes per reply",
        "MB down",
        "MB up",
        "seconds",
        "ideal",
        "x ideal",
    ]);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for nodes in fleets {
        runtime.block_on(measure_fleet(*nodes, (sizes, rates), &mut section, &mut table));
    }
    section.tables.push(table);
    section
}

async fn measure_fleet(
    nodes: usize,
    (sizes, rates): (&[usize], &[u32]),
    section: &mut Section,
    table: &mut Table,
) {
    eprintln!("{nodes} nodes for slow links: connecting");
    let shared = nodes.div_ceil(NODES_PER_CONNECTION);
    let fleet = DaemonFleet::connect_with_agents(nodes, Some(shared), vec![filler_agent()]).await;
    let proxy = FaultProxy::start(fleet.server()).await;
    let organisation = fleet.organisation();
    let signer = organisation.caller("remote");
    let bus =
        connect(&[format!("nats://127.0.0.1:{}", proxy.port())], &signer, ConnectionKind::Command)
            .await;
    let client = Client::new(
        bus,
        signer,
        organisation.trust(),
        organisation.collective().clone(),
        DiscoveryWindow::default(),
    );
    for size in sizes {
        proxy.heal();
        let unlimited = measure_call(&client, &proxy, &fleet, *size).await;
        for megabits in rates {
            let bytes_per_second = megabits * 1_000_000 / 8;
            proxy.inject(NetworkFault::SlowLink { delay: DELAY, bytes_per_second });
            let call = measure_call(&client, &proxy, &fleet, *size).await;
            let ideal = call.ideal(bytes_per_second).max(unlimited.took) + 2 * DELAY * ROUND_TRIPS;
            let ratio = call.took.as_secs_f64() / ideal.as_secs_f64();
            table.rows.push(vec![
                format!("{megabits} Mbit/s"),
                nodes.to_string(),
                size.to_string(),
                megabytes(call.received),
                megabytes(call.sent),
                format!("{:.2}", call.took.as_secs_f64()),
                format!("{:.2}", ideal.as_secs_f64()),
                format!("{ratio:.2}"),
            ]);
            let name = format!("{nodes} replies of {size} B at {megabits} Mbit/s x ideal");
            section.figures.push(Figure::ratio(name, ratio).aim(MAX_RATIO).within(0.3));
        }
    }
}

/// One call of all nodes.
struct CallCost {
    took: Duration,
    /// Bytes from the broker.
    received: u64,
    /// Bytes to the broker.
    sent: u64,
}

impl CallCost {
    fn ideal(&self, bytes_per_second: u32) -> Duration {
        let bytes = u32::try_from(self.received.max(self.sent)).unwrap();
        Duration::from_secs_f64(f64::from(bytes) / f64::from(bytes_per_second))
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", f64::from(u32::try_from(bytes).unwrap()) / 1e6)
}

async fn measure_call(
    client: &Client,
    proxy: &FaultProxy,
    fleet: &DaemonFleet,
    size: usize,
) -> CallCost {
    let nodes = fleet.buses().into_iter().map(|(name, _)| name).collect();
    let mut call = RpcCall::new("filler", "fill", CallTarget::Nodes(nodes)).unwrap();
    call.data.insert("bytes".to_owned(), Value::from(size));
    call.wait = WAIT;
    let traffic = proxy.traffic();
    let (down, up, started_at) = (traffic.down(), traffic.up(), Instant::now());
    let stats = finish(client, call).await;
    let took = started_at.elapsed();
    let is_complete = stats.missing.is_empty() && stats.failed == 0 && stats.incomplete.is_none();
    assert!(is_complete, "not every reply arrived: {stats:?}");
    CallCost { took, received: traffic.down() - down, sent: traffic.up() - up }
}
