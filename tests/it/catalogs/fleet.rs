//! A fleet whose nodes are records in the broker, and instances of the compiler in the test's process.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_bus::content::ContentStore;
use muster_bus::{Bucket, BucketWatch, Bus};
use muster_catalogs::catalog::SecretKey;
use muster_catalogs::code::CodeStore;
use muster_catalogs::compiler::CompileLimits;
use muster_catalogs::handle::{CompilerContext, CompilerHandle};
use muster_catalogs::options::{CodeSource, Environment as EnvironmentRule};
use muster_catalogs::pool::{CompilerPool, CompilerSettings};
use muster_catalogs::service::CompilerService;
use muster_catalogs::worker::CompileWorker;
use muster_directory::{DirectoryContext, DirectoryHandle, DirectoryService};
use muster_filter::FactPatterns;
use muster_filter::state::NodeFacts;
use muster_host::external::find_account;
use muster_system::real::RealSystem;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::tools::find_tool;
use muster_wire::identity::Identity;
use muster_wire::node_record::{NodeContent, NodeRecord};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET, NODES_BUCKET};
use muster_wire::token::ServiceRight;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::fixture::{ENVIRONMENT, Environment};
use crate::external::sandbox_helper;

/// Another instance takes over after this time.
const LEASE: Duration = Duration::from_secs(2);
const SETTLE_TIMEOUT: Duration = Duration::from_mins(3);

pub(super) struct CatalogFleet {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) environment: Environment,
    records: Bucket,
    _administrator: Bus,
    nodes: BTreeMap<Identity, Signer>,
}

