//! The machines of the demonstration with the real programs: services, packages, processes, files, programs and catalogs work below each
//! node's root, and nothing outside of it is changed.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::demo::{Demo, describe_output};

/// Outputs of the nodes by name; every reply must be successful.
fn outputs(demo: &Demo, line: &[&str]) -> BTreeMap<String, Value> {
    let (document, code) = demo.run_json(line);
    assert_eq!(code, 0, "{line:?}: {document:#}");
    let replies = document["replies"].as_array().unwrap().clone();
    let pair = |reply: Value| (reply["sender"].as_str().unwrap().to_owned(), reply["data"].clone());
    replies.into_iter().map(pair).collect()
}

/// The process of the service on each node that has it.
fn service_processes(demo: &Demo, service: &str, class: &str) -> BTreeMap<String, u64> {
    let pattern = format!("pattern={service}");
    let listed = outputs(demo, &["process", "list", &pattern, "-C", class]);
    let one = |(node, data): (String, Value)| {
        let processes = data["processes"].as_array().unwrap().clone();
        assert_eq!(processes.len(), 1, "{node}: {data:#}");
        (node, processes[0]["pid"].as_u64().unwrap())
    };
    listed.into_iter().map(one).collect()
}

fn root(demo: &Demo, node: &str) -> PathBuf {
    demo.fleet().join("nodes").join(node).join("root")
}

