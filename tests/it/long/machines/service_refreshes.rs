//! Refreshes of services on a real machine: a reload by the resource's own command, and a restart after the unit itself changed; by our
//! engine and by the machine's own Puppet, each with a unit of its own.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use serde_json::json;

use crate::machines::nodes::{MachineNodes, NodeOptions};

const CONFIGURATION: &str = "[plugins.catalog]\nenabled = true\n";

/// A service that counts its starts and its reloads in `/srv/SIDE`.
fn unit_text(side: &str, description: &str) -> String {
    format!(
        "[Unit]\nDescription={description}\n[Service]\n\
        ExecStart=/bin/sh -c 'echo started >>/srv/{side}; trap \"echo reloaded >>/srv/{side}\" HUP; while :; do sleep 60 & wait; done'\n\
        ExecReload=/bin/kill -HUP $MAINPID\n"
    )
}

fn unit_path(side: &str) -> String {
    format!("/etc/systemd/system/{side}.service")
}

/// A file and the service that it notifies, with the service's command for a refresh.
struct RefreshCase {
    path: String,
    content: String,
    side: &'static str,
    restart: Option<String>,
}

impl RefreshCase {
    async fn apply_ours(&self, nodes: &MachineNodes) {
        let notified = format!("Service[{}]", self.side);
        let mut service = json!({"type": "service", "title": self.side, "ensure": "running"});
        if let Some(command) = &self.restart {
            service["restart"] = command.as_str().into();
        }
        let file = json!({"type": "file", "title": self.path, "content": self.content, "notify": notified});
        let input = format!("catalog={}", json!([file, service]));
        let reply = nodes.call("m1", &["catalog", "apply", &input]).await;
        assert_eq!(reply["statuscode"], 0, "{reply:#}");
    }

    async fn apply_theirs(&self, nodes: &MachineNodes) {
        let restart =
            self.restart.as_ref().map(|text| format!(", restart => '{text}'")).unwrap_or_default();
        let script = format!(
            "cat >/var/content <<'END'\n{}END\npuppet apply --color=false <<'END' 2>&1\n\
            file {{ '{}': content => file('/var/content'), notify => Service['{side}'] }}\n\
            service {{ '{side}': ensure => running, provider => systemd{restart} }}\nEND",
            self.content,
            self.path,
            side = self.side,
        );
        let text = nodes.machines.sh("m1", &script).await;
        assert!(text.contains("Triggered 'refresh'") && !text.contains("Error"), "{text}");
    }

    async fn apply(&self, nodes: &MachineNodes) {
        match self.side {
            "ours" => self.apply_ours(nodes).await,
            _ => self.apply_theirs(nodes).await,
        }
    }
}

/// Awaits what the service of one side has counted, and returns its description and whether systemd has read its unit.
async fn await_state(nodes: &MachineNodes, side: &str, counted: &str) -> String {
    let has_counted = format!(
        "test \"$(tr '\\n' ' ' </srv/{side})\" = '{counted} ' || {{ cat /srv/{side}; false; }}"
    );
    nodes.machines.await_script("m1", &has_counted).await;
    let show =
        format!("systemctl show --property=Description,NeedDaemonReload,ActiveState {side} | sort");
    nodes.machines.sh("m1", &show).await
}

/// Each refresh of one side: a reload keeps the process; a changed unit is read before the restart.
async fn refresh_side(nodes: &MachineNodes, side: &'static str) -> Vec<String> {
    let unit = unit_text(side, "first");
    let start = format!(
        "cat >{} <<'END'\n{unit}END\nsystemctl daemon-reload; systemctl start {side}",
        unit_path(side)
    );
    nodes.machines.sh("m1", &start).await;
    let mut states = vec![await_state(nodes, side, "started").await];
    let (path, content) = (format!("/srv/{side}.conf"), "a = 1\n".to_owned());
    let restart = Some(format!("/bin/systemctl reload {side}"));
    RefreshCase { path, content, side, restart }.apply(nodes).await;
    states.push(await_state(nodes, side, "started reloaded").await);
    let (path, content) = (unit_path(side), unit_text(side, "second"));
    RefreshCase { path, content, side, restart: None }.apply(nodes).await;
    states.push(await_state(nodes, side, "started reloaded started").await);
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_reloaded_and_restarted_as_by_puppet() {
    let options =
        NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let ours = refresh_side(&nodes, "ours").await;
    assert_eq!(ours, refresh_side(&nodes, "theirs").await);
    let expected = ["first", "first", "second"].map(|description| {
        format!("ActiveState=active\nDescription={description}\nNeedDaemonReload=no")
    });
    assert_eq!(ours, expected);
}
