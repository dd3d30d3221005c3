//! Health findings of this daemon, for `rpc doctor` and monitoring: problems found while loading, and current checks of the disks, the credentials
//! and the audit log. Read-only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_api::{AgentProblem, FindingLevel, HealthFinding, NodeHandle as _};
use muster_base::count_text;
use muster_ddl::AgentDdl;
use muster_files::SecretOwner;
use muster_host::external::describe_enforcement;
use muster_host::sandbox::LandlockSupport;
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::config::Config;
use crate::core::DaemonCore;
use crate::core::audit::AuditLogStatus;

/// Free space below this percentage is reported.
const LOW_SPACE_PERCENT: u64 = 5;
/// Below this number of free bytes, imminent writes may fail.
const MIN_FREE_BYTES: u64 = 16 * 1024 * 1024;
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// The `provider` metadata value of an external program.
const EXTERNAL_PROVIDER: &str = "external";

/// The restrictions of each external agent, given this kernel and configuration.
pub(crate) fn describe_sandboxes(core: &DaemonCore, config: &Config) -> BTreeMap<String, String> {
    let Ok(options) = config.external_options() else { return BTreeMap::new() };
    let kernel = LandlockSupport::probe();
    let root = nix::unistd::geteuid().is_root();
    let external = core.agent_ddls().into_iter().filter(|ddl| ddl.provider() == EXTERNAL_PROVIDER);
    external
        .map(|ddl| {
            let agent_options = options.agent_options(ddl.name());
            let restrictions = describe_enforcement(&ddl, &agent_options, kernel, root);
            (ddl.name().to_owned(), restrictions)
        })
        .collect()
}

/// External agents that run as root by configuration.
fn root_agent_findings(core: &DaemonCore, config: &Config) -> Vec<HealthFinding> {
    let Ok(options) = config.external_options() else { return Vec::new() };
    let is_root = |ddl: &Arc<AgentDdl>| {
        ddl.provider() == EXTERNAL_PROVIDER && options.agent_options(ddl.name()).is_root()
    };
    let finding = |ddl: Arc<AgentDdl>| {
        let agent = ddl.name();
        let message = format!(
            "agent {agent}: its programs run as root; set another user in [plugins.external.agents.{agent}]"
        );
        new_finding("plugins", FindingLevel::Warning, message)
    };
    core.agent_ddls().into_iter().filter(is_root).map(finding).collect()
}

fn new_finding(check: &'static str, level: FindingLevel, message: String) -> HealthFinding {
    HealthFinding { check, level, message }
}

/// All current problems. Inspects disks; blocks.
pub fn collect_findings(core: &DaemonCore, config: Option<&Config>) -> Vec<HealthFinding> {
    let mut findings = core.health.current_findings();
    // Read first: the writer sets the error before it counts the lost records.
    let lost = core.journals.audit.lost_records();
    findings.extend(audit_finding(&core.journals.audit.status(), lost));
    findings.extend(own_token_finding(core));
    findings.extend(journal_finding(core));
    findings.extend(account_token_finding(core));
    findings.extend(core.agent_problems().iter().map(plugin_finding));
    findings.extend(pending_configuration(core));
    if let Some(config) = config {
        findings.extend(credentials_finding(config));
        findings.extend(root_agent_findings(core, config));
        let audit = config.paths.audit.parent().unwrap_or(Path::new("/"));
        findings.extend(disk_finding("state", &config.paths.state));
        findings.extend(disk_finding("audit", audit));
    }
    findings
}

fn audit_finding(status: &AuditLogStatus, lost: u64) -> Option<HealthFinding> {
    let message = match &status.failing {
        Some(error) => format!("the audit log cannot be written: {error}"),
        None if lost > 0 => format!("{lost} audit records could not be written"),
        None => return None,
    };
    Some(new_finding("audit", FindingLevel::Error, message))
}

