//! Alerts about nats-server, whose values the exporter's page shows.

use muster_bus::{BucketReplicas, Bus};
use muster_tests::cluster::{Cluster, free_ports, get_monitoring};
use muster_tests::nats_exporter::NatsExporter;
use muster_tests::nats_server::{NatsServer, find_binary};
use muster_tests::organisation::{Organisation, connect, options};
use muster_tests::prometheus::BROKER_JOB;
use muster_tests::raw_nats::RawNats;
use muster_tests::small_disk::SmallDisk;
use muster_wire::stores::TRUST_BUCKET;
use serde_json::Value;
use tempfile::TempDir;

use super::{AlertWatch, SHORT_OFFSET_SECONDS};

/// The threshold of the rule about memory, which each site adjusts.
const MEMORY_THRESHOLD: &str = "4e9";
/// How much more memory than at its start the broker of the test may use.
const MEMORY_MARGIN_BYTES: u64 = 64 << 20;
/// Clients that do not read, and the messages that they get: more than the 64 MiB that the broker keeps for each.
const SLOW_CLIENTS: usize = 4;
const UNREAD_MESSAGES: usize = 100;
const MESSAGE_BYTES: usize = 900_000;
/// Connections that the broker of the test accepts, those that it gets, and those that stay.
const MAX_CONNECTIONS: usize = 20;
const MANY_CONNECTIONS: usize = 17;
const FEW_CONNECTIONS: usize = 5;
/// Storage of a broker that is nearly filled by [`STORED_VALUES`] values of [`MESSAGE_BYTES`]. The bucket reserves 8 MiB of it.
const SMALL_STORAGE_BYTES: usize = 8_800_000;
const STORED_VALUES: usize = 8;
/// Size of the disk that is filled, in KiB.
const DISK_KIB: u32 = 16 * 1024;

/// A broker with a monitoring port, and its exporter under the name `broker1`.
struct WatchedBroker {
    server: NatsServer,
    monitoring: u16,
    exporter: NatsExporter,
}

impl WatchedBroker {
    async fn start(configuration: &str) -> Self {
        let [monitoring] = free_ports();
        let server = NatsServer::start(&with_monitoring(configuration, monitoring)).await;
        Self { server, monitoring, exporter: NatsExporter::start(monitoring).await }
    }

    /// Memory of the server, by its own report.
    async fn memory_bytes(&self) -> u64 {
        let page = get_monitoring(self.monitoring, "/varz").await.unwrap();
        let (_, body) = page.split_once("\r\n\r\n").unwrap();
        let values: Value = serde_json::from_str(body).unwrap();
        values.get("mem").and_then(Value::as_u64).unwrap()
    }

    fn watch(&self, watch: &mut AlertWatch) {
        watch.prometheus.watch(BROKER_JOB, "broker1", self.exporter.address());
    }
}

fn with_monitoring(configuration: &str, monitoring: u16) -> String {
    format!("{configuration}\nhttp: \"127.0.0.1:{monitoring}\"\n")
}

/// A connection to a broker without accounts.
async fn connect_plain(server: &NatsServer) -> Bus {
    let mut options = options(server, &Organisation::new(&["muster"]).caller("rip"));
    options.credentials = None;
    options.connect().await.unwrap()
}

async fn declare_bucket(bus: &Bus) {
    bus.declare_bucket(&TRUST_BUCKET, BucketReplicas::Exactly(1)).await.unwrap();
}

