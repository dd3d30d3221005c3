//! The Landlock rules of a confined program, and which of their features this kernel enforces.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

use super::{SandboxConfinement, SandboxPlan};

/// The newest Landlock ABI in use; an older kernel enforces the access rights that it supports.
const NEWEST_ABI: ABI = ABI::V9;

/// Paths that any program needs to read: system programs, libraries, name databases and certificates, but not all of `/etc`, which contains keys.
const SYSTEM_PATHS: [&str; 24] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/ssl",
];

/// Devices that every program may write to.
const WRITABLE_DEVICES: [&str; 1] = ["/dev/null"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate feature")]
pub struct LandlockSupport {
    /// File access (Linux 5.13).
    pub files: bool,
    /// TCP ports (Linux 6.7).
    pub tcp: bool,
    /// Device ioctls (Linux 6.10).
    pub devices: bool,
    /// Signals and abstract Unix sockets (Linux 6.12).
    pub scopes: bool,
}

impl LandlockSupport {
    pub fn probe() -> Self {
        let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let is_supported =
            |ruleset: Result<Ruleset, RulesetError>| ruleset.and_then(Ruleset::create).is_ok();
        Self {
            files: is_supported(strict().handle_access(AccessFs::from_all(ABI::V1))),
            tcp: is_supported(strict().handle_access(AccessNet::from_all(ABI::V4))),
            devices: is_supported(strict().handle_access(AccessFs::IoctlDev)),
            scopes: is_supported(strict().scope(Scope::from_all(ABI::V6))),
        }
    }

    /// The features that are not enforced, although the kernel confines programs to files.
    pub fn missing_features(self) -> Vec<&'static str> {
        [(self.tcp, "TCP ports"), (self.devices, "device ioctls"), (self.scopes, "signals")]
            .into_iter()
            .filter_map(|(enforced, name)| (!enforced).then_some(name))
            .collect()
    }
}

/// The rules of a plan. `restrict_self` applies them.
pub(super) fn build_ruleset(
    plan: &SandboxPlan,
    confinement: &SandboxConfinement,
) -> Result<RulesetCreated, RulesetError> {
    let (all, read) = (AccessFs::from_all(NEWEST_ABI), AccessFs::from_read(NEWEST_ABI));
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST_ABI))?;
    let ruleset = if confinement.network {
        ruleset
    } else {
        ruleset.handle_access(AccessNet::from_all(NEWEST_ABI))?
    };
    let program_directory = plan.program.parent().unwrap_or(Path::new("/"));
    let readable = SYSTEM_PATHS
        .iter()
        .map(Path::new)
        .chain(std::iter::once(program_directory))
        .chain(confinement.read.iter().map(PathBuf::as_path));
    let writable = WRITABLE_DEVICES
        .iter()
        .map(Path::new)
        .chain(std::iter::once(plan.directory.as_path()))
        .chain(confinement.write.iter().map(PathBuf::as_path));
    // Linux enforces the right to connect to Unix sockets from 7.1 on; where granted, it is granted for all paths.
    let sockets = confinement.unix_sockets.then_some(Path::new("/"));
    ruleset
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(writable, all))?
        .add_rules(path_beneath_rules(sockets, AccessFs::ResolveUnix))
}
