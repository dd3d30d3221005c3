//! What each version of `rpc` gets from nodes of both versions, with each version of the directory and the scheduler.

use std::time::Instant;

use muster_tests::await_state;
use muster_tests::program_version::ProgramVersion;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::{Value, json};

use super::fixture::{DENYING_RULE, SkewFleet, start_daemon};

/// A node that runs the earlier version.
pub(super) const EARLIER_NODE: &str = "earlier.acme.net";
/// A node that runs this version.
pub(super) const PRESENT_NODE: &str = "present.acme.net";
/// The node that runs the directory and the scheduler, in one version after the other.
pub(super) const CENTRAL_NODE: &str = "central.acme.net";
/// All nodes, in the order of their names.
pub(super) const ALL_NODES: [&str; 3] = [CENTRAL_NODE, EARLIER_NODE, PRESENT_NODE];

/// The nodes of an organisation, and the files of the host of its services.
pub(super) struct SkewNodes {
    daemons: Vec<Rpcd>,
    pub(super) central: DaemonHome,
}

impl SkewNodes {
    /// Creates all nodes with `rpc` of this version, and starts those that run no service.
    pub(super) async fn start(fleet: &SkewFleet, version: ProgramVersion) -> Self {
        let mut daemons = Vec::new();
        for (name, program) in
            [(EARLIER_NODE, ProgramVersion::Earlier), (PRESENT_NODE, ProgramVersion::Present)]
        {
            daemons.push(start_daemon(&fleet.add_node(version, name).await, program).await);
        }
        Self { daemons, central: fleet.add_node(version, CENTRAL_NODE).await }
    }

    /// Starts the services in one version after the other, on the same files, and checks all that both versions of `rpc` get.
    pub(super) async fn check_services(&self, fleet: &SkewFleet) {
        for directory in ProgramVersion::BOTH {
            let mut host = start_daemon(&self.central, directory).await;
            for caller in ProgramVersion::BOTH {
                fleet.await_registered(caller, &ALL_NODES).await;
                SkewCell { fleet, caller, directory }.check_all().await;
            }
            self.check_schedule(fleet).await;
            host.stop_and_wait().await;
        }
    }

    /// Adds a schedule with `rpc` of this version. A service of either version must run it.
    pub(super) async fn add_schedule(fleet: &SkewFleet, version: ProgramVersion) {
        let what = ["schedule", "add", "turn", "filemgr", "touch", "path=/tmp/turn"];
        let when = ["--every", "5s", "-C", "common", "--yes"];
        fleet.run(version, &[&what[..], &when].concat()).await;
    }

    /// The service knows the schedule, and the nodes execute its turns.
    async fn check_schedule(&self, fleet: &SkewFleet) {
        for caller in ProgramVersion::BOTH {
            let (document, _) = fleet.run_json(caller, &["schedule", "list"]).await;
            let schedule = &document["schedules"][0];
            let found = (&schedule["name"], &schedule["author"]);
            assert_eq!(found, (&json!("turn"), &json!("rip")), "{document}");
        }
        for daemon in &self.daemons {
            let file = daemon.home().path("root/tmp/turn");
            let _ = std::fs::remove_file(&file);
            await_state("the node executes a turn of the schedule", || file.exists()).await;
        }
    }
}

/// One version of `rpc`, one of the directory, and nodes of both.
pub(super) struct SkewCell<'a> {
    pub(super) fleet: &'a SkewFleet,
    pub(super) caller: ProgramVersion,
    /// The version that answers for the directory.
    pub(super) directory: ProgramVersion,
}

