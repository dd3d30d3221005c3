//! Compiles nodes of the queue, one after the other.
//!
//! What a compile makes is written before what names it: files, then the catalog, then `newest.NODE`, which only the worker with the claim moves. The entry of
//! the queue is removed after that, and then the inputs are compared again: a change that came meanwhile could not be added while the entry was there.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_bus::content::{ContentError, ContentStore};
use muster_bus::{BucketError, json_bytes};
use muster_wire::catalog::{CatalogRefusal, CatalogStatement, CompiledCatalog, catalog_key};
use muster_wire::compressed::CompressedJsonError;
use muster_wire::sign::Signer;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::catalog::{SecretKey, StoredCatalog};
use crate::compiler::CompilerError;
use crate::compiler::protocol::{CompileFailure, CompileOutcome, CompileRequest};
use crate::handle::{CompilableNode, CompilerHandle};
use crate::inputs::{CodeError, CompileInputs, InputSources, RecordedInputs};
use crate::pool::CompilerPool;
use crate::queries::CompileQueries;
use crate::queue::ClaimedNode;
use crate::record::{CatalogName, CompileRecord, CompiledState, MAX_WARNINGS, newest_key};

/// A node is not compiled again after this many workers ended while they compiled it.
const MAX_ATTEMPTS: u32 = 3;
/// Renewals of a claim within its lease.
const RENEWALS_PER_LEASE: u32 = 3;
/// Tries of a change that conflicts with another worker's.
const MAX_TRIES: usize = 10;
/// Pause after a broker error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Why a compile has no result. A catalog that does not compile is a result.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Catalog(#[from] CatalogRefusal),
    #[error("cannot compress what the compile read")]
    Inputs(#[from] CompressedJsonError),
    #[error("cannot store the file {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: ContentError,
    },
    #[error("cannot read the file {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Code decides what a catalog says.
    #[error("the catalog names the file {}, which is not in the environment", .0.display())]
    Outside(PathBuf),
    /// The broker has the record of the node, but not the key that signed it.
    #[error("the key of the node is not known")]
    NodeKey,
}

impl WorkError {
    /// Whether the broker or a repository may be back soon.
    fn is_temporary(&self) -> bool {
        matches!(self, Self::Store(_) | Self::File { .. })
    }
}

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkEnd {
    Stored,
    NoResult,
    /// Another worker has it.
    Lost,
}

/// What a worker compiles with.
#[derive(Debug)]
pub struct CompileWorker {
    pub handle: CompilerHandle,
    pub pool: CompilerPool,
    pub signer: Signer,
    pub secret_key: SecretKey,
    /// Files that catalogs name.
    pub content: ContentStore,
}

