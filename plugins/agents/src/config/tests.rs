//! Deployments of a daemon that only has files: their states, what is restored, and what is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use muster_contract::config::{
    ConfigDeployInput, ConfigDeployOutput, ConfigRevertInput, DeployedName, deploy_state,
};
use tempfile::TempDir;

use crate::config::error::DeployError;
use crate::config::{
    ConfigEffect, DaemonConfig, Deployments, FetchedProgram, FileChange, ProgramStore,
};

/// A text that the daemon cannot use, found before or after the files are replaced.
const UNPARSABLE: &str = "unparsable";
const UNUSABLE: &str = "unusable";

#[derive(Debug)]
struct FakeDaemon {
    directory: PathBuf,
    programs: ProgramStore,
    effects: Mutex<Vec<ConfigEffect>>,
}

impl DaemonConfig for FakeDaemon {
    fn programs(&self) -> &ProgramStore {
        &self.programs
    }

    fn fetch_program<'a>(&'a self, _: &'a str) -> FetchedProgram<'a> {
        Box::pin(async { Err("there is no broker".to_owned()) })
    }

    fn locate(&self, name: &DeployedName) -> PathBuf {
        self.directory.join(name.as_str())
    }

    fn check_planned(&self, changes: &[FileChange]) -> Result<(), String> {
        let is_bad = |change: &FileChange| change.new_text().is_some_and(|text| text == UNPARSABLE);
        changes.iter().find(|change| is_bad(change)).map_or(Ok(()), |bad| Err(bad.name.to_string()))
    }

    fn check_files(&self) -> Result<(), String> {
        let text = fs::read_to_string(self.directory.join("facts.d/a")).unwrap_or_default();
        if text == UNUSABLE { Err("facts.d/a is broken".to_owned()) } else { Ok(()) }
    }

    fn put_in_force(&self, effect: ConfigEffect) {
        self.effects.lock().unwrap().push(effect);
    }
}

struct Machine {
    scratch: TempDir,
    daemon: Arc<FakeDaemon>,
    deployments: Deployments,
}

impl Machine {
    fn new() -> Self {
        let scratch = TempDir::new().unwrap();
        let directory = scratch.path().join("etc");
        fs::create_dir(&directory).unwrap();
        let programs = ProgramStore::new(&scratch.path().join("state"), "/usr/sbin/rpcd".into());
        let daemon = Arc::new(FakeDaemon { directory, programs, effects: Mutex::default() });
        let deployments = Deployments::open(daemon.clone(), &scratch.path().join("state"));
        Self { scratch, daemon, deployments }
    }

    /// The next daemon.
    fn restart(self) -> Self {
        let state = self.scratch.path().join("state");
        Self { deployments: Deployments::open(self.daemon.clone(), &state), ..self }
    }

    fn deploy(
        &self,
        name: &str,
        files: &[(&str, &str)],
    ) -> Result<ConfigDeployOutput, DeployError> {
        self.deployments.deploy(&"rip", input(name, files))
    }

    fn confirm(&self, name: &str) -> Result<(), DeployError> {
        self.deployments.confirm(&"rip", name, u64::MAX).map(drop)
    }

    fn revert(&self, name: &str) -> Result<ConfigDeployOutput, DeployError> {
        let input = ConfigRevertInput { deployment: name.to_owned(), confirm_seconds: 60 };
        self.deployments.revert(&"rip", input)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.daemon.directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.daemon.directory.join(name)).ok()
    }

    fn take_effects(&self) -> Vec<ConfigEffect> {
        std::mem::take(&mut *self.daemon.effects.lock().unwrap())
    }

    /// As if the time for the confirmation were over.
    fn expire(self) -> Self {
        let path = self.scratch.path().join("state/config/deployment.json");
        let mut record: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["confirm_by"] = 1.into();
        fs::write(&path, record.to_string()).unwrap();
        let next = self.restart();
        assert!(next.deployments.undo_expired());
        next
    }
}

fn input(name: &str, files: &[(&str, &str)]) -> ConfigDeployInput {
    ConfigDeployInput {
        deployment: name.to_owned(),
        files: files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect(),
        executables: BTreeSet::new(),
        confirm_seconds: 60,
        noop: false,
    }
}

