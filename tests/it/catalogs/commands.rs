//! `rpc compile` and `rpc catalog` as a person uses them, with a service in `rpcd` and code in a git repository.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]
#![expect(clippy::disallowed_types, reason = "git makes the commits")]

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::Value;
use tokio::process::Command;

use super::fixture::Environment;

const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n";

async fn git(environment: &Environment, arguments: &[&str]) -> String {
    let user = ["-c", "user.name=rip", "-c", "user.email=rip@acme.net"];
    let output = Command::new("git")
        .args(user)
        .args(arguments)
        .current_dir(environment.code_path())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Commits all files; returns the commit.
async fn commit(environment: &Environment, message: &str) -> String {
    git(environment, &["add", "."]).await;
    git(environment, &["commit", "-qm", message]).await;
    git(environment, &["rev-parse", "HEAD"]).await
}

fn start_daemon(environment: &Environment, organisation: &Organisation, url: &str) -> Rpcd {
    let home = DaemonHome::new(organisation, &organisation.node(NODE), url, REGISTRATION);
    let service = organisation.service(ServiceRight::Compile, "compiler1");
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write("service.creds", &creds.to_text(), 0o600);
    home.write("facts.d/site.json", "{\"role\":\"web\"}", 0o644);
    home.write("policies/default.policy", "policy default allow\n", 0o644);
    let options = format!(
        "[plugins.compiler]\nenabled = true\ncredentials = \"../service.creds\"\ndirectory = \"{}\"\n\
         [plugins.compiler.environments.production]\nrepository = \"{}\"\n",
        environment.path().join("state").display(),
        environment.code_path().display(),
    );
    home.write("conf.d/compiler.toml", &options, 0o644);
    home.start()
}

async fn text_of(rpc: &RpcCommand, words: &[&str]) -> String {
    let output = rpc.run(words).await;
    assert!(output.status.success(), "{}", describe_output(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until this commit is compiled for the node, or has failed.
async fn await_compiled(rpc: &RpcCommand, state: &str, cause: &str) -> Value {
    poll_until_ok(&format!("the node is {state}: {cause}"), TIMEOUT, async || {
        let output = rpc.run(&["catalog", "why", NODE, "-j"]).await;
        let shown: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
        let is_done = shown["node"]["state"] == state
            && shown["cause"].as_str().is_some_and(|found| found.contains(cause));
        if is_done { Ok(shown) } else { Err(format!("{shown:#}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_11_people_compile_commits_and_see_why() {
    let Some(environment) = Environment::create() else { return };
    environment.write("manifests/site.pp", "include motd\n");
    let class = "class motd { file { '/etc/motd': content => \"a ${facts['role']}\\n\" } }\n";
    environment.write("modules/motd/manifests/init.pp", class);
    git(&environment, &["init", "-q", "-b", "production"]).await;
    let first = commit(&environment, "First").await;
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
    let absent = rpc.run(&["catalog", "list"]).await;
    assert!(describe_output(&absent).contains("no compiler is running"));

    let _daemon = start_daemon(&environment, &organisation, &server.url());
    let shown = await_compiled(&rpc, "compiled", "never compiled").await;
    assert_eq!(shown["node"]["code"], first.as_str());
    let facts = shown["inputs"].as_array().unwrap().iter().filter(|row| row["kind"] == "fact");
    let facts: Vec<&Value> = facts.map(|row| &row["name"]).collect();
    assert!(facts.contains(&&Value::from("role")) && !facts.contains(&&Value::from("uptime")));
    let list = rpc.read_document("muster.catalogs.v1", &["catalog", "list"]).await;
    assert_eq!(list["nodes"][0]["node"], NODE);
    let catalog = rpc.read_document("muster.catalog.v1", &["catalog", "show", NODE]).await;
    assert_eq!(catalog["address"], list["nodes"][0]["catalog"]);
    assert!(catalog["catalog"].to_string().contains("a web"), "{catalog:#}");
    assert!(text_of(&rpc, &["catalog", "show", NODE]).await.contains("File[/etc/motd]"));

    // Another commit, announced as a hook does.
    environment.write("modules/motd/manifests/init.pp", &class.replace("a $", "the $"));
    let second = commit(&environment, "Second").await;
    let announce = ["compile", "--environment", "production"];
    let announced = rpc.read_document("muster.compile.announced.v1", &announce).await;
    assert_eq!(
        (&announced["code"], &announced["changed"]),
        (&second.as_str().into(), &true.into())
    );
    await_compiled(&rpc, "compiled", "changed: modules/motd/manifests/init.pp").await;
    let again = rpc.run(&["compile", "--environment", "production"]).await;
    assert!(describe_output(&again).contains("is compiled already"), "{}", describe_output(&again));

    // A certain commit, until another one is named.
    let words = ["compile", "--environment", "production", "--code", &first];
    assert!(text_of(&rpc, &words).await.contains(&first));
    let listed = ["catalog", "environments"];
    let listed = rpc.read_document("muster.catalog.environments.v1", &listed).await;
    let row = &listed["environments"][0];
    assert_eq!((&row["code"], &row["pinned"]), (&first.as_str().into(), &true.into()));
    assert!(text_of(&rpc, &["catalog", "environments"]).await.contains("(chosen)"));

    // A mistake is a state of its own, with its place.
    environment.write("manifests/site.pp", "include motd\ninclude nothing\n");
    commit(&environment, "Mistake").await;
    text_of(&rpc, &["compile", "--environment", "production"]).await;
    await_compiled(&rpc, "failed", "changed: ").await;
    let failed = text_of(&rpc, &["catalog", "list", "--failed"]).await;
    assert!(failed.contains("manifests/site.pp:2"), "{failed}");

    let unnamed = rpc.run(&["compile"]).await;
    assert!(
        describe_output(&unnamed).contains("without a filter"),
        "{}",
        describe_output(&unnamed)
    );
    let filtered = rpc.run(&["compile", "-I", NODE, "--environment", "production"]).await;
    assert!(describe_output(&filtered).contains("takes no filter"));
    let asked = ["compile", "-I", NODE];
    let asked = rpc.read_document("muster.compile.v1", &asked).await;
    assert_eq!(asked["nodes"], 1);
    await_compiled(&rpc, "failed", "anna asked for it").await;
    let why = ["catalog", "why", NODE];
    rpc.read_document("muster.catalog.why.v1", &why).await;
    assert!(text_of(&rpc, &["catalog", "why", NODE]).await.contains("Cause:"));
    let unknown = rpc.run(&["compile", "--environment", "nothing"]).await;
    assert!(describe_output(&unknown).contains("there is no environment nothing"));
}
