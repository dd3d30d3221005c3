//! Checks on a booted machine: Debian's monitoring plugins by `nrpe.cfg` and by schedule, Nagios Core that reads our results from its command pipe, and
//! Icinga 2 that gets them by its API.

use std::fmt::Write as _;
use std::time::Duration;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use serde_json::Value;

use super::icinga::check_icinga;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

/// Debian's plugins with their arguments, and whether they are OK on a machine that was just booted.
pub(super) const PLUGINS: [(&str, &str, bool); 8] = [
    ("check_load", "-w 1000,1000,1000 -c 2000,2000,2000", true),
    ("check_disk", "-w 1% -c 0% -p /", true),
    ("check_procs", "-w 1:5000 -c 1:9000", true),
    ("check_users", "-w 50 -c 90", true),
    ("check_ssh", "-H 127.0.0.1", true),
    ("check_tcp", "-H 127.0.0.1 -p 22", true),
    ("check_dummy", "1 'a; \"b\" (c)'", false),
    ("check_http", "-H 127.0.0.1 -p 1", false),
];

const PLUGIN_DIRECTORY: &str = "/usr/lib/nagios/plugins";
const COMMAND_PIPE: &str = "/var/lib/nagios4/rw/nagios.cmd";

/// The machine that is the node, and the host of Nagios, too.
pub(super) const NAGIOS_HOST: &str = "m1";

/// The files of the node: commands, and a schedule of the scheduled ones.
async fn configure_checks(nodes: &MachineNodes) {
    let (mut config, mut schedule) = ("nrpe_user=nagios\n".to_owned(), String::new());
    for (plugin, arguments, _) in PLUGINS {
        let _ = writeln!(config, "command[{plugin}]={PLUGIN_DIRECTORY}/{plugin} {arguments}");
        let _ = write!(
            schedule,
            "[[checks]]\nname = \"{plugin}\"\ncommand = \"{plugin}\"\ninterval = 2\nsplay = false\nmax_attempts = 2\nretry_interval = 1\n\
             select = \"not hostname=elsewhere\"\n"
        );
    }
    let directory = &nodes.operator;
    std::fs::write(directory.path("nrpe.cfg"), config).unwrap();
    std::fs::write(directory.path("schedule.toml"), schedule).unwrap();
    for (source, path) in
        [("nrpe.cfg", "/etc/nagios/nrpe.cfg"), ("schedule.toml", "/etc/muster/checks.d/all.toml")]
    {
        nodes.machines.sh(NAGIOS_HOST, "mkdir -p /etc/nagios /etc/muster/checks.d").await;
        nodes.machines.copy(NAGIOS_HOST, &directory.path(source), path).await;
    }
    let policy = "policy default allow\\n";
    let script = format!(
        "printf '{policy}' > /etc/muster/policies/nrpe.policy && systemctl start ssh && systemctl restart rpcd"
    );
    nodes.machines.sh(NAGIOS_HOST, &script).await;
}

/// Nagios' objects: a host and a passive service for each check.
async fn start_nagios(nodes: &MachineNodes) {
    let host = node_name(NAGIOS_HOST);
    let mut objects = format!(
        "define host {{\n host_name {host}\n address 127.0.0.1\n max_check_attempts 1\n check_command check-host-alive\n active_checks_enabled 0\n}}\n\
         define command {{\n command_name muster-none\n command_line /bin/true\n}}\n"
    );
    for (plugin, _, _) in PLUGINS {
        let _ = write!(
            objects,
            "define service {{\n host_name {host}\n service_description {plugin}\n check_command muster-none\n active_checks_enabled 0\n passive_checks_enabled 1\n \
             max_check_attempts 1\n check_interval 5\n retry_interval 1\n check_period 24x7\n notification_interval 0\n notification_period 24x7\n notifications_enabled 0\n contact_groups admins\n}}\n"
        );
    }
    std::fs::write(nodes.operator.path("muster.cfg"), objects).unwrap();
    let path = "/etc/nagios4/conf.d/muster.cfg";
    nodes.machines.sh(NAGIOS_HOST, "mkdir -p /etc/nagios4/conf.d").await;
    nodes.machines.copy(NAGIOS_HOST, &nodes.operator.path("muster.cfg"), path).await;
    let script = "sed -i 's/^check_external_commands=.*/check_external_commands=1/; s/^status_update_interval=.*/status_update_interval=1/' /etc/nagios4/nagios.cfg && \
                  (grep -q conf.d /etc/nagios4/nagios.cfg || echo cfg_dir=/etc/nagios4/conf.d >> /etc/nagios4/nagios.cfg) && \
                  mkdir -p /var/lib/nagios4/rw && chown nagios: /var/lib/nagios4/rw && \
                  nagios4 -v /etc/nagios4/nagios.cfg && systemctl restart nagios4";
    nodes.machines.sh(NAGIOS_HOST, script).await;
    let is_pipe = format!("test -p {COMMAND_PIPE} && echo pipe");
    nodes.machines.await_script(NAGIOS_HOST, &is_pipe).await;
}

