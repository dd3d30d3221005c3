//! Catalogs: who may sign one, where it belongs, and that only its node reads its secrets.

use muster_wire::catalog::{
    CatalogAddress, CatalogRefusal, CatalogSecrets, CatalogStatement, CompiledCatalog,
    open_compiled_catalog,
};
use muster_wire::sign::Signer;
use muster_wire::token::{ServiceRight, TokenCache, UserRole};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::world::{NOW, TestOrganisation, identity};

fn service(world: &TestOrganisation, rights: &[ServiceRight]) -> Signer {
    let tags = ServiceRight::tags(rights);
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    world.signer_tagged(UserRole::Service, "compiler1", 62, &tags)
}

/// A catalog with a password, before its secrets are taken out.
fn compiled() -> Map<String, Value> {
    let resource = json!({
        "type": "User", "title": "rip", "sensitive_parameters": ["password"],
        "parameters": {
            "password": "hunter2", "shell": ["/bin/sh", {"__ptype": "Sensitive", "__pvalue": "pin"}],
        },
    });
    json!({"name": "db1.acme.net", "resources": [resource]}).as_object().unwrap().clone()
}

fn digest(value: &Value) -> String {
    format!("digest-{}", value.to_string().len())
}

/// The stored form, its secrets, and the statement of this compiler.
fn stored(compiler: &str) -> (Map<String, Value>, CatalogSecrets, CatalogStatement) {
    let (mut catalog, mut secrets) = (compiled(), CatalogSecrets::default());
    for resource in catalog.get_mut("resources").unwrap().as_array_mut().unwrap() {
        secrets.take_from(resource.as_object_mut().unwrap(), &digest);
    }
    let address = CatalogAddress::of_catalog(&mut catalog);
    address.name_catalog(&mut catalog);
    let statement = CatalogStatement {
        compiler: identity(compiler),
        node: identity("db1.acme.net"),
        environment: "production".to_owned(),
        code: "4f2c1e".to_owned(),
        address,
        compiled_at: NOW,
    };
    (catalog, secrets, statement)
}

fn open(
    world: &TestOrganisation,
    bytes: &[u8],
    node: &str,
    address: CatalogAddress,
) -> Result<CompiledCatalog, CatalogRefusal> {
    let cache = TokenCache::default();
    open_compiled_catalog(bytes, &identity(node), address, &world.trust, &cache, NOW)
}

#[test]
fn only_the_node_reads_the_secrets_of_its_catalog() {
    let world = TestOrganisation::new();
    let (compiler, node) = (service(&world, &[ServiceRight::Compile]), world.node());
    let (catalog, secrets, statement) = stored("compiler1");
    let address = statement.address;
    let sealed = CompiledCatalog::new(statement, &catalog, &secrets, &node.public_key()).unwrap();
    let bytes = sealed.sign(&compiler).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(!text.contains("hunter2") && !format!("{sealed:?}{secrets:?}").contains("hunter2"));

    let opened = open(&world, &bytes, "db1.acme.net", address).unwrap();
    assert_eq!(opened.stored_form().unwrap(), catalog);
    let whole = opened.open(node.key_pair()).unwrap();
    let mut expected = compiled();
    address.name_catalog(&mut expected);
    assert_eq!(whole.catalog, expected);
    let other = world.signer(UserRole::Node, "db2.acme.net", 102);
    assert!(matches!(opened.open(other.key_pair()), Err(CatalogRefusal::Secrets(_))));
}

