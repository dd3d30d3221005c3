//! A node with directories of its own, on which the real Puppet, or a scripted one, applies a catalog.

#![expect(clippy::disallowed_types, reason = "starts the real Puppet beside ours")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::{CallContext, NodePlugin as _};
use muster_permits::PermitClient;
use muster_puppet::{Options, PuppetApplication, PuppetPlugin};
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::parity::tell;

/// Puppet's own search path: other rubies of a machine are not its.
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const PUPPET: &str = "/usr/bin/puppet";

/// Whether Puppet is installed. A test run must have it, or name it in `MUSTER_TESTS_WITHOUT`.
pub(crate) fn has_puppet() -> bool {
    let is_there = Path::new(PUPPET).exists();
    if !is_there {
        assert!(
            muster_tests::tools::is_left_out("puppet"),
            "puppet is not installed: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT"
        );
        tell("skipped: puppet is not installed; tools/fetch-puppet installs it");
    }
    is_there
}

pub(crate) struct Node {
    directory: TempDir,
    name: String,
    pub(crate) options: Options,
}

impl Node {
    /// With the real Puppet, which applies a catalog.
    pub(crate) fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["conf", "code", "var/state", "run", "log", "public", "ssl", "w"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        let options = Options {
            command: Some(PUPPET.into()),
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

    /// With a Puppet that is this shell script.
    pub(crate) fn scripted(name: &str, script: &str) -> Self {
        let mut node = Self::new(name);
        let program = node.path("puppet");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        node.options.command = Some(program);
        node.catalog(&json!({"name": name, "resources": []}));
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn catalog(&self, catalog: &Value) {
        std::fs::write(self.path("catalog.json"), catalog.to_string()).unwrap();
    }

    pub(crate) fn puppet(&self, desk: PermitClient) -> PuppetPlugin {
        PuppetPlugin::new(self.options.clone(), desk).unwrap()
    }

    /// Without permits.
    pub(crate) fn alone(&self) -> PuppetPlugin {
        self.puppet(PermitClient::new(Identity::parse(&self.name).unwrap()))
    }

    /// Puppet without us: what a stock node would do. Its words are for who reads a failure.
    pub(crate) fn plain(&self) -> String {
        let mut command = Command::new(PUPPET);
        command.arg("apply").env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        let options = &self.options;
        for (flag, directory) in [
            ("--confdir", &options.confdir),
            ("--codedir", &options.codedir),
            ("--vardir", &options.vardir),
            ("--rundir", &options.rundir),
            ("--logdir", &options.logdir),
            ("--publicdir", &options.publicdir),
            ("--ssldir", &options.ssldir),
            ("--catalog", &options.catalog),
        ] {
            command.arg(flag).arg(directory.as_ref().unwrap());
        }
        let output = command.args(["--certname", &self.name, "--color=false"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// The lines that commands of the catalog wrote.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("w/log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

fn context(action: &str) -> CallContext {
    let node = TestNode::named("dev1.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let mut cx = node.context("puppet", action, system).unwrap();
    cx.deadline = Instant::now() + Duration::from_mins(10);
    cx
}

/// The result of a run, good or bad.
pub(crate) async fn run(puppet: &PuppetPlugin, input: Value) -> Value {
    let agent = puppet.build_agent().unwrap();
    let declared = agent.ddl().find_action("runonce").unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let cx = context("runonce");
    match agent.find_handler("runonce").unwrap().call(&cx, input).await {
        Ok(outcome) => Value::Object(outcome),
        Err(error) => Value::Object(error.data),
    }
}
