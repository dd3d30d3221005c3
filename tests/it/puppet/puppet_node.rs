//! A node with its own directories, on which the real Puppet or a script applies a catalog.

#![expect(clippy::disallowed_types, reason = "starts the real Puppet")]

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::{CallContext, HistoryRecorder, NodePlugin as _, StateChanges};
use muster_puppet::permits::PermitClient;
use muster_puppet::{Options, PuppetApplication, PuppetPlugin};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::puppetserver::PuppetServer;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::parity::print_line;

/// Puppet's search path; excludes other Ruby installations of the machine.
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const PUPPET_PROGRAM: &str = "/usr/bin/puppet";

/// Whether Puppet is installed. A test run must have it, or name it in `MUSTER_TESTS_WITHOUT`.
pub(crate) fn has_puppet() -> bool {
    let is_installed = Path::new(PUPPET_PROGRAM).exists();
    if !is_installed {
        assert!(
            muster_tests::tools::is_skipped("puppet"),
            "puppet is not installed: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT"
        );
        print_line("skipped: puppet is not installed; tools/fetch-puppet installs it");
    }
    is_installed
}

pub(crate) struct PuppetNode {
    directory: TempDir,
    name: String,
    pub(crate) options: Options,
}

impl PuppetNode {
    /// A node with the real Puppet, which applies a catalog.
    pub(crate) fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["conf", "code", "var/state", "run", "log", "public", "ssl", "w"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        let options = Options {
            command: Some(PUPPET_PROGRAM.into()),
            application: PuppetApplication::Apply,
            catalog: Some(path("catalog.json")),
            confdir: Some(path("conf")),
            codedir: Some(path("code")),
            vardir: Some(path("var")),
            rundir: Some(path("run")),
            logdir: Some(path("log")),
            publicdir: Some(path("public")),
            ssldir: Some(path("ssl")),
            certname: Some(name.to_owned()),
            state_dir: path("muster/puppet"),
            engine_dir: path("muster/engine"),
            wait: 300,
            ..Options::default()
        };
        Self { directory, name: name.to_owned(), options }
    }

    /// A node whose real Puppet requests its catalogs from this server. It has no certificate yet.
    pub(crate) fn of_server(name: &str, server: &PuppetServer) -> Self {
        let mut node = Self::new(name);
        node.options.application = PuppetApplication::Agent;
        let port = server.port().to_string();
        let arguments = ["--server", "localhost", "--serverport", &port, "--ca_port", &port];
        node.options.arguments = arguments.map(str::to_owned).to_vec();
        let more = ["--keylength", "2048", "--waitforcert", "0"];
        node.options.arguments.extend(more.map(str::to_owned));
        node
    }

    /// A node whose Puppet is this shell script.
    pub(crate) fn scripted(name: &str, script: &str) -> Self {
        let mut node = Self::new(name);
        let program = node.path("puppet");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        node.options.command = Some(program);
        node.write_catalog(&json!({"name": name, "resources": []}));
        node
    }

