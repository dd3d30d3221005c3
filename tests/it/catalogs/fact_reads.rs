//! Each way in which code reads a fact is recorded, or all facts are: a table of ways, each with real changes as proof.

#![expect(clippy::disallowed_types, reason = "runs Ruby")]
#![expect(clippy::indexing_slicing, reason = "facts are indexed; tests end by panic")]

use std::fmt::Write as _;

use muster_catalogs::compiler::Compiler;
use muster_catalogs::compiler::protocol::CompileOutcome;
use muster_catalogs::inputs::ValueRead;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::fixture::{Environment, TestNode, comparable, message};

/// A line of the table.
struct Way {
    class: String,
    /// What must be recorded.
    expected: &'static str,
    code: &'static str,
}

/// Names that Puppet looks for in every scope.
const PUPPETS_OWN: [&str; 4] = ["module_name", "caller_module_name", "title", "name"];

type FactChange = fn(&mut Map<String, Value>);

/// The changes of facts that are tried with each way.
const CHANGES: [(&str, FactChange); 9] = [
    ("v", |facts| facts["v"] = json!("two")),
    ("v removed", |facts| drop(facts.remove("v"))),
    ("sub.a", |facts| facts["sub"]["a"] = json!(9)),
    ("sub.c added", |facts| facts["sub"]["c"] = json!(3)),
    ("list", |facts| facts["list"][2]["deep"] = json!(4)),
    ("other", |facts| facts["other"] = json!("y")),
    ("uptime", |facts| facts["uptime"] = json!(6)),
    ("added", |facts| drop(facts.insert("added".to_owned(), json!("n")))),
    ("absent added", |facts| drop(facts.insert("absent".to_owned(), json!("n")))),
];

fn read_ways(environment: &Environment) -> Vec<Way> {
    let lines = include_str!("fact_reads.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut data = String::from("nested: '%{facts.sub.a}'\n");
    let ways = lines.enumerate().map(|(number, line)| {
        let [kind, expected, code] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let expression = write_way(environment, number, kind, code, &mut data);
        let class = format!(
            "class w::w{number} {{\n$r = {expression}\nnotify {{ 'r': message => \"${{r}}\" }}\n}}\n"
        );
        environment.write(&format!("modules/w/manifests/w{number}.pp"), &class);
        Way { class: format!("w::w{number}"), expected, code }
    });
    let ways = ways.collect();
    environment.write("data/c.yaml", &data);
    environment.write(
        "hiera.yaml",
        "version: 5\ndefaults: {datadir: data, data_hash: yaml_data}\nhierarchy: [{name: c, path: c.yaml}]\n",
    );
    environment.write("modules/w/templates/inner.erb", "<%= @v %>");
    environment.write(
        "modules/w/lib/puppet/functions/pick_first.rb",
        "Puppet::Functions.create_function(:pick_first) { def pick_first(*a) = a.find { |x| !x.nil? } }\n",
    );
    ways
}

/// Writes the file that a way needs; returns the expression that runs it.
fn write_way(
    environment: &Environment,
    number: usize,
    kind: &str,
    code: &str,
    data: &mut String,
) -> String {
    match kind {
        "puppet" => code.to_owned(),
        "hiera" => {
            writeln!(data, "k{number}: {}", Value::from(code)).unwrap();
            format!("lookup('k{number}')")
        }
        "erb" => {
            environment.write(&format!("modules/w/templates/t{number}.erb"), code);
            format!("template('w/t{number}.erb')")
        }
        "epp" => {
            environment.write(&format!("modules/w/templates/t{number}.epp"), code);
            let arguments = if code.contains("$f =") { ", { 'f' => $facts }" } else { "" };
            format!("epp('w/t{number}.epp'{arguments})")
        }
        "ruby4" => {
            let function = format!(
                "require 'json'\nrequire 'set'\nrequire 'yaml'\n\
                 Puppet::Functions.create_function(:'w::f{number}', Puppet::Functions::InternalFunction) do\n\
                 dispatch(:f) {{ scope_param; param 'Any', :h }}\n\
                 def f(scope, h)\nresult = begin\n{code}\nend\nresult.to_s\nend\nend\n"
            );
            environment.write(&format!("modules/w/lib/puppet/functions/w/f{number}.rb"), &function);
            format!("w::f{number}($facts)")
        }
        "ruby3" => {
            let function = format!(
                "Puppet::Parser::Functions.newfunction(:w{number}, type: :rvalue) {{ |args| ({code}).to_s }}\n"
            );
            let path = format!("modules/w/lib/puppet/parser/functions/w{number}.rb");
            environment.write(&path, &function);
            format!("w{number}()")
        }
        other => panic!("unknown kind {other}"),
    }
}

/// What was recorded of the facts: paths, `all` or `nothing`.
fn recorded_facts(outcome: &CompileOutcome) -> String {
    let values = &outcome.inputs.as_ref().unwrap().values;
    let facts = values.iter().filter(|(path, read)| {
        path.first().unwrap() == "facts"
            && *read != ValueRead::Kind
            && path.get(1).is_none_or(|name| !PUPPETS_OWN.contains(&name.as_str()))
    });
    let mut names: Vec<String> = facts
        .map(|(path, _)| if path.len() == 1 { "all".to_owned() } else { path[1..].join(".") })
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
}

/// The changes after which the catalog differs although no input does.
async fn missed_changes(
    node: &TestNode,
    first: &CompileOutcome,
    compiler: &Compiler,
    environment: &Environment,
) -> Vec<&'static str> {
    let code = environment.code();
    let inputs = node.inputs(first, &code);
    let mut missed = Vec::new();
    for (name, change) in CHANGES {
        let mut changed = node.clone();
        change(&mut changed.facts);
        let again = changed.compile(compiler).await.unwrap();
        let differs = comparable(&again) != comparable(first);
        if differs && changed.changes(&inputs, &code).is_empty() {
            missed.push(name);
        }
    }
    missed
}

