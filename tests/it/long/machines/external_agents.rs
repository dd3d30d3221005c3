//! An external agent, written as a shell script, on a booted machine: the daemon of the packaged unit finds it in `/etc/muster/ddl`, and the agent can
//! neither read nor write what is the daemon's, as whichever user the configuration lets it run.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use std::collections::BTreeSet;

use muster_tests::poll_until_ok;
use serde_json::json;

use crate::external::ddl;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions};

/// What the agent tries. Each script succeeds if the attempt does; `$DAEMON` is the process of the daemon.
const ATTEMPTS: &[(&str, &str)] = &[
    ("credentials", "cat /etc/muster/node.creds"),
    ("names of state", "ls /var/lib/muster/"),
    ("audit log", "cat /var/log/muster/audit.log"),
    ("state", "touch /var/lib/muster/made"),
    ("log", "touch /var/log/muster/made"),
    ("run time directory", "touch /run/muster/made"),
    ("policy", "touch /etc/muster/policies/made.policy"),
    ("configuration", "echo >> /etc/muster/rpcd.toml"),
    ("agents", "touch /etc/muster/ddl/made"),
    ("own program", "echo >> /etc/muster/ddl/intruder"),
    ("own schema", "echo >> /etc/muster/ddl/intruder.json"),
    ("system", "touch /etc/made"),
    ("programs", "touch /usr/local/sbin/made"),
    ("timer", "touch /etc/systemd/system/made.timer"),
    ("home of root", "ls /root/"),
    ("environment of the daemon", "cat /proc/$DAEMON/environ"),
    ("files of the daemon", "ls /proc/$DAEMON/fd/"),
    ("signal", "kill -0 $DAEMON"),
    ("stop", "systemctl stop rpcd"),
    ("job of systemd", "systemd-run --wait touch /etc/made"),
    ("mount", "mount -t tmpfs none /mnt"),
    ("device", "mknod device c 1 3"),
    ("own directory", "touch made"),
];

/// The only attempt that may succeed: an agent has a directory of its own during a call.
const PERMITTED: &str = "own directory";

/// The agent: replies with the names of the attempts that succeeded.
fn program() -> String {
    let attempt = |(name, script): &(&str, &str)| {
        format!(
            "if (timeout 20 sh -c '{script}') >/dev/null 2>&1; then done=\"${{done}}{name},\"; fi\n"
        )
    };
    let attempts: String = ATTEMPTS.iter().map(attempt).collect();
    format!(
        "#!/bin/sh\n\
         if [ \"$CHORIA_EXTERNAL_PROTOCOL\" = io.choria.mcorpc.external.v1.activation_request ]; then\n\
         echo '{{\"activate\": true}}' > \"$CHORIA_EXTERNAL_REPLY\"; exit; fi\n\
         DAEMON=$PPID done=\n\
         export DAEMON\n\
         {attempts}\
         printf '{{\"statuscode\": 0, \"data\": {{\"said\": \"%s %s\"}}}}' \"$(id -u)\" \"$done\" > \"$CHORIA_EXTERNAL_REPLY\"\n"
    )
}

/// What the agent says that it could do, after the number of its user.
async fn run_agent(nodes: &MachineNodes, user: &str) -> BTreeSet<String> {
    let reply = nodes.call("m1", &["intruder", "attack"]).await;
    let said = reply["data"]["said"].as_str().unwrap_or_else(|| panic!("{reply:#}")).to_owned();
    let (number, done) = said.split_once(' ').unwrap();
    assert_eq!(number == "0", user == "root", "{said}");
    done.split_terminator(',').map(str::to_owned).collect()
}

/// Whether the agent is offered, and the problems of agents, as the node reports them.
async fn read_agents(nodes: &MachineNodes) -> (bool, String) {
    let reply = nodes.call("m1", &["rpcutil", "agent_inventory"]).await;
    let is_offered = reply["data"]["agents"].to_string().contains("\"intruder\"");
    (is_offered, reply["data"]["problems"].to_string())
}

async fn await_agent(nodes: &MachineNodes) {
    poll_until_ok("the agent is offered without a problem", RECOVERY_TIMEOUT, async || {
        let (is_offered, problems) = read_agents(nodes).await;
        if is_offered && problems == "[]" { Ok(()) } else { Err(problems) }
    })
    .await;
}

/// Waits until the node reports a problem of its agents with this part.
async fn await_problem(nodes: &MachineNodes, part: &str) {
    poll_until_ok(part, RECOVERY_TIMEOUT, async || {
        let (_, problems) = read_agents(nodes).await;
        if problems.contains(part) { Ok(()) } else { Err(problems) }
    })
    .await;
}

