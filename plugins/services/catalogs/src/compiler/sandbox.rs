//! What the compiler may access: Puppet, its environment and its own directory, but no network and no credentials.

use std::path::PathBuf;

use muster_host::sandbox::{ResourceLimits, SandboxConfinement, SandboxPlan};

use super::CompilerOptions;

/// Puppet and gems of other packages.
const PUPPET_PATHS: [&str; 2] = ["/var/lib/gems", "/etc/ruby"];
/// Processes and threads of the compiler's user: the resident one, its compiles, and a few that these start.
const MAX_PROCESSES: u64 = 256;
/// The directory in the compiler's own that it may write to.
pub(super) const WORK_DIRECTORY: &str = "work";
/// Largest file that it may write.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The plan of a program that the administrator chose: it may use the network and read what its user can.
pub(super) fn build_program_plan(options: &CompilerOptions) -> SandboxPlan {
    let CompilerOptions { environments, environment: name, program, limits, .. } = options;
    let directory = environments.join(name);
    let environment = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("MUSTER_ENVIRONMENT", name.clone()),
    ];
    let mut words = program.iter();
    SandboxPlan {
        program: words.next().map(PathBuf::from).unwrap_or_default(),
        arguments: words.map(PathBuf::from).collect(),
        environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
        directory,
        user: options.user.clone(),
        limits: ResourceLimits {
            memory_bytes: Some(limits.memory_bytes),
            cpu_seconds: Some(limits.cpu_seconds),
            ..ResourceLimits::default()
        },
        confinement: None,
        keep_capabilities: false,
    }
}

pub(super) fn build_plan(options: &CompilerOptions) -> SandboxPlan {
    let work = options.state.join(WORK_DIRECTORY);
    let environment = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("HOME", work.display().to_string()),
        ("TMPDIR", work.display().to_string()),
    ];
    let CompilerOptions { environments, environment: name, limits, .. } = options;
    let read = PUPPET_PATHS
        .map(PathBuf::from)
        .into_iter()
        .chain([environments.join(name), options.state.clone()]);
    SandboxPlan {
        program: options.ruby.clone(),
        arguments: vec![
            options.state.join("compiler.rb"),
            environments.clone(),
            name.into(),
            limits.cpu_seconds.to_string().into(),
        ],
        environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
        directory: work,
        user: options.user.clone(),
        // The CPU time is limited in the process of each compile: the resident one lives as long as the commit is in use.
        limits: ResourceLimits {
            memory_bytes: Some(limits.memory_bytes),
            processes: Some(MAX_PROCESSES),
            file_bytes: Some(MAX_FILE_BYTES),
            ..ResourceLimits::default()
        },
        confinement: Some(SandboxConfinement {
            read: read.filter(|path| path.exists()).collect(),
            ..SandboxConfinement::default()
        }),
        keep_capabilities: false,
    }
}
