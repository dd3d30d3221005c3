//! What all parts of an instance share: the environments, their code, the last compile of each node, and the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use muster_bus::{Bucket, BucketEntry, BucketError, Bus, json_bytes};
use muster_directory::{
    DirectoryContext, DirectoryHandle, NodeSnapshot, QueryError, SelectedNode, ValuePath,
};
use muster_filter::{FactPatterns, NodeFilter};
use muster_wire::Millis;
use muster_wire::catalog::CatalogAddress;
use muster_wire::catalog::release::{RELEASE_STATE, ReleaseNodes, STATE_CATALOG};
use muster_wire::compressed::CompressedJsonError;
use muster_wire::identity::Identity;
use muster_wire::stores::{CATALOGS_BUCKET, COMPILES_BUCKET};
use muster_wire::token::{AccountTrust, TokenCache};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};

use crate::check::{CompileCause, CurrentNode, find_cause};
use crate::code::CodeVersion;
use crate::inputs::{CodeError, CompileInputs, InputSources, NodeValues};
use crate::options::Environment;
use crate::queries::DirectoryQueries;
use crate::queue::{CompileQueue, WantedCompile};
use crate::record::{CompileRecord, NEWEST_PREFIX};

/// The version of Puppet whose semantics the engine has, for nodes without Puppet.
const PUPPET_VERSION: &str = "7.23.0";
const CODE_PREFIX: &str = "code.";
pub(crate) const CODE_PATTERN: &str = "code.>";
/// Parts of the bucket that are read before anything is compiled.
const STORED_PARTS: usize = 2;

/// What an instance gets from its daemon.
#[derive(Debug)]
pub struct CompilerContext {
    pub directory: DirectoryHandle,
    /// Facts that always change: they count only where code names them.
    pub volatile: FactPatterns,
    pub environments: Vec<Environment>,
    pub external_max_age: Option<Duration>,
    /// Releases that stay although no node was given them.
    pub keep_releases: usize,
    pub lease: Duration,
    pub source: DirectoryContext,
}

/// Which code of an environment is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedCode {
    pub code: String,
    /// Whether a person chose it, so that newer commits of the branch change nothing.
    pub pinned: bool,
    pub at: Millis,
}

/// The code of an environment, as this instance has it.
#[derive(Debug, Clone, Default)]
pub struct KnownCode {
    pub announced: Option<AnnouncedCode>,
    pub revision: u64,
    /// The checkout of this host; absent until it is there.
    pub version: Option<Arc<CodeVersion>>,
    /// Why there is none.
    pub problem: Option<String>,
}

impl KnownCode {
    /// Whether the checkout is the announced code.
    fn is_current(&self) -> bool {
        let announced = self.announced.as_ref().map(|announced| &announced.code);
        announced.is_some() && announced == self.version.as_ref().map(|version| &version.code)
    }
}

/// The last compile of a node.
#[derive(Debug, Clone)]
pub struct KnownCompile {
    pub record: Arc<CompileRecord>,
    pub inputs: Arc<CompileInputs>,
    pub revision: u64,
}

/// A node that can be compiled, with the code.
#[derive(Debug)]
pub struct CompilableNode {
    pub snapshot: NodeSnapshot,
    pub trusted: Map<String, Value>,
    pub environment: String,
    pub version: Arc<CodeVersion>,
}

/// A handle to the shared state of one instance; clones share it.
#[derive(Debug, Clone)]
pub struct CompilerHandle(Arc<HandleInner>);

#[derive(Debug)]
struct HandleInner {
    context: CompilerContext,
    queries: DirectoryQueries,
    queue: CompileQueue,
    catalogs: Bucket,
    /// Puppet's `$server_facts` would be those of the host that compiles, and differ between hosts: there are none.
    server_facts: Map<String, Value>,
    newest: RwLock<BTreeMap<Identity, KnownCompile>>,
    code: RwLock<BTreeMap<String, KnownCode>>,
    /// Wakes when the code of an environment was announced, or is there.
    code_changed: Notify,
    /// The patterns of the bucket that were read once.
    stored: watch::Sender<BTreeSet<String>>,
    /// Of authors and promoters of releases.
    tokens: TokenCache,
}