    /// The node's name, which is its certname.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write_catalog(&self, catalog: &Value) {
        std::fs::write(self.path("catalog.json"), catalog.to_string()).unwrap();
    }

    pub(crate) fn create_plugin(&self, permits: PermitClient) -> PuppetPlugin {
        PuppetPlugin::new(
            self.options.clone(),
            permits,
            StateChanges::default(),
            HistoryRecorder::default(),
        )
        .unwrap()
    }

    /// Starts a real daemon with this Puppet, and waits until it replies to `rpc ping`.
    pub(crate) async fn start_daemon(
        &self,
        (organisation, server): (&Organisation, &NatsServer),
        rpc: &RpcCommand,
    ) -> Rpcd {
        let daemon = self.create_daemon_home((organisation, server)).start();
        self.await_daemon(rpc).await;
        daemon
    }

    /// The files of a daemon with this Puppet.
    pub(crate) fn create_daemon_home(
        &self,
        (organisation, server): (&Organisation, &NatsServer),
    ) -> DaemonHome {
        let signer = organisation.node(&self.name);
        let mut config = "[plugins.shell]\nenabled = true\n[plugins.puppet]\n".to_owned();
        let options = &self.options;
        for (name, path) in [
            ("command", &options.command),
            ("catalog", &options.catalog),
            ("manifest", &options.manifest),
            ("confdir", &options.confdir),
            ("codedir", &options.codedir),
            ("vardir", &options.vardir),
            ("rundir", &options.rundir),
            ("logdir", &options.logdir),
            ("publicdir", &options.publicdir),
            ("ssldir", &options.ssldir),
        ] {
            if let Some(path) = path {
                writeln!(config, "{name} = \"{}\"", path.display()).unwrap();
            }
        }
        let application = match options.application {
            PuppetApplication::Apply => "apply",
            PuppetApplication::Agent => "agent",
        };
        let (name, arguments) = (&self.name, &options.arguments);
        writeln!(config, "application = \"{application}\"\ncertname = \"{name}\"").unwrap();
        writeln!(config, "arguments = {arguments:?}").unwrap();
        DaemonHome::new(organisation, &signer, &server.url(), &config)
    }

    /// Waits until the daemon replies to `rpc ping`.
    pub(crate) async fn await_daemon(&self, rpc: &RpcCommand) {
        poll_until_ok("the daemon replies", Duration::from_mins(2), async || {
            let output = rpc.run(&["ping", "-I", &self.name]).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }

    /// A plugin without permits.
    pub(crate) fn without_permits(&self) -> PuppetPlugin {
        self.create_plugin(PermitClient::new(Identity::parse(&self.name).unwrap()))
    }

    /// Runs Puppet directly, as a node without Muster does; returns its output for assert messages.
    pub(crate) fn run_stock_puppet(&self, more: &[&str]) -> String {
        let options = &self.options;
        let mut words = more.to_vec();
        let catalog = options.catalog.as_ref().unwrap().display().to_string();
        match options.application {
            PuppetApplication::Apply => {
                words.insert(0, "apply");
                words.extend(["--catalog", &catalog]);
            }
            PuppetApplication::Agent => {
                words.insert(0, "agent");
                words.push("--test");
            }
        }
        self.run_puppet_command(&words)
    }

    /// Runs `puppet apply` with a manifest and modules; returns its output for assert messages.
    pub(crate) fn apply_manifest(&self, manifest: &str, modules: &str) -> String {
        self.run_puppet_command(&["apply", "--modulepath", modules, "-e", manifest])
    }

    fn run_puppet_command(&self, words: &[&str]) -> String {
        let options = &self.options;
        let mut command = Command::new(PUPPET_PROGRAM);
        command.args(words);
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        for (flag, directory) in [
            ("--confdir", &options.confdir),
            ("--codedir", &options.codedir),
            ("--vardir", &options.vardir),
            ("--rundir", &options.rundir),
            ("--logdir", &options.logdir),
            ("--publicdir", &options.publicdir),
            ("--ssldir", &options.ssldir),
        ] {
            command.arg(flag).arg(directory.as_ref().unwrap());
        }
        command.args(["--certname", &self.name, "--color=false"]).args(&options.arguments);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// The status in Puppet's last report: `changed`, `unchanged` or `failed`.
    pub(crate) fn report_status(&self) -> String {
        let report = std::fs::read_to_string(self.path("var/state/last_run_report.yaml"));
        let report = report.unwrap_or_default();
        let status = report.lines().find_map(|line| line.strip_prefix("status: "));
        status.unwrap_or("no report").to_owned()
    }

    /// The lines that commands of the catalog wrote.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("w/log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

pub(crate) fn context(action: &str) -> CallContext {
    let node = TestNode::named("dev1.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let mut cx = node.context("puppet", action, system).unwrap();
    cx.deadline = Instant::now() + Duration::from_mins(10);
    cx
}

/// Runs the action `runonce`; returns its data on success and on failure.
pub(crate) async fn run_once(puppet: &PuppetPlugin, input: Value) -> Value {
    let agent = puppet.build_agent().unwrap();
    let declared = agent.ddl().find_action("runonce").unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let cx = context("runonce");
    match agent.find_handler("runonce").unwrap().call(&cx, input).await {
        Ok(outcome) => Value::Object(outcome),
        Err(error) => Value::Object(error.data),
    }
}
