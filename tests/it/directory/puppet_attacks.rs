//! Hostile facts, names and titles in the Puppet module: with the real Puppet, they change no query, run no program, lead to
//! no other file, and give the node no other class.

#![expect(clippy::disallowed_types, reason = "runs the external node classifier")]

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::{poll_until_ok, tools};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::http::HttpFleet;
use super::puppet_module::{apply, module_path};

/// Values of a fact, as a Puppet text between `'`, that try to match all nodes.
const QUERY_FACTS: [&str; 5] = [
    r"acme\', $nor: [{a: 1}], \'a\': {$exists: false}, b: \'",
    r"/.*/",
    r#"{"$ne": ""}"#,
    r#"x\", \"$or\": [{}], \"y\": \""#,
    r"{$exists: true}",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_change_neither_queries_nor_files_nor_commands() {
    if tools::is_skipped("puppet") {
        return;
    }
    let fleet = Box::pin(HttpFleet::start()).await;
    let mut manifest =
        "$customer = 'acme'\n$known = search_nodes({ 'facts.customer' => \"${customer}\" })\n\
                        notice(\"known: ${known.length}\")\n"
            .to_owned();
    for (number, fact) in QUERY_FACTS.iter().enumerate() {
        let lines = format!(
            "$f{number} = '{fact}'\n$n{number} = search_nodes({{ 'facts.customer' => \"${{f{number}}}\" }})\n\
             $m{number} = muster::nodes({{ 'facts.customer' => \"${{f{number}}}\" }})\n\
             notice(\"found: ${{n{number}.length}} ${{m{number}.length}}\")\n"
        );
        manifest.push_str(&lines);
    }
    let output = apply(&fleet, &["-e", &manifest]).await;
    let text = describe_output(&output);
    assert!(output.status.success() && text.contains("known: 2"), "{text}");
    assert_eq!(text.matches("found: 0 0").count(), QUERY_FACTS.len(), "{text}");

    // Titles stay in their directory, and are distinct from the ones of harmless fragments.
    let up = "../".repeat(12);
    let long = format!("{up}etc/cron.d/x");
    let titles = [long.as_str(), "/etc/passwd", "..", "x\\ny", "Apache (v2): 50%"];
    let declare = |title: &str| {
        format!(
            "muster::motd::register {{ \"{title}\": content => 'x' }}\n\
             muster::prompt::register {{ \"{title}\": content => 'x' }}\n"
        )
    };
    let manifest: String = titles.into_iter().map(declare).collect();
    let output = apply(&fleet, &["--noop", "-e", &manifest]).await;
    let text = describe_output(&output);
    assert!(output.status.success(), "{text}");
    let files: Vec<&str> = text
        .split("/File[/etc/muster/")
        .skip(1)
        .filter_map(|rest| rest.split("]/ensure").next())
        .filter(|file| file.contains("/10_"))
        .collect();
    assert_eq!(files.len(), 10, "{text}");
    assert!(files.iter().all(|file| file.matches('/').count() == 1), "{files:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_reasons_of_another_run_are_words_of_one_command() {
    if tools::is_skipped("puppet") {
        return;
    }
    let fleet = Box::pin(HttpFleet::start()).await;
    let scratch = TempDir::new().unwrap();
    let path = |name: &str| scratch.path().join(name);
    // In place of rpcd: writes its words, each with a NUL byte at its end.
    let program = format!("#!/bin/sh\nprintf '%s\\0' \"$@\" >> '{}'\n", path("words").display());
    std::fs::write(path("rpcd"), program).unwrap();
    std::fs::set_permissions(path("rpcd"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mark = path("started").display().to_string();
    let hostile = format!(
        "x$(touch {mark})`touch {mark}`; touch {mark} | touch {mark} && touch {mark}\n touch {mark}\n\"'\\"
    );
    let quoted = hostile.replace('\\', "\\\\").replace('\'', "\\'");
    let manifest = format!(
        "$text = '{quoted}'\n\
         class {{ 'muster::again': path => ['{}', '/bin', '/usr/bin'], reason => $text, when => $text }}\n\
         muster::again::delta {{ 'one': reason => $text, when => $text }}\n\
         muster::again::delta {{ $text: }}\n\
         notify {{ 'more': notify => [Exec['again'], Exec['again-delta-one'], Exec[\"again-delta-${{text}}\"]] }}\n",
        scratch.path().display()
    );
    let output = apply(&fleet, &["-e", &manifest]).await;
    let text = describe_output(&output);
    assert!(output.status.success(), "{text}");
    assert!(!path("started").exists(), "{text}");
    let words = std::fs::read_to_string(path("words")).unwrap();
    let words: Vec<&str> = words.split_terminator('\0').collect();
    assert_eq!(words.iter().filter(|word| **word == hostile).count(), 5, "{words:?}");
    assert_eq!(words.iter().filter(|word| **word == "again").count(), 3, "{words:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classifier_prints_facts_as_texts() {
    if tools::is_skipped("puppet") {
        return;
    }
    let fleet = Box::pin(HttpFleet::start()).await;
    let node = &fleet.nodes[0];
    let facts = json!({
        "marker": "hostile",
        "roles": ["a\nenvironment: evil", "!ruby/object:Gem::Requirement", "--- {}", "*x"],
        "word": "x\nclasses: [evil]\nenvironment: evil",
        "tag": "!ruby/object:ERB\ntemplate: x",
        "tier": "../../etc",
        "lines": "ok\nproduction",
    });
    node.daemon.home().write("facts.d/site.json", &facts.to_string(), 0o644);
    node.reload();
    poll_until_ok("the facts are known", Duration::from_mins(1), async || {
        let (_, found) = fleet.get("/v1/nodes/db1.acme.net", &[]).await;
        if found["facts"]["marker"] == "hostile" { Ok(()) } else { Err(found) }
    })
    .await;
    let classify = async |arguments: &[&str]| {
        let mut command = Command::new(module_path().join("muster/bin/enc"));
        command.args(arguments).env("MUSTER_DIRECTORY_SOCKET", fleet.socket());
        command.output().await.unwrap()
    };
    for environment in ["tier", "lines", "word", "roles"] {
        let words = ["--classes", "roles", "--parameter", "word", "--parameter", "tag"];
        let more = ["--environment", environment, "db1.acme.net"];
        let output = classify(&[&words[..], &more].concat()).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        let yaml = String::from_utf8(output.stdout).unwrap();
        // As Puppet reads it, without classes of Ruby.
        let reader =
            "require 'yaml'; require 'json'; puts JSON.generate(YAML.safe_load($stdin.read))";
        let mut command = Command::new("ruby");
        command.args(["-e", reader]).stdin(std::process::Stdio::piped());
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, yaml.as_bytes()).await.unwrap();
        drop(stdin);
        let read = child.wait_with_output().await.unwrap();
        let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
        let expected = json!({ "classes": facts["roles"],
                               "parameters": { "word": facts["word"], "tag": facts["tag"] } });
        assert_eq!(read, expected, "{environment}: {yaml}");
    }
    // A name of a node is no option.
    for name in ["--socket=/nosuch.sock", "--classes=roles", "-x", "--help="] {
        let output = classify(&[name]).await;
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{}",
            describe_output(&output)
        );
    }
}
