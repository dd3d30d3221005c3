//! Ten machines, three people, a schedule, a release and a rollback: the history answers what changed, and who changed a file with whose approval.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use serde_json::Value;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

const MACHINES: usize = 10;
/// The machine that has the services.
const SERVICES: &str = "m10";
/// The machines with the class `web`.
const WEB: [&str; 4] = ["m1", "m2", "m3", "m4"];
const CONFIGURATION: &str = "[plugins.release]\nenabled = true\nengine = \"native\"\ninterval = 86400\n\
    [registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n[plugins.puppetral]\ndeny_types = []\n\
    [paths]\nclasses = \"/etc/muster/classes.txt\"\n";

/// A change, as the history has to list it: node, user, resource, property, and what it was by.
type Change = (String, String, String, String, String);

fn change(machine: &str, who: &str, (resource, property): (&str, &str), by: &str) -> Change {
    (node_name(machine), who.to_owned(), resource.to_owned(), property.to_owned(), by.to_owned())
}

struct Day {
    nodes: MachineNodes,
    done: BTreeSet<Change>,
}

impl Day {
    async fn begin() -> Option<Self> {
        let options =
            NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
        let nodes = MachineNodes::start(MACHINES, options).await?;
        for user in ["ann", "joe"] {
            nodes.operator.run_successfully(&["org", "add", "user", user, "--bundle", user]).await;
        }
        let policy =
            "policy default deny\nallow\tjoe\tdo\t*\t*\tapproved-by=approvers\nallow\t*\t*\t*\t*\n";
        let file = nodes.operator.path("puppetral.policy");
        fs::write(&file, policy).unwrap();
        let groups = nodes.operator.path("groups");
        fs::write(&groups, "approvers ann rip\n").unwrap();
        for machine in WEB {
            nodes.machines.copy(machine, &file, "/etc/muster/policies/puppetral.policy").await;
            nodes.machines.copy(machine, &groups, "/etc/muster/policies/groups").await;
            nodes.machines.sh(machine, "echo web > /etc/muster/classes.txt").await;
        }
        let day = Self { nodes, done: BTreeSet::new() };
        day.start_services().await;
        for machine in WEB {
            day.nodes.machines.sh(machine, "systemctl restart rpcd").await;
        }
        day.nodes.await_answers(MACHINES).await;
        Some(day)
    }

    /// The history, a scheduler and a compiler with its code.
    async fn start_services(&self) {
        let (operator, machines) = (&self.nodes.operator, &self.nodes.machines);
        let mut text = String::new();
        for (service, section) in
            [("history", "history"), ("schedule", "schedule"), ("compiler", "compiler")]
        {
            let name = format!("{service}1");
            let credentials = operator.path(&format!("{name}.creds"));
            let out = credentials.to_str().unwrap();
            let mut words = vec!["org", "add", "service", &name, "--serve", service, "--out", out];
            if service == "compiler" {
                words.extend(["--environment", "production"]);
            }
            operator.run_successfully(&words).await;
            let path = format!("/etc/muster/{name}.creds");
            machines.copy(SERVICES, &credentials, &path).await;
            text.push_str(&["[plugins.", section, "]\nenabled = true\n"].concat());
            text.push_str(&["credentials = \"", &path, "\"\n"].concat());
        }
        text.push_str(
            "[plugins.compiler.environments.production]\ndirectory = \"/srv/code/production\"\n",
        );
        operator.run_successfully(&["org", "push"]).await;
        let file = operator.path("services.toml");
        fs::write(&file, text).unwrap();
        machines.copy(SERVICES, &file, "/etc/muster/conf.d/services.toml").await;
        self.write_code("one").await;
        machines.sh(SERVICES, "systemctl restart rpcd").await;
    }

    /// The code of the environment: a file with this content.
    async fn write_code(&self, content: &str) {
        let script = format!(
            "mkdir -p /srv/code/production/manifests && \
             echo \"file {{ '/etc/released': content => '{content}' }}\" > /srv/code/production/manifests/site.pp"
        );
        self.nodes.machines.sh(SERVICES, &script).await;
    }

