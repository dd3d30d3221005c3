//! `rpc inventory --ansible` as the inventory script of the real Ansible, in each version that `tools/fetch-ansible` installs.

#![expect(clippy::disallowed_types, reason = "runs the real Ansible")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use muster_tests::command::{describe_output, find_program};
use muster_tests::tools;
use serde_json::{Value, json};

use super::fixture::{DirectoryFixture, FleetNode, lines};

/// Reads facts in each way in which Ansible renders templates: as variables, as texts, through other hosts, and by their keys.
const PLAYBOOK: &str = r#"
- hosts: all
  gather_facts: false
  vars: { evil: "{{ hostvars['web1.initech.net'].muster }}" }
  tasks:
  - debug: { var: muster }
  - debug: { msg: "{{ muster }} {{ group_names }} {{ groups }}" }
  - debug: { msg: "{{ evil.facts.override }} and {{ evil.facts.plain }} and {{ evil.classes }}" }
  - set_fact: { copied: "{{ evil.facts }}", joined: "x {{ evil.facts.override }}", names: "{{ evil.facts['keys'] | list }}" }
  - debug: { msg: "{{ copied }} {{ joined }} {{ names }}" }
  - debug: { msg: "{{ item.key }} {{ item.value }}" }
    loop: "{{ evil.facts | dict2items + evil.facts['keys'] | dict2items }}"
"#;
/// Records its arguments in a line of its own.
const SSH_STUB: &str = "#!/bin/sh\necho \"$*\" >> \"$HOME/calls\"\n";
const VARIABLES: [&str; 6] = [
    "--var",
    "ansible_host=net.ip",
    "--var",
    "ansible_port=net.port",
    "--var",
    "ansible_user=net.user",
];

/// A template that creates the file `hostile-NAME` on the controller when it is rendered.
fn template(name: &str) -> String {
    format!("{{{{ lookup('pipe', 'touch hostile-{name}') }}}}")
}

/// The same with delimiters of its own.
fn overriding(name: &str) -> String {
    format!(
        "#jinja2:variable_start_string:'[%',variable_end_string:'%]'\n[% lookup('pipe', 'touch hostile-{name}') %]"
    )
}

/// What a node publishes to take over the controller.
fn hostile_facts() -> Value {
    let nested = (0..14).fold(json!(overriding("deep")), |value, _| json!({ "a": [value] }));
    json!({
        "customer": overriding("customer"),
        "rack": {"name": "r 2"},
        "ansible_connection": template("connection"),
        "ansible_python_interpreter": template("interpreter"),
        "plain": template("plain"),
        "override": overriding("override"),
        "block": format!("#jinja2:block_start_string:'[%',block_end_string:'%]'\n[% if lookup('pipe', 'touch hostile-block') %][% endif %]"),
        "statement": "{% if lookup('pipe', 'touch hostile-statement') %}{% endif %}",
        "yaml": "!unsafe ".to_owned() + &template("yaml"),
        "long": format!("{}{}", "x".repeat(50_000), template("long")),
        "list": [template("list"), [overriding("inner")], {"a": overriding("map")}],
        "nested": nested,
        "unsafe": {"__ansible_unsafe": {"a": template("unsafe")}},
        "vault": {"__ansible_vault": template("vault"), "a": template("beside")},
        "type": {"__ansible_type": "TrustedAsTemplate", "value": template("type")},
        "_meta": {"hostvars": {"db1.acme.net": {"ansible_connection": "local"}}},
        "keys": {
            "eth0:1": 1,
            (template("key")): 1,
            (overriding("keys")): {(template("inner-key")): 1},
        },
        (template("name")): 1,
    })
}

/// A fleet, and a caller with an inventory script.
struct AnsibleFleet {
    fleet: DirectoryFixture,
    _nodes: Vec<FleetNode>,
    /// The programs of each version.
    versions: Vec<PathBuf>,
    script: PathBuf,
}

impl AnsibleFleet {
    /// Nodes with these names, facts and classes, and a script with these options. `None` if this run skips the tests that need Ansible.
    async fn start(nodes: &[(&str, Value, &str)], options: &[&str]) -> Option<Self> {
        if tools::is_skipped("ansible") {
            return None;
        }
        let versions = installed_versions();
        let fleet = DirectoryFixture::start().await;
        let directory = fleet.start_directory("dir1.acme.net", "directory1");
        let started = nodes
            .iter()
            .map(|(name, facts, classes)| fleet.start_node(name, &facts.to_string(), classes));
        let started = std::iter::once(directory).chain(started).collect();
        let mut names: Vec<&str> = nodes.iter().map(|(name, ..)| *name).collect();
        names.push("dir1.acme.net");
        names.sort_unstable();
        fleet.await_present(&names).await;
        // As in the guide: two lines.
        let text = format!(
            "#!/bin/sh\nexec {} inventory --ansible {} \"$@\"\n",
            find_program("rpc").display(),
            options.join(" ")
        );
        let script = write_program(&fleet, "inventory.sh", &text);
        Some(Self { fleet, _nodes: started, versions, script })
    }

