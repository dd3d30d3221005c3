//! A set of 25 classes on booted machines: compiled and released by one of them, applied by the engine on the second and by an unmodified Puppet on the
//! third. Both machines must end in the same state, also after a change and after a rollback.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fs;
use std::path::{Path, PathBuf};

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use serde_json::Value;

use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

/// What the classes manage, as it is on a machine: files with type, mode, owner and content, users, cron jobs and the service. Headers of files have a time.
const STATE: &str = r"
for path in /etc/motd /etc/ssh/sshd_config.d /etc/ssh/ssh_config.d /etc/systemd/timesyncd.conf.d /etc/systemd/system/web.service /etc/sysctl.d/60-site.conf \
  /etc/security/limits.d /usr/local/sbin/vacuum /etc/sudoers.d /etc/logrotate.d/web /etc/logrotate.d/database /etc/profile.d/site.sh /etc/apt/preferences.d/site \
  /etc/site-certificates /etc/backup.conf /etc/backup.key /etc/monitoring.conf /srv /etc/web /etc/database /home/alice /home/bob /var/lib/schema \
  /var/lib/sshd-checked /var/lib/ntp-changes; do
  find $path -printf '%p %y %m %u %g %l\n'
  find $path -type f ! -name authorized_keys -exec sha256sum {} +
done | sort
getent passwd alice bob; getent group operators; id -Gn alice; getent shadow alice bob | cut -d: -f1-2
grep -v '^#' /etc/hosts | grep example.net | grep 192.0.2.1
crontab -l | grep -v '^# HEADER'
grep -v '^# HEADER' /home/alice/.ssh/authorized_keys
systemctl is-active web; systemctl is-enabled web
";

fn site() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("site")
}

fn configuration(engine: &str) -> String {
    format!(
        "[plugins.release]\nenabled = true\nengine = \"{engine}\"\ninterval = 86400\n\
         [registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n"
    )
}

struct ReleaseMachines(MachineNodes);

impl ReleaseMachines {
    /// Three nodes: `m1` has the engine, `m2` Puppet, and `m3` compiles. `None` if this run skips tests on machines.
    async fn start() -> Option<Self> {
        let options = NodeOptions { puppet: true, ..NodeOptions::default() };
        let nodes = MachineNodes::start(3, options).await?;
        for (machine, engine) in [("m1", "native"), ("m2", "puppet")] {
            let file = nodes.operator.path("release.toml");
            fs::write(&file, configuration(engine)).unwrap();
            nodes.machines.copy(machine, &file, "/etc/muster/conf.d/release.toml").await;
            nodes.machines.sh(machine, "systemctl restart rpcd").await;
        }
        let credentials = nodes.operator.path("compiler1.creds");
        let out = credentials.to_str().unwrap();
        let words = ["org", "add", "service", "compiler1", "--serve", "compiler"];
        let words = [&words[..], &["--environment", "production", "--out", out]].concat();
        nodes.operator.run_successfully(&words).await;
        nodes.operator.run_successfully(&["org", "push"]).await;
        nodes.machines.copy("m3", &credentials, "/etc/muster/compiler1.creds").await;
        let text = "[plugins.compiler]\nenabled = true\ncredentials = \"/etc/muster/compiler1.creds\"\n\
            [plugins.compiler.environments.production]\ndirectory = \"/srv/code/production\"\n";
        let file = nodes.operator.path("compiler.toml");
        fs::write(&file, text).unwrap();
        nodes.machines.copy("m3", &file, "/etc/muster/conf.d/compiler.toml").await;
        let fleet = Self(nodes);
        fleet.0.machines.sh("m3", "mkdir -p /srv/code").await;
        fleet.0.machines.copy("m3", &site(), "/srv/code/production").await;
        fleet.0.machines.sh("m3", "systemctl restart rpcd").await;
        Some(fleet)
    }

    async fn rpc(&self, words: &[&str]) -> String {
        self.0.operator.run_successfully(words).await
    }

