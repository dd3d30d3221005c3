//! Resources on a real machine, each compared with what the machine's own `puppet resource` says: noop changes nothing, a change is
//! made once, and undo restores what was there.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]
#![expect(clippy::disallowed_types, reason = "runs dpkg-deb")]

use std::path::Path;
use std::process::Command;

use muster_tests::command::describe_output;
use serde_json::Value;
use tempfile::TempDir;

use super::fleet::MachineFleet;
use super::nodes::{MachineNodes, NodeOptions};

/// A resource as an operator writes it, and what `puppet resource` prints of it afterwards.
struct ResourceCase {
    kind: &'static str,
    name: &'static str,
    attributes: &'static [&'static str],
    shown: &'static [(&'static str, &'static str)],
}

const CASES: &[ResourceCase] = &[
    ResourceCase {
        kind: "group",
        name: "crew",
        attributes: &["gid=3001"],
        shown: &[("ensure", "'present'"), ("gid", "3001")],
    },
    ResourceCase {
        kind: "user",
        name: "anna",
        attributes: &["uid=2001", "shell=/bin/sh", "home=/home/anna", "comment=Anna A"],
        shown: &[
            ("uid", "2001"),
            ("shell", "'/bin/sh'"),
            ("home", "'/home/anna'"),
            ("comment", "'Anna A'"),
        ],
    },
    ResourceCase {
        kind: "file",
        name: "/etc/demo.conf",
        attributes: &["content=a = 1\n", "mode=0640", "owner=games", "group=adm"],
        shown: &[("ensure", "'file'"), ("mode", "'0640'"), ("owner", "5"), ("group", "4")],
    },
    // With `force`, because an undo does not remove a directory otherwise.
    ResourceCase {
        kind: "file",
        name: "/srv/data",
        attributes: &["ensure=directory", "mode=2750", "force=true"],
        shown: &[("ensure", "'directory'"), ("mode", "'2750'")],
    },
    ResourceCase {
        kind: "host",
        name: "db1.example.net",
        attributes: &["ip=10.0.0.5"],
        shown: &[("ensure", "'present'"), ("ip", "'10.0.0.5'")],
    },
    ResourceCase {
        kind: "cron",
        name: "backup",
        attributes: &["command=/bin/true", "user=root", "minute=5", "hour=3"],
        shown: &[("command", "'/bin/true'"), ("minute", "['5']"), ("hour", "['3']")],
    },
    ResourceCase {
        kind: "service",
        name: "stub",
        attributes: &["ensure=running", "enable=true"],
        shown: &[("ensure", "'running'"), ("enable", "'true'")],
    },
    ResourceCase {
        kind: "service",
        name: "unwanted",
        attributes: &["enable=mask"],
        // `puppet resource` shows a masked unit as disabled.
        shown: &[("enable", "'false'")],
    },
    ResourceCase {
        kind: "package",
        name: "demo-tool",
        attributes: &["ensure=1.0"],
        shown: &[("ensure", "'1.0'")],
    },
    ResourceCase {
        kind: "mount",
        name: "/mnt",
        attributes: &["ensure=mounted", "device=tmpfs", "fstype=tmpfs"],
        shown: &[("ensure", "'mounted'"), ("device", "'tmpfs'"), ("fstype", "'tmpfs'")],
    },
];

/// Services where packages have them, two that run and one that cannot start; and a local repository with two versions of a package.
const PREPARE: &str = "printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \
    | tee /usr/lib/systemd/system/stub.service >/usr/lib/systemd/system/unwanted.service; \
    printf '[Service]\\nExecStart=/bin/false\\n' >/usr/lib/systemd/system/failing.service; systemctl daemon-reload; \
    echo 'deb [trusted=yes] file:/srv/demo ./' >/etc/apt/sources.list; apt-get -q update";

/// A repository with `demo-tool` in the versions 1.0 and 2.0.
fn write_repository(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    for version in ["1.0", "2.0"] {
        let tree = TempDir::new().unwrap();
        std::fs::create_dir_all(tree.path().join("DEBIAN")).unwrap();
        let control = format!(
            "Package: demo-tool\nVersion: {version}\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: test\n"
        );
        std::fs::write(tree.path().join("DEBIAN/control"), control).unwrap();
        std::fs::create_dir_all(tree.path().join("usr/share/demo")).unwrap();
        std::fs::write(tree.path().join("usr/share/demo/version"), version).unwrap();
        let built = Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(tree.path())
            .arg(directory)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
    }
    super::apt_repository::write_index(directory);
}

/// What `puppet resource` says, without the times of files.
async fn puppet_resource(machines: &MachineFleet, kind: &str, name: &str) -> String {
    let text =
        machines.sh("m1", &format!("NO_COLOR=1 puppet resource {kind} {name} --color=false")).await;
    let is_kept = |line: &&str| !line.contains("ctime") && !line.contains("mtime");
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
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

async fn check_case(nodes: &MachineNodes, case: &ResourceCase) {
    let machines = &nodes.machines;
    let subject = format!("{} {}", case.kind, case.name);
    let (kind, name) = (format!("type={}", case.kind), format!("name={}", case.name));
    let words = [&["puppetral", "do", kind.as_str(), name.as_str()], case.attributes].concat();
    let before = puppet_resource(machines, case.kind, case.name).await;

    let planned = nodes.call("m1", &[&words[..], &["noop=true"]].concat()).await;
    assert_eq!(planned["statuscode"], 0, "{subject}: {planned:#}");
    assert_eq!(puppet_resource(machines, case.kind, case.name).await, before, "{subject}: noop");

    let changed = nodes.call("m1", &words).await;
    assert_eq!(changed["statuscode"], 0, "{subject}: {changed:#}");
    assert_eq!(changed["data"]["changed"], true, "{subject}: {changed:#}");
    assert_shown(case, &puppet_resource(machines, case.kind, case.name).await);
    let jobs = nodes.operator.run_json(&["job", "list"]).await.0;
    let job = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();

    let again = nodes.call("m1", &words).await;
    assert_eq!(again["data"]["changed"], false, "{subject}: {again:#}");

    let undone = nodes.operator.run(&["job", "undo", &job, "-y"]).await;
    assert!(undone.status.success(), "{subject}: {}", describe_output(&undone));
    assert_eq!(puppet_resource(machines, case.kind, case.name).await, before, "{subject}: undo");
}

/// Successive states of the package and the services, each confirmed by `puppet resource`.
async fn check_sequences(nodes: &MachineNodes) {
    let steps: &[(&str, &str, &[&str], &str, &str)] = &[
        ("package", "demo-tool", &["ensure=1.0"], "ensure", "'1.0'"),
        ("package", "demo-tool", &["ensure=1.0", "mark=hold"], "mark", "'hold'"),
        ("package", "demo-tool", &["ensure=latest", "mark=none"], "ensure", "'2.0'"),
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
    let options = NodeOptions { puppet: true, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    nodes.machines.copy("m1", &repository.path().join("srv/demo"), "/srv/demo").await;
    nodes.machines.sh("m1", PREPARE).await;
    for case in CASES {
        check_case(&nodes, case).await;
    }
    check_sequences(&nodes).await;
}
