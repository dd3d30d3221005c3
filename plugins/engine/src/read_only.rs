//! A read-only view of a machine, used for plans of remote callers.
//!
//! Rejects all writes, and all programs except the engine's own query tools in the exact form in which the engine calls them. It fails
//! closed: a command named by a resource (a guard, a `status` command, another `pip`) is not in the allow list. Resources of types
//! that are not built in are not evaluated at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_system::{
    Command, CommandOutput, FileAttributes, FileMetadata, InteractiveProcess, LockGuard, ProcessId,
    ProcessSpool, Signal, System, SystemError, SystemResult,
};

use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::Resource;
use crate::resource_type::{BoundResource, ResourceContext, ResourceType};
use crate::schema::TypeSchema;

/// Allow list of query tools: the leading arguments. The remaining arguments are data, never options chosen by the caller,
/// because the engine validates names and inserts `--` before them.
const READ_TOOLS: &[&[&str]] = &[
    &["getent", "--", "passwd"],
    &["getent", "--", "group"],
    &["getent", "--", "shadow"],
    &["getent", "passwd"],
    &["getent", "group"],
    &["ps", "-eo"],
    &["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState,SourcePath", "--"],
    &["systemctl", "list-unit-files"],
    &["dpkg-query", "-W", "-f"],
    &["apt-cache", "policy", "--"],
    &["rpm", "-qa", "--qf"],
    &["dnf", "-q", "check-update"],
    &["yum", "-q", "check-update"],
    &["zypper", "--quiet", "list-updates"],
    &["gem", "list", "--local"],
    &["npm", "list", "--json", "--global", "--depth=0"],
    &["pip", "--version"],
    &["pip3", "--version"],
    &["pip", "list", "--disable-pip-version-check", "--format=json"],
    &["pip3", "list", "--disable-pip-version-check", "--format=json"],
];

/// Environment variables that the engine itself sets for its tools.
const TOOL_ENVIRONMENT: [&str; 3] =
    ["DEBIAN_FRONTEND", "APT_LISTCHANGES_FRONTEND", "APT_LISTBUGS_FRONTEND"];

/// Directory of installed init scripts; each may be called with `status`.
const INIT_SCRIPTS: &str = "/etc/init.d/";

/// A view of a machine that rejects changes and other programs with [`SystemError::NotAllowed`].
#[derive(Debug)]
pub(crate) struct ReadOnlySystem(pub(crate) Arc<dyn System>);

/// Whether the command is one of the allowed query tools, found in the standard path, with no other settings.
fn is_read_tool(command: &Command) -> bool {
    let has_default_settings = command.stdin.is_empty()
        && command.cwd.is_none()
        && command.umask.is_none()
        && command.uid.is_none()
        && command.gid.is_none();
    let has_tool_environment =
        command.env.keys().all(|name| TOOL_ENVIRONMENT.contains(&name.as_str()));
    let argv: Vec<&str> = command.argv.iter().map(String::as_str).collect();
    let is_listed =
        READ_TOOLS.iter().any(|prefix| argv.starts_with(prefix)) || is_script_status(&argv);
    has_default_settings && has_tool_environment && is_listed
}

/// `/etc/init.d/NAME status`, for a script directly in that directory.
fn is_script_status(argv: &[&str]) -> bool {
    let [script, "status"] = argv else { return false };
    script
        .strip_prefix(INIT_SCRIPTS)
        .is_some_and(|name| !name.is_empty() && !name.starts_with('.') && !name.contains('/'))
}

fn refuse_access<T>(operation: impl Into<String>) -> SystemResult<T> {
    Err(SystemError::NotAllowed { operation: operation.into() })
}

impl System for ReadOnlySystem {
    fn root(&self) -> &Path {
        self.0.root()
    }

    fn metadata(&self, path: &Path) -> SystemResult<Option<FileMetadata>> {
        self.0.metadata(path)
    }

    fn read_file(&self, path: &Path, limit: u64) -> SystemResult<Vec<u8>> {
        self.0.read_file(path, limit)
    }

    fn check_protected(&self, path: &Path) -> SystemResult<()> {
        self.0.check_protected(path)
    }

    fn read_link(&self, path: &Path) -> SystemResult<PathBuf> {
        self.0.read_link(path)
    }

    fn read_dir(&self, path: &Path) -> SystemResult<Vec<String>> {
        self.0.read_dir(path)
    }

    fn write_file(&self, path: &Path, _: &[u8], _: &FileAttributes) -> SystemResult<()> {
        refuse_access(format!("write {}", path.display()))
    }

    fn create_dir(&self, path: &Path, _: &FileAttributes) -> SystemResult<()> {
        refuse_access(format!("create {}", path.display()))
    }