fn is_running(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn services_packages_processes_files_and_programs_work_below_the_root() {
    let demo = Demo::start();
    check_service(&demo);
    check_package(&demo);

    let files = outputs(&demo, &["filemgr", "read", "path=/etc/hostname"]);
    assert_eq!(files.len(), 5);
    for (node, data) in &files {
        assert_eq!(data["text"], format!("{node}\n"), "{data:#}");
    }
    let shell = outputs(&demo, &["shell", "run", "script=cat /etc/hostname; echo x > /tmp/x"]);
    for (node, data) in &shell {
        assert_eq!(data["stdout"], format!("{node}\n"), "{data:#}");
        assert!(root(&demo, node).join("tmp/x").exists());
    }
    // A node has the processes below its own root only. Those of its scheduled check come and go.
    let listed = outputs(&demo, &["process", "list", "pattern=/usr/local/sbin/"]);
    for (node, data) in &listed {
        assert_eq!(data["count"], 1, "{node}: {data:#}");
    }
    check_catalogs(&demo);
}

fn check_service(demo: &Demo) {
    let before = service_processes(demo, "httpd", "apache");
    assert_eq!(before.len(), 2);
    let restarted = outputs(demo, &["do", "service", "restart", "service=httpd", "-C", "apache"]);
    assert!(restarted.values().all(|data| data["status"] == "running"), "{restarted:#?}");
    let after = service_processes(demo, "httpd", "apache");
    assert!(before.values().all(|pid| !is_running(*pid)));
    assert!(after.values().all(|pid| is_running(*pid) && !before.values().any(|old| old == pid)));
    let one = ["-I", "web1.dev.acme.net"];
    for (action, status) in [("stop", "stopped"), ("status", "stopped"), ("start", "running")] {
        let line = [&["service", action, "service=httpd"][..], &one].concat();
        assert_eq!(outputs(demo, &line)["web1.dev.acme.net"]["status"], status, "{action}");
    }
    let killed = [&["process", "kill", "pattern=httpd"][..], &one].concat();
    assert_eq!(outputs(demo, &killed)["web1.dev.acme.net"]["signalled"], 1);
    let stopped = [&["service", "start", "service=httpd"][..], &one].concat();
    assert_eq!(outputs(demo, &stopped)["web1.dev.acme.net"]["changed"], true);
}

fn check_package(demo: &Demo) {
    let line = ["do", "package", "install", "package=tree"];
    for changed in [true, false] {
        for (node, data) in outputs(demo, &line) {
            assert_eq!((&data["changed"], &data["ensure"]), (&changed.into(), &"2.1.1-1".into()));
            assert!(root(demo, &node).join("usr/local/bin/tree").exists());
        }
    }
    assert!(!Path::new("/usr/local/bin/tree").exists());
    let one = ["-I", "db1.dev.acme.net"];
    let ask = |line: &[&str]| outputs(demo, &[line, &one].concat())["db1.dev.acme.net"].clone();
    let program = ask(&["shell", "run", "command=[\"tree\", \"--version\"]"]);
    assert_eq!(program["stdout"], "tree 2.1.1-1\n", "{program:#}");
    let older = ask(&["package", "install", "package=tree", "version=2.0.4-1"]);
    assert_eq!((&older["previous"], &older["ensure"]), (&"2.1.1-1".into(), &"2.0.4-1".into()));
    let outdated = ask(&["package", "checkupdates"]);
    assert_eq!(outdated["count"], 2, "{outdated:#}");
    assert_eq!(outdated["outdated_packages"][0]["package"], "mysql-server");
    let held = ["puppetral", "do", "type=package", "name=tree", "ensure=present", "mark=hold"];
    assert_eq!(ask(&held)["changed"], true);
    assert_eq!(ask(&["package", "checkupdates"])["count"], 1);
    assert_eq!(ask(&["package", "update", "package=mysql-server"])["ensure"], "8.0.39-1");
    assert!(ask(&["package", "refresh"])["output"].as_str().unwrap().contains("/srv/packages"));
    assert_eq!(ask(&["package", "uninstall", "package=tree"])["ensure"], "absent");
    assert_eq!(ask(&["package", "purge", "package=tree"])["ensure"], "purged");
    assert!(!root(demo, "db1.dev.acme.net").join("usr/local/bin/tree").exists());
    let (_, code) = demo.run_json(&["package", "install", "package=no-such-package"]);
    assert_eq!(code, 2);
}

fn check_catalogs(demo: &Demo) {
    let before = service_processes(demo, "mysqld", "mysql::master");
    let runs = demo.rpc(&["puppet", "runall", "2"]);
    assert!(runs.status.success(), "{}", describe_output(&runs));
    let again = demo.rpc(&["puppet", "runall", "2"]);
    assert!(describe_output(&again).contains("clean"), "{}", describe_output(&again));
    for node in ["db1.dev.acme.net", "web1.dev.acme.net"] {
        assert!(root(demo, node).join("etc/motd").exists());
    }
    // The changed configuration file notifies the service.
    let after = service_processes(demo, "mysqld", "mysql::master");
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before.iter().all(|(node, pid)| after[node] != *pid), "{before:?} {after:?}");
    let catalog = "[[resource]]\ntype = \"file\"\ntitle = \"/etc/issue\"\ncontent = \"x\"\n";
    std::fs::write(root(demo, "db2.dev.acme.net").join("etc/site.toml"), catalog).unwrap();
    let apply = ["do", "catalog", "apply", "file=/etc/site.toml", "-I", "db2.dev.acme.net"];
    outputs(demo, &apply);
    assert!(root(demo, "db2.dev.acme.net").join("etc/issue").exists());
}

#[test]
fn down_ends_services_and_jobs_of_the_nodes() {
    let demo = Demo::start();
    let services = [
        service_processes(&demo, "httpd", "apache"),
        service_processes(&demo, "mysqld", "mysql::master"),
    ];
    let mut pids: Vec<u64> = services.iter().flat_map(BTreeMap::values).copied().collect();
    assert_eq!(pids.len(), 5);
    outputs(&demo, &["shell", "start", "script=exec sleep 1234", "-I", "db1.acme.net"]);
    let list = ["process", "list", "pattern=sleep", "-I", "db1.acme.net"];
    let job = loop {
        let listed = outputs(&demo, &list)["db1.acme.net"].clone();
        if let Some(pid) = listed["processes"][0]["pid"].as_u64() {
            break pid;
        }
    };
    pids.push(job);
    let fleet = demo.fleet();
    let down = demo.rpc(&["demo", "down", "--dir", fleet.to_str().unwrap()]);
    assert!(down.status.success() && !fleet.exists(), "{}", describe_output(&down));
    assert!(!pids.iter().any(|pid| is_running(*pid)));
}

