//! Debian's Icinga 2 on the machine of `checks.rs`, whose API gets our results.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use muster_tests::poll_until_ok;
use serde_json::{Value, json};

use super::checks::{NAGIOS_HOST, PLUGINS, change_dummy};
use crate::machines::nodes::{MachineNodes, node_name};

/// The name in Icinga's certificate.
const ICINGA: &str = "icinga.example.net";
/// A check that Icinga has no service for.
const UNKNOWN_CHECK: &str = "check_http";

/// Delivers results to Icinga by `rpc check` and by `rpc checks --follow`, with a password and with a certificate.
pub(super) async fn check_icinga(nodes: &MachineNodes, rpc: &str) {
    start_icinga(nodes).await;
    configure_rpc(nodes, "user = \"muster\"\npassword_file = \"icinga.password\"").await;
    for (plugin, _, is_ok) in PLUGINS.iter().filter(|(plugin, _, _)| *plugin != UNKNOWN_CHECK) {
        let output = run_check(nodes, rpc, plugin).await;
        // The last state of `check_dummy` is that of the test with Nagios.
        let is_ok = *is_ok || *plugin == "check_dummy";
        assert_eq!(output.ends_with("exit 0"), is_ok, "{plugin}: {output}");
        let found = last_result(nodes, plugin).await;
        assert_eq!((found["state"].as_f64() == Some(0.0)), is_ok, "{plugin}: {found}");
        assert_eq!(found["check_source"], json!(node_name(NAGIOS_HOST)), "{plugin}");
        assert!(found["output"].as_str().is_some_and(|text| !text.is_empty()), "{found}");
    }
    let load = last_result(nodes, "check_load").await["performance_data"].clone();
    let values: Vec<&str> = load.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let [one, five, fifteen] = values.as_slice() else { panic!("{values:?}") };
    assert!(one.starts_with("load1=") && one.ends_with(";1000.000;2000.000;0"), "{values:?}");
    assert!(five.starts_with("load5=") && fifteen.starts_with("load15="), "{values:?}");
    refuse_results(nodes, rpc).await;
    deliver_thousand_results(nodes, rpc).await;
    follow_checks(nodes, rpc).await;
}

/// What Icinga does not take is named, with its reason.
async fn refuse_results(nodes: &MachineNodes, rpc: &str) {
    let node = node_name(NAGIOS_HOST);
    let output = run_check(nodes, rpc, UNKNOWN_CHECK).await;
    let expected = format!("Icinga does not know 1 of 1 services: {node}!{UNKNOWN_CHECK}");
    assert!(output.contains(&expected) && output.ends_with("exit 3"), "{output}");
    for (user, expected) in [
        (
            "user = \"reader\"\npassword_file = \"icinga.password\"",
            "denies the user reader the permission actions/process-check-result",
        ),
        (
            "user = \"nosuch\"\npassword_file = \"icinga.password\"",
            "does not accept the user nosuch",
        ),
        (
            "certificate = \"/var/lib/icinga2/certs/icinga.example.net.crt\"\nkey = \"/var/lib/icinga2/certs/icinga.example.net.key\"",
            "check_load: OK",
        ),
    ] {
        configure_rpc(nodes, user).await;
        let output = run_check(nodes, rpc, "check_load").await;
        assert!(output.contains(expected), "{user}: {output}");
    }
    // The address is not the name in the certificate.
    let script =
        format!("{rpc} check check_load --icinga-api https://127.0.0.1:5665; echo exit $?");
    let output = nodes.machines.sh(NAGIOS_HOST, &script).await;
    assert!(output.contains("no trusted TLS connection"), "{output}");
}