#[test]
fn only_a_compiler_signs_a_catalog_and_only_for_its_node_and_address() {
    let world = TestOrganisation::new();
    let (catalog, secrets, statement) = stored("compiler1");
    let (address, key) = (statement.address, world.node().public_key());
    let sealed = CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap();

    let others = [ServiceRight::Directory, ServiceRight::Schedule, ServiceRight::Provision];
    let bytes = sealed.sign(&service(&world, &others)).unwrap();
    let refused = open(&world, &bytes, "db1.acme.net", address).unwrap_err();
    assert!(matches!(refused, CatalogRefusal::NotACompiler(_)), "{refused}");
    for signer in [world.caller(), world.node()] {
        let bytes = sealed.sign(&signer).unwrap();
        let refused = open(&world, &bytes, "db1.acme.net", address).unwrap_err();
        assert!(matches!(refused, CatalogRefusal::Refused(_)), "{refused}");
    }

    let compiler = service(&world, &[ServiceRight::Compile]);
    let bytes = sealed.sign(&compiler).unwrap();
    let elsewhere = CatalogAddress::of_catalog(&mut Map::new());
    for (node, address, field) in
        [("db2.acme.net", address, "node"), ("db1.acme.net", elsewhere, "address")]
    {
        let refused = open(&world, &bytes, node, address).unwrap_err().to_string();
        assert!(refused.contains(&format!("its {field} is")), "{refused}");
    }
    let (catalog, secrets, statement) = stored("compiler2");
    let forged = CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap();
    let refused = open(&world, &forged.sign(&compiler).unwrap(), "db1.acme.net", address);
    assert!(refused.unwrap_err().to_string().contains("its compiler is"));
}

#[test]
fn compiler_of_other_environments_is_refused() {
    let world = TestOrganisation::new();
    let (catalog, secrets, statement) = stored("compiler1");
    let (address, key) = (statement.address, world.node().public_key());
    let environment = statement.environment.clone();
    let sealed = CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap();
    for (tags, is_accepted) in [
        (vec!["testing"], false),
        (vec!["testing", environment.as_str()], true),
        (vec![environment.as_str()], true),
        (Vec::new(), true),
    ] {
        let mut all = ServiceRight::tags(&[ServiceRight::Compile]);
        all.extend(tags.iter().map(|name| ServiceRight::environment_tag(name)));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let signer = world.signer_tagged(UserRole::Service, "compiler1", 62, &all);
        let opened = open(&world, &sealed.sign(&signer).unwrap(), "db1.acme.net", address);
        assert_eq!(opened.is_ok(), is_accepted, "{tags:?}: {opened:?}");
        if let Err(refused) = opened {
            assert!(matches!(refused, CatalogRefusal::OtherEnvironment { .. }), "{refused}");
        }
    }
}

#[test]
fn altered_catalog_has_another_address() {
    let (mut catalog, secrets, statement) = stored("compiler1");
    catalog.insert("name".to_owned(), "db2.acme.net".into());
    let key = TestOrganisation::new().node().public_key();
    let sealed = CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap();
    let refused = sealed.stored_form().unwrap_err().to_string();
    assert!(refused.contains("its address is"), "{refused}");
}

proptest! {
    /// Version and id are made of the address, so they do not count in it.
    #[test]
    fn address_does_not_depend_on_version_and_id(
        title in "[ -~é]{0,20}", version in "[a-z0-9]{0,12}", id in "[a-z0-9-]{0,36}",
    ) {
        let catalog = json!({"name": "n", "resources": [{"type": "Notify", "title": title}]});
        let mut catalog = catalog.as_object().unwrap().clone();
        let address = CatalogAddress::of_catalog(&mut catalog);
        catalog.insert("version".to_owned(), version.into());
        catalog.insert("catalog_uuid".to_owned(), id.into());
        let before = catalog.clone();
        prop_assert_eq!(CatalogAddress::of_catalog(&mut catalog), address);
        prop_assert_eq!(&catalog, &before);
        prop_assert_eq!(CatalogAddress::parse(&address.to_string()), Ok(address));
        address.name_catalog(&mut catalog);
        prop_assert_eq!(catalog.get("version"), Some(&Value::from(address.version())));
    }

    #[test]
    fn other_texts_are_no_addresses(text in "[0-9a-fA-Fg]{0,70}") {
        let is_address = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        prop_assert_eq!(CatalogAddress::parse(&text).is_ok(), is_address);
    }
}
