//! Releases as people use them: real daemons follow promotions, with Puppet's compiler in `rpcd` and code in a directory.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_bus::content::ContentStore;
use muster_catalogs::releases::ReleaseStore;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::catalog::CatalogAddress;
use muster_wire::catalog::release::{
    Promotion, Release, ReleaseNodes, ReleasedEntry, released_key,
};
use muster_wire::identity::Identity;
use muster_wire::request::NodeFilter;
use muster_wire::sign::Signer;
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};
use muster_wire::token::{ServiceRight, TokenCache, UserCredentials};
use serde_json::Value;
use uuid::Uuid;

use super::fixture::Environment;

const NODES: [&str; 3] = ["web1.acme.net", "web2.acme.net", "db1.acme.net"];
const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n";
/// Simulated nodes of A12.7.
const MANY: usize = 200;

/// Three nodes, one of which compiles, and a caller.
struct ReleaseFleet {
    environment: Environment,
    organisation: Organisation,
    server: NatsServer,
    rpc: RpcCommand,
    daemons: Vec<Rpcd>,
}

impl ReleaseFleet {
    /// `None` if this run skips the tests that need Puppet. `more` is in the section of the agent.
    async fn start(more: &str) -> Option<Self> {
        let environment = Environment::create()?;
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
        let mut fleet = Self { environment, organisation, server, rpc, daemons: Vec::new() };
        fleet.write_code("first");
        for node in NODES {
            let home = fleet.prepare(node, more);
            fleet.daemons.push(home.start());
        }
        poll_until_ok("all nodes are compiled", TIMEOUT, async || {
            let output = fleet.rpc.run(&["catalog", "environments", "-j"]).await;
            let found: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let row = &found["environments"][0];
            if row["compiled"] == NODES.len() { Ok(()) } else { Err(format!("{row:#}")) }
        })
        .await;
        Some(fleet)
    }

    fn write_code(&self, text: &str) {
        let manifest = "file { '/etc/motd': content => \"TEXT on ${trusted['hostname']}\\n\" }\n\
            file { '/etc/tool': source => 'puppet:///modules/tool/tool' }\n\
            file { '/etc/secret': content => Sensitive('TEXT secret'), show_diff => false }\n";
        self.environment.write("modules/tool/files/tool", &format!("{text} tool\n"));
        self.environment.write("manifests/site.pp", &manifest.replace("TEXT", text));
    }

    fn prepare(&self, node: &str, more: &str) -> DaemonHome {
        let organisation = &self.organisation;
        let url = self.server.url();
        let home = DaemonHome::new(organisation, &organisation.node(node), &url, REGISTRATION);
        fs::create_dir_all(home.path("root/etc")).unwrap();
        home.write("conf.d/root.toml", "[paths]\nroot = \"../root\"\n", 0o644);
        let release = format!("[plugins.release]\nenabled = true\n{more}");
        home.write("conf.d/release.toml", &release, 0o644);
        if node == NODES[0] {
            let service = organisation.service(ServiceRight::Compile, "compiler1");
            let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
            home.write("service.creds", &creds.to_text(), 0o600);
            let options = format!(
                "[plugins.compiler]\nenabled = true\ncredentials = \"../service.creds\"\ndirectory = \"{}\"\n\
                 [plugins.compiler.environments.production]\ndirectory = \"{}\"\n",
                self.environment.path().join("state").display(),
                self.environment.code_path().display(),
            );
            home.write("conf.d/compiler.toml", &options, 0o644);
        }
        home
    }

    fn file(&self, node: usize, name: &str) -> PathBuf {
        self.daemons[node].home().path("root/etc").join(name)
    }

    /// The content of a file of a node, or nothing.
    fn read(&self, node: usize, name: &str) -> String {
        fs::read_to_string(self.file(node, name)).unwrap_or_default()
    }