fn described(output: &ConfigDeployOutput) -> Vec<String> {
    output
        .changes
        .iter()
        .map(|change| format!("{} {}", change.name.line(), change.change.line()))
        .collect()
}

#[test]
fn confirmed_files_stay_and_left_out_ones_are_removed() {
    let machine = Machine::new();
    machine.write("policies/local.policy", "mine");
    machine.write("policies/groups", "old");
    let files = [("policies/groups", "new"), ("facts.d/a", "a=1")];
    let output = machine.deploy("d1", &files).unwrap();
    assert_eq!((output.state.as_str(), output.effect.as_str()), (deploy_state::PENDING, "reload"));
    assert_eq!(described(&output), ["policies/groups changed", "facts.d/a added"]);
    assert!(matches!(machine.confirm("d1"), Err(DeployError::NotInForce)));
    let accepted_before = muster_api::base::unix_millis_now();
    machine.deployments.note_reload();
    // The earlier policies allowed this request.
    let early = machine.deployments.confirm(&"rip", "d1", accepted_before);
    assert!(matches!(early, Err(DeployError::NotInForce)));
    assert!(matches!(machine.confirm("d0"), Err(DeployError::Unknown(_))));
    let other = machine.deployments.confirm(&"anna", "d1", u64::MAX);
    assert!(matches!(other, Err(DeployError::OtherCaller { .. })));
    machine.confirm("d1").unwrap();
    // The first reply to either request may be lost.
    machine.confirm("d1").unwrap();
    assert_eq!(machine.deploy("d1", &files).unwrap().state, deploy_state::CONFIRMED);
    assert_eq!(machine.deploy("d2", &files).unwrap().state, deploy_state::UNCHANGED);
    assert_eq!(machine.take_effects(), [ConfigEffect::Reload]);
    machine.write("facts.d/a", "a=2");
    assert_eq!(machine.deployments.status().modified, ["facts.d/a"]);

    let machine = machine.restart();
    let output = machine.deploy("d3", &[("conf.d/x.toml", "x")]).unwrap();
    assert_eq!(
        described(&output),
        ["policies/groups removed", "facts.d/a removed", "conf.d/x.toml added"]
    );
    assert_eq!(
        (output.effect.as_str(), machine.take_effects()),
        ("restart", vec![ConfigEffect::Restart])
    );
    machine.deployments.note_reload();
    assert!(matches!(machine.confirm("d3"), Err(DeployError::NotInForce)));
    let machine = machine.restart();
    machine.confirm("d3").unwrap();
    assert_eq!(machine.read("policies/local.policy").as_deref(), Some("mine"));
    assert_eq!(machine.read("policies/groups"), None);
}

#[test]
fn unconfirmed_files_are_undone_by_the_next_daemon_too() {
    let machine = Machine::new();
    machine.write("policies/groups", "old");
    machine.deploy("d1", &[("policies/groups", "new"), ("facts.d/a", "a=1")]).unwrap();
    match machine.deploy("d2", &[("policies/groups", "newer")]) {
        Err(DeployError::Pending { deployment, .. }) => assert_eq!(deployment, "d1"),
        other => panic!("{other:?}"),
    }
    let machine = machine.restart();
    assert!(!machine.deployments.undo_expired());
    machine.take_effects();
    let machine = machine.expire();
    assert_eq!(machine.read("policies/groups").as_deref(), Some("old"));
    assert_eq!(machine.read("facts.d/a"), None);
    assert_eq!(machine.take_effects(), [ConfigEffect::Reload]);
    assert!(matches!(machine.confirm("d1"), Err(DeployError::Undone { .. })));
    assert!(matches!(machine.deploy("d1", &[]), Err(DeployError::Undone { .. })));
    let status = machine.deployments.status();
    assert_eq!((status.state.raw(), status.files.len()), (deploy_state::REVERTED, 0));
    assert_eq!(status.reason, "it was not confirmed within 60 s");
}

#[test]
fn files_that_others_changed_meanwhile_are_left_alone() {
    let machine = Machine::new();
    machine.write("policies/groups", "old");
    machine.deploy("d1", &[("policies/groups", "new"), ("facts.d/a", "a=1")]).unwrap();
    machine.write("policies/groups", "of an administrator");
    let machine = machine.expire();
    assert_eq!(machine.read("policies/groups").as_deref(), Some("of an administrator"));
    assert_eq!(machine.read("facts.d/a"), None);
}