/// One `rpc check` delivers the results of a thousand nodes. They are a kept result, in which the only node was multiplied. Takes
/// 1.4 seconds on two cores.
async fn deliver_thousand_results(nodes: &MachineNodes, rpc: &str) {
    let check = format!("{rpc} check check_load --cache 3600");
    nodes.machines.sh(NAGIOS_HOST, &check).await;
    let find = "find /root/.cache/muster/fleets -path '*/checks/*.json'";
    let path = nodes.machines.sh(NAGIOS_HOST, find).await;
    let text = nodes.machines.sh(NAGIOS_HOST, &format!("cat {path}")).await;
    let mut entry: Value = serde_json::from_str(&text).unwrap();
    let results = &mut entry["outcome"]["report"]["results"];
    let [result] = results.as_array().unwrap().as_slice() else { panic!("{results}") };
    let numbered = |number: usize| {
        let mut result = result.clone();
        result["node"] = json!(format!("node{number}.example.net"));
        result
    };
    *results = (0..1000).map(numbered).collect();
    let file = nodes.operator.path("check.json");
    std::fs::write(&file, entry.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    nodes.machines.copy(NAGIOS_HOST, &file, &path).await;
    let start = Instant::now();
    let output = nodes.machines.sh(NAGIOS_HOST, &format!("{check} --icinga-api")).await;
    let took = start.elapsed();
    assert!(output.contains("OK: 1000") && took < Duration::from_secs(30), "{took:?}: {output}");
    let url = format!("https://{ICINGA}:5665/v1/objects/services");
    let count = format!(
        "curl -sS --cacert /var/lib/icinga2/certs/ca.crt -u reader:secret -H 'Accept: application/json' -H 'X-HTTP-Method-Override: GET' \
         -d '{{\"filter\": \"match(\\\"node*\\\", host.name) && service.last_check_result.check_source == host.name\", \"attrs\": [\"name\"]}}' {url} \
         | grep -o '\"name\":\"node' | wc -l"
    );
    assert_eq!(nodes.machines.sh(NAGIOS_HOST, &count).await, "1000");
}

/// Each change arrives, and all states when Icinga is back after a stop.
async fn follow_checks(nodes: &MachineNodes, rpc: &str) {
    let follow = format!(
        "systemd-run --quiet --unit=muster-follow-icinga --setenv=HOME=/root {rpc} checks --follow --icinga-api"
    );
    nodes.machines.sh(NAGIOS_HOST, &follow).await;
    await_journal(nodes, "Wrote 7 states").await;
    await_journal(nodes, &format!("does not know 1 of 8 services: .*!{UNKNOWN_CHECK}")).await;
    change_dummy(nodes, "2 \"down; (x)\"").await;
    await_icinga(nodes, 2, "CRITICAL: down; (x)").await;
    nodes.machines.sh(NAGIOS_HOST, "systemctl stop icinga2").await;
    change_dummy(nodes, "1 changing").await;
    await_journal(nodes, "is not available: .*; waiting until it answers").await;
    change_dummy(nodes, "0 up").await;
    nodes.machines.sh(NAGIOS_HOST, "systemctl start icinga2").await;
    await_journal(nodes, "The monitoring system answers again").await;
    await_icinga(nodes, 0, "OK: up").await;
}

/// Icinga with its CA, its API, a passive service for each check but one, and its users.
async fn start_icinga(nodes: &MachineNodes) {
    let host = node_name(NAGIOS_HOST);
    let passive =
        "check_command = \"passive\"\n enable_active_checks = false\n max_check_attempts = 1\n";
    let mut objects = format!("object Host \"{host}\" {{\n {passive}}}\n");
    for (plugin, _, _) in PLUGINS.iter().filter(|(plugin, _, _)| *plugin != UNKNOWN_CHECK) {
        let _ = writeln!(
            objects,
            "object Service \"{plugin}\" {{\n host_name = \"{host}\"\n {passive}}}"
        );
    }
    for (user, access, permission) in [
        ("muster", "password = \"secret\"", "actions/process-check-result"),
        ("certified", "client_cn = \"icinga.example.net\"", "actions/process-check-result"),
        ("reader", "password = \"secret\"", "objects/query/Service"),
    ] {
        let _ = writeln!(
            objects,
            "object ApiUser \"{user}\" {{\n {access}\n permissions = [ \"{permission}\" ]\n}}"
        );
    }
    let _ = writeln!(
        objects,
        "for (i in range(1000)) {{\n object Host \"node\" + i + \".example.net\" {{\n {passive}}}\n \
         object Service \"check_load\" use(i) {{\n host_name = \"node\" + i + \".example.net\"\n {passive}}}\n}}"
    );
    std::fs::write(nodes.operator.path("icinga.conf"), objects).unwrap();
    // Icinga cannot copy a file of a lower layer of the disk.
    let script = format!(
        "touch /etc/icinga2/constants.conf && echo '127.0.0.1 {ICINGA}' >> /etc/hosts && \
         icinga2 api setup --cn {ICINGA} && rm /etc/icinga2/conf.d/*.conf && mv /root/icinga.conf /etc/icinga2/conf.d/muster.conf && \
         systemctl start icinga2"
    );
    nodes
        .machines
        .copy(NAGIOS_HOST, &nodes.operator.path("icinga.conf"), "/root/icinga.conf")
        .await;
    nodes.machines.sh(NAGIOS_HOST, &script).await;
    let is_ready = format!("{} | grep __name", query("check_load"));
    nodes.machines.await_script(NAGIOS_HOST, &is_ready).await;
}

/// Replaces the section `[icinga]` of the caller's configuration.
async fn configure_rpc(nodes: &MachineNodes, user: &str) {
    let section = format!(
        "[icinga]\nurl = \"https://{ICINGA}:5665\"\nca = \"/var/lib/icinga2/certs/ca.crt\"\n{user}\n"
    );
    std::fs::write(nodes.operator.path("icinga.toml"), section).unwrap();
    nodes
        .machines
        .copy(NAGIOS_HOST, &nodes.operator.path("icinga.toml"), "/root/icinga.toml")
        .await;
    let script = "cd /root/rip && sed -i '/^.icinga/,$d' rpc.toml && cat /root/icinga.toml >> rpc.toml && \
                  (umask 077 && echo secret > icinga.password)";
    nodes.machines.sh(NAGIOS_HOST, script).await;
}

/// Output of `rpc check`, and its exit code on the last line.
async fn run_check(nodes: &MachineNodes, rpc: &str, plugin: &str) -> String {
    let script = format!("{rpc} check {plugin} --icinga-api 2>&1; echo exit $?");
    nodes.machines.sh(NAGIOS_HOST, &script).await
}

/// The command that prints what Icinga knows about a service.
fn query(service: &str) -> String {
    let host = node_name(NAGIOS_HOST);
    format!(
        "curl -sS --cacert /var/lib/icinga2/certs/ca.crt -u reader:secret 'https://{ICINGA}:5665/v1/objects/services/{host}!{service}'"
    )
}

async fn last_result(nodes: &MachineNodes, service: &str) -> Value {
    let text = nodes.machines.sh(NAGIOS_HOST, &query(service)).await;
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    document["results"][0]["attrs"]["last_check_result"].clone()
}

async fn await_icinga(nodes: &MachineNodes, code: u8, output: &str) {
    let what = format!("Icinga has {output}");
    poll_until_ok(&what, crate::machines::RECOVERY_TIMEOUT, async || {
        let found = last_result(nodes, "check_dummy").await;
        let is_expected =
            found["state"].as_f64() == Some(f64::from(code)) && found["output"] == json!(output);
        if is_expected { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

/// Waits until the follower has printed a line that matches.
async fn await_journal(nodes: &MachineNodes, pattern: &str) {
    let script = format!("journalctl -u muster-follow-icinga | grep -e '{pattern}'");
    poll_until_ok(pattern, Duration::from_mins(1), async || {
        let found = nodes.machines.sh(NAGIOS_HOST, &format!("({script}) || true")).await;
        if found.is_empty() { Err(found) } else { Ok(()) }
    })
    .await;
}
