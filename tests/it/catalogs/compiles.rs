//! Which nodes are compiled, and what is stored.

use std::fs;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use muster_bus::content::ContentStore;
use muster_catalogs::compiler::CompileLimits;
use muster_catalogs::options::{CodeSource, Environment};
use muster_filter::NodeFilter;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_tests::tier::repetitions;
use muster_tests::tools::find_tool;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::{catalog_key, open_compiled_catalog};
use muster_wire::identity::Identity;
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};
use muster_wire::token::TokenCache;
use serde_json::{Value, json};

use super::fixture::ENVIRONMENT;
use super::fleet::{CatalogFleet, CompileCounter, CompilerInstance};

const TIMEOUT: Duration = Duration::from_mins(3);
/// Requests at once.
const REQUESTS: usize = 1000;
/// Connections of nodes that send them.
const CONNECTIONS: usize = 20;

fn node_name(number: usize) -> String {
    format!("n{number}.acme.net")
}

fn facts(role: usize, round: usize) -> Value {
    json!({"role": format!("r{role}"), "uptime": round, "uptime_seconds": round * 60, "load": round})
}

/// The titles of the resources `Notify` in the newest catalog of a node, which the node opens itself.
async fn notified(fleet: &CatalogFleet, instance: &CompilerInstance, node: &str) -> Vec<String> {
    let name = Identity::parse(node).unwrap();
    let last = instance.handle.last_compile(&name).unwrap();
    let address = last.record.catalog.unwrap().address;
    let bus = connect(&fleet.server, fleet.signer(node)).await;
    let bucket = bus.bucket(CATALOGS_BUCKET.name);
    let entry = bucket.get(&catalog_key(&name, address)).await.unwrap().unwrap();
    let (trust, cache) = (fleet.organisation.trust(), TokenCache::default());
    let bytes = entry.value.unwrap();
    let now = muster_tests::now();
    let compiled = open_compiled_catalog(&bytes, &name, address, &trust, &cache, now).unwrap();
    let opened = compiled.open(fleet.signer(node).key_pair()).unwrap();
    let resources = opened.catalog.get("resources").unwrap().as_array().unwrap().clone();
    let notifies = resources.iter().filter(|resource| resource["type"] == "Notify");
    notifies.map(|resource| resource["title"].as_str().unwrap().to_owned()).collect()
}

