//! Old releases, catalogs and files are deleted, and nothing that a node may still need.

use std::io::Cursor;

use muster_bus::Bus;
use muster_bus::content::ContentStore;
use muster_catalogs::releases::ReleaseStore;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{Promotion, Release, ReleaseNodes, ReleasedEntry};
use muster_wire::catalog::{
    CatalogAddress, CatalogSecrets, CatalogStatement, CompiledCatalog, catalog_key,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::NodeFilter;
use muster_wire::sign::Signer;
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};
use muster_wire::token::ServiceRight;
use serde_json::{Map, json};
use uuid::Uuid;

const NODE: &str = "web1.acme.net";
const HOUR: u64 = 60 * 60 * 1000;

/// A broker with a compiler, and a node.
struct StoreFixture {
    organisation: Organisation,
    compiler: Signer,
    node: Signer,
    bus: Bus,
    content: ContentStore,
    store: ReleaseStore,
}

impl StoreFixture {
    /// Stores a catalog that names one file, and the file.
    async fn store_catalog(&self, text: &str) -> (CatalogAddress, ContentAddress) {
        let bytes = text.as_bytes();
        let file = self.content.put_file(Cursor::new(bytes), None).await.unwrap();
        let checksum = json!({"type": "sha256", "value": format!("{{sha256}}{file}")});
        let value = json!({
            "name": NODE, "resources": [],
            "metadata": {"/etc/motd": {"type": "file", "checksum": checksum, "path": "motd"}},
        });
        let mut catalog: Map<_, _> = value.as_object().unwrap().clone();
        let address = CatalogAddress::of_catalog(&mut catalog);
        let statement = CatalogStatement {
            compiler: self.compiler.identity().clone(),
            node: self.node.identity().clone(),
            environment: "production".to_owned(),
            code: text.to_owned(),
            address,
            compiled_at: muster_tests::now(),
        };
        let key = self.node.key_pair().public_key();
        let secrets = CatalogSecrets::default();
        let compiled = CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap();
        let signed = compiled.sign(&self.compiler).unwrap();
        let key = catalog_key(self.node.identity(), address);
        self.bus.bucket(CATALOGS_BUCKET.name).put(&key, signed.into()).await.unwrap();
        (address, file)
    }

    /// Publishes a release of this catalog; returns it as signed.
    async fn publish(&self, name: &str, catalog: CatalogAddress, created_at: u64) -> String {
        let nodes = ReleaseNodes::from([(self.node.identity().clone(), catalog)]);
        let anna = self.organisation.caller("anna");
        let release = Release {
            name: SubjectName::parse(name).unwrap(),
            author: anna.identity().clone(),
            environment: "production".to_owned(),
            code: name.to_owned(),
            created_at,
            nodes: 1,
            list: self.store.store_list(&nodes).await.unwrap(),
            plugins: None,
        };
        let text = release.sign(&anna).unwrap();
        self.store.publish(&release, &text).await.unwrap();
        text
    }

    async fn has_catalog(&self, address: CatalogAddress) -> bool {
        let key = catalog_key(self.node.identity(), address);
        let entry = self.bus.bucket(CATALOGS_BUCKET.name).get(&key).await.unwrap();
        entry.is_some_and(|entry| entry.value.is_some())
    }

    async fn release_names(&self) -> Vec<String> {
        let releases = self.store.list().await.unwrap().into_iter();
        releases.map(|release| release.name.to_string()).collect()
    }
}

async fn start() -> (StoreFixture, muster_tests::nats_server::NatsServer) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let compiler = organisation.service(ServiceRight::Compile, "compiler1");
    let bus = connect(&server, &compiler).await;
    let content = ContentStore::new(bus.bucket(CONTENT_BUCKET.name));
    let store = ReleaseStore::new(bus.bucket(CATALOGS_BUCKET.name), content.clone());
    let node = organisation.node(NODE);
    (StoreFixture { organisation, compiler, node, bus, content, store }, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nothing_names_is_deleted_after_a_day() {
    let (fixture, _server) = start().await;
    let now = muster_tests::now();
    let node = Identity::parse(NODE).unwrap();
    let (mut catalogs, mut files, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=5_u64 {
        let (catalog, file) = fixture.store_catalog(&format!("text {number}\n")).await;
        texts.push(fixture.publish(&format!("r{number}"), catalog, now + number).await);
        catalogs.push(catalog);
        files.push(file);
    }
    // A node was given r1; another one says that it has the catalog of r3. The newest catalog is that of r4, and r5 is the newest release.
    let anna = fixture.organisation.caller("anna");
    let promotion = Promotion {
        id: Uuid::now_v7(),
        author: anna.identity().clone(),
        collective: fixture.organisation.collective().clone(),
        release: Release::address_of(&texts[0]),
        filter: NodeFilter::default(),
        issued_at: now,
        apply: None,
    };
    let entry =
        ReleasedEntry { promotion: promotion.sign(&anna).unwrap(), release: texts[0].clone() };
    fixture.store.promote(&entry, &promotion, [node.clone()]).await.unwrap();
    let named = || [(node.clone(), catalogs[2]), (node.clone(), catalogs[3])];

    let young = fixture.store.collect(named(), 1, now + 23 * HOUR).await.unwrap();
    assert_eq!((young.deleted_releases, young.deleted_catalogs, young.kept_catalogs), (0, 0, 5));
    let old = fixture.store.collect(named(), 1, now + 25 * HOUR).await.unwrap();
    assert_eq!((old.deleted_releases, old.deleted_catalogs, old.kept_catalogs), (3, 1, 4));
    assert_eq!(fixture.release_names().await, ["r5", "r1"]);
    let expected = [true, false, true, true, true];
    for ((catalog, file), is_kept) in catalogs.iter().zip(&files).zip(expected) {
        assert_eq!(fixture.has_catalog(*catalog).await, is_kept);
        fixture.content.forget_stored();
        assert_eq!(fixture.content.has(*file).await.unwrap(), is_kept);
    }
    // The lists of the releases that stay are there.
    for text in [&texts[0], &texts[4]] {
        let release = Release::read_unverified(text).unwrap();
        assert_eq!(fixture.store.read_list(release.list).await.unwrap().len(), 1);
    }
    assert_eq!(fixture.store.next_name().await.unwrap(), "r6");
}
