//! A broker with a content store, and its users.

use std::path::{Path, PathBuf};

use muster_bus::Bus;
use muster_bus::content::{ContentStore, FetchedFile};
use muster_tests::fault_proxy::CapturedMessage;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Broker, Organisation, connect};
use muster_wire::catalog::content::{ContentAddress, ContentKey};
use muster_wire::sign::Signer;
use muster_wire::stores::CONTENT_BUCKET;
use muster_wire::token::ServiceRight;
use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use serde_json::Value;
use tempfile::TempDir;

/// Larger than every file of the tests.
pub(super) const SIZE_LIMIT: u64 = 1 << 30;

pub(super) struct ContentFixture {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    directory: TempDir,
}

impl ContentFixture {
    pub(super) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self { organisation, server, directory: TempDir::new().unwrap() }
    }

    /// The path of a file of the test.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Names of the files of the test.
    pub(super) fn file_names(&self) -> Vec<String> {
        let entries = self.directory.path().read_dir().unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        entries.map(name).collect()
    }

    /// The store with the permissions of a compiler, without memory of what it has stored.
    pub(super) async fn compiler(&self) -> ContentStore {
        let signer = self.organisation.service(ServiceRight::Compile, "compiler1");
        open_store(&self.server, &signer).await
    }

    /// The store with the permissions of a node.
    pub(super) async fn node(&self) -> ContentStore {
        self.node_behind(&self.server).await
    }

    /// The same through this broker.
    pub(super) async fn node_behind(&self, broker: &impl Broker) -> ContentStore {
        open_store(broker, &self.organisation.node("web1.example.net")).await
    }

    pub(super) async fn administrator(&self) -> Bus {
        connect(&self.server, &self.organisation.administrator()).await
    }

    /// The state of the bucket's stream: `last_seq` is the number of writes until now, `messages` that of keys.
    pub(super) async fn stream_state(&self, field: &str) -> u64 {
        let administrator = self.administrator().await;
        let subject = format!("$JS.API.STREAM.INFO.KV_{}", CONTENT_BUCKET.name);
        let info = administrator.request(&subject, "".into()).await.unwrap();
        let info: Value = serde_json::from_slice(info.payload()).unwrap();
        info.pointer(&format!("/state/{field}")).unwrap().as_u64().unwrap()
    }
}

/// The content store of this user.
pub(super) async fn open_store(broker: &impl Broker, user: &Signer) -> ContentStore {
    ContentStore::new(connect(broker, user).await.bucket(CONTENT_BUCKET.name))
}

/// Bytes that no compression and no other seed repeats.
pub(super) fn random_bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

pub(super) async fn put(store: &ContentStore, bytes: &[u8]) -> ContentAddress {
    let file = store.put_file(bytes, None).await.unwrap();
    assert_eq!(file, ContentAddress::of(bytes));
    file
}

/// Fetches a file, whose bytes are checked by another implementation of the reader: the file system.
pub(super) async fn fetch(store: &ContentStore, file: ContentAddress, path: &Path) -> FetchedFile {
    let fetched = store.get_file(file, path, SIZE_LIMIT).await.unwrap();
    assert_eq!(ContentAddress::of(&std::fs::read(path).unwrap()), file);
    fetched
}

/// The chunk that a message of a client asks for.
pub(super) fn requested_chunk(message: &CapturedMessage) -> Option<ContentAddress> {
    let key = message.subject.strip_prefix("$JS.API.DIRECT.GET.KV_CONTENT.$KV.CONTENT.")?;
    match ContentKey::parse(key)? {
        ContentKey::Chunk(chunk) => Some(chunk),
        ContentKey::File(_) => None,
    }
}

#[expect(clippy::print_stderr, reason = "throughput is a result of the test")]
pub(super) fn print_figures(text: &str) {
    eprintln!("figures: {text}");
}
