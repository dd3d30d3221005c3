//! What an external agent is held to on this machine, in words. Nothing is enforced here: the sandbox does that.

use muster_api::ddl::Ddl;

use super::draft::confinement;
use super::options::AgentOptions;

/// What one agent's programs are held to, where `landlock` says whether the kernel can confine them to files.
pub fn enforced(ddl: &Ddl, options: &AgentOptions, landlock: bool) -> String {
    let user = options.user.as_ref().map_or_else(
        || "the daemon's user".to_owned(),
        |user| format!("user {user}"),
    );
    let limits = options.limits();
    let limited = [
        ("memory", limits.memory_bytes.is_some()),
        ("open files", limits.open_files.is_some()),
        ("processes", limits.processes.is_some()),
        ("file size", limits.file_bytes.is_some()),
        ("processor time", limits.cpu_seconds.is_some()),
    ];
    let limited: Vec<&str> = limited
        .into_iter()
        .filter_map(|(name, set)| set.then_some(name))
        .collect();
    let limited = match limited.join(", ") {
        none if none.is_empty() => "nothing".to_owned(),
        some => some,
    };
    let files = match (confinement(ddl, options), landlock) {
        (None, _) => "not confined to files",
        (Some(_), true) => "confined to its files by Landlock",
        (Some(wanted), false) if wanted.required => "not run, as the kernel has no Landlock",
        (Some(_), false) => "not confined to files, as the kernel has no Landlock",
    };
    format!("{user}; limited: {limited}; {files}; no new privileges")
}

#[cfg(test)]
mod tests {
    use muster_api::ddl::Ddl;

    use super::enforced;
    use crate::external::{AgentOptions, Confine};

    #[test]
    fn what_the_kernel_cannot_do_is_not_claimed() {
        let ddl = muster_api::ddl::builtin("rpcutil").unwrap_or_default();
        let ddl = Ddl::from_slice(ddl.as_bytes()).unwrap();
        let plain = AgentOptions::default();
        assert_eq!(
            enforced(&ddl, &plain, true),
            "the daemon's user; limited: open files, file size; not confined to files; no new privileges"
        );
        let strict = AgentOptions {
            user: Some("nobody".to_owned()),
            open_files: None,
            file_bytes: None,
            confine: Confine::Required,
            ..AgentOptions::default()
        };
        assert_eq!(
            enforced(&ddl, &strict, true),
            "user nobody; limited: nothing; confined to its files by Landlock; no new privileges"
        );
        assert!(enforced(&ddl, &strict, false).contains("not run"));
    }
}