    /// Runs `rpc` as this user.
    async fn rpc(&self, user: &str, words: &[&str]) -> String {
        let output = self.nodes.operator.run_as(user, words).await;
        assert!(output.status.success(), "{user}: rpc {words:?}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn note(&mut self, who: &str, machines: &[&str], what: (&str, &str), by: &str) {
        self.done.extend(machines.iter().map(|machine| change(machine, who, what, by)));
    }

    async fn ann_writes_the_message_on_all_web_servers(&mut self) {
        let words = ["do", "puppetral", "type=file", "name=/etc/motd", "content=ann", "-C", "web"];
        self.rpc("ann", &words).await;
        self.note("ann", &WEB, ("File[/etc/motd]", "content"), "puppetral do");
    }

    async fn joe_changes_it_on_one_with_approval(&mut self) {
        let target = node_name("m1");
        let words =
            ["do", "puppetral", "type=file", "name=/etc/motd", "content=joe", "-I", &target];
        let denied = self.nodes.operator.run_as("joe", &words).await;
        assert_eq!(denied.status.code(), Some(2), "{}", describe_output(&denied));
        self.rpc("joe", &[&words[..], &["--request-approval", "motd.json"]].concat()).await;
        self.rpc("ann", &["approve", "motd.json", "--yes"]).await;
        self.rpc("joe", &[&words[..5], &["--approve", "motd.json.approved"]].concat()).await;
        self.note("joe", &["m1"], ("File[/etc/motd]", "content"), "puppetral do");
    }

    async fn rip_creates_a_group_everywhere(&mut self) {
        self.rpc("rip", &["do", "puppetral", "type=group", "name=operators"]).await;
        let names = self.nodes.machines.names().join(" ");
        let all: Vec<&str> = names.split(' ').collect();
        self.note("rip", &all, ("Group[operators]", "ensure"), "puppetral do");
    }

    async fn schedule_touches_a_file(&mut self) {
        let target = format!("-I{}", node_name("m5"));
        let what = ["puppetral", "do", "type=file", "name=/etc/scheduled", "content=x", &target];
        let add = ["schedule", "add", "nightly"];
        let when = ["--every", "10s", "--yes"];
        poll_until_ok("the schedule is added", RECOVERY_TIMEOUT, async || {
            let words = [&add[..], &what, &when].concat();
            let output = self.nodes.operator.run(&words).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        self.nodes.machines.await_script("m5", "test -e /etc/scheduled").await;
        self.rpc("rip", &["schedule", "remove", "nightly"]).await;
        self.note("rip", &["m5"], ("File[/etc/scheduled]", "ensure"), "schedule nightly");
    }

    /// Releases the present code to two web servers; `release` is its name.
    async fn release(&mut self, release: &str) {
        poll_until_ok("the nodes are compiled", Duration::from_mins(3), async || {
            let words = ["compile", "--environment", "production"];
            let output = self.nodes.operator.run(&words).await;
            let create = ["release", "create", "--environment", "production", "-I", "/^m[12]\\./"];
            let created = self.nodes.operator.run(&create).await;
            if output.status.success() && created.status.success() {
                return Ok(());
            }
            Err(format!("{}\n{}", describe_output(&output), describe_output(&created)))
        })
        .await;
        self.rpc("rip", &["release", "promote", release, "-I", "/^m[12]\\./", "-y"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn day_of_three_people_is_answered_by_one_command_each() {
    let Some(mut day) = Day::begin().await else { return };
    day.ann_writes_the_message_on_all_web_servers().await;
    day.joe_changes_it_on_one_with_approval().await;
    day.rip_creates_a_group_everywhere().await;
    day.schedule_touches_a_file().await;
    let released = ("File[/etc/released]", "content");
    day.release("r1").await;
    day.note("rip", &["m1", "m2"], ("File[/etc/released]", "ensure"), "release r1");
    day.write_code("two").await;
    day.release("r2").await;
    day.note("rip", &["m1", "m2"], released, "release r2");
    day.rpc("rip", &["release", "rollback", "r1", "-I", "/^m[12]\\./", "-y"]).await;
    day.note("rip", &["m1", "m2"], released, "release r1");

    what_changed_since_yesterday(&day).await;
    who_changed_the_message_and_who_approved_it(&day).await;
}

async fn what_changed_since_yesterday(day: &Day) {
    let words = ["history", "--since", "yesterday", "--changed", "--kind", "change"];
    poll_until_ok("the history has what was done", RECOVERY_TIMEOUT, async || {
        let (document, _) = day.nodes.operator.run_json(&words).await;
        let listed: BTreeSet<Change> =
            document["rows"].as_array().into_iter().flatten().map(listed_change).collect();
        if listed == day.done {
            return Ok(());
        }
        let difference: Vec<_> = listed.symmetric_difference(&day.done).collect();
        Err(format!("{difference:#?}"))
    })
    .await;
    // The class selects the web servers.
    let (document, _) = day.nodes.operator.run_json(&[&words[..], &["-C", "web"]].concat()).await;
    let of_web: BTreeSet<Change> =
        document["rows"].as_array().into_iter().flatten().map(listed_change).collect();
    let names = WEB.map(node_name);
    let expected = day.done.iter().filter(|change| names.contains(&change.0));
    assert_eq!(of_web, expected.cloned().collect());
}

fn listed_change(row: &Value) -> Change {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let by = match (row["schedule"].as_str(), row["release"].as_str()) {
        (Some(schedule), _) => format!("schedule {schedule}"),
        (None, Some(release)) => format!("release {release}"),
        (None, None) => format!("{} {}", text("agent"), text("action")),
    };
    (text("node"), text("who"), text("resource"), text("property"), by)
}

async fn who_changed_the_message_and_who_approved_it(day: &Day) {
    let node = node_name("m1");
    let (document, _) =
        day.nodes.operator.run_json(&["history", "resource", "File[/etc/motd]", "-I", &node]).await;
    let rows = document["rows"].as_array().unwrap();
    let people: Vec<_> =
        rows.iter().map(|row| (row["who"].as_str(), row["approver"].as_str())).collect();
    assert_eq!(people, [(Some("joe"), Some("ann")), (Some("ann"), None)], "{document:#}");
    let text = day.rpc("joe", &["history", "resource", "File[/etc/motd]", "-I", &node]).await;
    assert!(text.contains("success, approved by ann"), "{text}");
}