/// Reports that the journal of an earlier daemon is missing or damaged.
fn journal_finding(core: &DaemonCore) -> Option<HealthFinding> {
    let problem = core.journals.seen.journal_state().problem()?;
    Some(new_finding("journal", FindingLevel::Warning, problem))
}

/// Changes of files that wait for a restart.
pub fn pending_configuration(core: &DaemonCore) -> Vec<HealthFinding> {
    let started = core.started_config.get();
    started.map(|started| started.find_changes(&core.trust.account.get())).unwrap_or_default()
}

fn plugin_finding(problem: &AgentProblem) -> HealthFinding {
    let message = format!("agent {}: {}", problem.agent, problem.problem);
    new_finding("plugins", FindingLevel::Error, message)
}

/// Reports an account token that was not confirmed as the newest for too long.
fn account_token_finding(core: &DaemonCore) -> Option<HealthFinding> {
    let message = core.trust.freshness.staleness_report(core.now())?;
    Some(new_finding("trust", FindingLevel::Warning, message))
}

/// Reports a node token that peers reject, or that expires soon.
fn own_token_finding(core: &DaemonCore) -> Option<HealthFinding> {
    let (now, trust) = (core.now(), core.trust.account.get());
    let finding = |level, message| HealthFinding { check: "credentials", level, message };
    if let Err(error) = trust.verify_user(&core.trust.signer.token(), now) {
        let message = format!("the node's own token is not valid: {error}");
        return Some(finding(FindingLevel::Error, message));
    }
    let life = core.trust.token_life().filter(|life| life.is_renewal_late(now))?;
    let days = life.seconds_left(now) / DAY_SECONDS;
    let message = format!(
        "the node's token expires in {} and was not renewed; start the enroller, or run `rpc org push`",
        count_text(days, "day", "days")
    );
    Some(finding(FindingLevel::Warning, message))
}

fn credentials_finding(config: &Config) -> Option<HealthFinding> {
    let error =
        muster_files::check_secret(&config.broker.credentials, SecretOwner::Daemon).err()?;
    Some(new_finding("credentials", FindingLevel::Error, error.to_string()))
}

/// Reports low disk space at a path that must be writable.
fn disk_finding(name: &str, path: &Path) -> Option<HealthFinding> {
    let finding = |level, message| Some(HealthFinding { check: "disk", level, message });
    let shown = path.display();
    let stats = match statvfs(path) {
        Ok(stats) => stats,
        Err(error) => {
            let message = format!("cannot check the {name} directory {shown}: {error}");
            return finding(FindingLevel::Error, message);
        }
    };
    if stats.flags().contains(FsFlags::ST_RDONLY) {
        let message = format!("the {name} directory {shown} is on a read-only file system");
        return finding(FindingLevel::Error, message);
    }
    // These integer types differ between architectures.
    #[expect(clippy::useless_conversion, reason = "these types differ between architectures")]
    let (free, blocks, size) = (
        u64::from(stats.blocks_available()),
        u64::from(stats.blocks()),
        u64::from(stats.fragment_size()),
    );
    let (bytes, percent) =
        (free.saturating_mul(size), free.saturating_mul(100).checked_div(blocks).unwrap_or(100));
    let left = bytes / (1024 * 1024);
    let message = format!("only {left} MiB ({percent} %) are free in the {name} directory {shown}");
    match () {
        () if bytes < MIN_FREE_BYTES => finding(FindingLevel::Error, message),
        () if percent < LOW_SPACE_PERCENT => finding(FindingLevel::Warning, message),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_api::FindingLevel;

    use super::disk_finding;

    #[test]
    fn reports_a_missing_directory() {
        let found = disk_finding("state", Path::new("/no/such/directory")).unwrap();
        assert_eq!((found.check, found.level), ("disk", FindingLevel::Error));
        assert!(found.message.contains("/no/such/directory"));
        let full = disk_finding("state", Path::new("/proc")).unwrap();
        assert_eq!(full.level, FindingLevel::Error);
    }
}