impl CompilerHandle {
    pub fn new(context: CompilerContext, bus: &Bus) -> Self {
        let queries = DirectoryQueries::new(context.directory.clone(), context.volatile.clone());
        let queue = CompileQueue::new(bus.bucket(COMPILES_BUCKET.name), context.lease);
        Self(Arc::new(HandleInner {
            context,
            queries,
            queue,
            catalogs: bus.bucket(CATALOGS_BUCKET.name),
            server_facts: Map::new(),
            newest: RwLock::default(),
            code: RwLock::default(),
            code_changed: Notify::new(),
            stored: watch::Sender::default(),
            tokens: TokenCache::default(),
        }))
    }

    pub fn queue(&self) -> &CompileQueue {
        &self.0.queue
    }

    pub fn queries(&self) -> &DirectoryQueries {
        &self.0.queries
    }

    pub fn directory(&self) -> &DirectoryHandle {
        &self.0.context.directory
    }

    pub fn catalogs(&self) -> &Bucket {
        &self.0.catalogs
    }

    pub fn environments(&self) -> &[Environment] {
        &self.0.context.environments
    }

    pub fn now(&self) -> Millis {
        (self.0.context.source.clock)()
    }

    /// The account token in force.
    pub fn trust(&self) -> Arc<AccountTrust> {
        (self.0.context.source.trust)()
    }

    /// Verified tokens of authors and promoters.
    pub fn tokens(&self) -> &TokenCache {
        &self.0.tokens
    }

    pub(crate) fn code_changed(&self) -> &Notify {
        &self.0.code_changed
    }

    /// Waits until this host has the code of an environment that is announced.
    pub(crate) async fn wait_code(&self, environment: &str) {
        loop {
            let changed = self.0.code_changed.notified();
            if self.code(environment).is_current() {
                return;
            }
            changed.await;
        }
    }

    /// Notes the code of an environment that this host has now.
    pub(crate) fn note_version(&self, environment: &str, version: CodeVersion) {
        self.edit_code(environment, |known| {
            (known.version, known.problem) = (Some(Arc::new(version)), None);
        });
        self.0.code_changed.notify_waiters();
    }

    pub(crate) fn server_facts(&self) -> &Map<String, Value> {
        &self.0.server_facts
    }

    /// Notes that everything of this pattern that is stored was read.
    pub(crate) fn note_stored(&self, pattern: &str) {
        self.0.stored.send_if_modified(|stored| stored.insert(pattern.to_owned()));
    }

    /// Waits until everything that is stored was read once.
    pub(crate) async fn wait_stored(&self) {
        // The sender is as old as the handle.
        let _ = self.0.stored.subscribe().wait_for(|read| read.len() == STORED_PARTS).await;
    }

    /// The environment of a node; `None` if it belongs to none.
    pub fn environment_of(&self, node: &Identity) -> Result<Option<&Environment>, QueryError> {
        for environment in self.environments() {
            let is_in = match &environment.nodes {
                Some(filter) => self.directory().matches(node, filter)?.unwrap_or(false),
                None => true,
            };
            if is_in {
                return Ok(Some(environment));
            }
        }
        Ok(None)
    }

    /// A node with the code of its environment; `None` if it has no record or no environment, or while the code is not there.
    pub fn compilable(&self, node: &Identity) -> Option<CompilableNode> {
        let mut snapshot = self.directory().snapshot(node)?;
        add_agent_facts(node, &mut snapshot.facts);
        // The options refuse a filter that only nodes can evaluate.
        let environment = self.environment_of(node).ok()??;
        let code = self.code(&environment.name);
        Some(CompilableNode {
            trusted: trusted_facts(node),
            snapshot,
            environment: environment.name.clone(),
            version: code.version?,
        })
    }

    /// Why a node has to be compiled now; `None` if it has not, or cannot be.
    pub fn cause_of(&self, node: &Identity) -> Result<Option<CompileCause>, CodeError> {
        let Some(current) = self.compilable(node) else { return Ok(None) };
        let last = self.last_compile(node);
        let key = current.node_key();
        let now = CurrentNode {
            environment: &current.environment,
            key: &key,
            now: self.now(),
            max_age: self.0.context.external_max_age,
        };
        let last = last.as_ref().map(|last| (&*last.record, &*last.inputs));
        find_cause(last, &now, &self.sources(&current))
    }

