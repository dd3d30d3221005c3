//! Resources of every type on a real machine, each compared with the machine's own Puppet: noop announces what Puppet would change and
//! changes nothing, a change is made once and leaves nothing for Puppet to change, and undo restores what was there.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]
#![expect(clippy::disallowed_types, reason = "runs dpkg-deb")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use muster_tests::command::describe_output;
use serde_json::Value;
use tempfile::TempDir;

use super::resource_cases::{CASES, ResourceCase};
use crate::machines::fleet::MachineFleet;
use crate::machines::nodes::{MachineNodes, NodeOptions};

/// By default, the agent refuses the type `exec`.
const CONFIGURATION: &str = "[plugins.puppetral]\ndeny_types = []\n";

/// Services where packages have them, two that run and one that cannot start; and a local repository with two versions of each package.
const PREPARE: &str = "printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \
    | tee /usr/lib/systemd/system/stub.service /usr/lib/systemd/system/second.service >/usr/lib/systemd/system/unwanted.service; \
    printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n' >/usr/lib/systemd/system/failing.service; systemctl daemon-reload; \
    systemctl --quiet enable --now second; touch /etc/aliases; mkdir -p /srv/tree/deep /srv/spool /root/.ssh; \
    touch /srv/tree/a /srv/tree/deep/b /srv/spool/old.log /srv/spool/kept.txt; \
    echo 'deb [trusted=yes] file:/srv/demo ./' >/etc/apt/sources.list; apt-get -q update; \
    apt-get -q -y install demo-upgraded=1.0 demo-latest=1.0 demo-held=1.0 demo-released=1.0 demo-removed=1.0; apt-mark hold demo-released";

const PACKAGES: [&str; 6] =
    ["demo-tool", "demo-upgraded", "demo-latest", "demo-held", "demo-released", "demo-removed"];

/// A repository with all packages in the versions 1.0 and 2.0.
fn write_repository(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    for (name, version) in PACKAGES.iter().flat_map(|name| [(name, "1.0"), (name, "2.0")]) {
        let tree = TempDir::new().unwrap();
        std::fs::create_dir_all(tree.path().join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: test\n"
        );
        std::fs::write(tree.path().join("DEBIAN/control"), control).unwrap();
        let documents = tree.path().join("usr/share").join(name);
        std::fs::create_dir_all(&documents).unwrap();
        std::fs::write(documents.join("version"), version).unwrap();
        let built = Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(tree.path())
            .arg(directory)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
    }
    crate::machines::apt_repository::write_index(directory);
}

/// Prints what `puppet resource TYPE NAME` prints, for many resources in one process. Each argument is `TYPE/NAME`.
const STATES_SCRIPT: &str = r##"
require 'puppet'
Puppet.initialize_settings
paths = Puppet[:basemodulepath].split(':').select { |path| File.directory?(path) }
paths.each { |path| $LOAD_PATH.concat(Dir["#{path}/*/lib"]) }
environment = Puppet::Node::Environment.create(:production, paths)
Puppet.override(current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment)) do
  ARGV.each do |key|
    resource = Puppet::Resource.indirection.find(key)
    resource.prune_parameters
    puts resource.to_manifest, '---'
  end
end
"##;

async fn call_words(nodes: &MachineNodes, words: &[String]) -> Value {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let reply = nodes.call("m1", &words).await;
    assert_eq!(reply["statuscode"], 0, "{words:?}: {reply:#}");
    reply
}

