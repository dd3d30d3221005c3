//! A fleet in regions behind one hub: leaf nodes that carry all subjects, or regions of their own with a gatherer each.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use muster_agent::commands::virtual_nodes::NodeFleet;
use muster_bus::Bus;
use muster_calls::{CallStats, CallTarget, Client, DiscoveryWindow};
use muster_filter::NodeFilter;
use muster_tests::cluster::free_ports;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Broker as _, JETSTREAM_CONFIG, Organisation};
use muster_wire::identity::Identity;
use muster_wire::request::RequestTarget;
use muster_wire::sign::{EnvelopeKind, ExpectedAnswer, Signer, sign_envelope};
use muster_wire::subject::AnswerAddress;
use muster_wire::token::{TokenCache, UserCredentials};
use tempfile::TempDir;

use crate::caller::{ConnectionKind, connect, finish, ping_call};
use crate::fleet::{FleetSettings, start_nodes};
use crate::gatherer::{Gatherer, PageForm, PageReader, gather_subject};
use crate::process::resident_memory;
use crate::report::{Figure, Section, Table};

const METHOD: &str = "A ping of all nodes by a caller at the hub. Leaf nodes: the servers of the regions are leaf nodes, and each reply goes to \
the caller. Gatherers: the servers of the regions are not connected to the hub; a gatherer in each region sends the caller's signed request, \
verifies the replies and returns them in compressed pages of 500. A page has the nodes' messages, or the messages without tokens that \
the caller knows, or results that only the gatherer has signed. The caller verifies everything that is signed. Its connection goes through a proxy \
that counts bytes and limits the rate in the rows with a limit. The gatherers are a simulation: there is no such service. All nodes, servers and \
gatherers share two processors.";

const LINK: NetworkFault =
    NetworkFault::SlowLink { delay: Duration::from_millis(10), bytes_per_second: 20_000_000 / 8 };
/// Connections that the nodes of a region share.
const SHARED_CONNECTIONS: usize = 16;
/// How long a call waits for its nodes.
const WAIT: Duration = Duration::from_mins(2);

/// Measures this many regions with this many nodes each.
pub(crate) fn bench(regions: usize, nodes: usize) -> Section {
    let mut section = Section::of(format!("{regions} regions of {nodes} nodes"), METHOD);
    let mut table = Table::new([
        "",
        "seconds",
        "at 20 Mbit/s",
        "bytes down per node",
        "bytes up per node",
        "hub MiB",
        "a region's server MiB",
    ]);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (leafs, gatherers) = runtime.block_on(async {
        let leafs = Box::pin(measure_leafs(regions, nodes)).await;
        (leafs, Box::pin(measure_gatherers(regions, nodes)).await)
    });
    runtime.shutdown_background();
    let bytes = |rows: &[PingCost], name: &str| {
        rows.iter().find(|row| row.name == name).unwrap().bytes_per_node.0
    };
    let all = bytes(&leafs, LEAF_BROADCAST);
    for form in PageForm::ALL {
        let ratio = bytes(&gatherers, form.name()) / all;
        let name = format!("bytes at the caller, pages of {} x all replies", form.name());
        section.figures.push(Figure::ratio(name, ratio));
    }
    table.rows = leafs.iter().chain(&gatherers).map(PingCost::row).collect();
    section.tables.push(table);
    section
}

const LEAF_BROADCAST: &str = "leaf nodes, broadcast";

/// What a ping of all nodes took.
struct PingCost {
    name: &'static str,
    seconds: f64,
    /// With the limit.
    slow_seconds: Option<f64>,
    bytes_per_node: (f64, f64),
    hub_memory: u64,
    region_memory: u64,
}

impl PingCost {
    fn row(&self) -> Vec<String> {
        let mebibytes = |bytes: u64| (bytes >> 20).to_string();
        vec![
            self.name.to_owned(),
            format!("{:.2}", self.seconds),
            self.slow_seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.2}")),
            format!("{:.0}", self.bytes_per_node.0),
            format!("{:.0}", self.bytes_per_node.1),
            mebibytes(self.hub_memory),
            mebibytes(self.region_memory),
        ]
    }
}

/// The servers with their nodes, and the way from the caller to the hub.
struct Site {
    organisation: Organisation,
    hub: NatsServer,
    regions: Vec<NatsServer>,
    /// The nodes of each region.
    fleets: Vec<NodeFleet>,
    proxy: FaultProxy,
    nodes: usize,
    directories: Vec<TempDir>,
}