    /// What the inputs of a compile are read from.
    pub fn sources<'a>(&'a self, node: &'a CompilableNode) -> InputSources<'a> {
        InputSources {
            values: NodeValues {
                facts: &node.snapshot.facts,
                trusted: &node.trusted,
                server_facts: &self.0.server_facts,
                volatile: &self.0.context.volatile,
            },
            code: &node.version.directory,
            queries: &self.0.queries,
        }
    }

    /// Adds the node to the queue if it has to be compiled. Returns whether it has to.
    pub async fn check(&self, node: &Identity) -> Result<bool, BucketError> {
        let cause = match tokio::task::block_in_place(|| self.cause_of(node)) {
            Ok(Some(cause)) => cause,
            Ok(None) => return Ok(false),
            Err(error) => {
                let error = muster_api::base::error_chain(&error);
                tracing::warn!(%node, error, "cannot compare what the last compile read");
                return Ok(false);
            }
        };
        self.want(node, cause.to_string(), false).await?;
        Ok(true)
    }

    /// Adds a node to the queue, unless it waits already. `None` if it belongs to no environment, or its code is not there.
    pub async fn want(
        &self,
        node: &Identity,
        reason: String,
        urgent: bool,
    ) -> Result<Option<bool>, BucketError> {
        let Some(current) = self.compilable(node) else { return Ok(None) };
        let (environment, since) = (current.environment, self.now());
        let want = WantedCompile { environment, reason, urgent, since, claim: None };
        self.queue().want(node, want).await.map(Some)
    }

