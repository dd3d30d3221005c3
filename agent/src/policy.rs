//! Reads the directory of policies. What they mean, and that a broken one denies, is said by [`muster_wire::policy`].
//!
//! Files are read at a load only, never for a request.

use std::io;
use std::path::{Path, PathBuf};

use muster_secret::{ProtectedFileError, check_protected, read_protected};
use muster_wire::policy::{
    FILE_BYTES, GROUPS, PolicyFault, PolicyProblem, PolicySet, Source, Verdict,
};

use crate::listing;

/// Reads a directory; one that does not exist has no policies. `default` is for agents without a policy. A file that other users could
/// change denies what it speaks of; a directory that they could change denies everything.
pub fn load(directory: &Path, default: Verdict) -> (PolicySet, Vec<PolicyProblem>) {
    let paths = match list(directory) {
        Ok(paths) => paths,
        Err(fault) => return PolicySet::unreadable(directory.to_owned(), fault),
    };
    let groups = source(directory.join(GROUPS));
    let groups = match &groups.text {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(groups),
    };
    PolicySet::new(paths.into_iter().map(source), groups, default)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, PolicyFault> {
    match check_protected(directory).map_err(fault) {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        checked => checked?,
    }
    listing::files(directory, "policy").map_err(PolicyFault::Read)
}

fn source(path: PathBuf) -> Source {
    let text = read_protected(&path, FILE_BYTES).map_err(fault);
    Source { path, text }
}

fn fault(error: ProtectedFileError) -> PolicyFault {
    match error {
        ProtectedFileError::Read { source, .. } => PolicyFault::Read(source),
        ProtectedFileError::TooLarge { limit, .. } => PolicyFault::TooLarge(limit),
        open @ (ProtectedFileError::Writable { .. } | ProtectedFileError::Owner { .. }) => {
            PolicyFault::Unprotected(open.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use muster_wire::filter::Known;
    use muster_wire::identity::Name;
    use muster_wire::policy::{PolicyFault, PolicyPrincipal, PolicySet, Question, Verdict};
    use muster_wire::state::{Facts, NodeView};

    use super::load;

    fn told_of(set: &PolicySet, agent: &str) -> String {
        let facts = Facts::default();
        let node = NodeView {
            identity: "db1",
            facts: &facts,
            classes: &[],
            classes_known: true,
            agents: &[],
            collectives: &[],
        };
        let decision = set.decide(
            &Question {
                caller: &PolicyPrincipal::parse("rip").unwrap(),
                agent: &Name::parse(agent).unwrap(),
                action: &Name::parse("stop").unwrap(),
                node: &node,
                now: 0,
            },
            &Known::default(),
        );
        let sign = if decision.allowed { '+' } else { '-' };
        format!("{sign}{}", decision.rule)
    }

    #[test]
    fn files_that_cannot_be_read_deny_what_they_speak_of() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(scratch.path().join(name), text).unwrap();
        fs::create_dir(scratch.path().join("service.policy")).unwrap();
        write("package.policy", b"policy default allow\n# \xff\n");
        write("puppet.policy", "#".repeat((1 << 20) + 1).as_bytes());
        write("Nrpe.policy", b"policy default allow");
        write("nrpe.policy", b"policy default allow");
        write("no.name.policy", b"policy default allow");
        write(".service.policy.swp", b"rubbish");
        let (set, problems) = load(scratch.path(), Verdict::Allow);
        assert_eq!(problems.len(), 5, "{problems:#?}");
        for agent in ["service", "package", "puppet", "nrpe"] {
            assert_eq!(told_of(&set, agent), format!("-{agent}.policy: unusable"));
        }
        assert_eq!(told_of(&set, "other"), "+default (no other.policy)");
    }

    #[test]
    fn a_directory_that_cannot_be_read_denies_everything_and_none_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("package.policy");
        fs::write(&file, "policy default allow").unwrap();
        let (set, problems) = load(&file, Verdict::Allow);
        assert!(matches!(problems[0].fault, PolicyFault::Read(_)));
        assert_eq!(told_of(&set, "rpcutil"), "-package.policy: unusable");

        let (set, problems) = load(Path::new("/nonexistent"), Verdict::Deny);
        assert!(problems.is_empty());
        assert_eq!(
            told_of(&set, "rpcutil"),
            "+built-in rpcutil.policy:1 (default)"
        );
        assert_eq!(told_of(&set, "service"), "-default (no service.policy)");
    }

    #[test]
    fn policies_that_other_users_could_change_deny() {
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
            let (set, problems) = load(&directory, Verdict::Allow);
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            (
                ["service", "other"].map(|agent| told_of(&set, agent)),
                told.join("; "),
            )
        };
        for (path, bits) in [(&service, 0o644), (&groups, 0o644), (&directory, 0o755)] {
            mode(path, bits);
        }
        let fine = ["+service.policy:1", "+default (no other.policy)"].map(str::to_owned);
        assert_eq!(load(), (fine.clone(), String::new()));
        for (path, bits, good, expected) in [
            (
                &service,
                0o664,
                0o644,
                ["-service.policy: unusable", "+default (no other.policy)"],
            ),
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
    fn groups_are_read_beside_the_policies() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
        write("groups", "admins rip\n");
        write("service.policy", "allow\tadmins\t*\t*\n");
        assert_eq!(
            told_of(&load(scratch.path(), Verdict::Deny).0, "service"),
            "+service.policy:1"
        );
        write("groups", "admins rip\nadmins eve\n");
        let (set, problems) = load(scratch.path(), Verdict::Allow);
        assert!(
            problems[0].to_string().contains("groups:2:1: "),
            "{problems:?}"
        );
        for agent in ["service", "rpcutil", "other"] {
            assert_eq!(told_of(&set, agent), "-groups:2: malformed");
        }
    }
}