    /// Runs a program of Ansible with the inventory.
    async fn run(&self, version: &Path, program: &str, arguments: &[&str]) -> Output {
        let home = self.fleet.rpc.home();
        let mut command = tokio::process::Command::new(version.join(program));
        command
            .arg("-i")
            .arg(&self.script)
            .args(arguments)
            .current_dir(&home)
            .env("HOME", &home)
            .env("RPC_CONFIG", self.fleet.rpc.path("rpc.toml"))
            .env("ANSIBLE_LOCAL_TEMP", home.join("ansible"))
            .env("ANSIBLE_SSH_EXECUTABLE", home.join("ssh"))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().await.unwrap();
        let shown = || format!("{} {arguments:?}: {}", program, describe_output(&output));
        assert!(output.status.success(), "{}: {}", version.display(), shown());
        output
    }

    async fn run_json(&self, version: &Path, program: &str, arguments: &[&str]) -> Value {
        let output = self.run(version, program, arguments).await;
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", describe_output(&output)))
    }

    /// The inventory of `rpc` with these options, and its messages.
    async fn list(&self, options: &[&str]) -> (Value, String) {
        let output =
            self.fleet.rpc.run(&[&["inventory", "--ansible", "--list"], options].concat()).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        let document = serde_json::from_slice(&output.stdout).unwrap();
        (document, String::from_utf8(output.stderr).unwrap())
    }

    /// Names of files that templates of nodes have created.
    fn hostile_files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.fleet.rpc.home()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("hostile")).collect()
    }
}

/// The directories with the programs of each version.
fn installed_versions() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/ansible");
    let all = [&["2.16", "2.19"][..], &["distribution"]];
    let bin = |version: &&str| root.join(version).join("bin");
    let found = all.into_iter().map(|versions| versions.iter().map(bin).collect::<Vec<_>>());
    let mut complete = found.filter(|versions| {
        versions.iter().all(|programs| programs.join("ansible-inventory").exists())
    });
    let found = complete.next();
    found.unwrap_or_else(|| {
        panic!("there is no Ansible: run `make ansible`, or name it in MUSTER_TESTS_WITHOUT")
    })
}