    fn create_symlink(&self, _: &Path, path: &Path) -> SystemResult<()> {
        refuse_access(format!("link {}", path.display()))
    }

    fn set_attributes(&self, path: &Path, _: &FileAttributes) -> SystemResult<()> {
        refuse_access(format!("change {}", path.display()))
    }

    fn remove_file(&self, path: &Path) -> SystemResult<()> {
        refuse_access(format!("remove {}", path.display()))
    }

    fn remove_tree(&self, path: &Path) -> SystemResult<()> {
        refuse_access(format!("remove {}", path.display()))
    }

    fn rename(&self, from: &Path, _: &Path) -> SystemResult<()> {
        refuse_access(format!("rename {}", from.display()))
    }

    fn lock_file(&self, path: &Path, _: Duration) -> SystemResult<Box<dyn LockGuard>> {
        refuse_access(format!("lock {}", path.display()))
    }

    fn run_command(&self, command: &Command) -> SystemResult<CommandOutput> {
        if is_read_tool(command) {
            return self.0.run_command(command);
        }
        refuse_access(format!("run `{}`", command.program_name()))
    }

    fn start_detached(&self, command: &Command, _: &ProcessSpool) -> SystemResult<ProcessId> {
        refuse_access(format!("run `{}`", command.program_name()))
    }

    fn start_interactive(&self, command: &Command) -> SystemResult<Box<dyn InteractiveProcess>> {
        refuse_access(format!("run `{}`", command.program_name()))
    }

    fn list_processes(&self) -> SystemResult<Vec<u32>> {
        self.0.list_processes()
    }

    fn read_process_file(&self, pid: u32, name: &str, limit: u64) -> SystemResult<Vec<u8>> {
        self.0.read_process_file(pid, name, limit)
    }

    fn is_running(&self, process: &ProcessId) -> bool {
        self.0.is_running(process)
    }

    fn signal_process(&self, process: &ProcessId, _: Signal, _: bool) -> SystemResult<bool> {
        refuse_access(format!("signal process {}", process.pid))
    }

    fn now(&self) -> SystemTime {
        self.0.now()
    }
}

/// A type that is not built in. A read-only engine does not pass the caller's values to it: its attributes are known, its resources are not
/// evaluated.
#[derive(Debug)]
pub(crate) struct UnevaluatedResourceType(pub(crate) Arc<dyn ResourceType>);

impl UnevaluatedResourceType {
    fn refuse_evaluation<T>(&self, resource: &Resource) -> Result<T> {
        Err(EngineError::NotEvaluated {
            resource: resource.reference(),
            problem: format!(
                "a plan for a remote caller does not run the program of the type `{}`",
                self.0.schema().type_name
            ),
        })
    }
}

impl ResourceType for UnevaluatedResourceType {
    fn schema(&self) -> &'static TypeSchema {
        self.0.schema()
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        self.refuse_evaluation(resource)
    }

    fn apply_change(
        &self,
        _: &ResourceContext<'_>,
        plan: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        self.refuse_evaluation(&plan.resource)
    }

    fn supports_refresh(&self) -> bool {
        self.0.supports_refresh()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use muster_system::Command;

    use super::is_read_tool;

    #[test]
    fn only_the_exact_query_commands_are_read_tools() {
        for argv in [
            vec!["getent", "--", "passwd", "rip"],
            vec!["dpkg-query", "-W", "-f", "x"],
            vec!["/etc/init.d/cron", "status"],
        ] {
            assert!(is_read_tool(&Command::new(argv.clone())), "{argv:?}");
        }
        for argv in [
            vec!["/bin/sh", "-c", "dpkg-query -W -f x"],
            vec!["/tmp/dpkg-query", "-W", "-f"],
            vec!["/tmp/pip", "list"],
            vec!["getent"],
            vec!["systemctl", "start", "x"],
            vec!["/etc/init.d/../../tmp/x", "status"],
            vec!["/etc/init.d/cron", "stop"],
            vec!["/etc/init.d/", "status"],
            vec!["gem", "list", "--remote"],
            vec![],
        ] {
            assert!(!is_read_tool(&Command::new(argv.clone())), "{argv:?}");
        }
        let tool = || Command::new(["getent", "passwd", "rip"]);
        let mut elsewhere = tool();
        elsewhere.env.insert("PATH".to_owned(), "/tmp".to_owned());
        let mut inside = tool();
        inside.cwd = Some(PathBuf::from("/tmp"));
        let mut fed = tool();
        fed.stdin = b"x".to_vec();
        for altered in [elsewhere, inside, fed] {
            assert!(!is_read_tool(&altered), "{altered:?}");
        }
    }
}