/// Writes this many values of [`MESSAGE_BYTES`], until a write fails.
async fn fill_bucket(bus: &Bus, values: usize) {
    let bucket = bus.bucket(TRUST_BUCKET.name);
    for number in 0..values {
        let value = vec![b'x'; MESSAGE_BYTES].into();
        if bucket.put(&format!("key{number}"), value).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_or_exporter_that_does_not_respond_fires() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let mut first =
        WatchedBroker::start("jetstream: { store_dir: \"@DIRECTORY@/jetstream\" }").await;
    let second = WatchedBroker::start("jetstream: { store_dir: \"@DIRECTORY@/jetstream\" }").await;
    first.watch(&mut watch);
    watch.prometheus.watch(BROKER_JOB, "broker2", second.exporter.address());
    watch.assert_silent("MusterBrokerDown", "broker1").await;
    watch.assert_silent("MusterBrokerDown", "broker2").await;
    first.server.kill();
    drop(second.exporter);
    watch.await_firing("MusterBrokerDown", "broker1").await;
    watch.await_firing("MusterBrokerDown", "broker2").await;
}

/// One broker cannot write a stream on a full disk; the other one has no `JetStream` from the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_that_cannot_store_fires() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let scratch = TempDir::new().unwrap();
    let disk = SmallDisk::new(scratch.path().join("disk"), DISK_KIB).await;
    let [monitoring] = free_ports();
    let store = scratch.path().join("disk/jetstream");
    let text = format!("jetstream: {{ store_dir: {store:?}, max_file_store: 4GB }}");
    let server = NatsServer::start_through(
        &disk.command_inside(find_binary()),
        &with_monitoring(&text, monitoring),
    )
    .await;
    let exporter = NatsExporter::start(monitoring).await;
    watch.prometheus.watch(BROKER_JOB, "broker1", exporter.address());
    let bus = connect_plain(&server).await;
    declare_bucket(&bus).await;
    fill_bucket(&bus, 1).await;
    watch.assert_silent("MusterBrokerUnhealthy", "broker1").await;
    watch.assert_silent("MusterBrokerJetStreamOff", "broker1").await;
    let without = WatchedBroker::start("").await;
    watch.prometheus.watch(BROKER_JOB, "broker2", without.exporter.address());
    disk.fill();
    fill_bucket(&bus, STORED_VALUES).await;
    watch.await_firing("MusterBrokerUnhealthy", "broker1").await;
    watch.await_firing("MusterBrokerJetStreamOff", "broker2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_near_its_limit_fires() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let broker = WatchedBroker::start(&format!(
        "jetstream: {{ store_dir: \"@DIRECTORY@/jetstream\", max_file_store: {SMALL_STORAGE_BYTES} }}"
    ))
    .await;
    broker.watch(&mut watch);
    let bus = connect_plain(&broker.server).await;
    declare_bucket(&bus).await;
    fill_bucket(&bus, 1).await;
    watch.assert_silent("MusterBrokerStorageNearLimit", "broker1").await;
    fill_bucket(&bus, STORED_VALUES).await;
    watch.await_firing("MusterBrokerStorageNearLimit", "broker1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_fire() {
    let organisation = Organisation::new(&["muster"]);
    let broker = WatchedBroker::start(&organisation.broker_configuration()).await;
    let threshold = (broker.memory_bytes().await + MEMORY_MARGIN_BYTES).to_string();
    let watch = AlertWatch::start_with(|rules| {
        assert!(rules.contains(MEMORY_THRESHOLD), "{rules}");
        rules.replace(MEMORY_THRESHOLD, &threshold)
    });
    let Some(mut watch) = watch.await else { return };
    broker.watch(&mut watch);
    watch.assert_silent("MusterBrokerSlowConsumers", "broker1").await;
    watch.assert_silent("MusterBrokerMemory", "broker1").await;
    let spy = organisation.unrestricted_user("spy");
    let mut slow = Vec::new();
    for _ in 0..SLOW_CLIENTS {
        let mut client = RawNats::connect(&broker.server, &spy).await;
        client.subscribe("flood", "").await;
        client.sync().await;
        slow.push(client);
    }
    let publisher = connect(&broker.server, &organisation.unrestricted_user("flood")).await;
    for _ in 0..UNREAD_MESSAGES {
        publisher.publish("flood", vec![b'x'; MESSAGE_BYTES].into()).await.unwrap();
    }
    publisher.flush().await.unwrap();
    watch.await_firing("MusterBrokerSlowConsumers", "broker1").await;
    watch.await_firing("MusterBrokerMemory", "broker1").await;
    drop(slow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_connections_fires_near_the_limit_and_after_a_loss() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let organisation = Organisation::new(&["muster"]);
    // The last value of a key counts.
    let limit =
        format!("{}\nmax_connections: {MAX_CONNECTIONS}\n", organisation.broker_configuration());
    let broker = WatchedBroker::start(&limit).await;
    broker.watch(&mut watch);
    watch.assert_silent("MusterBrokerConnectionsNearLimit", "broker1").await;
    let caller = organisation.caller("rip");
    let mut clients = Vec::new();
    for _ in 0..MANY_CONNECTIONS {
        clients.push(RawNats::connect(&broker.server, &caller).await);
    }
    watch.await_firing("MusterBrokerConnectionsNearLimit", "broker1").await;
    // The rule compares with the number at that time.
    watch.prometheus.await_scrapes(2 * SHORT_OFFSET_SECONDS).await;
    watch.assert_silent("MusterBrokerConnectionsLost", "broker1").await;
    clients.truncate(FEW_CONNECTIONS);
    watch.await_firing("MusterBrokerConnectionsLost", "broker1").await;
}

/// One server of three is away, then two: the last one has no routes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_without_a_member_fires() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let exporter = NatsExporter::start(cluster.monitoring_port(0)).await;
    watch.prometheus.watch(BROKER_JOB, "broker1", exporter.address());
    watch.assert_silent("MusterClusterIncomplete", "broker1").await;
    cluster.kill(2);
    watch.await_firing("MusterClusterIncomplete", "broker1").await;
    cluster.kill(1);
    muster_tests::poll_until_ok(
        "the last server has no routes",
        super::FIRING_TIMEOUT,
        async || {
            // For several seconds, so that the rule was evaluated meanwhile.
            let routes = watch.prometheus.query("max_over_time(gnatsd_varz_routes[4s])==0").await;
            if routes.pointer("/result/0").is_some() { Ok(()) } else { Err(routes) }
        },
    )
    .await;
    watch.await_firing("MusterClusterIncomplete", "broker1").await;
}