impl Site {
    /// Starts a hub, and the servers of the regions with their nodes, as leaf nodes of the hub or on their own.
    async fn start(regions: usize, nodes: usize, as_leafs: bool) -> Self {
        eprintln!("{regions} regions of {nodes} nodes: connecting");
        let organisation = Organisation::new(&["muster"]);
        let [leaf_port] = free_ports();
        let configuration = format!(
            "{}{JETSTREAM_CONFIG}leafnodes: {{ listen: \"127.0.0.1:{leaf_port}\" }}\n",
            organisation.broker_configuration()
        );
        let hub = NatsServer::start(&configuration).await;
        organisation.declare_stores(&hub, 1).await;
        let proxy = FaultProxy::start(&hub).await;
        let mut site = Self {
            organisation,
            hub,
            regions: Vec::new(),
            fleets: Vec::new(),
            proxy,
            nodes: regions * nodes,
            directories: Vec::new(),
        };
        for region in 0..regions {
            site.add_region(region, nodes, as_leafs.then_some(leaf_port)).await;
        }
        site
    }

    async fn add_region(&mut self, region: usize, nodes: usize, leaf_port: Option<u16>) {
        let organisation = &self.organisation;
        let directory = TempDir::new().unwrap();
        let mut configuration = organisation.broker_configuration();
        if let Some(port) = leaf_port {
            let leaf = organisation.leaf(&format!("region{region}"));
            let credentials =
                UserCredentials::new(&leaf.token(), leaf.key_pair().clone()).unwrap().to_text();
            let path = directory.path().join("leaf.creds");
            std::fs::write(&path, credentials.as_bytes()).unwrap();
            let account = organisation.trust().account_key();
            writeln!(
                configuration,
                "leafnodes: {{ remotes: [{{ url: \"nats-leaf://127.0.0.1:{port}\", account: {account}, credentials: \"{}\" }}] }}",
                path.display()
            )
            .unwrap();
        }
        let server = NatsServer::start(&configuration).await;
        let numbers = region * nodes..(region + 1) * nodes;
        let shared = Some(SHARED_CONNECTIONS);
        let settings = FleetSettings { numbers, shared, ..FleetSettings::default() };
        self.fleets.push(start_nodes(organisation, &server, settings, &directory).await);
        self.regions.push(server);
        self.directories.push(directory);
    }

    fn names(&self) -> BTreeSet<Identity> {
        let nodes = self.fleets.iter().flat_map(NodeFleet::node_connections);
        nodes.map(|(name, _)| name).collect()
    }

    async fn connect_caller(&self, user: &Signer) -> Bus {
        let url = format!("nats://127.0.0.1:{}", self.proxy.port());
        connect(&[url], user, ConnectionKind::Command).await
    }

    /// The cost of a ping that was measured without and with the limit of the rate.
    fn cost(&self, name: &'static str, measured: Measured, slow: Option<Measured>) -> PingCost {
        let per_node = |bytes: u64| to_f64(bytes) / to_f64(u64::try_from(self.nodes).unwrap());
        let (down, up) = measured.bytes;
        PingCost {
            name,
            seconds: measured.took.as_secs_f64(),
            slow_seconds: slow.map(|slow| slow.took.as_secs_f64()),
            bytes_per_node: (per_node(down), per_node(up)),
            hub_memory: resident_memory(self.hub.pid()),
            region_memory: resident_memory(self.regions.first().unwrap().pid()),
        }
    }

    /// Measures time and bytes of a piece of work of the caller.
    async fn measure(&self, work: impl Future<Output = ()>) -> Measured {
        let traffic = self.proxy.traffic();
        let (down, up, started) = (traffic.down(), traffic.up(), Instant::now());
        work.await;
        Measured { took: started.elapsed(), bytes: (traffic.down() - down, traffic.up() - up) }
    }
}

#[derive(Clone, Copy)]
struct Measured {
    took: Duration,
    /// Down and up.
    bytes: (u64, u64),
}

/// All nodes behind leaf nodes: a broadcast, and a call to named nodes.
async fn measure_leafs(regions: usize, nodes: usize) -> Vec<PingCost> {
    let site = Site::start(regions, nodes, true).await;
    let organisation = &site.organisation;
    let signer = organisation.caller("rip");
    let bus = site.connect_caller(&signer).await;
    let (trust, collective) = (organisation.trust(), organisation.collective().clone());
    let client = Client::new(bus, signer, trust, collective, DiscoveryWindow::default());
    await_all(&client, site.nodes).await;
    let mut costs = Vec::new();
    let broadcast = async || {
        let mut call = ping_call(CallTarget::Filter(NodeFilter::default()), WAIT);
        call.expect = Some(site.nodes);
        assert_complete(&*finish(&client, call).await, site.nodes);
    };
    let names = site.names();
    let ask_all = async || {
        let call = ping_call(CallTarget::Nodes(names.clone()), WAIT);
        assert_complete(&*finish(&client, call).await, site.nodes);
    };
    costs.push(site.cost(LEAF_BROADCAST, site.measure(broadcast()).await, None));
    let fast = site.measure(ask_all()).await;
    // The broker would close the connection of a caller on a slow link that asks all nodes at once.
    site.proxy.inject(LINK);
    let slow = site.measure(ask_all()).await;
    costs.push(site.cost("leaf nodes, named", fast, Some(slow)));
    costs
}