    /// Waits until both nodes are compiled with the present code, and makes a release.
    async fn release(&self) -> Value {
        poll_until_ok("both nodes are compiled", std::time::Duration::from_mins(3), async || {
            let words = ["compile", "--environment", "production"];
            let output = self.0.operator.run(&words).await;
            let listed = self.0.operator.run(&["catalog", "list", "-j"]).await;
            let document: Value =
                serde_json::from_slice(&listed.stdout).map_err(|_| describe_output(&listed))?;
            let nodes = document.pointer("/nodes").and_then(Value::as_array);
            let is_there = |name: &str| {
                nodes.is_some_and(|nodes| {
                    nodes.iter().any(|node| node["node"] == name && node["catalog"].is_string())
                })
            };
            if output.status.success() && is_there("m1.example.net") && is_there("m2.example.net") {
                return Ok(());
            }
            Err(format!("{}\n{document:#}", describe_output(&output)))
        })
        .await;
        let words = ["release", "create", "--environment", "production", "-I", "/^m[12]/"];
        let (created, code) = self.0.operator.run_json(&words).await;
        assert_eq!(code, 0, "{created:#}");
        created
    }

    async fn state(&self, machine: &str) -> String {
        let state = self.0.machines.sh(machine, STATE).await;
        state.replace(machine, "mX")
    }

    /// Compares the two machines; returns their state.
    async fn assert_equal(&self) -> String {
        let (engine, puppet) = (self.state("m1").await, self.state("m2").await);
        let only = |one: &str, other: &str| {
            let lines: Vec<&str> =
                one.lines().filter(|line| !other.lines().any(|known| known == *line)).collect();
            lines.join("\n")
        };
        let (of_engine, of_puppet) = (only(&engine, &puppet), only(&puppet, &engine));
        assert!(engine == puppet, "only by the engine:\n{of_engine}\nonly by Puppet:\n{of_puppet}");
        engine
    }

    /// The changed resources of each run that this command makes.
    async fn changes(&self, words: &[&str]) -> Vec<(String, u64)> {
        let (document, _) = self.0.operator.run_json(words).await;
        let replies = document["replies"].as_array().unwrap_or_else(|| panic!("{document:#}"));
        let row = |reply: &Value| {
            let name = reply["sender"].as_str().unwrap_or_default().to_owned();
            let changed = reply.pointer("/data/changed").and_then(Value::as_u64);
            (name, changed.unwrap_or_else(|| panic!("{reply:#}")))
        };
        let mut rows: Vec<_> = replies.iter().map(row).collect();
        rows.sort();
        rows
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn released_set_of_25_classes_has_the_same_effect_by_the_engine_and_by_puppet() {
    let Some(fleet) = ReleaseMachines::start().await else { return };
    let machines = &fleet.0.machines;
    fleet.release().await;
    fleet.rpc(&["release", "promote", "r1", "-I", "/^m[12]/", "-y"]).await;
    let first = fleet.assert_equal().await;
    assert!(first.contains("/etc/site-certificates/chain/two.pem f 644"), "{first}");
    assert!(!first.contains("old.bak"), "{first}");
    assert!(machines.sh("m2", "cat /etc/shells").await.contains("site-shell"));
    // Both are in the described state now.
    let again = fleet.changes(&["do", "release", "apply", "-y", "-I", "/^m[12]/"]).await;
    assert_eq!(again, [(node_name("m1"), 0), (node_name("m2"), 0)]);
    assert_eq!(fleet.assert_equal().await, first);

    // Another commit: what a plan says, it does not do.
    let code = "cd /srv/code/production && sed -i 's/workers: 4/workers: 8/' data/nodes/*.yaml && echo three >modules/certificates/files/trusted/chain/three.pem \
        && rm modules/certificates/files/trusted/root.pem && sed -i 's/hunter2/hunter3/' modules/database/manifests/init.pp \
        && sed -i 's/ntp1/ntp9/' modules/ntp/manifests/config.pp";
    machines.sh("m3", code).await;
    fleet.release().await;
    let diff = fleet.rpc(&["release", "diff", "r2"]).await;
    assert!(diff.contains("workers 8") && !diff.contains("hunter"), "{diff}");
    fleet.rpc(&["release", "plan", "r2", "-I", "/^m[12]/"]).await;
    assert_eq!(fleet.assert_equal().await, first);
    fleet.rpc(&["release", "promote", "r2", "-I", "/^m[12]/", "-y"]).await;
    let second = fleet.assert_equal().await;
    assert!(second.contains("chain/three.pem") && !second.contains("root.pem"), "{second}");
    assert!(machines.sh("m2", "cat /etc/database/password.cnf").await.contains("hunter3"));

    let back = fleet.0.operator.run(&["release", "rollback", "r1", "-I", "/^m[12]/", "-y"]).await;
    let third = fleet.assert_equal().await;
    let without_changes = |state: &str| {
        let lines = state.lines().filter(|line| !line.contains("/var/lib/ntp-changes"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_changes(&third), without_changes(&first), "{}", describe_output(&back));
}
