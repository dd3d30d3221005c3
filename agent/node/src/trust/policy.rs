//! Reads the policy directory. [`muster_policy`] defines policies, and that an invalid one denies.
//!
//! Files are read when policies are loaded, never for a request.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use muster_base::error_chain;
use muster_files::{ProtectedFileError, check_protected, read_protected};
use muster_policy::{
    GROUPS_FILE_NAME, MAX_POLICY_FILE_BYTES, PolicyFault, PolicyProblem, PolicySet, PolicySource,
    RuleVerdict,
};

use crate::config::Config;
use crate::ground::files;

/// Reads a directory; a missing one has no policies. `default` applies to agents without a policy. A file that other users can change denies its
/// agent; a directory that they can change denies everything.
pub fn load_policies(directory: &Path, default: RuleVerdict) -> (PolicySet, Vec<PolicyProblem>) {
    load_policies_replacing(directory, default, &BTreeMap::new())
}

/// The policies of the configured directory, and what is wrong with them.
pub fn load_configured_policies(config: &Config) -> (PolicySet, Vec<String>) {
    let (policy, problems) = load_policies(&config.paths.policies, config.policy.default);
    (policy, problems.iter().map(|problem| error_chain(problem)).collect())
}

/// Texts of policy files by name, instead of those on disk; `None` leaves a file out.
pub(crate) type ReplacedPolicies = BTreeMap<String, Option<String>>;

/// Like [`load_policies`], with these texts of the files that have these names.
pub fn load_policies_replacing(
    directory: &Path,
    default: RuleVerdict,
    replaced: &ReplacedPolicies,
) -> (PolicySet, Vec<PolicyProblem>) {
    let mut paths = match list_policies(directory) {
        Ok(paths) => paths,
        Err(fault) => return PolicySet::deny_all(directory.to_owned(), fault),
    };
    let mut replaced: BTreeMap<PathBuf, &Option<String>> =
        replaced.iter().map(|(name, text)| (directory.join(name), text)).collect();
    paths.retain(|path| !replaced.contains_key(path));
    let groups_path = directory.join(GROUPS_FILE_NAME);
    let new_source = |path, text: &Option<String>| {
        text.clone().map(|text| PolicySource { path, text: Ok(text) })
    };
    let groups = match replaced.remove(&groups_path) {
        Some(text) => new_source(groups_path, text),
        None => Some(read_source(groups_path)).filter(|groups| !is_missing(groups)),
    };
    let replaced = replaced.into_iter().filter_map(|(path, text)| new_source(path, text));
    PolicySet::new(paths.into_iter().map(read_source).chain(replaced), groups, default)
}

fn list_policies(directory: &Path) -> Result<Vec<PathBuf>, PolicyFault> {
    match check_protected(directory).map_err(policy_fault) {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        checked => checked?,
    }
    files::list_files(directory, "policy").map_err(PolicyFault::Read)
}

fn is_missing(source: &PolicySource) -> bool {
    matches!(&source.text, Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound)
}

fn read_source(path: PathBuf) -> PolicySource {
    let text = read_protected(&path, MAX_POLICY_FILE_BYTES).map_err(policy_fault);
    PolicySource { path, text }
}