/// The state of every resource, by its reference: what `puppet resource` prints without the times of files, or its probe's output.
async fn read_states(machines: &MachineFleet, cases: &[ResourceCase]) -> BTreeMap<String, String> {
    let (shown, probed): (Vec<&ResourceCase>, Vec<&ResourceCase>) =
        cases.iter().partition(|case| case.probe.is_empty());
    let keys: Vec<String> =
        shown.iter().map(|case| format!("'{}/{}'", case.kind, case.name)).collect();
    let script =
        format!("ruby - {} <<'END' 2>/var/puppet-errors\n{STATES_SCRIPT}END", keys.join(" "));
    let text = machines.sh("m1", &script).await;
    let texts: Vec<String> = text
        .split("---\n")
        .map(|text| text.trim_end_matches("---"))
        .map(|text| {
            let is_kept = |line: &&str| !line.contains("ctime") && !line.contains("mtime");
            text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
        })
        .collect();
    assert_eq!(texts.len(), shown.len(), "{text}");
    let mut states: BTreeMap<_, _> = shown.iter().map(|case| case.reference()).zip(texts).collect();
    for case in probed {
        let output = machines.run("m1", case.probe).await;
        states.insert(case.reference(), describe_output(&output));
    }
    states
}

/// The properties that Puppet would change, as `Type[name]/property`.
async fn read_puppet_changes(machines: &MachineFleet, cases: &[ResourceCase]) -> BTreeSet<String> {
    let manifest: String = cases.iter().map(ResourceCase::manifest).collect();
    let script = format!("puppet apply --noop --color=false <<'END' 2>&1\n{manifest}END");
    let text = machines.sh("m1", &script).await;
    assert!(text.contains("Applied catalog") && !text.contains("Error:"), "{text}");
    let pending = text.lines().filter(|line| line.ends_with("(noop)"));
    pending
        .filter_map(|line| line.split_once("Main/")?.1.split_once(": current_value"))
        // Puppet adds the type of the key to the title.
        .map(|(property, _)| property.replace("@ssh-ed25519]/ensure", "]/ensure"))
        .collect()
}

/// The properties that our noop announces.
fn announced_changes(reply: &Value) -> BTreeSet<String> {
    let events = reply["data"]["events"].as_array().unwrap();
    let property = |event: &Value| {
        format!(
            "{}/{}",
            event["resource"].as_str().unwrap(),
            event["property"].as_str().unwrap_or_default()
        )
    };
    events.iter().map(property).collect()
}

fn assert_shown(case: &ResourceCase, text: &str) {
    for (property, value) in case.shown {
        let found = text.lines().find_map(|line| {
            let (key, value) = line.trim().trim_end_matches(',').split_once("=>")?;
            (key.trim() == *property).then(|| value.trim())
        });
        assert_eq!(found, Some(*value), "{} {}: {property} in\n{text}", case.kind, case.name);
    }
}

/// Noop announces what Puppet's noop does, and changes nothing.
async fn check_noop(
    nodes: &MachineNodes,
    cases: &[ResourceCase],
    before: &BTreeMap<String, String>,
) {
    let mut announced = BTreeSet::new();
    for case in cases {
        let words = [case.words(), vec!["noop=true".to_owned()]].concat();
        announced.extend(announced_changes(&call_words(nodes, &words).await));
    }
    assert_eq!(&read_states(&nodes.machines, cases).await, before, "noop");
    let by_puppet = read_puppet_changes(&nodes.machines, cases).await;
    // Puppet sets `enable` together with `ensure` without a mention; here it is a change of its own.
    let hidden: Vec<String> = by_puppet
        .iter()
        .filter_map(|change| Some(format!("{}/enable", change.strip_suffix("/ensure")?)))
        .collect();
    announced.retain(|change| !hidden.contains(change));
    assert_eq!(announced, by_puppet);
}

/// Makes each change once; returns the jobs.
async fn make_changes(nodes: &MachineNodes, cases: &[ResourceCase]) -> Vec<String> {
    let mut jobs = Vec::new();
    for case in cases {
        let changed = call_words(nodes, &case.words()).await;
        assert_eq!(changed["data"]["changed"], true, "{}: {changed:#}", case.reference());
        let list = nodes.operator.run_json(&["job", "list"]).await.0;
        jobs.push(list["jobs"][0]["id"].as_str().unwrap().to_owned());
    }
    let after = read_states(&nodes.machines, cases).await;
    for case in cases {
        assert_shown(case, &after[&case.reference()]);
    }
    assert_eq!(read_puppet_changes(&nodes.machines, cases).await, BTreeSet::new());
    for case in cases {
        let again = call_words(nodes, &case.words()).await;
        assert_eq!(again["data"]["changed"], false, "{}: {again:#}", case.reference());
    }
    jobs
}

