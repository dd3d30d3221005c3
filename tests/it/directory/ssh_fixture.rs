//! A fleet for `rpc ssh`, with programs in PATH that record their arguments instead of OpenSSH (A6.6).

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;

use super::fixture::{DirectoryFixture, FleetNode, lines};

/// Records its name and its arguments, one per line, in a file of its own below `CALLS`.
const STUB: &str = "#!/bin/sh\n{ echo \"${0##*/}\"; for argument; do printf '%s\\n' \"$argument\"; done; } > \"$CALLS/$$\"\n\
    echo \"output of the node\"\nexit \"${STUB_EXIT:-0}\"\n";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN";

pub(super) struct SshFleet {
    pub(super) fleet: DirectoryFixture,
    _directory: FleetNode,
    nodes: Vec<FleetNode>,
}

impl SshFleet {
    /// Nodes with these names and addresses; those of `acme.net` have host keys.
    pub(super) async fn start(nodes: &[(&str, &str)]) -> Self {
        let with_keys = nodes.iter().map(|&(name, address)| {
            let has_key = name.ends_with("acme.net");
            (name, address, has_key.then(|| host_key(name)))
        });
        Self::start_with_keys(&with_keys.collect::<Vec<_>>()).await
    }

    /// Nodes with these names, addresses and host keys.
    pub(super) async fn start_with_keys(nodes: &[(&str, &str, Option<String>)]) -> Self {
        let fleet = DirectoryFixture::start().await;
        let directory = fleet.start_directory("dir1.example.net", "directory1");
        let start = |(name, address, key): &(&str, &str, Option<String>)| {
            let signer = fleet.organisation.node(name);
            let facts = serde_json::json!({"networking": {"ip": address}, "role": "web"});
            let home = fleet.node_home(&signer, &facts.to_string(), "");
            let root = format!("[paths]\nroot = \"{}\"\n", home.path("root").display());
            home.write("conf.d/root.toml", &root, 0o644);
            home.write("root/etc/.keep", "", 0o644);
            if let Some(key) = key {
                let key = format!("{key} root@{name}\n");
                home.write("root/etc/ssh/ssh_host_ed25519_key.pub", &key, 0o644);
            }
            FleetNode { signer, daemon: home.start() }
        };
        let count = nodes.iter().filter(|(.., key)| key.is_some()).count();
        let nodes: Vec<FleetNode> = nodes.iter().map(start).collect();
        let found = Self { fleet, _directory: directory, nodes };
        poll_until_ok("the directory has all records", Duration::from_mins(1), async || {
            let with_keys = [
                "nodes",
                "-F",
                "role=web",
                "-Q",
                "{'state.ssh.host_keys': {$exists: true}}",
                "-o",
                "name",
            ];
            let output = found.fleet.rpc.run(&["nodes", "-F", "role=web", "-o", "name"]).await;
            let keys = found.fleet.rpc.run(&with_keys).await;
            let has_all = lines(&output.stdout).len() == found.nodes.len()
                && (count == 0 || lines(&keys.stdout).len() >= count);
            if has_all { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        for directory in ["bin", "calls"] {
            std::fs::create_dir(found.fleet.rpc.path(directory)).unwrap();
        }
        for program in ["ssh", "scp", "sftp"] {
            found.fleet.rpc.write(&format!("bin/{program}"), STUB);
            let path = found.fleet.rpc.path(&format!("bin/{program}"));
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        found
    }

    #[expect(clippy::disallowed_types, reason = "names the type of the prepared command")]
    pub(super) fn prepare(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = self.fleet.rpc.prepare_command(arguments);
        let path = format!("{}:/usr/bin:/bin", self.fleet.rpc.path("bin").display());
        command.env("PATH", path).env("CALLS", self.fleet.rpc.path("calls"));
        command
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Output {
        self.forget_calls();
        self.prepare(arguments).output().await.unwrap()
    }

    pub(super) fn forget_calls(&self) {
        let directory = self.fleet.rpc.path("calls");
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::create_dir(&directory).unwrap();
    }

    /// The calls of the programs, each with its arguments, sorted.
    pub(super) fn calls(&self) -> Vec<Vec<String>> {
        let files = std::fs::read_dir(self.fleet.rpc.path("calls")).unwrap();
        let call = |file: std::io::Result<std::fs::DirEntry>| {
            lines(&std::fs::read(file.unwrap().path()).unwrap())
        };
        let mut calls: Vec<Vec<String>> = files.map(call).collect();
        calls.sort();
        calls
    }

    /// The arguments that pin the host keys of a node.
    fn pins(&self, node: &str) -> Vec<String> {
        let cache = self.fleet.rpc.path(".cache/muster/fleets");
        let pattern = format!("ssh/{node}");
        let known = find_file(&cache, &pattern).unwrap_or_else(|| panic!("no {pattern}"));
        let mode = std::fs::metadata(&known).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        [
            format!("HostKeyAlias={node}"),
            format!("UserKnownHostsFile={known}"),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "CheckHostIP=no".to_owned(),
            "UpdateHostKeys=no".to_owned(),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
    }

    pub(super) fn call(&self, program: &str, node: &str, rest: &[&str]) -> Vec<String> {
        let rest = rest.iter().map(|&text| text.to_owned());
        [program.to_owned()].into_iter().chain(self.pins(node)).chain(rest).collect()
    }
}

/// A key of the form of Ed25519 that no other name has.
pub(super) fn host_key(name: &str) -> String {
    format!("{KEY}{:A<42}", name.replace('.', "A"))
}

pub(super) fn find_file(directory: &std::path::Path, end: &str) -> Option<String> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return find_file(&path, end);
        }
        path.to_str().filter(|path| path.ends_with(end)).map(str::to_owned)
    })
}

pub(super) fn errors(output: &Output) -> Vec<String> {
    lines(&output.stderr)
}