/// Restarts the daemon with these options of the agent.
async fn configure(nodes: &MachineNodes, options: &str) {
    let file = format!("[plugins.external.agents.intruder]\n{options}").replace('\n', "\\n");
    let script =
        format!("printf '{file}' > /etc/muster/conf.d/agent.toml && systemctl restart rpcd");
    nodes.machines.sh("m1", &script).await;
    nodes.await_answers(1).await;
}

/// A change after the agent was loaded that lets others replace its program, how it is undone, and the path that the reply names.
const UNSAFE_FILES: &[(&str, &str, &str)] = &[
    ("chmod o+w ddl/intruder", "chmod o-w ddl/intruder", "/etc/muster/ddl/intruder"),
    ("chmod g+w ddl/intruder", "chmod g-w ddl/intruder", "/etc/muster/ddl/intruder"),
    ("chown 65534 ddl/intruder", "chown 0 ddl/intruder", "/etc/muster/ddl/intruder"),
    ("chmod o+w ddl", "chmod o-w ddl", "/etc/muster/ddl"),
    ("chown 65534 ddl", "chown 0 ddl", "/etc/muster/ddl"),
];

#[tokio::test(flavor = "multi_thread")]
async fn agent_of_the_packaged_unit_reaches_nothing_of_the_daemon() {
    let Some(nodes) = MachineNodes::start(1, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    let mut document = ddl("intruder", "1.0.0", &["attack"]);
    document["metadata"]["timeout"] = json!(120);
    document["metadata"]["capabilities"] = json!({});
    let files = nodes.operator.path("agent");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("intruder"), program()).unwrap();
    std::fs::write(files.join("intruder.json"), document.to_string()).unwrap();
    machines.copy("m1", &files, "/etc/muster/ddl").await;
    machines.sh("m1", "chmod 755 /etc/muster/ddl/intruder").await;
    // The directory of a bundle, which was copied to /etc/muster, is closed to other users, and so is the agent in it.
    await_problem(&nodes, "the user of the agent must be able to enter all directories above it")
        .await;
    machines.sh("m1", "chmod 755 /etc/muster /etc/muster/ddl /etc/muster/ddl/intruder && chmod 644 /etc/muster/ddl/intruder.json").await;
    await_agent(&nodes).await;
    nodes.operator.run_successfully(&["plugin", "fetch", "intruder"]).await;

    let permitted = BTreeSet::from([PERMITTED.to_owned()]);
    // An agent that runs as root needs Landlock for this, which systemd-nspawn permits in new versions only. Without it, the agent does not start.
    configure(&nodes, "user = \"root\"\nconfine = \"required\"\n").await;
    let is_offered = poll_until_ok("the node reports the agent", RECOVERY_TIMEOUT, async || {
        let (is_offered, problems) = read_agents(&nodes).await;
        let is_refused = problems.contains("the kernel does not support Landlock");
        if is_offered || is_refused { Ok(is_offered) } else { Err(problems) }
    })
    .await;
    if is_offered {
        assert_eq!(run_agent(&nodes, "root").await, permitted);
    }
    for configuration in ["confine = \"off\"\n", ""] {
        configure(&nodes, configuration).await;
        await_agent(&nodes).await;
        assert_eq!(run_agent(&nodes, "nobody").await, permitted, "{configuration}");
    }
    // The attempts are right: root can do each of them without confinement, but those that end the daemon.
    for (name, script) in ATTEMPTS.iter().filter(|(name, _)| *name != "stop") {
        let script = format!(
            "cd /run && DAEMON=$(systemctl show -P MainPID rpcd) && export DAEMON && {script}"
        );
        let output = machines.run("m1", &script).await;
        assert!(output.status.success(), "{name}: {output:?}");
    }
    machines
        .sh("m1", "umount /mnt; rm -f /etc/muster/policies/made.policy /etc/muster/ddl/made")
        .await;

    for (change, undo, path) in UNSAFE_FILES {
        machines.sh("m1", &format!("cd /etc/muster && {change}")).await;
        let reply = nodes.call("m1", &["intruder", "attack"]).await;
        let is_named = reply["statusmsg"].as_str().is_some_and(|text| text.contains(path));
        assert!(reply["statuscode"] != 0 && is_named, "{change}: {reply:#}");
        machines.sh("m1", &format!("cd /etc/muster && {undo}")).await;
        assert_eq!(run_agent(&nodes, "nobody").await, permitted, "{undo}");
    }

    // The drop-in takes away what starts an agent as another user.
    machines.sh("m1", super::observe::INSTALL).await;
    nodes.await_answers(1).await;
    let (document, _) = nodes.operator.run_json(&["do", "intruder", "attack"]).await;
    let replies = document["replies"].as_array().unwrap();
    assert!(replies.iter().all(|reply| reply["statuscode"] != 0), "{document:#}");
}
