//! Reads the directory of policies. What they mean, and that a broken one denies, is said by [`muster_wire::policy`].
//!
//! Files are read at a load only, never for a request.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_wire::policy::{
    FILE_BYTES, GROUPS, PolicyFault, PolicyProblem, PolicySet, Source, Verdict,
};

use crate::listing;

/// Reads a directory; one that does not exist has no policies. `default` is for agents without a policy.
pub fn load(directory: &Path, default: Verdict) -> (PolicySet, Vec<PolicyProblem>) {
    let paths = match listing::files(directory, "policy") {
        Ok(paths) => paths,
        Err(error) => {
            return PolicySet::unreadable(directory.to_owned(), PolicyFault::Read(error));
        }
    };
    let groups = source(directory.join(GROUPS));
    let groups = match &groups.text {
        Err(PolicyFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(groups),
    };
    PolicySet::new(paths.into_iter().map(source), groups, default)
}

fn source(path: PathBuf) -> Source {
    let text = read(&path);
    Source { path, text }
}

fn read(path: &Path) -> Result<String, PolicyFault> {
    let mut text = String::new();
    let file = File::open(path).map_err(PolicyFault::Read)?;
    file.take(FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(PolicyFault::Read)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(PolicyFault::TooLarge(FILE_BYTES));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use muster_wire::filter::Known;
    use muster_wire::identity::{Identity, Name};
    use muster_wire::policy::{PolicyFault, PolicySet, Question, Verdict};
    use muster_wire::state::{Facts, NodeView};

    use super::load;

    fn told(set: &PolicySet, agent: &str) -> String {
        let facts = Facts::default();
        let node = NodeView {
            identity: "db1",
            facts: &facts,
            classes: &[],
            agents: &[],
            collectives: &[],
        };
        let decision = set.decide(
            &Question {
                caller: &Identity::parse("rip").unwrap(),
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
            assert_eq!(told(&set, agent), format!("-{agent}.policy: unusable"));
        }
        assert_eq!(told(&set, "other"), "+default (no other.policy)");
    }

    #[test]
    fn a_directory_that_cannot_be_read_denies_everything_and_none_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("package.policy");
        fs::write(&file, "policy default allow").unwrap();
        let (set, problems) = load(&file, Verdict::Allow);
        assert!(matches!(problems[0].fault, PolicyFault::Read(_)));
        assert_eq!(told(&set, "rpcutil"), "-package.policy: unusable");

        let (set, problems) = load(Path::new("/nonexistent"), Verdict::Deny);
        assert!(problems.is_empty());
        assert_eq!(
            told(&set, "rpcutil"),
            "+built-in rpcutil.policy:1 (default)"
        );
        assert_eq!(told(&set, "service"), "-default (no service.policy)");
    }

    #[test]
    fn groups_are_read_beside_the_policies() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
        write("groups", "admins rip\n");
        write("service.policy", "allow\tadmins\t*\t*\n");
        assert_eq!(
            told(&load(scratch.path(), Verdict::Deny).0, "service"),
            "+service.policy:1"
        );
        write("groups", "admins rip\nadmins eve\n");
        let (set, problems) = load(scratch.path(), Verdict::Allow);
        assert!(
            problems[0].to_string().contains("groups:2:1: "),
            "{problems:?}"
        );
        for agent in ["service", "rpcutil", "other"] {
            assert_eq!(told(&set, agent), "-groups:2: malformed");
        }
    }
}
