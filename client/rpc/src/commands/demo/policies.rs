//! The policies of the demonstration's nodes: its user may do everything, one action only with an approval of the guest, who may only read.

use std::collections::BTreeMap;
use std::path::Path;

use muster_client::{AgentSchemas, FleetRequestError};
use muster_contract::package::PackageAgent;
use muster_contract::provision::ProvisionAgent;
use muster_contract::rpcutil::RpcutilAgent;
use muster_ddl::{ActionClass, ActionSchema, AgentContract as _};
use muster_files::files::{self, FileAccessError};

use crate::commands::demo::fleet::{DEMO_USER, GUEST_USER, SERVICE_NAME};

/// A policy for each built-in agent and for the data sources; `default.policy` applies to all other agents.
#[derive(Debug)]
pub struct DemoPolicies(BTreeMap<String, String>);

impl DemoPolicies {
    /// Allows the guest the actions that the built-in schemas class as `read`.
    pub fn from_schemas() -> Result<Self, FleetRequestError> {
        let schemas = AgentSchemas::load(None)?;
        let mut policies = BTreeMap::from([
            ("default".to_owned(), policy_text("", "")),
            // `fstat` reads the attributes of any file.
            (
                "data".to_owned(),
                policy_text(
                    "",
                    &format!("deny\t{GUEST_USER}\tfstat\t*\t*\nallow\t{GUEST_USER}\t*\t*\t*\n"),
                ),
            ),
        ]);
        for ddl in schemas.store.all() {
            let reads = ddl.actions().iter().filter(|action| action.class() == ActionClass::Read);
            let reads: Vec<&str> = reads.map(ActionSchema::name).collect();
            let rule = match reads.as_slice() {
                [] => String::new(),
                reads => format!("allow\t{GUEST_USER}\t{}\t*\t*\n", reads.join(" ")),
            };
            policies.insert(ddl.name().to_owned(), policy_text(&first_rule(ddl.name()), &rule));
        }
        Ok(Self(policies))
    }

    pub fn write(&self, directory: &Path) -> Result<(), FileAccessError> {
        self.0.iter().try_for_each(|(agent, text)| {
            files::replace_public(&directory.join(format!("{agent}.policy")), text.as_bytes())
        })
    }
}

/// The rule of an agent that precedes those of all agents.
fn first_rule(agent: &str) -> String {
    match agent {
        // In production, a second person approves the removal of a package with its configuration.
        PackageAgent::NAME => format!(
            "allow\t{DEMO_USER}\tpurge\tenvironment=production\t*\tapproved-by={GUEST_USER}\n"
        ),
        // The provisioner finds and releases machines that were enrolled.
        ProvisionAgent::NAME | RpcutilAgent::NAME => {
            format!("allow\tservice={SERVICE_NAME}\t*\t*\t*\n")
        }
        _ => String::new(),
    }
}

/// A policy that allows the demonstration's user everything, between these rules. The first rule that matches decides.
fn policy_text(first: &str, last: &str) -> String {
    format!("policy default deny\n{first}allow\t{DEMO_USER}\t*\t*\t*\n{last}")
}

#[cfg(test)]
mod tests {
    use muster_policy::{CallerGroups, PolicyFile};

    use super::DemoPolicies;

    #[test]
    fn every_policy_is_valid_and_the_guest_may_not_change_anything() {
        let DemoPolicies(policies) = DemoPolicies::from_schemas().unwrap();
        for (agent, text) in &policies {
            let parsed = PolicyFile::parse(text, &CallerGroups::default());
            assert!(parsed.1.is_empty(), "{agent}: {text}");
        }
        let text = |agent: &str| policies[agent].clone();
        assert!(text("service").contains("allow\tguest\tstatus\t"), "{}", text("service"));
        let package = text("package");
        let second_line = package.lines().nth(1).unwrap();
        assert!(second_line.ends_with("approved-by=guest"), "{package}");
        for (agent, action) in [("service", "restart"), ("shell", "run"), ("puppetral", "do")] {
            let guest = text(agent)
                .lines()
                .filter(|line| line.contains("guest"))
                .any(|line| line.split('\t').nth(2).unwrap().split(' ').any(|word| word == action));
            assert!(!guest, "{agent}: {}", text(agent));
        }
    }
}