#[tokio::test(flavor = "multi_thread")]
async fn some_ways_of_reading_a_fact_are_recorded() {
    check_ways(8).await;
}

/// Run by `make test-all`.
mod long {
    #[tokio::test(flavor = "multi_thread")]
    async fn every_way_of_reading_a_fact_is_recorded() {
        super::check_ways(1).await;
    }
}

/// Tries every `step`-th way of the table.
async fn check_ways(step: usize) {
    let Some(environment) = Environment::create() else { return };
    let ways = read_ways(&environment);
    assert!(ways.len() > 190, "{} ways", ways.len());
    let facts = json!({
        "v": "one", "sub": {"a": 1, "b": 2}, "list": [1, 2, {"deep": 3}], "other": "x", "uptime": 5,
    });
    let mut node = TestNode::new("web1.acme.net", facts);
    let compiler = environment.compiler();
    let mut problems = Vec::new();
    for Way { class, expected, code } in ways.into_iter().step_by(step) {
        node.classes = vec![class];
        let first = node.compile(&compiler).await.unwrap();
        if first.result.is_err() {
            problems.push(format!("{code}: {}", message(&first)));
            continue;
        }
        let recorded = recorded_facts(&first);
        if recorded != expected {
            problems.push(format!("{code}: recorded {recorded}, not {expected}"));
        }
        let missed = missed_changes(&node, &first, &compiler, &environment).await;
        if !missed.is_empty() {
            problems.push(format!("{code}: a change of {} was missed", missed.join(", ")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_counts_as_read_if_a_hook_has_no_target() {
    let Some(environment) = Environment::create() else { return };
    let compiler = environment.compiler();
    let node = TestNode::new("web1.acme.net", json!({"v": 1}));
    assert!(node.compile(&compiler).await.unwrap().result.is_ok());
    let script = "require 'puppet'; require 'securerandom'; require 'date'; require 'json'\n\
        Puppet::Parser::TemplateWrapper.remove_method(:result)\n\
        require File.join(Dir.pwd, 'hooks')\n\
        Muster::Hooks.install; Muster::INPUTS.start; Muster::Hooks.record_missing\n\
        puts JSON.generate(Muster::INPUTS.to_h.values_at('values', 'files', 'wholes'))";
    let output = Command::new("ruby")
        .args(["-e", script])
        .current_dir(environment.path().join("state"))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = "without a hook in Puppet::Parser::TemplateWrapper#result";
    let roots = ["facts", "trusted", "server_facts"];
    let expected = json!([
        roots.map(|root| json!([[root], "value"])),
        [["", "tree"]],
        roots.map(|root| json!([root, reason])),
    ]);
    assert_eq!(found, expected);
}