#[test]
fn second_up_prints_the_same_settings_and_changes_nothing() {
    let demo = Demo::start_with(&["--nodes", "2"]);
    let fleet = demo.fleet();
    let record = || std::fs::read_to_string(fleet.join("demo.json")).unwrap();
    let before = record();
    let up = |more: &[&str]| {
        demo.rpc(&[&["demo", "up", "--dir", fleet.to_str().unwrap()], more].concat())
    };
    for more in [&[][..], &["--nodes", "2"]] {
        let again = up(more);
        assert!(again.status.success(), "{}", describe_output(&again));
        let settings = String::from_utf8(again.stdout).unwrap();
        assert!(settings.starts_with(&format!("export RPC_CONFIG={}/rpc.toml\n", fleet.display())));
        let messages = String::from_utf8(again.stderr).unwrap();
        assert!(messages.contains("already up") && messages.contains("demo down"), "{messages}");
    }
    for more in [&["--nodes", "3"][..], &["--virtual"]] {
        let other = up(more);
        assert_eq!(other.status.code(), Some(1), "{}", describe_output(&other));
        assert!(describe_output(&other).contains("already running"), "{}", describe_output(&other));
    }
    assert_eq!(record(), before);
}

#[test]
fn guest_may_read_and_is_denied_changes_with_the_rule() {
    let demo = Demo::start();
    let guest = demo.fleet().join("guest/rpc.toml");
    let ask =
        |line: &[&str]| demo.run_text(&[line, &["--config", guest.to_str().unwrap()]].concat());
    let (status, code) = ask(&["service", "status", "service=httpd", "-C", "apache"]);
    assert!(code == 0 && status.contains("running"), "{status}");
    let (found, code) = ask(&["find", "-S", "package(\"apache2\").installed=true"]);
    assert_eq!((found.lines().count(), code), (2, 0), "{found}");
    let (denied, code) = ask(&["service", "restart", "service=httpd", "-C", "apache"]);
    assert_eq!(code, 2, "{denied}");
    assert!(denied.contains("guest is not allowed to call service restart"), "{denied}");
    assert!(denied.contains("service.policy:1 (default)"), "{denied}");
}

#[test]
fn demonstration_adds_contexts_and_keeps_the_selected_one() {
    let demo = Demo::start_with(&["--nodes", "1"]);
    let contexts = demo.run_text(&["context", "list"]).0;
    for name in ["demo", "demo-guest"] {
        assert!(contexts.lines().any(|line| line.split_whitespace().any(|word| word == name)));
    }
    let whoami = |more: &[&str]| {
        let (document, code) = demo.run_json(&[&["whoami"], more].concat());
        assert_eq!(code, 0, "{document:#}");
        document
    };
    // The variable RPC_CONFIG selects the file; the new contexts are not selected.
    let own = whoami(&[]);
    assert_eq!((&own["user"], &own["context"]), (&"demo".into(), &Value::Null), "{own:#}");
    assert_eq!((&own["fleet"], &own["selected_by"]), (&"demo".into(), &"RPC_CONFIG".into()));
    assert!(own["expires"].as_u64().unwrap() > 0 && own["valid"] == true, "{own:#}");
    let guest = whoami(&["--context", "demo-guest"]);
    assert_eq!((&guest["user"], &guest["context"]), (&"guest".into(), &"demo-guest".into()));
    let (found, code) = demo.run_text(&["find", "--context", "demo-guest"]);
    assert_eq!((found.lines().count(), code), (1, 0), "{found}");
    let unknown = demo.rpc(&["find", "--context", "dem"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(describe_output(&unknown).contains("did you mean `demo`"), "{unknown:?}");

    let used = demo.rpc(&["context", "use", "demo-guest"]);
    assert!(used.status.success() && describe_output(&used).contains("RPC_CONFIG is set"));
    let fleet = demo.fleet();
    let down = demo.rpc(&["demo", "down", "--dir", fleet.to_str().unwrap()]);
    assert!(down.status.success(), "{}", describe_output(&down));
    assert!(!demo.run_text(&["context", "list"]).0.contains("demo"));
}