/// One instance of the compiler.
pub(super) struct CompilerInstance {
    pub(super) handle: CompilerHandle,
    pub(super) bus: Bus,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for CompilerInstance {
    /// As if it were killed: it finishes nothing.
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

impl CatalogFleet {
    /// `None` if this run skips the tests that need Puppet.
    pub(super) async fn start() -> Option<Self> {
        let environment = Environment::create()?;
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let administrator = connect(&server, &organisation.administrator()).await;
        let records = administrator.bucket(NODES_BUCKET.name);
        let nodes = BTreeMap::new();
        Some(Self {
            organisation,
            server,
            environment,
            records,
            _administrator: administrator,
            nodes,
        })
    }

    /// Stores a record of a node with these facts; returns its revision in the bucket.
    pub(super) async fn publish(&mut self, node: &str, facts: &Value) -> u64 {
        self.publish_at(node, facts, muster_tests::now()).await
    }

    /// The same with this time of the node's clock.
    pub(super) async fn publish_at(&mut self, node: &str, facts: &Value, time: u64) -> u64 {
        let name = Identity::parse(node).unwrap();
        let signer = self.nodes.entry(name).or_insert_with(|| self.organisation.node(node));
        let content = NodeContent {
            version: "0.1.0".to_owned(),
            collectives: vec![self.organisation.collective().clone()],
            facts: NodeFacts::from_value(facts.clone()).unwrap(),
            heartbeat_seconds: 60,
            ..NodeContent::default()
        };
        let record = NodeRecord::new(signer.identity().clone(), time, &content, &content).unwrap();
        let bytes = sign_envelope(EnvelopeKind::Record, &record, signer).unwrap();
        self.records.put(node, bytes.into()).await.unwrap()
    }

    pub(super) fn signer(&self, node: &str) -> &Signer {
        self.nodes.get(&Identity::parse(node).unwrap()).unwrap()
    }

    /// An instance that compiles with Puppet.
    pub(super) async fn start_instance(&self, name: &str) -> CompilerInstance {
        self.start_instance_with(name, find_tool("ruby"), LEASE).await
    }

    /// An instance whose compiler is started by this program, in place of Ruby.
    pub(super) async fn start_instance_with(
        &self,
        name: &str,
        ruby: PathBuf,
        lease: Duration,
    ) -> CompilerInstance {
        let environments = vec![EnvironmentRule {
            name: ENVIRONMENT.to_owned(),
            source: CodeSource::Directory(self.environment.code_path()),
            nodes: None,
        }];
        self.start_instance_of(name, ruby, lease, (environments, CompileLimits::default())).await
    }

    /// An instance with these environments, and these limits of a compile.
    pub(super) async fn start_instance_of(
        &self,
        name: &str,
        ruby: PathBuf,
        lease: Duration,
        (environments, limits): (Vec<EnvironmentRule>, CompileLimits),
    ) -> CompilerInstance {
        let signer = self.organisation.service(ServiceRight::Compile, name);
        let bus = connect(&self.server, &signer).await;
        let trust = Arc::new(self.organisation.trust());
        let account = Arc::clone(&trust);
        let directory = DirectoryHandle::default();
        let source = DirectoryContext {
            trust: Box::new(move || Arc::clone(&trust)),
            clock: muster_tests::now,
        };
        let stop = CancellationToken::new();
        let service = DirectoryService::new(directory.clone(), bus.clone(), signer.clone(), source);
        tokio::spawn(service.run_until_stopped(stop.clone()));
        let context = CompilerContext {
            directory,
            volatile: FactPatterns::new(&["uptime*".to_owned(), "load*".to_owned()]),
            environments,
            external_max_age: None,
            keep_releases: 20,
            lease,
            source: DirectoryContext {
                trust: Box::new(move || Arc::clone(&account)),
                clock: muster_tests::now,
            },
        };
        let handle = CompilerHandle::new(context, &bus);
        let state = self.environment.path().join("state").join(name);
        let system = Arc::new(RealSystem::new(PathBuf::from("/")));
        let settings = CompilerSettings {
            ruby,
            user: find_account("nobody").unwrap(),
            limits,
            state: state.clone(),
            helper: sandbox_helper(),
            programs: HashMap::new(),
        };
        let worker = Arc::new(CompileWorker {
            handle: handle.clone(),
            pool: CompilerPool::new(settings),
            signer,
            secret_key: SecretKey::new(&[7; 32]),
            content: ContentStore::new(bus.bucket(CONTENT_BUCKET.name)),
        });
        let code = CodeStore::new(system, state);
        let service = CompilerService::new(bus.clone(), code, worker, 2);
        let task = tokio::spawn(service.run_until_stopped(stop.clone()));
        CompilerInstance { handle, bus, stop, task }
    }

    /// Waits until an instance has read these revisions, and no node has to be compiled.
    pub(super) async fn await_settled(
        &self,
        instance: &CompilerInstance,
        revisions: &[(String, u64)],
    ) {
        poll_until_ok("all nodes are compiled", SETTLE_TIMEOUT, async || {
            for (node, revision) in revisions {
                let node = Identity::parse(node).unwrap();
                let known = instance.handle.directory().snapshot(&node);
                if known.is_none_or(|known| known.revision < *revision) {
                    return Err(format!("{node} is not known yet"));
                }
                if let Some(want) = instance.handle.queue().get(&node) {
                    return Err(format!("{node}: {want:?}"));
                }
                match instance.handle.cause_of(&node) {
                    Ok(None) if instance.handle.last_compile(&node).is_some() => {}
                    other => return Err(format!("{node}: {other:?}")),
                }
            }
            Ok(())
        })
        .await;
    }
}

/// Counts compiles: each one writes `newest.NODE` once.
pub(super) struct CompileCounter {
    watch: BucketWatch,
    last: u64,
}

impl CompileCounter {
    pub(super) async fn start(bus: &Bus) -> Self {
        let mut watch = bus.bucket(CATALOGS_BUCKET.name).watch("newest.>").await.unwrap();
        while !watch.is_current() {
            watch.next().await.unwrap();
        }
        Self { watch, last: 0 }
    }

    /// The nodes that were compiled since the last call, once for each compile, until the last compiles that the instance knows of these nodes.
    pub(super) async fn take(
        &mut self,
        instance: &CompilerInstance,
        nodes: impl IntoIterator<Item = &str>,
    ) -> Vec<String> {
        let last = |node| {
            let last = instance.handle.last_compile(&Identity::parse(node).unwrap());
            last.map(|last| last.revision).unwrap_or_default()
        };
        let until = nodes.into_iter().map(last).max().unwrap_or_default();
        let mut compiled = Vec::new();
        while self.last < until {
            let entry = self.watch.next().await.unwrap().unwrap();
            self.last = entry.revision;
            compiled.push(entry.key.strip_prefix("newest.").unwrap().to_owned());
        }
        compiled.sort();
        compiled
    }
}
