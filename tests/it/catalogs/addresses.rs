//! A catalog is named by its content: equal inputs make equal bytes, and each difference for the node makes another name.

use muster_catalogs::catalog::{SecretKey, StoredCatalog};
use muster_catalogs::compiler::{CompileLimits, Compiler};
use muster_tests::organisation::Organisation;
use muster_tests::tier::repetitions;
use muster_wire::catalog::{CatalogAddress, CatalogStatement, CompiledCatalog};
use muster_wire::identity::Identity;
use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::file_reads::{module_set, node};
use super::fixture::{Environment, TestNode};

const KEY: [u8; 32] = [7; 32];

/// A manifest with a secret that is a parameter, and one inside a list.
fn write_secrets(environment: &Environment, password: &str) {
    let manifest = format!(
        "node default {{\n  include web\n  $password = Sensitive('{password}')\n  \
         file {{ '/etc/password': content => $password }}\n  \
         notify {{ 'nested': message => [Sensitive('{password}-nested'), 'shown'] }}\n}}\n"
    );
    environment.write("manifests/site.pp", &manifest);
}

async fn store(environment: &Environment, compiler: &Compiler, node: &TestNode) -> StoredCatalog {
    let catalog = node.compile(compiler).await.unwrap().result.unwrap();
    StoredCatalog::of(catalog, &environment.code_path(), &SecretKey::new(&KEY))
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_5_equal_inputs_make_equal_bytes_and_every_difference_another_address() {
    let (Some(first), Some(second)) = (module_set(), module_set()) else { return };
    for environment in [&first, &second] {
        write_secrets(environment, "first");
    }
    let compiler = first.compiler();
    let catalog = store(&first, &compiler, &node()).await;
    // Again in the same process, after another node.
    store(&first, &compiler, &TestNode::new("web2.acme.net", json!({"role": "db"}))).await;
    assert_eq!(store(&first, &compiler, &node()).await, catalog);
    // In another process, from another checkout, as another user.
    let other = second.compiler_of("daemon", CompileLimits::default());
    assert_eq!(store(&second, &other, &node()).await, catalog);

    assert_eq!(catalog.public().get("version").unwrap(), &catalog.address().version());
    let mut again = catalog.public().clone();
    assert_eq!(CatalogAddress::of_catalog(&mut again), catalog.address());
    let changes = [
        ("data/common.yaml", "web::port: 8081\n"),
        ("modules/web/files/plain", "other\n"),
        ("modules/web/files/tree/b", "b\n"),
        ("modules/web/templates/conf.erb", "ports <%= @port %>\n"),
        ("modules/web/lib/helper.rb", "module Helper; def self.shout(text) = text + '!'; end\n"),
    ];
    let mut addresses = vec![catalog.address()];
    for (name, text) in changes {
        second.write(name, text);
        let other = store(&second, &second.compiler(), &node()).await;
        assert!(
            !addresses.contains(&other.address()) && other.effect() != catalog.effect(),
            "{name}"
        );
        addresses.push(other.address());
    }
    // A comment moves lines: another catalog, with the same effect.
    let before = store(&first, &first.compiler(), &node()).await;
    let path = first.code_path().join("modules/web/manifests/vhost.pp");
    let manifest = std::fs::read_to_string(&path).unwrap();
    first.write("modules/web/manifests/vhost.pp", &format!("# A comment.\n{manifest}"));
    let after = store(&first, &first.compiler(), &node()).await;
    assert!(after.effect() == before.effect() && after.address() != before.address());
}

/// What a compile of the property reads and what it does not.
#[derive(Debug, Clone)]
struct RandomInputs {
    role: String,
    port: u32,
    greeting: String,
    file: String,
    unread: String,
}

fn random_inputs() -> impl Strategy<Value = RandomInputs> {
    ("[a-zäß '\"$]{0,12}", any::<u32>(), "[ -~]{0,20}", "[ -~\n]{0,40}", "[a-z]{0,8}").prop_map(
        |(role, port, greeting, file, unread)| RandomInputs { role, port, greeting, file, unread },
    )
}

impl RandomInputs {
    fn write(&self, environment: &Environment) {
        let manifest = "class web(String $greeting) {\n  notify { 'g': message => $greeting }\n  \
            notify { 'f': message => \"${facts['role']} ${facts['net']['port']}\" }\n  \
            file { '/etc/web': source => 'puppet:///modules/web/file' }\n}\n";
        environment.write("manifests/site.pp", "include web\n");
        environment.write("modules/web/manifests/init.pp", manifest);
        environment.write("modules/web/files/file", &self.file);
        let hierarchy = "version: 5\ndefaults: {datadir: data, data_hash: yaml_data}\n\
            hierarchy:\n  - {name: common, path: common.yaml}\n";
        environment.write("hiera.yaml", hierarchy);
        let data = json!({"web::greeting": self.greeting, "web::unread": self.unread});
        environment.write("data/common.yaml", &data.to_string());
    }

    fn node(&self) -> TestNode {
        let facts = json!({"role": self.role, "net": {"port": self.port}, "unread": self.unread});
        TestNode::new("web1.acme.net", facts)
    }

    /// These inputs with another value of one that the compile reads.
    fn changed(&self, which: usize) -> Self {
        let mut changed = self.clone();
        match which {
            0 => changed.role.push('x'),
            1 => changed.port ^= 1,
            2 => changed.greeting.push('x'),
            _ => changed.file.push('x'),
        }
        changed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_5_property_of_random_facts_data_and_files() {
    let (Some(first), Some(second)) = (Environment::create(), Environment::create()) else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    for _ in 0..repetitions(8) {
        let inputs = random_inputs().new_tree(&mut runner).unwrap().current();
        for environment in [&first, &second] {
            inputs.write(environment);
        }
        // Two processes, two checkouts, two users.
        let compiler = first.compiler();
        let catalog = store(&first, &compiler, &inputs.node()).await;
        let other = second.compiler_of("daemon", CompileLimits::default());
        assert_eq!(store(&second, &other, &inputs.node()).await, catalog, "{inputs:?}");
        let unread = RandomInputs { unread: format!("{}x", inputs.unread), ..inputs.clone() };
        unread.write(&first);
        let same = store(&first, &first.compiler(), &unread.node()).await;
        assert_eq!(same, catalog, "{unread:?}");
        for which in 0..4 {
            let changed = inputs.changed(which);
            changed.write(&first);
            let other = store(&first, &first.compiler(), &changed.node()).await;
            assert!(other.address() != catalog.address(), "{inputs:?} and {changed:?}");
            assert!(other.effect() != catalog.effect(), "{inputs:?} and {changed:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_in_the_public_part_and_change_the_address() {
    let Some(environment) = module_set() else { return };
    write_secrets(&environment, "hunter2");
    let compiled = node().compile(&environment.compiler()).await.unwrap().result.unwrap();
    let key = SecretKey::new(&KEY);
    let stored = StoredCatalog::of(compiled, &environment.code_path(), &key);
    let public = serde_json::to_string(stored.public()).unwrap();
    let shown = format!("{public}{stored:?}{key:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("7, 7"), "{shown}");
    assert_eq!(stored.secrets().len(), 2);
    check_sealed(&stored);

    write_secrets(&environment, "hunter3");
    let changed = store(&environment, &environment.compiler(), &node()).await;
    assert!(changed.address() != stored.address() && changed.effect() != stored.effect());
    let other_key = SecretKey::new(&[8; 32]);
    let compiled = node().compile(&environment.compiler()).await.unwrap().result.unwrap();
    let other = StoredCatalog::of(compiled, &environment.code_path(), &other_key);
    assert_ne!(other.address(), changed.address());
}

/// Only the node's key opens the secrets, and a catalog that was altered has another address.
fn check_sealed(stored: &StoredCatalog) {
    let organisation = Organisation::new(&["muster"]);
    let (node, other) = (organisation.node("web1.acme.net"), organisation.node("web2.acme.net"));
    let statement = CatalogStatement {
        compiler: Identity::parse("compiler1").unwrap(),
        node: node.identity().clone(),
        environment: "production".to_owned(),
        code: "4f2c1e".to_owned(),
        address: stored.address(),
        compiled_at: muster_tests::now(),
    };
    let seal = |catalog: &Map<String, Value>| {
        let key = node.public_key();
        CompiledCatalog::new(statement.clone(), catalog, stored.secrets(), &key).unwrap()
    };
    let compiled = seal(stored.public());
    let text = serde_json::to_string(&compiled).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let opened = compiled.open(node.key_pair()).unwrap();
    let opened = serde_json::to_string(&opened.catalog).unwrap();
    assert!(opened.contains("\"hunter2\"") && opened.contains("hunter2-nested"), "{opened}");
    assert!(compiled.open(other.key_pair()).is_err());

    let forged = serde_json::to_string(stored.public()).unwrap();
    let forged = forged.replace("/etc/web.conf", "/etc/shadow");
    let forged = seal(&serde_json::from_str(&forged).unwrap());
    assert!(forged.open(node.key_pair()).is_err());
}