/// Changes the arguments of the scheduled `check_dummy`: its state and its text.
pub(super) async fn change_dummy(nodes: &MachineNodes, arguments: &str) {
    let script = format!(
        "sed -i 's|^command.check_dummy.*|command[check_dummy]={PLUGIN_DIRECTORY}/check_dummy {arguments}|' /etc/nagios/nrpe.cfg"
    );
    nodes.machines.sh(NAGIOS_HOST, &script).await;
}

/// Installs `rpc` and the caller's files beside Nagios. Returns its command.
async fn install_rpc(nodes: &MachineNodes) -> String {
    nodes.machines.copy(NAGIOS_HOST, &find_program("rpc"), "/usr/local/bin/rpc").await;
    nodes.machines.copy(NAGIOS_HOST, &nodes.operator.path("rip"), "/root/rip").await;
    nodes.machines.sh(NAGIOS_HOST, "chmod 755 /usr/local/bin/rpc && chmod -R go= /root/rip").await;
    "/usr/local/bin/rpc --config /root/rip/rpc.toml".to_owned()
}

/// State and output of a service in `status.dat`; `None` before its first result.
async fn nagios_state(nodes: &MachineNodes, service: &str) -> Option<(u8, String)> {
    let script = "cat $(sed -n 's/^status_file=//p' /etc/nagios4/nagios.cfg)";
    let text = nodes.machines.sh(NAGIOS_HOST, script).await;
    let blocks = text.split("servicestatus {");
    let block = blocks
        .skip(1)
        .filter_map(|block| block.split('}').next())
        .find(|block| block.contains(&format!("service_description={service}\n")))?;
    let value = |key: &str| {
        let line = block.lines().find_map(|line| line.trim().strip_prefix(key))?;
        Some(line.strip_prefix('=')?.to_owned())
    };
    (value("has_been_checked")? == "1")
        .then_some((value("current_state")?.parse().ok()?, value("plugin_output")?))
}

async fn await_nagios(nodes: &MachineNodes, service: &str, accept: impl Fn(u8, &str) -> bool) {
    poll_until_ok(&format!("Nagios has {service}"), RECOVERY_TIMEOUT, async || match nagios_state(
        nodes, service,
    )
    .await
    {
        Some((state, output)) if accept(state, &output) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// The scheduled checks of the machine, when all have a hard state.
async fn await_hard_states(nodes: &MachineNodes) -> Value {
    let mut rows = Value::Null;
    poll_until_ok("all checks have hard states", Duration::from_mins(2), async || {
        let (document, _) = nodes.operator.run_json(&["checks", "--live", "--all"]).await;
        rows = document.get("checks").cloned().unwrap_or_default();
        let all = rows.as_array().cloned().unwrap_or_default();
        let has_state = |row: &&Value| row.get("state").is_some_and(|state| !state.is_null());
        let known = all.iter().filter(has_state).count();
        if known == PLUGINS.len() { Ok(()) } else { Err(document.to_string()) }
    })
    .await;
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn debians_plugins_run_by_schedule_and_nagios_and_icinga_get_the_results() {
    let options = NodeOptions { programs: true, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    configure_checks(&nodes).await;
    nodes.await_answers(1).await;
    let rows = await_hard_states(&nodes).await;
    for (plugin, _, is_ok) in PLUGINS {
        let found = rows.as_array().and_then(|rows| {
            rows.iter().find(|row| row.get("check").and_then(Value::as_str) == Some(plugin))
        });
        let state = found.and_then(|row| row.get("state")).and_then(Value::as_str);
        assert_eq!(state == Some("ok"), is_ok, "{plugin}: {found:?}");
        assert!(state.is_some_and(|state| state != "unknown"), "{plugin}: {found:?}");
    }
    // On request as well, with the same result.
    for (plugin, _, is_ok) in PLUGINS {
        let output = nodes.operator.run(&["check", plugin]).await;
        assert_eq!(output.status.success(), is_ok, "{}", describe_output(&output));
    }
    start_nagios(&nodes).await;
    let rpc = install_rpc(&nodes).await;
    for (plugin, _, _) in PLUGINS {
        let script = format!("{rpc} check {plugin} --command-file {COMMAND_PIPE}; test $? -le 2");
        nodes.machines.sh(NAGIOS_HOST, &script).await;
    }
    for (plugin, _, is_ok) in PLUGINS {
        await_nagios(&nodes, plugin, |state, output| (state == 0) == is_ok && !output.is_empty())
            .await;
    }
    // Nagios itself shows a semicolon of an output as a colon.
    let dummy = "WARNING: a: \"b\" (c)";
    await_nagios(&nodes, "check_dummy", |state, output| state == 1 && output == dummy).await;
    // A follower writes each change of the scheduled checks.
    let follow = format!(
        "systemd-run --quiet --unit=muster-follow --setenv=HOME=/root {rpc} checks --follow --command-file {COMMAND_PIPE}"
    );
    nodes.machines.sh(NAGIOS_HOST, &follow).await;
    let is_ready = "journalctl -u muster-follow | grep 'Wrote [0-9]* states'";
    nodes.machines.await_script(NAGIOS_HOST, is_ready).await;
    for (arguments, code, text) in [("2 down", 2, "CRITICAL: down"), ("0 up", 0, "OK: up")] {
        change_dummy(&nodes, arguments).await;
        await_nagios(&nodes, "check_dummy", |state, output| state == code && output == text).await;
    }
    check_icinga(&nodes, &rpc).await;
}