/// The state of the last compile: `compiled`, or the message of its failure.
fn last_state(instance: &CompilerInstance, node: &str) -> Option<String> {
    let last = instance.handle.last_compile(&Identity::parse(node).unwrap())?;
    let failure = last.record.failure.as_ref();
    Some(failure.map_or_else(|| "compiled".to_owned(), |failure| failure.message.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_1_only_nodes_whose_read_facts_changed_are_compiled() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    fleet.environment.write("manifests/site.pp", "notify { \"role ${facts['role']}\": }\n");
    let instance = fleet.start_instance("compiler1").await;
    let mut counter = CompileCounter::start(&instance.bus).await;
    let (nodes, rounds) = (repetitions(200), repetitions(20));
    let names: Vec<String> = (0..nodes).map(node_name).collect();
    let mut roles = vec![0; nodes];
    let mut expected: Vec<String> = names.clone();
    expected.sort();
    for round in 0..=rounds {
        let mut settled = Vec::new();
        for (number, name) in names.iter().enumerate() {
            settled.push((name.clone(), fleet.publish(name, &facts(roles[number], round)).await));
        }
        fleet.await_settled(&instance, &settled).await;
        let compiled = counter.take(&instance, names.iter().map(String::as_str)).await;
        assert_eq!(compiled, expected, "round {round}");
        expected.clear();
        // Half of the rounds change only facts that no code reads.
        if round % 2 == 0 {
            for number in (round % 7..nodes).step_by(7) {
                roles[number] += 1;
                expected.push(names[number].clone());
            }
            expected.sort();
        }
    }
    let name = &names[0];
    assert_eq!(notified(&fleet, &instance, name).await, [format!("role r{}", roles[0])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_4_thousand_simultaneous_requests_cause_no_compile() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    fleet.environment.write("manifests/site.pp", "notify { $facts['role']: }\n");
    let instance = fleet.start_instance("compiler1").await;
    let mut counter = CompileCounter::start(&instance.bus).await;
    let names: Vec<String> = (0..CONNECTIONS).map(node_name).collect();
    let mut settled = Vec::new();
    for name in &names {
        settled.push((name.clone(), fleet.publish(name, &facts(0, 0)).await));
    }
    fleet.await_settled(&instance, &settled).await;
    counter.take(&instance, names.iter().map(String::as_str)).await;

    let mut connections = Vec::new();
    for name in &names {
        let name = Identity::parse(name).unwrap();
        let address = instance.handle.last_compile(&name).unwrap().record.catalog.unwrap().address;
        let bus = connect(&fleet.server, fleet.signer(name.as_str())).await;
        connections.push((bus.bucket(CATALOGS_BUCKET.name), catalog_key(&name, address)));
    }
    let request = async |number: usize| {
        let (bucket, key) = &connections[number % CONNECTIONS];
        let started = Instant::now();
        assert!(bucket.get(key).await.unwrap().is_some());
        started.elapsed()
    };
    let mut times = join_all((0..REQUESTS).map(request)).await;
    times.sort_unstable();
    println!("p50 {:?}, p99 {:?}", times[REQUESTS / 2], times[REQUESTS * 99 / 100]);
    // What is compiled next is the first compile.
    let revision = fleet.publish("last.acme.net", &facts(1, 1)).await;
    fleet.await_settled(&instance, &[("last.acme.net".to_owned(), revision)]).await;
    assert_eq!(counter.take(&instance, ["last.acme.net"]).await, ["last.acme.net"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_6_files_are_stored_before_the_catalog_that_names_them() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let manifest = "file { '/etc/one': source => 'puppet:///modules/web/one' }\n\
        file { '/srv/tree': ensure => directory, recurse => true, source => 'puppet:///modules/web/tree' }\n";
    fleet.environment.write("manifests/site.pp", manifest);
    let contents = ["one\n".to_owned(), "a\n".to_owned(), "b".repeat(1_500_000)];
    for (name, content) in ["one", "tree/a", "tree/deep/b"].iter().zip(&contents) {
        fleet.environment.write(&format!("modules/web/files/{name}"), content);
    }
    let instance = fleet.start_instance("compiler1").await;
    let mut catalogs = instance.bus.bucket(CATALOGS_BUCKET.name).watch("catalog.>").await.unwrap();
    let revision = fleet.publish("web1.acme.net", &json!({})).await;
    let stored = catalogs.next().await.unwrap().unwrap();
    assert!(stored.key.starts_with("catalog.web1.acme.net."));
    let node = connect(&fleet.server, fleet.signer("web1.acme.net")).await;
    let store = ContentStore::new(node.bucket(CONTENT_BUCKET.name));
    for content in &contents {
        assert!(store.has(ContentAddress::of(content.as_bytes())).await.unwrap());
    }
    fleet.await_settled(&instance, &[("web1.acme.net".to_owned(), revision)]).await;
    assert_eq!(last_state(&instance, "web1.acme.net").as_deref(), Some("compiled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_to_a_query_is_an_input() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let manifest = "if $facts['role'] == 'lb' {\n  $nodes = search_nodes({ 'facts.role' => 'web' })\n  \
        notify { $nodes.join(' '): }\n}\n";
    fleet.environment.write("manifests/site.pp", manifest);
    let instance = fleet.start_instance("compiler1").await;
    let mut counter = CompileCounter::start(&instance.bus).await;
    let mut settled = Vec::new();
    for (name, role) in [("lb1.acme.net", "lb"), ("web1.acme.net", "web"), ("db1.acme.net", "db")] {
        settled.push((name.to_owned(), fleet.publish(name, &json!({"role": role})).await));
    }
    fleet.await_settled(&instance, &settled).await;
    let await_notified = async |expected: &[&str]| {
        poll_until_ok("the answer is in the catalog", TIMEOUT, async || {
            let found = notified(&fleet, &instance, "lb1.acme.net").await;
            if found == expected { Ok(()) } else { Err(found) }
        })
        .await;
    };
    await_notified(&["web1.acme.net"]).await;
    counter.take(&instance, ["lb1.acme.net", "web1.acme.net", "db1.acme.net"]).await;
    // A node that is in no answer, and one that enters an answer.
    fleet.publish("db1.acme.net", &json!({"role": "db", "size": 5})).await;
    let revision = fleet.publish("web2.acme.net", &json!({"role": "web"})).await;
    fleet.await_settled(&instance, &[("web2.acme.net".to_owned(), revision)]).await;
    poll_until_ok("the answer is in the catalog", TIMEOUT, async || {
        let found = notified(&fleet, &instance, "lb1.acme.net").await;
        if found == ["web1.acme.net web2.acme.net"] { Ok(()) } else { Err(found) }
    })
    .await;
    let compiled = counter.take(&instance, ["lb1.acme.net", "web2.acme.net"]).await;
    assert_eq!(compiled, ["lb1.acme.net", "web2.acme.net"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_that_an_agent_of_puppet_adds_are_there() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let manifest =
        "notify { \"${clientcert} ${clientversion} ${facts['puppetversion']} ${clientnoop}\": }\n";
    fleet.environment.write("manifests/site.pp", manifest);
    let instance = fleet.start_instance("compiler1").await;
    let versions =
        [("web1.acme.net", json!({})), ("web2.acme.net", json!({"puppetversion": "8.4.0"}))];
    let mut settled = Vec::new();
    for (node, facts) in &versions {
        settled.push(((*node).to_owned(), fleet.publish(node, facts).await));
    }
    fleet.await_settled(&instance, &settled).await;
    let expected = ["web1.acme.net 7.23.0 7.23.0 false", "web2.acme.net 8.4.0 8.4.0 false"];
    for ((node, _), expected) in versions.iter().zip(expected) {
        assert_eq!(notified(&fleet, &instance, node).await, [expected]);
    }
}

/// Nodes of one environment wait for each other's compiles; those of another one do not.
#[tokio::test(flavor = "multi_thread")]
async fn a12_8_poisoned_environment_delays_no_other() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    fleet.environment.write("manifests/site.pp", "notify { \"good ${facts['size']}\": }\n");
    let poison = fleet.environment.path().join("lib/code/poison");
    fs::create_dir_all(poison.join("manifests")).unwrap();
    let loops =
        "$a = Integer[1, 100000].map |$x| { Integer[1, 100000].reduce |$m, $y| { $m + $y } }\n";
    let grows = "$b = Integer[1, 31].reduce('x') |$m, $y| { \"${m}${m}\" }\n";
    let manifest = format!(
        "case $facts['role'] {{\n  'loop': {{ {loops} }}\n  'large': {{ {grows} }}\n  default: {{ fail('broken') }}\n}}\n"
    );
    fs::write(poison.join("manifests/site.pp"), manifest).unwrap();
    let rule = |name: &str, path, nodes: Option<&str>| Environment {
        name: name.to_owned(),
        source: CodeSource::Directory(path),
        nodes: nodes.map(|text| NodeFilter::default().with_select(text).unwrap()),
    };
    let environments = vec![
        rule("poison", poison.clone(), Some("not role=good")),
        rule(ENVIRONMENT, fleet.environment.code_path(), None),
    ];
    let limits = CompileLimits { cpu_seconds: 4, ..CompileLimits::default() };
    let lease = Duration::from_secs(30);
    let ruby = find_tool("ruby");
    let started = (environments, limits);
    let instance = fleet.start_instance_of("compiler1", ruby, lease, started).await;
    let mut poisoned = Vec::new();
    for (number, role) in ["loop", "large", "odd"].into_iter().enumerate() {
        let name = format!("p{number}.acme.net");
        poisoned.push((name.clone(), fleet.publish(&name, &json!({"role": role})).await));
    }
    // The poisoned environment is in an endless loop; a node of the other one is compiled meanwhile.
    poll_until_ok("a loop is compiled", TIMEOUT, async || {
        let name = Identity::parse("p0.acme.net").unwrap();
        let claimed = instance.handle.queue().get(&name).and_then(|want| want.claim);
        claimed.map(drop).ok_or("not yet")
    })
    .await;
    for size in 0..2 {
        let good = json!({"role": "good", "size": size});
        let revision = fleet.publish("good.acme.net", &good).await;
        fleet.await_settled(&instance, &[("good.acme.net".to_owned(), revision)]).await;
        let found = notified(&fleet, &instance, "good.acme.net").await;
        assert_eq!(found, [format!("good {size}")]);
    }
    fleet.await_settled(&instance, &poisoned).await;
    let ends = [("p0", "4 s of CPU time"), ("p1", "memory"), ("p2", "broken")];
    for (name, part) in ends {
        let state = last_state(&instance, &format!("{name}.acme.net")).unwrap();
        assert!(state.contains(part), "{name}: {state}");
    }
    // A changed function of Ruby is another process.
    fs::write(poison.join("manifests/site.pp"), "notify { poison::f(): }\n").unwrap();
    let function = poison.join("modules/poison/lib/puppet/functions/poison");
    fs::create_dir_all(&function).unwrap();
    for text in ["one", "two"] {
        let code =
            format!("Puppet::Functions.create_function(:'poison::f') {{ def f() = '{text}' }}\n");
        fs::write(function.join("f.rb"), code).unwrap();
        poll_until_ok("the new function is used", TIMEOUT, async || {
            match last_state(&instance, "p2.acme.net").as_deref() {
                Some("compiled") => {}
                other => return Err(vec![format!("{other:?}")]),
            }
            let found = notified(&fleet, &instance, "p2.acme.net").await;
            if found == [text] { Ok(()) } else { Err(found) }
        })
        .await;
    }
}

/// A host that cannot check out the code takes no node from one that can.
#[tokio::test(flavor = "multi_thread")]
async fn host_without_the_code_leaves_all_nodes_to_others() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let missing = Environment {
        name: ENVIRONMENT.to_owned(),
        source: CodeSource::Repository {
            url: fleet.environment.path().join("missing.git").display().to_string(),
            branch: "main".to_owned(),
            poll: Duration::from_secs(1),
            prepare: Vec::new(),
        },
        nodes: None,
    };
    let (ruby, lease) = (find_tool("ruby"), Duration::from_secs(30));
    let started = (vec![missing], CompileLimits::default());
    let broken = fleet.start_instance_of("compiler1", ruby, lease, started).await;
    poll_until_ok("the code is missed", TIMEOUT, async || {
        broken.handle.code(ENVIRONMENT).problem.map(drop).ok_or("not yet")
    })
    .await;
    let instance = fleet.start_instance("compiler2").await;
    let mut published = Vec::new();
    for number in 0..8 {
        let node = node_name(number);
        published.push((node.clone(), fleet.publish(&node, &facts(0, 0)).await));
    }
    fleet.await_settled(&instance, &published).await;
}

/// The directory changes after a compile asked it and before the compile ends.
#[tokio::test(flavor = "multi_thread")]
async fn answer_that_changes_during_the_compile_is_noticed() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let manifest = r#"if $facts['role'] == 'lb' {
  notify { search_nodes({ 'facts.role' => 'web' }).join(' '): }
  generate('/bin/sh', '-c', 'touch "$TMPDIR/asked"; until test -e "$TMPDIR/end"; do sleep 0.05; done')
}
"#;
    fleet.environment.write("manifests/site.pp", manifest);
    let instance = fleet.start_instance("compiler1").await;
    let revision = fleet.publish("web1.acme.net", &json!({"role": "web"})).await;
    fleet.await_settled(&instance, &[("web1.acme.net".to_owned(), revision)]).await;
    let revision = fleet.publish("lb1.acme.net", &json!({"role": "lb"})).await;
    let state = fleet.environment.path().join("state/compiler1");
    let asked = poll_until_ok("the compile has asked", TIMEOUT, async || {
        let compilers = fs::read_dir(&state).map_err(|error| error.to_string())?;
        let mut files = compilers.map(|compiler| compiler.unwrap().path().join("work/asked"));
        files.find(|file| file.exists()).ok_or_else(|| "no file".to_owned())
    })
    .await;
    let changed = fleet.publish("web2.acme.net", &json!({"role": "web"})).await;
    let web2 = Identity::parse("web2.acme.net").unwrap();
    poll_until_ok("the change is known", TIMEOUT, async || {
        let known = instance.handle.directory().snapshot(&web2);
        known.filter(|known| known.revision == changed).map(drop).ok_or(())
    })
    .await;
    fs::write(asked.with_file_name("end"), "").unwrap();
    fleet.await_settled(&instance, &[("lb1.acme.net".to_owned(), revision)]).await;
    let found = notified(&fleet, &instance, "lb1.acme.net").await;
    assert_eq!(found, ["web1.acme.net web2.acme.net"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_compile_is_a_state_and_keeps_the_last_catalog() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    fleet.environment.write("manifests/site.pp", "include web\n");
    fleet.environment.write("modules/web/manifests/init.pp", "class web { notify { 'a': } }\n");
    let instance = fleet.start_instance("compiler1").await;
    let revision = fleet.publish("web1.acme.net", &json!({})).await;
    let settled = [("web1.acme.net".to_owned(), revision)];
    fleet.await_settled(&instance, &settled).await;
    let await_last = async |part: &str| {
        poll_until_ok(part, TIMEOUT, async || match last_state(&instance, "web1.acme.net") {
            Some(state) if state.contains(part) => Ok(()),
            other => Err(other),
        })
        .await;
    };
    await_last("compiled").await;
    let name = Identity::parse("web1.acme.net").unwrap();
    let before = instance.handle.last_compile(&name).unwrap();

    fleet.environment.write("modules/web/manifests/init.pp", "class web { notify { 'a': } } }\n");
    await_last("Syntax error").await;
    let failed = instance.handle.last_compile(&name).unwrap();
    assert_eq!(failed.record.catalog, before.record.catalog);
    let failure = failed.record.failure.clone().unwrap();
    assert_eq!(failure.file.as_deref(), Some("modules/web/manifests/init.pp"));
    assert!(failure.line.is_some());

    // A comment moves lines: compiled again, and the same catalog.
    let comment = "# A comment.\nclass web { notify { 'a': } }\n";
    fleet.environment.write("modules/web/manifests/init.pp", comment);
    await_last("compiled").await;
    let after = instance.handle.last_compile(&name).unwrap();
    assert_eq!(after.record.catalog, before.record.catalog);
}