impl SkewCell<'_> {
    async fn check_all(&self) {
        self.check_ping().await;
        self.check_read().await;
        self.check_change().await;
        self.check_denial().await;
        self.check_discovery("broadcast").await;
        self.check_discovery("directory").await;
        self.check_large_reply().await;
        self.check_late_reply().await;
    }

    fn describe(&self) -> String {
        format!("rpc {:?}, directory {:?}", self.caller, self.directory)
    }

    /// Sends a request to the two nodes by name. Returns their replies, in the order of the names, and the exit code.
    async fn ask(&self, words: &[&str]) -> ([Value; 2], i32) {
        let named = ["-I", EARLIER_NODE, "-I", PRESENT_NODE, "--yes"];
        let (document, code) =
            self.fleet.run_json(self.caller, &[&["do"], words, &named[..]].concat()).await;
        ([EARLIER_NODE, PRESENT_NODE].map(|node| reply_of(&document, node, &self.describe())), code)
    }

    pub(super) async fn check_ping(&self) {
        let (document, code) = self.fleet.run_json(self.caller, &["ping"]).await;
        assert_eq!((senders(&document), code), (ALL_NODES.map(str::to_owned).into(), 0));
    }

    pub(super) async fn check_read(&self) {
        let (replies, code) = self.ask(&["rpcutil", "get_fact", "fact=site"]).await;
        let values = replies.map(|reply| reply["data"]["value"].clone());
        assert_eq!(
            (values, code),
            ([json!("earlier"), json!("present")], 0),
            "{}",
            self.describe()
        );
    }

    /// The second request of a pair finds that there is nothing to do.
    pub(super) async fn check_change(&self) {
        let name = format!("name=/tmp/{:?}-{:?}", self.caller, self.directory);
        for expected in [true, false] {
            let words = ["puppetral", "do", "type=file", &name, "ensure=file", "content=x"];
            let (replies, code) = self.ask(&words).await;
            let changed = replies.each_ref().map(|reply| &reply["data"]["changed"]);
            assert_eq!((changed, code), ([&json!(expected); 2], 0), "{name}: {replies:?}");
        }
    }

    pub(super) async fn check_denial(&self) {
        let (replies, code) = self.ask(&["filemgr", "remove", "path=/tmp/removable"]).await;
        let reason = json!({"kind": "denied", "rule": DENYING_RULE});
        for reply in &replies {
            assert_eq!((&reply["statuscode"], &reply["reason"]), (&json!(5), &reason), "{reply}");
        }
        assert_eq!(replies[0]["statusmsg"], replies[1]["statusmsg"]);
        assert_eq!(code, 2, "{}", self.describe());
    }

    /// `rpc find` finds a node of either version by its fact. A request that is sent to it with the fact is executed, unless this version of `rpc` sends it to a
    /// node of the earlier one: the request has a field that the node cannot read.
    pub(super) async fn check_discovery(&self, method: &str) {
        for (node, version) in
            [(EARLIER_NODE, ProgramVersion::Earlier), (PRESENT_NODE, ProgramVersion::Present)]
        {
            let site = format!("site={}", node.split('.').next().unwrap());
            let found = self.fleet.lines(self.caller, &["find", "--dm", method, "-F", &site]).await;
            assert_eq!(found, [node], "{method}, {}", self.describe());
            let file = format!("path=/tmp/{method}-{:?}-{:?}", self.caller, self.directory);
            let touch = ["do", "filemgr", "touch", &file, "--dm", method, "-F", &site, "--yes"];
            let is_readable =
                (self.caller, version) != (ProgramVersion::Present, ProgramVersion::Earlier);
            if is_readable {
                let (document, code) = self.fleet.run_json(self.caller, &touch).await;
                let reply = reply_of(&document, node, &self.describe());
                assert_eq!((&reply["data"]["changed"], code), (&json!(true), 0), "{document}");
            } else {
                self.check_refused_filter(&touch, &file).await;
            }
        }
    }

    /// The node executes nothing and does not reply, and `rpc` says so. With its name from a list, the same request is executed.
    async fn check_refused_filter(&self, touch: &[&str], file: &str) {
        let short = [touch, &["-t", "2"]].concat();
        let (document, code) = self.fleet.run_json(self.caller, &short).await;
        let stats = &document["request_stats"];
        assert_eq!((&stats["no_responses"], code), (&json!([EARLIER_NODE]), 3), "{document}");
        let list = self.fleet.path("found");
        std::fs::write(&list, format!("{EARLIER_NODE}\n")).unwrap();
        let by_list = ["do", "filemgr", "touch", file, "--nodes", list.to_str().unwrap(), "--yes"];
        let (document, code) = self.fleet.run_json(self.caller, &by_list).await;
        let reply = reply_of(&document, EARLIER_NODE, &self.describe());
        // Changed now, so not before.
        assert_eq!((&reply["data"]["changed"], code), (&json!(true), 0), "{document}");
    }

    /// Half a megabyte from each node.
    pub(super) async fn check_large_reply(&self) {
        let script = "mkdir -p /tmp/many && cd /tmp/many && seq -f %0200g 2000 | xargs touch";
        self.execute("many", script).await;
        let (replies, code) = self.ask(&["filemgr", "list", "path=/tmp/many"]).await;
        for reply in &replies {
            assert_eq!(reply["data"]["count"], json!(2000));
            assert!(reply.to_string().len() > 450_000, "{}", reply.to_string().len());
        }
        assert_eq!(code, 0, "{}", self.describe());
    }

    /// The reply is later than the first repetition of the request, which this version of `rpc` sends after 8 s. The action is executed once.
    pub(super) async fn check_late_reply(&self) {
        let started = Instant::now();
        let file = format!("/tmp/late-{:?}-{:?}", self.caller, self.directory);
        self.execute("late", &format!("sleep 10; echo x >> {file}")).await;
        assert!(started.elapsed().as_secs() >= 10);
        let (replies, code) = self.ask(&["filemgr", "read", &format!("path={file}")]).await;
        let texts = replies.map(|reply| reply["data"]["text"].clone());
        assert_eq!((texts, code), ([json!("x\n"), json!("x\n")], 0), "{}", self.describe());
    }

    /// Runs a script on both nodes.
    async fn execute(&self, name: &str, script: &str) {
        let (name, command) = (format!("name={name}"), format!("command={script}"));
        let words = ["puppetral", "do", "type=exec", &name, &command, "provider=shell"];
        let (replies, code) = self.ask(&words).await;
        assert_eq!(code, 0, "{}: {replies:?}", self.describe());
    }
}

/// The nodes that replied, in the order of their names.
pub(super) fn senders(document: &Value) -> Vec<String> {
    let replies = document["replies"].as_array().unwrap();
    let mut names: Vec<String> =
        replies.iter().map(|reply| reply["sender"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn reply_of(document: &Value, node: &str, what: &str) -> Value {
    let replies = document["replies"].as_array().unwrap();
    let found = replies.iter().find(|reply| reply["sender"] == node);
    found.unwrap_or_else(|| panic!("{what}: no reply of {node}: {document}")).clone()
}
