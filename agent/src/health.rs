//! What is wrong with this daemon, for `rpc doctor` and whoever else asks: what loading left behind, and what a look at the disks,
//! the credentials and the audit log shows now. It mends nothing, and decides nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use muster_api::{AgentProblem, Finding, Level, Node as _};
use muster_host::external::enforced;
use muster_host::sandbox::KernelSupport;
use muster_secret::Keeper;
use nix::sys::statvfs::statvfs;

use crate::agents::external_options;
use crate::audit::Condition;
use crate::config::Config;
use crate::core::Core;

/// A disk with less of its space left, in hundredths, is told of.
const SCARCE_PERCENT: u64 = 5;
/// With less bytes left, what must be written soon cannot be.
const FULL_BYTES: u64 = 16 * 1024 * 1024;
/// One day, in seconds.
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// What the metadata of a program of its own say.
const EXTERNAL: &str = "external";
/// Findings of one check that are kept: a thousand broken files say no more than ten.
const KEPT: usize = 10;

/// The problems that loading left behind, by check; each load replaces those of the one before.
#[derive(Debug, Default)]
pub struct Health(Mutex<BTreeMap<&'static str, Vec<Finding>>>);

impl Health {
    /// Replaces what is known of one check.
    pub fn set(&self, check: &'static str, level: Level, messages: &[String]) {
        let finding = |message: &String| Finding {
            check,
            level,
            message: message.clone(),
        };
        let mut findings: Vec<Finding> = messages.iter().take(KEPT).map(finding).collect();
        if messages.len() > KEPT {
            findings.push(finding(&format!("and {} more", messages.len() - KEPT)));
        }
        self.lock().insert(check, findings);
    }

    fn standing(&self) -> Vec<Finding> {
        self.lock().values().flatten().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Vec<Finding>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What each external agent is held to, as far as this kernel and the configuration go.
pub(crate) fn sandboxes(core: &Core, config: &Config) -> BTreeMap<String, String> {
    let Ok(options) = external_options(config) else {
        return BTreeMap::new();
    };
    let kernel = KernelSupport::probe();
    let root = nix::unistd::geteuid().is_root();
    let external = core
        .agents()
        .into_iter()
        .filter(|info| info.provider == EXTERNAL);
    external
        .filter_map(|info| {
            let ddl = core.ddl(&info.agent)?;
            let held_to = enforced(&ddl, &options.of(&info.agent), kernel, root);
            Some((info.agent, held_to))
        })
        .collect()
}

/// External agents that run as root, because the configuration says so.
fn root_agents(core: &Core, config: &Config) -> Vec<Finding> {
    let Ok(options) = external_options(config) else {
        return Vec::new();
    };
    let agents = core.agents().into_iter();
    agents
        .filter(|info| info.provider == EXTERNAL && options.of(&info.agent).is_root())
        .map(|info| Finding {
            check: "plugins",
            level: Level::Warning,
            message: format!(
                "agent {}: its programs run as root; name another user in [plugins.external.agents.{}]",
                info.agent, info.agent
            ),
        })
        .collect()
}

/// Everything that is wrong now. Looks at disks; blocks.
pub(crate) fn findings(core: &Core, config: Option<&Config>) -> Vec<Finding> {
    let mut found = core.health.standing();
    found.extend(audit(&core.audit.condition(), core.audit.lost()));
    found.extend(own_token(core));
    found.extend(journal(core));
    found.extend(account_token(core));
    found.extend(core.agent_problems().iter().map(plugin));
    if let Some(config) = config {
        found.extend(secrets(config));
        found.extend(root_agents(core, config));
        let audit = config.paths.audit.parent().unwrap_or(Path::new("/"));
        found.extend(disk("state", &config.paths.state));
        found.extend(disk("audit", audit));
    }
    found
}

fn audit(condition: &Condition, untold: u64) -> Option<Finding> {
    let message = match &condition.failing {
        Some(why) => format!("the audit log cannot be written: {why}"),
        None if untold > 0 => {
            format!("{untold} records of the audit log could not be written")
        }
        None => return None,
    };
    Some(Finding {
        check: "audit",
        level: Level::Error,
        message,
    })
}

/// What an earlier daemon has seen, and this one cannot know.
fn journal(core: &Core) -> Option<Finding> {
    Some(Finding {
        check: "journal",
        level: Level::Warning,
        message: core.seen.found().problem()?,
    })
}

/// An external agent that cannot be offered.
fn plugin(problem: &AgentProblem) -> Finding {
    Finding {
        check: "plugins",
        level: Level::Error,
        message: format!("agent {}: {}", problem.agent, problem.problem),
    }
}

/// Whether the account token is known to be the newest.
fn account_token(core: &Core) -> Option<Finding> {
    let message = core.trust_freshness().report(core.clock.now())?;
    Some(Finding {
        check: "trust",
        level: Level::Warning,
        message,
    })
}

/// Whether peers still believe us, and for how long.
fn own_token(core: &Core) -> Option<Finding> {
    let (now, trust) = (core.clock.now(), core.trust());
    let finding = |level, message| Finding {
        check: "credentials",
        level,
        message,
    };
    if let Err(error) = trust.verify_user(&core.signer.token(), now) {
        let message = format!("the node's own token is not believed: {error}");
        return Some(finding(Level::Error, message));
    }
    let life = core.token_life().filter(|life| life.is_late(now))?;
    let days = life.left(now) / DAY_SECONDS;
    let message = format!(
        "the node's token ends in {days} days and was not renewed; start the enroller, or run `rpc org push`"
    );
    Some(finding(Level::Warning, message))
}

fn secrets(config: &Config) -> Option<Finding> {
    let error = muster_secret::check(&config.broker.credentials, Keeper::Daemon).err()?;
    Some(Finding {
        check: "credentials",
        level: Level::Error,
        message: error.to_string(),
    })
}

/// How much room there is where something must be written.
fn disk(what: &str, path: &Path) -> Option<Finding> {
    let finding = |level, message| {
        Some(Finding {
            check: "disk",
            level,
            message,
        })
    };
    let shown = path.display();
    let seen = match statvfs(path) {
        Ok(seen) => seen,
        Err(error) => {
            let message = format!("cannot look at the {what} directory {shown}: {error}");
            return finding(Level::Error, message);
        }
    };
    // The types of these numbers differ between architectures.
    #[expect(
        clippy::useless_conversion,
        reason = "the types differ between architectures"
    )]
    let (free, blocks, size) = (
        u64::from(seen.blocks_available()),
        u64::from(seen.blocks()),
        u64::from(seen.fragment_size()),
    );
    let (bytes, percent) = (
        free.saturating_mul(size),
        free.saturating_mul(100).checked_div(blocks).unwrap_or(100),
    );
    let left = bytes / (1024 * 1024);
    let message = format!("{left} MiB ({percent} %) are left for the {what} directory {shown}");
    match () {
        () if bytes < FULL_BYTES => finding(Level::Error, message),
        () if percent < SCARCE_PERCENT => finding(Level::Warning, message),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_api::Level;

    use super::{Health, KEPT, disk};

    #[test]
    fn a_load_replaces_what_the_one_before_left() {
        let health = Health::default();
        let many: Vec<String> = (0..50).map(|number| format!("file {number}")).collect();
        health.set("policies", Level::Error, &many);
        health.set("facts", Level::Warning, &["facts.d/a: not JSON".to_owned()]);
        let standing = health.standing();
        assert_eq!(standing.len(), KEPT + 2);
        assert!(
            standing
                .iter()
                .any(|finding| finding.message == "and 40 more")
        );
        health.set("policies", Level::Error, &[]);
        assert_eq!(health.standing().len(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_told() {
        let found = disk("state", Path::new("/no/such/directory")).unwrap();
        assert_eq!((found.check, found.level), ("disk", Level::Error));
        assert!(found.message.contains("/no/such/directory"));
        let full = disk("state", Path::new("/proc")).unwrap();
        assert_eq!(full.level, Level::Error);
    }
}