#[test]
fn unusable_files_are_not_deployed() {
    let machine = Machine::new();
    machine.write("facts.d/a", "old");
    machine.deploy("d1", &[("facts.d/a", "a=1")]).unwrap();
    machine.deployments.note_reload();
    machine.confirm("d1").unwrap();
    machine.take_effects();
    for (text, expected) in [
        (UNPARSABLE, "facts.d/a; nothing was changed"),
        (UNUSABLE, "facts.d/a is broken; the earlier files were restored"),
    ] {
        let error = machine.deploy("d2", &[("facts.d/a", text), ("facts.d/b", "b=1")]).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(machine.read("facts.d/a").as_deref(), Some("a=1"));
        assert_eq!(machine.read("facts.d/b"), None);
    }
    let status = machine.deployments.status();
    assert_eq!((status.deployment.as_str(), status.state.raw()), ("d1", deploy_state::CONFIRMED));
    assert_eq!(machine.take_effects(), []);
    let link = machine.daemon.directory.join("facts.d/link");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    let error = machine.deploy("d3", &[("facts.d/link", "x")]).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    for seconds in [0, 9, 3601] {
        let input = ConfigDeployInput { confirm_seconds: seconds, ..input("d4", &[]) };
        assert!(matches!(
            machine.deployments.deploy(&"rip", input),
            Err(DeployError::ConfirmTime(_))
        ));
    }
    let planned = ConfigDeployInput { noop: true, ..input("d5", &[("facts.d/a", "a=2")]) };
    let planned = machine.deployments.deploy(&"rip", planned).unwrap();
    assert_eq!(
        (planned.state.as_str(), described(&planned)),
        (deploy_state::PLANNED, vec!["facts.d/a changed".to_owned()])
    );
    assert_eq!(machine.read("facts.d/a").as_deref(), Some("a=1"));
}

#[test]
fn deployments_are_reverted() {
    let machine = Machine::new();
    assert!(matches!(machine.revert("r0"), Err(DeployError::NothingToRevert)));
    machine.write("policies/groups", "old");
    machine.deploy("d1", &[("policies/groups", "new"), ("facts.d/a", "a=1")]).unwrap();
    machine.deployments.note_reload();
    machine.confirm("d1").unwrap();
    let output = machine.revert("r1").unwrap();
    assert_eq!(described(&output), ["policies/groups changed", "facts.d/a removed"]);
    machine.deployments.note_reload();
    machine.confirm("r1").unwrap();
    assert_eq!(machine.read("policies/groups").as_deref(), Some("old"));
    assert_eq!(machine.deployments.status().files, Vec::<String>::new());
    machine.revert("r2").unwrap();
    assert_eq!(machine.read("policies/groups").as_deref(), Some("new"));
    // A pending deployment is undone at once.
    let output = machine.revert("r3").unwrap();
    assert_eq!(output.state, deploy_state::REVERTED);
    assert_eq!(machine.read("policies/groups").as_deref(), Some("old"));
    assert_eq!(machine.deployments.status().reason, "reverted by rip");
}

#[test]
fn restore_that_fails_is_repeated() {
    let machine = Machine::new();
    machine.write("policies/groups", "old");
    machine.deploy("d1", &[("policies/groups", "new")]).unwrap();
    // No file can be created in the directory, also for root, while its name is that of a file.
    let (policies, aside) =
        (machine.daemon.directory.join("policies"), machine.daemon.directory.join("aside"));
    let path = machine.scratch.path().join("state/config/deployment.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["confirm_by"] = 1.into();
    fs::write(&path, record.to_string()).unwrap();
    fs::rename(&policies, &aside).unwrap();
    fs::write(&policies, "").unwrap();
    let machine = machine.restart();
    assert!(!machine.deployments.undo_expired());
    assert_eq!(machine.deployments.status().state, deploy_state::PENDING);
    fs::remove_file(&policies).unwrap();
    fs::rename(&aside, &policies).unwrap();
    let machine = machine.restart();
    assert!(machine.deployments.undo_expired());
    assert_eq!(machine.read("policies/groups").as_deref(), Some("old"));
}