fn policy_fault(error: ProtectedFileError) -> PolicyFault {
    match error {
        ProtectedFileError::Read { source, .. } => PolicyFault::Read(source),
        ProtectedFileError::TooLarge { limit, .. } => PolicyFault::TooLarge(limit),
        unprotected @ (ProtectedFileError::Writable { .. } | ProtectedFileError::Owner { .. }) => {
            PolicyFault::Unprotected(unprotected.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use muster_filter::KnownLookups;
    use muster_filter::state::{NodeFacts, NodeView};
    use muster_policy::{PolicyFault, PolicyPrincipal, PolicyQuery, PolicySet, RuleVerdict};
    use muster_wire::identity::SubjectName;

    use super::load_policies;

    fn told_of(set: &PolicySet, agent: &str) -> String {
        let facts = NodeFacts::default();
        let node = NodeView::new("db1", &facts);
        let decision = set.decide_query(
            &PolicyQuery {
                caller: &PolicyPrincipal::parse("rip").unwrap(),
                agent: &SubjectName::parse(agent).unwrap(),
                action: &SubjectName::parse("stop").unwrap(),
                node: &node,
                inputs: None,
                now: 0,
            },
            &KnownLookups::default(),
        );
        let sign = if decision.allowed { '+' } else { '-' };
        format!("{sign}{}", decision.rule)
    }

    #[test]
    fn unreadable_files_deny_their_agents() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(scratch.path().join(name), text).unwrap();
        fs::create_dir(scratch.path().join("service.policy")).unwrap();
        write("package.policy", b"policy default allow\n# \xff\n");
        write("puppet.policy", "#".repeat((1 << 20) + 1).as_bytes());
        write("Nrpe.policy", b"policy default allow");
        write("nrpe.policy", b"policy default allow");
        write("no.name.policy", b"policy default allow");
        write(".service.policy.swp", b"rubbish");
        let (set, problems) = load_policies(scratch.path(), RuleVerdict::Allow);
        assert_eq!(problems.len(), 5, "{problems:#?}");
        for agent in ["service", "package", "puppet", "nrpe"] {
            assert_eq!(told_of(&set, agent), format!("-{agent}.policy: unusable"));
        }
        assert_eq!(told_of(&set, "other"), "+default (no other.policy)");
    }

    #[test]
    fn unreadable_directory_denies_everything_and_a_missing_one_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("package.policy");
        fs::write(&file, "policy default allow").unwrap();
        let (set, problems) = load_policies(&file, RuleVerdict::Allow);
        assert!(matches!(problems[0].fault, PolicyFault::Read(_)));
        assert_eq!(told_of(&set, "rpcutil"), "-package.policy: unusable");

        let (set, problems) = load_policies(Path::new("/nonexistent"), RuleVerdict::Deny);
        assert!(problems.is_empty());
        assert_eq!(told_of(&set, "rpcutil"), "+built-in rpcutil.policy:1 (default)");
        assert_eq!(told_of(&set, "service"), "-default (no service.policy)");
    }

    #[test]
    fn policies_that_other_users_can_change_deny() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("policies");
        fs::create_dir(&directory).unwrap();
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let [service, groups] = ["service.policy", "groups"].map(|name| directory.join(name));
        fs::write(&service, "allow\t*\t*\t*\n").unwrap();
        fs::write(&groups, "admins rip\n").unwrap();
        let load = || {
            let (set, problems) = load_policies(&directory, RuleVerdict::Allow);
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            (["service", "other"].map(|agent| told_of(&set, agent)), told.join("; "))
        };
        for (path, bits) in [(&service, 0o644), (&groups, 0o644), (&directory, 0o755)] {
            mode(path, bits);
        }
        let fine = ["+service.policy:1", "+default (no other.policy)"].map(str::to_owned);
        assert_eq!(load(), (fine.clone(), String::new()));
        for (path, bits, good, expected) in [
            (&service, 0o664, 0o644, ["-service.policy: unusable", "+default (no other.policy)"]),
            (&groups, 0o646, 0o644, ["-groups: unusable"; 2]),
            (&directory, 0o777, 0o755, ["-policies: unusable"; 2]),
        ] {
            mode(path, bits);
            let (decided, problem) = load();
            assert_eq!(decided, expected.map(str::to_owned), "{}", path.display());
            let advice = format!("run `chmod go-w {}`", path.display());
            assert!(problem.contains(&advice), "{problem}");
            mode(path, good);
        }
        assert_eq!(load().0, fine);
    }

    #[test]
    fn groups_are_read_from_the_policy_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
        write("groups", "admins rip\n");
        write("service.policy", "allow\tadmins\t*\t*\n");
        assert_eq!(
            told_of(&load_policies(scratch.path(), RuleVerdict::Deny).0, "service"),
            "+service.policy:1"
        );
        write("groups", "admins rip\nadmins eve\n");
        let (set, problems) = load_policies(scratch.path(), RuleVerdict::Allow);
        assert!(problems[0].to_string().contains("groups:2:1: "), "{problems:?}");
        for agent in ["service", "rpcutil", "other"] {
            assert_eq!(told_of(&set, agent), "-groups:2: malformed");
        }
    }
}
