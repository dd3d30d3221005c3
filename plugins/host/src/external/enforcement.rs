//! Describes the restrictions of an external agent on this machine. The sandbox enforces them, not this module.

use muster_api::ddl::AgentDdl;

use super::candidate::resolve_confinement;
use super::options::ExternalAgentOptions;
use crate::sandbox::LandlockSupport;

/// `root` is whether the daemon runs as root.
pub fn describe_enforcement(
    ddl: &AgentDdl,
    options: &ExternalAgentOptions,
    kernel: LandlockSupport,
    root: bool,
) -> String {
    let user = options.user.as_ref().map_or_else(
        || {
            let default = if root { "an unprivileged user" } else { "the daemon's user" };
            default.to_owned()
        },
        |user| format!("user {user}"),
    );
    let limits = options.resource_limits();
    let limited = [
        ("memory", limits.memory_bytes.is_some()),
        ("open files", limits.open_files.is_some()),
        ("processes", limits.processes.is_some()),
        ("file size", limits.file_bytes.is_some()),
        ("processor time", limits.cpu_seconds.is_some()),
    ];
    let limited: Vec<&str> =
        limited.into_iter().filter_map(|(name, set)| set.then_some(name)).collect();
    let limited = match limited.join(", ") {
        none if none.is_empty() => "nothing".to_owned(),
        some => some,
    };
    let confinement = resolve_confinement(ddl, options);
    let files = match (&confinement, kernel.files) {
        (None, _) => "not confined to files".to_owned(),
        (Some(_), true) => match kernel.missing_features().join(", ") {
            none if none.is_empty() => "confined by Landlock and seccomp".to_owned(),
            some => format!(
                "confined by Landlock and seccomp, except for {some}, which this kernel does not support"
            ),
        },
        (Some(confined), false) if confined.required => {
            "not run, because the kernel has no Landlock".to_owned()
        }
        (Some(_), false) => {
            "confined by seccomp, but not to files, because the kernel has no Landlock".to_owned()
        }
    };
    let capabilities = if options.is_root() && confinement.is_none() {
        "all capabilities"
    } else {
        "no capabilities"
    };
    format!("{user}; limited: {limited}; {files}; {capabilities}; no new privileges")
}

#[cfg(test)]
mod tests {
    use muster_api::ddl::AgentDdl;

    use super::describe_enforcement;
    use crate::external::{ConfinementMode, ExternalAgentOptions};
    use crate::sandbox::LandlockSupport;

    const WHOLE: LandlockSupport =
        LandlockSupport { files: true, tcp: true, devices: true, scopes: true };

    #[test]
    fn describes_only_what_the_kernel_supports() {
        let ddl = muster_api::ddl::builtin_agent("rpcutil").unwrap_or_default();
        let ddl = AgentDdl::from_slice(ddl.as_bytes()).unwrap();
        let plain = ExternalAgentOptions::default();
        assert_eq!(
            describe_enforcement(&ddl, &plain, WHOLE, true),
            "an unprivileged user; limited: open files, file size; not confined to files; no capabilities; no new privileges"
        );
        let strict = ExternalAgentOptions {
            user: Some("nobody".to_owned()),
            open_files: None,
            file_bytes: None,
            confine: ConfinementMode::Required,
            ..ExternalAgentOptions::default()
        };
        assert_eq!(
            describe_enforcement(&ddl, &strict, WHOLE, true),
            "user nobody; limited: nothing; confined by Landlock and seccomp; no capabilities; no new privileges"
        );
        let old = LandlockSupport { scopes: false, ..WHOLE };
        assert!(describe_enforcement(&ddl, &strict, old, true).contains("except for signals"));
        let none = LandlockSupport { files: false, ..old };
        assert!(describe_enforcement(&ddl, &strict, none, true).contains("not run"));
        let root = ExternalAgentOptions {
            user: Some("root".to_owned()),
            ..ExternalAgentOptions::default()
        };
        assert!(describe_enforcement(&ddl, &root, WHOLE, true).contains("all capabilities"));
    }
}