/// Waits until the hub has learned the subscriptions of all nodes, and the caller knows their tokens.
async fn await_all(client: &Client, nodes: usize) {
    let started = Instant::now();
    loop {
        let mut call = ping_call(CallTarget::Filter(NodeFilter::default()), WAIT);
        call.expect = Some(nodes);
        let stats = finish(client, call).await;
        if stats.ok == nodes {
            return;
        }
        assert!(started.elapsed() < WAIT, "nodes are missing: {stats:?}");
    }
}

fn assert_complete(stats: &CallStats, nodes: usize) {
    let is_complete = stats.ok == nodes && stats.rejected == 0 && stats.incomplete.is_none();
    assert!(is_complete, "not all of {nodes} nodes replied: {stats:?}");
}

/// Regions with a gatherer each.
async fn measure_gatherers(regions: usize, nodes: usize) -> Vec<PingCost> {
    let site = Site::start(regions, nodes, false).await;
    let gatherers = start_gatherers(&site, nodes).await;
    let caller = GatherCaller::connect(&site, gatherers).await;
    // Verified tokens are in the caches of caller and gatherers from here on.
    caller.ping(PageForm::Messages).await;
    let mut costs = Vec::new();
    for form in PageForm::ALL {
        site.proxy.heal();
        let fast = site.measure(caller.ping(form)).await;
        site.proxy.inject(LINK);
        let slow = site.measure(caller.ping(form)).await;
        costs.push(site.cost(form.name(), fast, Some(slow)));
    }
    costs
}

/// Starts a gatherer in each region; returns their keys by region.
async fn start_gatherers(site: &Site, nodes: usize) -> HashMap<String, Signer> {
    let mut signers = HashMap::new();
    for (number, server) in site.regions.iter().enumerate() {
        let name = format!("region{number}");
        let signer = site.organisation.unrestricted_user(&name);
        let gatherer = Gatherer {
            name: name.clone(),
            signer: signer.clone(),
            // A daemon's connection would keep 4,096 messages, fewer than there are replies.
            region: connect(&[server.url()], &signer, ConnectionKind::Command).await,
            hub: connect(&[site.hub.url()], &signer, ConnectionKind::Command).await,
            trust: site.organisation.trust(),
            cache: TokenCache::new(nodes * 2),
            nodes,
        };
        let requests = gatherer.subscribe().await;
        gatherer.hub.confirm_delivery().await.unwrap();
        tokio::spawn(gatherer.serve(requests));
        signers.insert(name, signer);
    }
    signers
}

/// A caller that asks the gatherers.
struct GatherCaller<'a> {
    site: &'a Site,
    signer: Signer,
    bus: Bus,
    cache: TokenCache,
    /// Tokens of the nodes by key, from the first call.
    tokens: RefCell<HashMap<String, String>>,
    gatherers: HashMap<String, Signer>,
}

impl<'a> GatherCaller<'a> {
    async fn connect(site: &'a Site, gatherers: HashMap<String, Signer>) -> Self {
        let signer = site.organisation.caller("rip");
        let carrier = site.organisation.unrestricted_user("carrier");
        Self {
            site,
            bus: site.connect_caller(&carrier).await,
            signer,
            cache: TokenCache::new(site.nodes * 2),
            tokens: RefCell::default(),
            gatherers,
        }
    }

    /// Pings all nodes of all regions.
    async fn ping(&self, form: PageForm) {
        let target = RequestTarget::Filter(NodeFilter::default());
        let names = ["muster", "rpcutil", "ping"];
        let request =
            muster_tests::requests::unsigned_request(self.signer.identity(), names, target);
        let message = sign_envelope(EnvelopeKind::Request, &request, &self.signer).unwrap();
        let key = self.signer.public_key().to_string();
        let answers = AnswerAddress::of_request(&key, &request.id);
        let mut pages = self.bus.subscribe(&answers.subscription_pattern()).await.unwrap();
        for region in self.gatherers.keys() {
            let reply_to = answers.of_node(&Identity::parse(region).unwrap());
            let subject = gather_subject(region, form);
            let payload = message.clone().into();
            self.bus.publish_with_reply(&subject, &reply_to, payload).await.unwrap();
        }
        let trust = self.site.organisation.trust();
        let reader = PageReader {
            trust: &trust,
            cache: &self.cache,
            tokens: &self.tokens,
            learns_tokens: self.tokens.borrow().is_empty(),
            gatherers: &self.gatherers,
            expected: ExpectedAnswer {
                request: Some(request.id),
                agent: &request.agent,
                action: &request.action,
            },
        };
        let (mut senders, mut finished) = (BTreeSet::new(), 0);
        while finished < self.gatherers.len() {
            let message = pages.next().await.unwrap();
            let (replies, is_last) = reader.read(&message, form);
            senders.extend(replies.into_iter().map(|reply| reply.sender));
            finished += usize::from(is_last);
        }
        assert_eq!(senders.len(), self.site.nodes);
        self.bus.drain_subscription(&mut pages).await.unwrap();
    }
}

fn to_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}