    async fn text(&self, words: &[&str]) -> String {
        let output = self.rpc.run(words).await;
        assert!(output.status.success(), "{words:?}: {}", describe_output(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a release of this code, once all nodes are compiled with it.
    async fn release(&self, text: &str) -> Value {
        self.write_code(text);
        self.text(&["compile", "--environment", "production"]).await;
        let words = ["release", "create", "--environment", "production"];
        let created = self.rpc.read_document("muster.release.created.v1", &words).await;
        assert_eq!((&created["nodes"], &created["failed"]), (&3.into(), &0.into()), "{created:#}");
        created
    }

    /// What a node says of its release.
    async fn status(&self, node: &str) -> Value {
        let words = ["release", "status", "-I", node];
        let status = self.rpc.read_document("muster.release.status.v1", &words).await;
        status["nodes"][0].clone()
    }

    async fn await_status(&self, node: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
        poll_until_ok(what, TIMEOUT, async || {
            let output = self.rpc.run(&["release", "status", "-I", node, "-j"]).await;
            let status: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let status = &status["nodes"][0];
            if is_so(status) { Ok(()) } else { Err(format!("{status:#}")) }
        })
        .await;
    }

    /// A promotion of a stored release, signed by this caller.
    async fn sign(&self, caller: &Signer, release: &str, filter: &str) -> ReleasedEntry {
        let bus = connect(&self.server, &self.organisation.administrator()).await;
        let catalogs = bus.bucket(CATALOGS_BUCKET.name);
        let store = ReleaseStore::new(catalogs, ContentStore::new(bus.bucket(CONTENT_BUCKET.name)));
        let release = store.read(release).await.unwrap();
        let promotion = Promotion {
            id: Uuid::now_v7(),
            author: caller.identity().clone(),
            collective: self.organisation.collective().clone(),
            release: Release::address_of(&release),
            filter: serde_json::from_str(filter).unwrap(),
            issued_at: muster_tests::now(),
            apply: None,
        };
        ReleasedEntry { promotion: promotion.sign(caller).unwrap(), release }
    }

    /// Sends a promotion to a node; returns what was printed.
    async fn send(&self, node: &str, entry: &ReleasedEntry) -> String {
        let promotion = format!("promotion={}", entry.promotion);
        let release = format!("release={}", entry.release);
        let words = ["do", "release", "promote", "-y", "-I", node, &promotion, &release];
        describe_output(&self.rpc.run(&words).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_7_node_keeps_its_release_until_another_one_is_promoted() {
    let Some(fleet) = ReleaseFleet::start("").await else { return };
    let created = fleet.release("first").await;
    assert_eq!((&created["name"], &created["changes"]["added"]), (&"r1".into(), &3.into()));
    // A plan needs no promotion and changes nothing.
    let plan = ["release", "plan", "r1", "-I", "/./"];
    let planned = fleet.rpc.read_document("muster.release.plan.v1", &plan).await;
    assert_eq!(planned["groups"][0]["nodes"].as_array().unwrap().len(), 3, "{planned:#}");
    assert_eq!(fleet.read(0, "motd"), "");
    let promoted = fleet.text(&["release", "promote", "r1", "--all"]).await;
    assert!(promoted.contains("changed = 3"), "{promoted}");
    for (node, name) in ["web1", "web2", "db1"].into_iter().enumerate() {
        assert_eq!(fleet.read(node, "motd"), format!("first on {name}\n"));
        assert_eq!(fleet.read(node, "tool"), "first tool\n");
        assert_eq!(fleet.read(node, "secret"), "first secret");
    }

    // Compiled, released, planned and compared, but not promoted.
    let created = fleet.release("second").await;
    assert_eq!((&created["name"], &created["changes"]["unchanged"]), (&"r2".into(), &0.into()));
    let diff = ["release", "diff", "r2"];
    let document = fleet.rpc.read_document("muster.release.diff.v1", &diff).await;
    assert_eq!(document["groups"].as_array().unwrap().len(), 3, "the text names each node");
    let diff = fleet.text(&diff).await;
    assert!(diff.contains("-first on web1") && diff.contains("+second on web1"), "{diff}");
    assert!(diff.contains("File[/etc/secret] content: changed (secret)"), "{diff}");
    assert!(!diff.contains("second secret"), "{diff}");
    let applied = fleet.text(&["do", "release", "apply", "-y", "-I", "/./"]).await;
    assert!(!applied.contains("second"), "{applied}");
    assert_eq!(fleet.read(1, "motd"), "first on web2\n");
    let status = fleet.status(NODES[1]).await;
    assert_eq!((&status["release"], &status["last_status"]), (&"r1".into(), &"unchanged".into()));

    // To some nodes only, in steps.
    let words = ["release", "promote", "r2", "--to", "identity =~ /^web/", "--canary", "1", "-y"];
    fleet.text(&words).await;
    assert_eq!(fleet.read(0, "motd"), "second on web1\n");
    assert_eq!(
        (fleet.read(1, "tool"), fleet.read(2, "tool")),
        ("second tool\n".to_owned(), "first tool\n".to_owned())
    );
    assert_eq!(fleet.status(NODES[0]).await["previous"], "r1");
    assert_eq!(fleet.status(NODES[2]).await["release"], "r1");
    let listed = fleet.text(&["release", "list"]).await;
    assert!(listed.contains("r1") && listed.contains("r2") && listed.contains("anna"), "{listed}");
    assert!(fleet.text(&["release", "status"]).await.contains("r2"));

    // Back, although neither catalogs nor files are in the broker any more.
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    for (bucket, pattern) in [(CATALOGS_BUCKET.name, "catalog.>"), (CONTENT_BUCKET.name, ">")] {
        let bucket = administrator.bucket(bucket);
        let entries = bucket.list(pattern).await.unwrap();
        assert!(!entries.is_empty());
        let keys: Vec<String> = entries.into_iter().map(|entry| entry.key).collect();
        bucket.delete_keys(&keys).await.unwrap();
    }
    let back = fleet.rpc.run(&["release", "rollback", "r1", "-I", "/^web/", "-y"]).await;
    assert_eq!(fleet.read(0, "motd"), "first on web1\n", "{}", describe_output(&back));
    assert_eq!(
        (fleet.read(1, "tool"), fleet.read(1, "secret")),
        ("first tool\n".to_owned(), "first secret".to_owned())
    );
    assert_eq!(fleet.status(NODES[0]).await["release"], "r1");
}

/// The nodes themselves have the release, and the caller verifies its signature.
#[tokio::test(flavor = "multi_thread")]
async fn release_is_taken_back_while_the_compiler_is_away() {
    let Some(mut fleet) = ReleaseFleet::start("").await else { return };
    for text in ["first", "second"] {
        let created = fleet.release(text).await;
        let name = created["name"].as_str().unwrap();
        fleet.text(&["release", "promote", name, "--all"]).await;
    }
    assert_eq!(fleet.read(1, "motd"), "second on web2\n");
    fleet.daemons[0].stop_and_wait().await;
    let words = ["release", "rollback", "r1", "-I", "web2.acme.net", "-I", "db1.acme.net", "-y"];
    let back = fleet.rpc.run(&words).await;
    let back = describe_output(&back);
    assert_eq!(fleet.read(1, "motd"), "first on web2\n", "{back}");
    assert_eq!(fleet.read(2, "motd"), "first on db1\n", "{back}");
    assert!(back.contains("the compiler does not answer"), "{back}");
    let unknown = fleet.rpc.run(&["release", "rollback", "r7", "-I", "web2.acme.net", "-y"]).await;
    assert!(describe_output(&unknown).contains("no compiler is running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_was_away_finds_its_promotion() {
    let Some(mut fleet) = ReleaseFleet::start("").await else { return };
    fleet.release("first").await;
    fleet.daemons[2].stop_and_wait().await;
    let home = fleet.daemons[2].home().clone();
    let promoted = fleet.rpc.run(&["release", "promote", "r1", "--all"]).await;
    assert!(
        describe_output(&promoted).contains("stored for 3 nodes of the release"),
        "{}",
        describe_output(&promoted)
    );
    fleet.daemons[2] = home.start();
    fleet
        .await_status(NODES[2], "the node finds its promotion", |status| {
            status["release"] == "r1" && status["last_run_at"].is_u64()
        })
        .await;
    // By itself it only says what it would change: the promotion allows nothing else.
    let status = fleet.status(NODES[2]).await;
    assert_eq!((&status["last_noop"], &status["last_changed"]), (&true.into(), &3.into()));
    assert_eq!(
        (fleet.read(0, "motd"), fleet.read(2, "motd")),
        ("first on web1\n".to_owned(), String::new())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_9_node_applies_by_itself_only_in_its_window_and_without_a_broker() {
    let Some(mut fleet) = ReleaseFleet::start("interval = 1\npoll = 1\n").await else { return };
    fleet.release("first").await;
    fleet.text(&["release", "promote", "r1", "--all"]).await;
    let motd = fleet.file(1, "motd");
    fs::remove_file(&motd).unwrap();
    fleet
        .await_status(NODES[1], "a noop run finds the difference", |status| {
            status["last_noop"] == true && status["last_changed"] == 1
        })
        .await;
    assert!(!motd.exists());
    // A window that is closed allows nothing; one that is open does.
    let closed = ["release", "promote", "r1", "--all", "--no-apply", "--window"];
    let now = jiff::Timestamp::from_millisecond(muster_tests::now().cast_signed()).unwrap();
    let yesterday = now.to_zoned(jiff::tz::TimeZone::UTC).yesterday().unwrap();
    let window = format!("{} 00:00-00:01", yesterday.strftime("%a"));
    fleet.text(&[&closed[..], &[&window]].concat()).await;
    let before = muster_tests::now();
    fleet
        .await_status(NODES[1], "another run", |status| {
            status["last_run_at"].as_u64().is_some_and(|at| at > before)
        })
        .await;
    assert!(!motd.exists());
    fleet.text(&["release", "promote", "r1", "--all", "--no-apply", "--always"]).await;
    fleet.server.kill();
    poll_until_ok("the node repairs the file without a broker", TIMEOUT, async || {
        if motd.exists() { Ok(()) } else { Err("no file") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_refuses_promotions_that_were_not_meant_for_it() {
    let Some(fleet) = ReleaseFleet::start("").await else { return };
    fleet.release("first").await;
    let (anna, bob) = (fleet.organisation.caller("anna"), fleet.organisation.caller("bob"));
    let all = "{}";
    let foreign = fleet.sign(&bob, "r1", all).await;
    let refused = fleet.send(NODES[1], &foreign).await;
    assert!(refused.contains("bob signed the promotion, and anna sent it"), "{refused}");
    let elsewhere = fleet.sign(&anna, "r1", r#"{"identity":["db1.acme.net"]}"#).await;
    let refused = fleet.send(NODES[1], &elsewhere).await;
    assert!(refused.contains("does not match the filter of the promotion"), "{refused}");
    let early = fleet.sign(&anna, "r1", all).await;
    let accepted = fleet.sign(&anna, "r1", all).await;
    fleet.release("second").await;
    let second = fleet.sign(&anna, "r2", all).await;
    let mixed = ReleasedEntry { release: second.release.clone(), ..accepted.clone() };
    let refused = fleet.send(NODES[1], &mixed).await;
    assert!(refused.contains("the promotion names the release with the hash"), "{refused}");
    assert_eq!(fleet.read(1, "motd"), "");
    let sent = fleet.send(NODES[1], &accepted).await;
    assert_eq!(fleet.read(1, "motd"), "first on web2\n", "{sent}");
    // The same one again is applied again; an earlier one is refused.
    let again = fleet.send(NODES[1], &accepted).await;
    assert!(!again.contains("older"), "{again}");
    let refused = fleet.send(NODES[1], &early).await;
    assert!(refused.contains("older than the one that this node has"), "{refused}");
    assert_eq!(fleet.read(1, "motd"), "first on web2\n");
}

/// What is stored for nodes that are away obeys the policy of the node, like a request.
#[tokio::test(flavor = "multi_thread")]
async fn stored_promotion_of_a_caller_without_permission_is_not_followed() {
    let Some(fleet) = ReleaseFleet::start("poll = 1\n").await else { return };
    fleet.release("first").await;
    let home = fleet.daemons[1].home();
    home.write(
        "policies/release.policy",
        "policy default allow\ndeny\tbob\tpromote\t*\t*\n",
        0o644,
    );
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(fleet.daemons[1].pid()),
        nix::sys::signal::Signal::SIGHUP,
    )
    .unwrap();
    poll_until_ok("the policy is read", TIMEOUT, async || {
        let log = fleet.daemons[1].log();
        if log.contains("reloaded policies") { Ok(()) } else { Err(log) }
    })
    .await;
    let bob = fleet.organisation.caller("bob");
    let entry = fleet.sign(&bob, "r1", "{}").await;
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = administrator.bucket(CATALOGS_BUCKET.name);
    let bytes = serde_json::to_vec(&entry).unwrap();
    for node in &NODES[1..] {
        let key = released_key(&Identity::parse(node).unwrap());
        bucket.put(&key, bytes.clone().into()).await.unwrap();
    }
    fleet
        .await_status(NODES[1], "the node says why it does not follow", |status| {
            let problem = status["problem"].as_str().unwrap_or_default();
            problem.contains("bob may not promote releases to this node")
        })
        .await;
    assert_eq!(fleet.status(NODES[1]).await["release"], Value::Null);
    fleet.await_status(NODES[2], "the other one follows", |status| status["release"] == "r1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_7_two_hundred_nodes_are_moved_and_moved_back_within_two_seconds() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let compiler = organisation.service(ServiceRight::Compile, "compiler1");
    let bus = connect(&server, &compiler).await;
    let catalogs = bus.bucket(CATALOGS_BUCKET.name);
    let content = ContentStore::new(bus.bucket(CONTENT_BUCKET.name));
    let store = ReleaseStore::new(catalogs.clone(), content);
    let anna = organisation.caller("anna");
    let names: Vec<Identity> =
        (0..MANY).map(|number| Identity::parse(&format!("n{number}.acme.net")).unwrap()).collect();
    let mut releases = Vec::new();
    for number in 1..=2_usize {
        let address =
            |node: usize| CatalogAddress::parse(&format!("{:064x}", number * 1000 + node)).unwrap();
        let nodes: ReleaseNodes =
            names.iter().cloned().enumerate().map(|(node, name)| (name, address(node))).collect();
        let release = Release {
            name: muster_wire::identity::SubjectName::parse(&format!("r{number}")).unwrap(),
            author: anna.identity().clone(),
            environment: "production".to_owned(),
            code: "4f2c1e".to_owned(),
            created_at: muster_tests::now(),
            nodes: nodes.len(),
            list: store.store_list(&nodes).await.unwrap(),
            plugins: None,
        };
        let text = release.sign(&anna).unwrap();
        store.publish(&release, &text).await.unwrap();
        assert_eq!(store.read_list(release.list).await.unwrap(), nodes);
        releases.push(text);
    }
    let start = muster_tests::now();
    for (step, release) in [0, 1, 0].into_iter().enumerate() {
        let promotion = Promotion {
            id: Uuid::now_v7(),
            author: anna.identity().clone(),
            collective: organisation.collective().clone(),
            release: Release::address_of(&releases[release]),
            filter: NodeFilter::default(),
            issued_at: start + step as u64,
            apply: None,
        };
        let text = releases[release].clone();
        let entry = ReleasedEntry { promotion: promotion.sign(&anna).unwrap(), release: text };
        let started = Instant::now();
        let moved = store.promote(&entry, &promotion, names.clone()).await.unwrap();
        let took = started.elapsed();
        println!("step {step}: {MANY} nodes in {took:?}");
        assert_eq!((moved.stored, moved.later), (MANY, 0));
        assert!(took < Duration::from_secs(2), "{took:?}");
        // Each node has the whole new entry, and can verify it.
        for name in names.iter().step_by(20) {
            let node = connect(&server, &organisation.node(name.as_str())).await;
            let bucket = node.bucket(CATALOGS_BUCKET.name);
            let read = bucket.get(&released_key(name)).await.unwrap().unwrap().value.unwrap();
            let read: ReleasedEntry = serde_json::from_slice(&read).unwrap();
            assert_eq!(read, entry);
            let opened =
                read.open(&organisation.trust(), &TokenCache::default(), muster_tests::now());
            assert_eq!(opened.unwrap().release.name.as_str(), format!("r{}", release + 1));
        }
        // An earlier promotion moves no node.
        let early = Promotion { issued_at: start - 1, ..promotion };
        let moved = store.promote(&entry, &early, names.clone()).await.unwrap();
        assert_eq!((moved.stored, moved.later), (0, MANY));
    }
}
