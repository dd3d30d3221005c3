//! A machine with a scripted Puppet: a program called `puppet` whose behaviour each test defines.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::NodePlugin as _;
use muster_api::system::System;
use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::identity::Identity;
use muster_api::{ActionError, CallContext, HistoryRecorder, StateChanges};

use crate::permits::PermitClient;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{Options, PuppetPlugin};

/// The scripted Puppet: parses the relevant flags, records its arguments, and runs `behave`.
const SCRIPT: &str = r#"#!/bin/sh
for word in "$@"; do echo "$word"; done >>"$(dirname "$0")/argv"
while [ $# -gt 0 ]; do
  case "$1" in
    --vardir) var=$2 ;;
    --logdest) trace=${2%,console} ;;
    --catalog) catalog=$2 ;;
  esac
  shift
done
state=$var/state
lock() { printf %s $$ >"$state/agent_catalog_run.lock"; }
unlock() { rm -f "$state/agent_catalog_run.lock"; }
say() { printf '{"level":"%s","source":"%s","message":"%s","tags":[]}\n' "$1" "$2" "$3" >>"$trace"; }
report() { # status total changed failed
  cat >"$state/last_run_report.yaml" <<END
--- !ruby/object:Puppet::Transaction::Report
host: n1
time: '$(date +%s%N)'
configuration_version: 7
transaction_uuid: $(cat /proc/sys/kernel/random/uuid)
status: $1
transaction_completed: true
noop: false
environment: production
cached_catalog_status: not_used
metrics:
  resources:
    name: resources
    values:
    - - total
      - Total
      - $2
    - - changed
      - Changed
      - $3
    - - failed
      - Failed
      - $4
END
}
. "$(dirname "$0")/behave"
"#;

pub(crate) struct Machine {
    directory: TempDir,
    pub(crate) options: Options,
}

impl Machine {
    /// A machine whose Puppet runs this script.
    pub(crate) fn new(behave: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("var/state")).unwrap();
        std::fs::create_dir_all(path("bin")).unwrap();
        std::fs::write(path("bin/puppet"), SCRIPT).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path("bin/puppet"), mode).unwrap();
        let options = Options {
            command: Some(path("bin/puppet")),
            vardir: Some(path("var")),
            rundir: Some(path("run")),
            ssldir: Some(path("ssl")),
            certname: Some("n1".to_owned()),
            state_dir: path("muster/puppet"),
            engine_dir: path("muster/engine"),
            wait: 20,
            grace: 2,
            ..Options::default()
        };
        let machine = Self { directory, options };
        machine.behave(behave);
        machine
    }

    pub(crate) fn behave(&self, behave: &str) {
        std::fs::write(self.path("bin/behave"), behave).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.path("var/state").join(name)
    }

    /// The arguments of all calls of Puppet, in sequence.
    pub(crate) fn argv(&self) -> Vec<String> {
        let words = std::fs::read_to_string(self.path("bin/argv")).unwrap_or_default();
        words.lines().map(str::to_owned).collect()
    }

    /// The number of calls of Puppet.
    pub(crate) fn calls(&self) -> usize {
        let argv = self.argv();
        argv.iter().filter(|word| *word == "--logdest").count()
    }

    pub(crate) fn puppet(&self) -> PuppetPlugin {
        let node = Identity::parse("dev1.example.net").unwrap();
        let permits = PermitClient::new(node);
        PuppetPlugin::new(
            self.options.clone(),
            permits,
            StateChanges::default(),
            HistoryRecorder::default(),
        )
        .unwrap()
    }
}

pub(crate) fn system() -> Arc<dyn System> {
    Arc::new(RealSystem::new("/".into()))
}

pub(crate) fn context(action: &str) -> CallContext {
    let node = TestNode::named("dev1.example.net").unwrap();
    node.context("puppet", action, system()).unwrap()
}

/// Calls an action with inputs and outputs validated against the DDL, as the host does.
pub(crate) async fn ask_in(
    puppet: &PuppetPlugin,
    cx: &CallContext,
    input: Value,
) -> Result<Value, ActionError> {
    let agent = puppet.build_agent().unwrap();
    let action = cx.action.as_str();
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let output = agent.find_handler(action).unwrap().call(cx, input).await?;
    Ok(Value::Object(declared.validate_output(&output).unwrap()))
}

pub(crate) async fn ask(
    puppet: &PuppetPlugin,
    action: &str,
    input: Value,
) -> Result<Value, ActionError> {
    ask_in(puppet, &context(action), input).await
}

/// The outcome of a run, successful or failed.
pub(crate) async fn run(puppet: &PuppetPlugin, input: Value) -> Value {
    match ask(puppet, "runonce", input).await {
        Ok(outcome) => outcome,
        Err(error) => Value::Object(error.data),
    }
}

/// Waits until the run reaches one of these states.
pub(crate) async fn until(puppet: &PuppetPlugin, run: &str, wanted: &[&str]) -> Value {
    let what = format!("the run {run} is one of {wanted:?}");
    awaited(&what, async || {
        let told = ask(puppet, "runs", json!({"run": run})).await.unwrap();
        let found = &told["runs"][0];
        let state = found["state"].as_str()?;
        wanted.contains(&state).then(|| found.clone())
    })
    .await
}

pub(crate) async fn until_there(path: &Path) {
    let what = format!("{} is there", path.display());
    awaited(&what, async || path.exists().then_some(())).await;
}

/// Polls every 10 ms until `look` returns a value; fails the test after 30 s.
async fn awaited<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        let mut often = tokio::time::interval(Duration::from_millis(10));
        loop {
            often.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), looking).await;
    found.unwrap_or_else(|_| panic!("never happened: {what}"))
}

/// Starts the background task of the plugin; it ends when the token is cancelled.
pub(crate) fn reside(puppet: &PuppetPlugin) -> CancellationToken {
    let stop = CancellationToken::new();
    tokio::spawn(puppet.build_monitor(system()).run(stop.clone()));
    stop
}