impl CompileWorker {
    /// Compiles nodes of an environment, until it is dropped.
    pub async fn run(&self, environment: &str) {
        loop {
            self.handle.queue().wait_for_work(environment).await;
            // A host without the announced code leaves nodes to others.
            self.handle.wait_code(environment).await;
            let claimed = match self.handle.queue().claim(environment).await {
                Ok(Some(claimed)) => claimed,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(%error, "cannot claim a node to compile");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            self.work(claimed).await;
        }
    }

    /// Compiles a node and stores the result. Tries again after errors of the broker, as long as no other worker has the node.
    pub async fn work(&self, mut claimed: ClaimedNode) {
        loop {
            let tried = self.handle.compilable(&claimed.node);
            match self.try_work(&mut claimed, tried.as_ref()).await {
                Ok(WorkEnd::Lost) => return,
                Ok(end) => return self.release(claimed, end == WorkEnd::Stored, tried).await,
                Err(error) if error.is_temporary() => {
                    let (node, error) = (&claimed.node, error_chain(&error));
                    tracing::warn!(%node, error, "cannot store a compile; the node is compiled again");
                    tokio::time::sleep(RETRY_DELAY).await;
                    if matches!(self.handle.queue().renew(&mut claimed).await, Ok(false)) {
                        return;
                    }
                }
                Err(error) => {
                    let (node, error) = (&claimed.node, error_chain(&error));
                    tracing::error!(%node, error, "cannot store the result of a compile");
                    return self.release(claimed, false, tried).await;
                }
            }
        }
    }

    /// Removes the entry of a node, and then adds the node again if something has changed meanwhile: changes could not add it while the entry was there. What was
    /// tried without a result is not tried again before the node or the code changes, or all nodes are checked.
    async fn release(&self, claimed: ClaimedNode, has_result: bool, tried: Option<CompilableNode>) {
        let node = claimed.node.clone();
        let state = |one: CompilableNode| (one.snapshot.revision, one.version.code.clone());
        let tried = tried.map(state);
        let released = async {
            let is_removed = self.handle.queue().finish(claimed).await?;
            if is_removed && (has_result || tried != self.handle.compilable(&node).map(state)) {
                self.handle.check(&node).await?;
            }
            Ok::<(), BucketError>(())
        };
        if let Err(error) = released.await {
            // The claim lapses, and the node is compiled again.
            tracing::warn!(%node, %error, "cannot remove the entry of a compiled node");
        }
    }

    async fn try_work(
        &self,
        claimed: &mut ClaimedNode,
        current: Option<&CompilableNode>,
    ) -> Result<WorkEnd, WorkError> {
        let (cause, attempt) = (claimed.want.reason.clone(), claimed.attempt());
        // Without a record the node was forgotten.
        let Some(current) = current else { return Ok(WorkEnd::NoResult) };
        let record = tokio::select! {
            record = self.compile(current, &cause, attempt) => record?,
            () = self.keep_claim(claimed) => return Ok(WorkEnd::Lost),
        };
        match record {
            Some(record) => self.store_record(claimed, record).await,
            None => Ok(WorkEnd::NoResult),
        }
    }

    /// Renews a claim until another worker has it. While the broker is away, the compile goes on.
    async fn keep_claim(&self, claimed: &mut ClaimedNode) {
        loop {
            tokio::time::sleep(self.handle.queue().lease() / RENEWALS_PER_LEASE).await;
            if matches!(self.handle.queue().renew(claimed).await, Ok(false)) {
                return;
            }
        }
    }

    /// Compiles a node and stores its catalog. `None` if the code was changed meanwhile.
    async fn compile(
        &self,
        current: &CompilableNode,
        cause: &str,
        attempt: u32,
    ) -> Result<Option<CompileRecord>, WorkError> {
        let started = Instant::now();
        let queries = CompileQueries::new(self.handle.queries());
        let outcome = if attempt > MAX_ATTEMPTS {
            let text = format!("{MAX_ATTEMPTS} hosts ended while they compiled this node");
            failed_outcome(text)
        } else {
            self.run_compiler(current, &queries)
                .await
                .unwrap_or_else(|error| failed_outcome(error_chain(&error)))
        };
        let inputs = tokio::task::block_in_place(|| {
            let sources = InputSources { queries: &queries, ..self.handle.sources(current) };
            read_inputs(current, &outcome, &sources)
        })?;
        let Some(inputs) = inputs else { return Ok(None) };
        let state = CompiledState {
            record_revision: current.snapshot.revision,
            environment: current.environment.clone(),
            code: current.version.code.clone(),
            node_key: current.node_key(),
        };
        let RecordedInputs { externals, wholes, .. } = outcome.inputs.unwrap_or_default();
        let mut record = CompileRecord::new(state, &inputs)?;
        record.cause = cause.to_owned();
        record.compiled_at = self.handle.now();
        record.milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        record.warnings = outcome.logs.into_iter().take(MAX_WARNINGS).collect();
        (record.externals, record.wholes) = (externals, wholes);
        match self.store_result(current, outcome.result).await? {
            Ok(name) => record.catalog = Some(name),
            Err(failure) => record.failure = Some(failure),
        }
        Ok(Some(record))
    }

    /// Stores the catalog, if there is one that can be stored.
    async fn store_result(
        &self,
        current: &CompilableNode,
        result: Result<Map<String, Value>, CompileFailure>,
    ) -> Result<Result<CatalogName, CompileFailure>, WorkError> {
        let catalog = match result {
            Ok(catalog) => catalog,
            Err(failure) => return Ok(Err(failure)),
        };
        let stored = self.stored_form(current, catalog);
        match self.store_catalog(current, &stored).await {
            Ok(name) => Ok(Ok(name)),
            // The catalog itself is at fault: it is too large, for example.
            Err(error @ (WorkError::Catalog(_) | WorkError::Outside(_))) => {
                Ok(Err(CompileFailure::of_text(error_chain(&error))))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn stored_form(
        &self,
        current: &CompilableNode,
        catalog: Map<String, Value>,
    ) -> StoredCatalog {
        StoredCatalog::of(catalog, current.version.directory.root(), &self.secret_key)
    }

    pub(crate) async fn run_compiler(
        &self,
        current: &CompilableNode,
        queries: &CompileQueries<'_>,
    ) -> Result<CompileOutcome, CompilerError> {
        let request = CompileRequest {
            node: current.snapshot.identity.as_str(),
            facts: &current.snapshot.facts,
            trusted: &current.trusted,
            server_facts: self.handle.server_facts(),
            classes: &[],
            code_id: None,
        };
        loop {
            let compiler = tokio::task::block_in_place(|| self.pool.get(&current.version))?;
            let outcome = compiler.compile(&request, queries).await;
            if outcome.is_err() {
                self.pool.discard(&current.environment, &compiler);
            }
            // Each further turn follows a compile of another node, whose result is that it ended the process.
            if !matches!(outcome, Err(CompilerError::NotBegun { .. })) {
                return outcome;
            }
        }
    }

    /// Stores a catalog, unless the node has one already with which it would do the same.
    async fn store_catalog(
        &self,
        current: &CompilableNode,
        stored: &StoredCatalog,
    ) -> Result<CatalogName, WorkError> {
        let node = &current.snapshot.identity;
        let name = CatalogName { address: stored.address(), effect: stored.effect() };
        let last = self.handle.last_compile(node).map(|last| Arc::clone(&last.record));
        if let Some(last) = last
            && let Some(known) = last.catalog
            && known.effect == name.effect
            && last.state.node_key == current.node_key()
        {
            return Ok(known);
        }
        let key = current.snapshot.key.ok_or(WorkError::NodeKey)?;
        self.store_files(current, stored).await?;
        let statement = CatalogStatement {
            compiler: self.signer.identity().clone(),
            node: node.clone(),
            environment: current.environment.clone(),
            code: current.version.code.clone(),
            address: name.address,
            compiled_at: self.handle.now(),
        };
        let compiled = CompiledCatalog::new(statement, stored.public(), stored.secrets(), &key)?;
        let bytes = compiled.sign(&self.signer)?;
        self.handle.catalogs().put(&catalog_key(node, name.address), bytes.into()).await?;
        Ok(name)
    }

    /// Stores the files that a catalog names, before the catalog.
    async fn store_files(
        &self,
        current: &CompilableNode,
        stored: &StoredCatalog,
    ) -> Result<(), WorkError> {
        for (address, path) in stored.files() {
            let found = current.version.directory.find(path)?;
            let found = found.ok_or_else(|| WorkError::Outside(path.to_owned()))?;
            let open = |source| WorkError::Open { path: path.to_owned(), source };
            let file = tokio::fs::File::open(&found).await.map_err(open)?;
            let failed = |source| WorkError::File { path: path.to_owned(), source };
            self.content.put_file(file, Some(address)).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Moves `newest.NODE`, if this worker still has the node: the renewed claim keeps others from it for a lease, and an entry that was written meanwhile is read
    /// again.
    async fn store_record(
        &self,
        claimed: &mut ClaimedNode,
        mut record: CompileRecord,
    ) -> Result<WorkEnd, WorkError> {
        let (bucket, key) = (self.handle.catalogs(), newest_key(&claimed.node));
        for _ in 0..MAX_TRIES {
            let entry = bucket.get(&key).await?;
            if !self.handle.queue().renew(claimed).await? {
                return Ok(WorkEnd::Lost);
            }
            let stored = entry.as_ref().and_then(|entry| {
                serde_json::from_slice::<CompileRecord>(entry.value.as_deref()?).ok()
            });
            record.catalog = record.catalog.or_else(|| stored?.catalog);
            let written = match &entry {
                Some(entry) => bucket.update(&key, json_bytes(&record), entry.revision).await,
                None => bucket.create(&key, json_bytes(&record)).await,
            };
            match written {
                Ok(revision) => {
                    self.handle.note_compile(&claimed.node, record, revision)?;
                    return Ok(WorkEnd::Stored);
                }
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BucketError::Conflict { key }.into())
    }
}

/// Digests what was read. `None` if files were changed during the compile: the changed code is announced soon, and then all nodes are checked.
fn read_inputs(
    current: &CompilableNode,
    outcome: &CompileOutcome,
    sources: &InputSources<'_>,
) -> Result<Option<CompileInputs>, CodeError> {
    let recorded = outcome.inputs.as_ref();
    let inputs = match outcome.result {
        Ok(_) => CompileInputs::of(recorded, sources)?,
        Err(_) => CompileInputs::of_failure(recorded, sources)?,
    };
    Ok(current.version.is_unchanged()?.then_some(inputs))
}

/// The result of a compile that ended without one. What it read is not known, so all facts and the code count.
fn failed_outcome(message: String) -> CompileOutcome {
    CompileOutcome { result: Err(CompileFailure::of_text(message)), inputs: None, logs: Vec::new() }
}