    pub fn last_compile(&self, node: &Identity) -> Option<KnownCompile> {
        self.0.newest.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// The nodes whose last compile asked the directory.
    pub(crate) fn nodes_with_queries(&self) -> Vec<Identity> {
        let newest = self.0.newest.read().unwrap_or_else(PoisonError::into_inner);
        let asked = newest.iter().filter(|(_, last)| last.inputs.queries().next().is_some());
        asked.map(|(node, _)| node.clone()).collect()
    }

    /// The catalog that each node says it has. `None` until all records were read once.
    ///
    /// # Panics
    /// If the constant path is no path.
    #[expect(clippy::expect_used, reason = "the path is a constant")]
    pub fn held_catalogs(&self) -> Result<Option<ReleaseNodes>, QueryError> {
        let name = format!("state.{RELEASE_STATE}.{STATE_CATALOG}");
        let path = ValuePath::parse(&name).expect("a path of a state");
        let found = self.directory().select_nodes(&NodeFilter::default(), &[path])?;
        let held = |node: SelectedNode| {
            let catalog = node.values.get(&name).and_then(Value::as_str)?;
            Some((node.identity, CatalogAddress::parse(catalog).ok()?))
        };
        Ok(found.map(|found| found.into_iter().filter_map(held).collect()))
    }

    /// The catalogs that are not to be deleted: the newest of each node, and what nodes say they have.
    pub(crate) fn named_catalogs(
        &self,
    ) -> Result<Option<Vec<(Identity, CatalogAddress)>>, QueryError> {
        let Some(held) = self.held_catalogs()? else { return Ok(None) };
        let newest = self.0.newest.read().unwrap_or_else(PoisonError::into_inner);
        let newest = newest
            .iter()
            .filter_map(|(node, last)| Some((node.clone(), last.record.catalog?.address)));
        Ok(Some(newest.chain(held).collect()))
    }

    pub(crate) fn keep_releases(&self) -> usize {
        self.0.context.keep_releases
    }

    pub fn code(&self, environment: &str) -> KnownCode {
        let code = self.0.code.read().unwrap_or_else(PoisonError::into_inner);
        code.get(environment).cloned().unwrap_or_default()
    }

    pub(crate) fn edit_code(&self, environment: &str, edit: impl FnOnce(&mut KnownCode)) {
        let mut code = self.0.code.write().unwrap_or_else(PoisonError::into_inner);
        edit(code.entry(environment.to_owned()).or_default());
    }

    /// Takes a change of the bucket `CATALOGS`: of a last compile, or of announced code.
    pub(crate) fn apply(&self, entry: &BucketEntry) {
        let applied = if let Some(node) = entry.key.strip_prefix(NEWEST_PREFIX) {
            Identity::parse(node)
                .map_err(|error| error.to_string())
                .and_then(|node| self.apply_newest(&node, entry).map_err(|error| error.to_string()))
        } else if let Some(environment) = entry.key.strip_prefix(CODE_PREFIX) {
            self.apply_code(environment, entry).map_err(|error| error.to_string())
        } else {
            Ok(())
        };
        if let Err(error) = applied {
            tracing::warn!(
                key = entry.key,
                error,
                "cannot read an entry of the bucket of catalogs"
            );
        }
    }

    fn apply_newest(&self, node: &Identity, entry: &BucketEntry) -> Result<(), ReadError> {
        let parsed =
            entry.value.as_ref().map(|value| serde_json::from_slice::<CompileRecord>(value));
        match parsed.transpose()? {
            None => {
                self.0.newest.write().unwrap_or_else(PoisonError::into_inner).remove(node);
                Ok(())
            }
            Some(record) => Ok(self.note_compile(node, record, entry.revision)?),
        }
    }

    /// Notes the last compile of a node, unless a later one is known.
    pub(crate) fn note_compile(
        &self,
        node: &Identity,
        record: CompileRecord,
        revision: u64,
    ) -> Result<(), CompressedJsonError> {
        let inputs = Arc::new(record.inputs()?);
        let known = KnownCompile { record: Arc::new(record), inputs, revision };
        let mut newest = self.0.newest.write().unwrap_or_else(PoisonError::into_inner);
        if newest.get(node).is_none_or(|last| last.revision < revision) {
            newest.insert(node.clone(), known);
        }
        Ok(())
    }

    fn apply_code(&self, environment: &str, entry: &BucketEntry) -> Result<(), serde_json::Error> {
        let announced = entry.value.as_ref().map(|value| serde_json::from_slice(value));
        let announced: Option<AnnouncedCode> = announced.transpose()?;
        self.edit_code(environment, |known| {
            if known.revision < entry.revision {
                (known.announced, known.revision) = (announced, entry.revision);
            }
        });
        self.0.code_changed.notify_waiters();
        Ok(())
    }

    /// Announces that this code of an environment is to be compiled, unless it is already. Returns whether it was not.
    pub async fn announce(
        &self,
        environment: &str,
        code: &str,
        pinned: bool,
    ) -> Result<bool, BucketError> {
        let known = self.code(environment);
        let is_same = |known: &AnnouncedCode| known.code == code && known.pinned == pinned;
        if known.announced.as_ref().is_some_and(is_same) {
            return Ok(false);
        }
        let announced = AnnouncedCode { code: code.to_owned(), pinned, at: self.now() };
        let key = format!("{CODE_PREFIX}{environment}");
        let revision = self.catalogs().put(&key, json_bytes(&announced)).await?;
        self.edit_code(environment, |known| {
            if known.revision < revision {
                (known.announced, known.revision) = (Some(announced), revision);
            }
        });
        self.0.code_changed.notify_waiters();
        Ok(true)
    }
}

impl CompilableNode {
    /// The node's public key as text; empty if it is unknown.
    pub fn node_key(&self) -> String {
        self.snapshot.key.map(|key| key.to_string()).unwrap_or_default()
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Inputs(#[from] CompressedJsonError),
}

/// Adds what Puppet's agent adds to the facts of a node. Published modules read it: that of `concat` compares `clientversion`.
fn add_agent_facts(node: &Identity, facts: &mut Map<String, Value>) {
    let version = facts.get("puppetversion").and_then(Value::as_str).unwrap_or(PUPPET_VERSION);
    let version = Value::from(version);
    let added = [
        ("clientcert", Value::from(node.as_str())),
        ("clientnoop", Value::from(false)),
        ("clientversion", version.clone()),
        ("puppetversion", version),
    ];
    for (name, value) in added {
        facts.entry(name).or_insert(value);
    }
}

/// What is known of a node without its help, as in Puppet's `$trusted`. The record was signed with the node's key.
fn trusted_facts(node: &Identity) -> Map<String, Value> {
    let name = node.as_str();
    let (hostname, domain) = name.split_once('.').unwrap_or((name, ""));
    let texts = [
        ("authenticated", "remote"),
        ("certname", name),
        ("hostname", hostname),
        ("domain", domain),
    ];
    let texts = texts.map(|(key, text)| (key.to_owned(), Value::from(text)));
    let maps = ["extensions", "external"].map(|key| (key.to_owned(), Value::Object(Map::new())));
    texts.into_iter().chain(maps).collect()
}