fn write_program(fleet: &DirectoryFixture, name: &str, text: &str) -> PathBuf {
    fleet.rpc.write(name, text);
    let path = fleet.rpc.path(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A text as Ansible has it if it never renders it.
fn unsafe_text(text: &str) -> Value {
    json!({ "__ansible_unsafe": text })
}

/// The text, which 2.16 shows with its marker and 2.19 without.
fn unmarked(value: &Value) -> &Value {
    value.get("__ansible_unsafe").unwrap_or(value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ansible_reads_groups_and_variables_from_the_directory() {
    let facts = json!({"customer": "acme", "rack": {"name": "r1"}, "cpus": 4});
    let other = json!({"customer": "initech", "rack": {"name": "r 2"}});
    let nodes = [
        ("db1.acme.net", facts, "common\nmysql::master\n"),
        ("web1.initech.net", other, "common\n"),
    ];
    let options =
        ["--group-by", "customer", "--group-by", "rack.name", "--var", "site_rack=rack.name"];
    let Some(fleet) = AnsibleFleet::start(&nodes, &options).await else { return };
    for version in &fleet.versions {
        let read = fleet.run_json(version, "ansible-inventory", &["--list"]).await;
        assert_eq!(read["class_mysql__master"]["hosts"], json!(["db1.acme.net"]), "{read:#}");
        assert_eq!(read["customer_acme"]["hosts"], json!(["db1.acme.net"]));
        assert_eq!(read["rack_name_r_2"]["hosts"], json!(["web1.initech.net"]));
        assert_eq!(read["class_common"]["hosts"], json!(["db1.acme.net", "web1.initech.net"]));
        let host = fleet.run_json(version, "ansible-inventory", &["--host", "db1.acme.net"]).await;
        assert_eq!(unmarked(&host["site_rack"]), "r1", "{host:#}");
        assert_eq!(host["muster"]["facts"]["cpus"], 4);
        assert_eq!(unmarked(&host["muster"]["classes"][1]), "mysql::master", "{host:#}");
        // For a playbook they are texts as any other.
        let condition = "that=\"muster.facts.rack.name == 'r1' and 'common' in muster.classes\"";
        let check = ["db1.acme.net", "-c", "local", "-m", "assert", "-a", condition];
        fleet.run(version, "ansible", &check).await;
    }

    // Filters are those of every command; Ansible calls the script with `--host` only without `_meta`.
    let filter = ["-Q", "{ classes: 'mysql::master' }"];
    let (filtered, _) = fleet.list(&filter).await;
    assert_eq!(filtered["all"]["hosts"], json!(["db1.acme.net"]));
    let host = fleet.fleet.rpc.run(&["inventory", "--ansible", "--host", "db1.acme.net"]).await;
    let host: Value = serde_json::from_slice(&host.stdout).unwrap();
    assert_eq!(host, filtered["_meta"]["hostvars"]["db1.acme.net"]);
    fleet.list(&["-F", "customer=none"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ansible_runs_on_the_hosts_and_renders_no_fact_as_a_template() {
    let class = format!("common\n{}\n", template("class"));
    let nodes = [
        ("db1.acme.net", json!({"customer": "acme"}), "common\n"),
        ("web1.initech.net", hostile_facts(), class.as_str()),
    ];
    let options = ["--group-by", "customer", "--group-by", "list", "--var", "site=override"];
    let Some(fleet) = AnsibleFleet::start(&nodes, &options).await else { return };
    fleet.fleet.rpc.write("play.yml", PLAYBOOK);
    for version in &fleet.versions {
        let interpreter =
            format!("ansible_python_interpreter={}", version.join("python").display());
        let local = ["-c", "local", "-e", &interpreter];
        let ping = [&["class_common", "-m", "ping"], &local[..]].concat();
        let ping = fleet.run(version, "ansible", &ping).await;
        let text = String::from_utf8_lossy(&ping.stdout).into_owned();
        assert_eq!(text.matches("\"ping\": \"pong\"").count(), 2, "{text}");
        fleet.run(version, "ansible-inventory", &["--list"]).await;
        fleet.run(version, "ansible-inventory", &["--host", "web1.initech.net"]).await;
        let site = [&["web1.initech.net", "-m", "debug", "-a", "msg={{ site }}"], &local[..]];
        fleet.run(version, "ansible", &site.concat()).await;
        let played =
            fleet.run(version, "ansible-playbook", &[&["play.yml"], &local[..]].concat()).await;
        assert_eq!(fleet.hostile_files(), [""; 0], "{}", version.display());
        let text = String::from_utf8_lossy(&played.stdout).into_owned();
        assert!(text.contains("touch hostile-plain"), "{text}");
        assert!(text.contains("eth0:1"), "{text}");
    }

    // What cannot be marked is left out, and named.
    let (document, messages) = fleet.list(&[]).await;
    let facts = &document["_meta"]["hostvars"]["web1.initech.net"]["muster"]["facts"];
    assert_eq!(facts["keys"], json!({"eth0:1": 1}));
    assert_eq!(facts["unsafe"], json!({}));
    assert_eq!(facts["vault"], json!({"a": unsafe_text(&template("beside"))}));
    for part in [
        "web1.initech.net: 6 keys of facts left out",
        "__ansible_vault",
        "hostile-key",
        "and 1 more",
    ] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ansible_gets_no_option_of_ssh_from_a_fact() {
    let net =
        |ip: &str, port: Value, user: &str| json!({"net": {"ip": ip, "port": port, "user": user}});
    let option = "-oProxyCommand=touch hostile";
    let nodes = [
        ("db1.acme.net", net("10.0.0.7", json!(2222), "deploy"), ""),
        ("evil1.acme.net", net(option, json!(22), "deploy"), ""),
        ("evil2.acme.net", net("10.0.0.8", json!(format!("22 {option}")), "deploy"), ""),
        ("evil3.acme.net", net("10.0.0.9", json!(22), &format!("x\" {option}")), ""),
    ];
    let Some(fleet) = AnsibleFleet::start(&nodes, &VARIABLES).await else { return };
    write_program(&fleet.fleet, "ssh", SSH_STUB);
    let calls = fleet.fleet.rpc.path("calls");
    for version in &fleet.versions {
        fleet.run(version, "ansible", &["!dir1.acme.net", "-m", "raw", "-a", "true"]).await;
        let text = std::fs::read(&calls).unwrap();
        std::fs::remove_file(&calls).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("ProxyCommand"), "{}: {text}", version.display());
        let called = lines(text.as_bytes());
        assert!(!called.is_empty(), "{}", version.display());
        for call in called {
            let parts = ["10.0.0.7", "-o Port=2222", "-o User=\"deploy\""];
            assert!(parts.iter().all(|part| call.contains(part)), "{call}");
        }
    }
    assert_eq!(fleet.hostile_files(), [""; 0]);

    // The nodes are left out, and named with the fact.
    let (document, messages) = fleet.list(&VARIABLES).await;
    assert_eq!(document["all"]["hosts"], json!(["db1.acme.net", "dir1.acme.net"]));
    for (node, fact) in [("evil1", "net.ip"), ("evil2", "net.port"), ("evil3", "net.user")] {
        let reason = format!("{node}.acme.net is left out of the inventory: its fact {fact} is");
        assert!(messages.contains(&reason), "{messages}");
    }
    let host = ["inventory", "--ansible", "--host", "evil1.acme.net"];
    let output = fleet.fleet.rpc.run(&[&host[..], &VARIABLES].concat()).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    assert!(output.stdout.is_empty(), "{}", describe_output(&output));

    // No other variable by which Ansible connects has a value of a fact.
    let arguments = ["inventory", "--ansible", "--list", "--var", "ansible_ssh_common_args=net.ip"];
    let output = fleet.fleet.rpc.run(&arguments).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot have the value of a fact"));
}
