//! Answers of the directory to queries of manifests, and their digests.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_directory::DirectoryHandle;
use muster_filter::FactPatterns;
use serde_json::{Map, Value};

use crate::compiler::QuerySource;
use crate::compiler::protocol::QueryAnswer;
use crate::inputs::{InputDigest, QueryDigests};

/// What of a node in an answer always changes, or is not about the node.
const UNSTABLE_FIELDS: [&str; 4] = ["seen", "last_seen", "state", "problem"];
/// The same of an answer about one node: `load_node` returns none of these.
const UNSTABLE_NODE_FIELDS: [&str; 4] = ["record_time", "revision", "record", "state"];

/// Queries of manifests are answered from the index of this host.
#[derive(Debug)]
pub struct DirectoryQueries {
    directory: DirectoryHandle,
    volatile: FactPatterns,
    /// Digests of answers since the last change of the directory, so that a query that many nodes asked is evaluated once.
    known: Mutex<KnownDigests>,
}

#[derive(Debug, Default)]
struct KnownDigests {
    /// Counts the changes of the directory, so that an answer from before a change is not kept after it.
    generation: u64,
    digests: HashMap<String, InputDigest>,
}

impl DirectoryQueries {
    pub fn new(directory: DirectoryHandle, volatile: FactPatterns) -> Self {
        Self { directory, volatile, known: Mutex::default() }
    }

    /// Forgets the digests, because nodes have changed.
    pub fn forget(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.generation += 1;
        known.digests.clear();
    }

    fn ask(&self, query: &str) -> QueryAnswer {
        let parsed: Result<(String, Map<String, Value>), _> = serde_json::from_str(query);
        let Ok((path, parameters)) = parsed else {
            return QueryAnswer { status: 400, document: Value::from("not a query") };
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let parameters = parameters.into_iter().map(|(name, value)| (name, text(value))).collect();
        let (status, document) = self.directory.answer_query(&path, parameters);
        QueryAnswer { status, document }
    }

    fn digest_answer(&self, answer: &QueryAnswer) -> InputDigest {
        let mut document = answer.document.clone();
        self.settle(&mut document);
        InputDigest::of_answer(answer.status, &document)
    }

    /// Removes what always changes: when nodes were seen, and volatile facts.
    fn settle(&self, document: &mut Value) {
        let Value::Object(document) = document else { return };
        document.remove("freshness");
        if let Some(Value::Array(rows)) = document.get_mut("nodes") {
            for row in rows {
                self.settle_row(row);
            }
        }
        if document.contains_key("node") {
            for field in UNSTABLE_NODE_FIELDS {
                document.remove(field);
            }
            if let Some(row) = document.get_mut("node") {
                self.settle_row(row);
            }
            if let Some(facts) = document.get_mut("facts") {
                self.settle_facts(facts);
            }
        }
    }

    fn settle_row(&self, row: &mut Value) {
        let Value::Object(row) = row else { return };
        for field in UNSTABLE_FIELDS {
            row.remove(field);
        }
        if let Some(facts) = row.get_mut("document").and_then(|document| document.get_mut("facts"))
        {
            self.settle_facts(facts);
        }
    }

    fn settle_facts(&self, facts: &mut Value) {
        if let Value::Object(facts) = facts {
            self.volatile.remove_from(facts);
        }
    }
}

impl QueryDigests for DirectoryQueries {
    fn digest(&self, query: &str) -> InputDigest {
        let generation = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(digest) = known.digests.get(query) {
                return *digest;
            }
            known.generation
        };
        let digest = self.digest_answer(&self.ask(query));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation == generation {
            known.digests.insert(query.to_owned(), digest);
        }
        digest
    }
}

/// The queries of one compile. The digest of an input is that of the answer the compile got: the directory may answer otherwise at its end.
#[derive(Debug)]
pub struct CompileQueries<'a> {
    queries: &'a DirectoryQueries,
    answered: Mutex<HashMap<String, InputDigest>>,
}

impl<'a> CompileQueries<'a> {
    pub fn new(queries: &'a DirectoryQueries) -> Self {
        Self { queries, answered: Mutex::default() }
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<String, InputDigest>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuerySource for CompileQueries<'_> {
    async fn answer(&self, query: &str) -> QueryAnswer {
        tokio::task::block_in_place(|| {
            let answer = self.queries.ask(query);
            let digest = self.queries.digest_answer(&answer);
            // Of two different answers the first counts, so the node is compiled again.
            self.answered().entry(query.to_owned()).or_insert(digest);
            answer
        })
    }
}

impl QueryDigests for CompileQueries<'_> {
    fn digest(&self, query: &str) -> InputDigest {
        let answered = self.answered().get(query).copied();
        answered.unwrap_or_else(|| self.queries.digest(query))
    }
}