/// Undoes the changes, the newest first.
async fn undo_changes(nodes: &MachineNodes, cases: &[ResourceCase], jobs: &[String]) {
    for (case, job) in cases.iter().zip(jobs).rev() {
        let undone = nodes.operator.run(&["job", "undo", job, "-y"]).await;
        let text = describe_output(&undone);
        assert_eq!(
            undone.status.success(),
            case.undo_refusal.is_empty(),
            "{}: {text}",
            case.reference()
        );
        assert!(text.contains(case.undo_refusal), "{}: {text}", case.reference());
    }
}

async fn check_cases(nodes: &MachineNodes, cases: &[ResourceCase]) {
    let before = read_states(&nodes.machines, cases).await;
    check_noop(nodes, cases, &before).await;
    let jobs = make_changes(nodes, cases).await;
    undo_changes(nodes, cases, &jobs).await;
    let after = read_states(&nodes.machines, cases).await;
    for case in cases.iter().filter(|case| case.undo_refusal.is_empty()) {
        let reference = case.reference();
        assert_eq!(after[&reference], before[&reference], "{reference}: undo");
    }
}

/// What `puppet resource` says.
async fn puppet_resource(machines: &MachineFleet, kind: &str, name: &str) -> String {
    machines.sh("m1", &format!("puppet resource {kind} {name} --color=false")).await
}

/// Successive states of the package and the services, each confirmed by `puppet resource`.
async fn check_sequences(nodes: &MachineNodes) {
    let steps: &[(&str, &str, &[&str], &str, &str)] = &[
        ("package", "demo-tool", &["ensure=1.0"], "ensure", "'1.0'"),
        ("package", "demo-tool", &["ensure=1.0", "mark=hold"], "mark", "'hold'"),
        ("package", "demo-tool", &["ensure=latest", "mark=none"], "ensure", "'2.0'"),
        ("package", "demo-tool", &["ensure=1.0"], "ensure", "'1.0'"),
        ("package", "demo-tool", &["ensure=absent"], "ensure", "'purged'"),
        ("package", "demo-tool", &["ensure=present"], "ensure", "'2.0'"),
        ("package", "demo-tool", &["ensure=purged"], "ensure", "'purged'"),
        ("service", "unwanted", &["enable=mask"], "enable", "'false'"),
        ("service", "unwanted", &["enable=false"], "enable", "'false'"),
        ("service", "stub", &["ensure=stopped", "enable=false"], "ensure", "'stopped'"),
    ];
    for (kind, name, attributes, property, value) in steps {
        let (kind_word, name_word) = (format!("type={kind}"), format!("name={name}"));
        let words =
            [&["puppetral", "do", kind_word.as_str(), name_word.as_str()], *attributes].concat();
        let reply = nodes.call("m1", &words).await;
        assert_eq!(reply["statuscode"], 0, "{words:?}: {reply:#}");
        let text = puppet_resource(&nodes.machines, kind, name).await;
        let expected = format!("{property} => {value}");
        let squeezed: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(
            squeezed.iter().any(|line| line.trim_end_matches(',') == expected),
            "{words:?}: {text}"
        );
    }
    let reply: Value = nodes
        .call("m1", &["puppetral", "do", "type=service", "name=failing", "ensure=running"])
        .await;
    assert_ne!(reply["statuscode"], 0, "a service that cannot start: {reply:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_changed_once_and_undone_as_puppet_sees_it() {
    let repository = TempDir::new().unwrap();
    write_repository(&repository.path().join("srv/demo"));
    let options =
        NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    nodes.machines.copy("m1", &repository.path().join("srv/demo"), "/srv/demo").await;
    nodes.machines.sh("m1", PREPARE).await;
    check_cases(&nodes, CASES).await;
    check_sequences(&nodes).await;
}
