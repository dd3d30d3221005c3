//! `rpc inventory --ansible` as the inventory script of the real Ansible.

#![expect(clippy::disallowed_types, reason = "runs the real Ansible")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use muster_tests::command::{describe_output, find_program};
use muster_tests::tools;
use serde_json::{Value, json};

use super::fixture::{DirectoryFixture, FleetNode};

/// What a node publishes to take over the controller.
const HOSTILE_FACTS: &str = r#"{"customer": "initech", "rack": {"name": "r 2"}, "ansible_connection": "ssh",
    "banner": "{{ lookup('pipe', 'touch hostile') }}"}"#;

/// A fleet, and a caller with an inventory script.
struct AnsibleFleet {
    fleet: DirectoryFixture,
    _nodes: [FleetNode; 3],
    programs: PathBuf,
    script: PathBuf,
}

impl AnsibleFleet {
    /// `None` if this run skips the tests that need Ansible.
    async fn start() -> Option<Self> {
        if tools::is_skipped("ansible") {
            return None;
        }
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/ansible/bin");
        assert!(
            programs.join("ansible-inventory").exists(),
            "there is no Ansible: run `make ansible`, or name it in MUSTER_TESTS_WITHOUT"
        );
        let fleet = DirectoryFixture::start().await;
        let facts = r#"{"customer": "acme", "rack": {"name": "r1"}, "cpus": 4}"#;
        let nodes = [
            fleet.start_directory("dir1.acme.net", "directory1"),
            fleet.start_node("db1.acme.net", facts, "common\nmysql::master\n"),
            fleet.start_node("web1.initech.net", HOSTILE_FACTS, "common\n"),
        ];
        fleet.await_present(&["db1.acme.net", "dir1.acme.net", "web1.initech.net"]).await;
        let script = fleet.rpc.path("inventory.sh");
        let options = "--group-by customer --group-by rack.name --var site_rack=rack.name";
        // As in the guide: two lines.
        let text = format!(
            "#!/bin/sh\nexec {} inventory --ansible {options} \"$@\"\n",
            find_program("rpc").display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { fleet, _nodes: nodes, programs, script })
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let home = self.fleet.rpc.home();
        let mut command = tokio::process::Command::new(self.programs.join(program));
        command
            .arg("-i")
            .arg(&self.script)
            .args(arguments)
            .current_dir(&home)
            .env("HOME", &home)
            .env("RPC_CONFIG", self.fleet.rpc.path("rpc.toml"))
            .env("ANSIBLE_LOCAL_TEMP", home.join("ansible"))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", describe_output(&output));
        output
    }

    async fn run_json(&self, program: &str, arguments: &[&str]) -> Value {
        let output = self.run(program, arguments).await;
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", describe_output(&output)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ansible_reads_groups_and_variables_from_the_directory() {
    let Some(fleet) = AnsibleFleet::start().await else { return };
    let read = fleet.run_json("ansible-inventory", &["--list"]).await;
    assert_eq!(read["class_mysql__master"]["hosts"], json!(["db1.acme.net"]), "{read:#}");
    assert_eq!(read["customer_acme"]["hosts"], json!(["db1.acme.net"]));
    assert_eq!(read["rack_name_r_2"]["hosts"], json!(["web1.initech.net"]));
    assert_eq!(read["class_common"]["hosts"], json!(["db1.acme.net", "web1.initech.net"]));
    let host = fleet.run_json("ansible-inventory", &["--host", "db1.acme.net"]).await;
    assert_eq!(host["site_rack"], "r1", "{host:#}");
    assert_eq!(host["muster"]["facts"]["cpus"], 4);
    assert_eq!(host["muster"]["classes"], json!(["common", "mysql::master"]));

    // Filters are those of every command; Ansible calls the script with `--host` only without `_meta`.
    let rpc = &fleet.fleet.rpc;
    let filtered =
        rpc.run(&["inventory", "--ansible", "--list", "-Q", "{ classes: 'mysql::master' }"]);
    let filtered: Value = serde_json::from_slice(&filtered.await.stdout).unwrap();
    assert_eq!(filtered["all"]["hosts"], json!(["db1.acme.net"]));
    let host = rpc.run(&["inventory", "--ansible", "--host", "db1.acme.net"]).await;
    let host: Value = serde_json::from_slice(&host.stdout).unwrap();
    assert_eq!(host, filtered["_meta"]["hostvars"]["db1.acme.net"]);
    let none = rpc.run(&["inventory", "--ansible", "--list", "-F", "customer=none"]).await;
    assert!(none.status.success(), "{}", describe_output(&none));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ansible_runs_on_the_hosts_and_renders_no_fact_as_a_template() {
    let Some(fleet) = AnsibleFleet::start().await else { return };
    let interpreter =
        format!("ansible_python_interpreter={}", fleet.programs.join("python").display());
    let local = ["-c", "local", "-e", &interpreter];
    let ping = fleet.run("ansible", &[&["class_common", "-m", "ping"], &local[..]].concat()).await;
    let text = String::from_utf8_lossy(&ping.stdout).into_owned();
    assert_eq!(text.matches("\"ping\": \"pong\"").count(), 2, "{text}");
    let message = "msg={{ muster.facts.banner }}";
    let debug = [&["web1.initech.net", "-m", "debug", "-a", message], &local[..]].concat();
    let shown = fleet.run("ansible", &debug).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("lookup('pipe', 'touch hostile')"), "{text}");
    assert!(!fleet.fleet.rpc.path("hostile").exists(), "a fact ran a command on the controller");
}
