//! A program that compiles in place of Puppet's own compiler, and is started for each compile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;

use super::fixture::{Environment, TestNode};

const NODE: &str = "web1.acme.net";

/// Asks one query, and makes a catalog with the answer. It does not say what it read.
const PROGRAM: &str = r#"#!/bin/sh
read -r request
test -e manifests/site.pp || exit 1
printf '%s\n' '{"query": "[\"/v1/nodes\", {}]"}'
read -r answer
case "$answer" in *db2.acme.net*) title="$1 db2" ;; *) title="$answer" ;; esac
printf '{"catalog": {"name": "web1.acme.net", "environment": "%s", "resources": [{"type": "Notify", "title": "%s"}]}}\n' \
  "$MUSTER_ENVIRONMENT" "$title"
"#;

fn write_program(environment: &Environment, text: &str) -> PathBuf {
    let path = environment.path().join("compile");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn program_of_the_administrator_compiles_and_all_facts_and_the_code_are_inputs() {
    let Some(environment) = Environment::create() else { return };
    let program = write_program(&environment, PROGRAM);
    let compiler = environment.compiler_with_program(&[program.to_str().unwrap(), "first"]);
    let node = TestNode::new(NODE, json!({"role": "web", "uptime": 7}));
    for _ in 0..2 {
        let outcome = node.compile(&compiler).await.unwrap();
        let catalog = outcome.result.unwrap();
        let title = catalog.get("resources").unwrap().pointer("/0/title").unwrap();
        assert_eq!(title, "first db2");
        assert_eq!(catalog.get("environment").unwrap(), "production");
        assert!(outcome.inputs.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_fails_is_reported_with_what_it_wrote() {
    let Some(environment) = Environment::create() else { return };
    let path = write_program(&environment, "#!/bin/sh\necho no connection to the server >&2\n");
    let compiler = environment.compiler_with_program(&[path.to_str().unwrap()]);
    let failed = TestNode::new(NODE, json!({})).compile(&compiler).await.unwrap_err();
    assert!(failed.to_string().contains("no connection to the server"), "{failed}");
    let path = write_program(
        &environment,
        "#!/bin/sh\necho '{\"error\": {\"message\": \"a mistake\"}}'\n",
    );
    let compiler = environment.compiler_with_program(&[path.to_str().unwrap()]);
    let outcome = TestNode::new(NODE, json!({})).compile(&compiler).await.unwrap();
    assert_eq!(outcome.result.unwrap_err().message, "a mistake");
}

/// Run by `make test-all`.
mod long {
    use std::fs;
    use std::path::Path;

    use muster_tests::puppetserver::{PuppetServer, SERVER_NAME, is_installed};
    use muster_tests::tools;
    use serde_json::json;

    use super::{Environment, NODE, TestNode, write_program};

    /// The program that the packages have.
    fn wrapper() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::read_to_string(root.join("packaging/puppet/compile-with-puppetserver")).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn puppetserver_compiles_in_place_of_the_own_compiler() {
        if !is_installed() && tools::is_skipped("puppetserver") {
            return;
        }
        let Some(environment) = Environment::create() else { return };
        let Some(server) = PuppetServer::start().await else { return };
        server.write_manifest("notify { $facts['role']: message => $trusted['certname'] }\n");
        let keys = environment.path().join("keys");
        fs::create_dir(&keys).unwrap();
        for (name, source) in [
            ("ca.pem", "ssl/certs/ca.pem".to_owned()),
            ("cert.pem", format!("ssl/certs/{SERVER_NAME}.pem")),
            ("key.pem", format!("ssl/private_keys/{SERVER_NAME}.pem")),
        ] {
            fs::write(keys.join(name), fs::read(server.path(&source)).unwrap()).unwrap();
        }
        let path = write_program(&environment, &wrapper());
        let words = [path.to_str().unwrap(), &server.url(), keys.to_str().unwrap()];
        let compiler = environment.compiler_with_program(&words);
        let node = TestNode::new(NODE, json!({"role": "web"}));
        let catalog = node.compile(&compiler).await.unwrap().result.unwrap();
        let resources = catalog.get("resources").unwrap().as_array().unwrap();
        let notify = resources.iter().find(|resource| resource["type"] == "Notify").unwrap();
        assert_eq!(
            (&notify["title"], &notify["parameters"]["message"]),
            (&"web".into(), &NODE.into())
        );
        server.write_manifest("include no_such_class\n");
        let failure = node.compile(&compiler).await.unwrap().result.unwrap_err();
        assert!(failure.message.contains("no_such_class"), "{failure:?}");
    }
}
