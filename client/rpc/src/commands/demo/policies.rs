//! The policies of the demonstration's nodes: its user may do everything, its guest may only read.

use std::collections::BTreeMap;
use std::path::Path;

use muster_client::{AgentSchemas, FleetRequestError};
use muster_ddl::{ActionClass, ActionSchema};
use muster_files::files::{self, FileAccessError};

use crate::commands::demo::fleet::{DEMO_USER, GUEST_USER};

/// A policy for each built-in agent and for the data sources; `default.policy` applies to all other agents.
#[derive(Debug)]
pub struct DemoPolicies(BTreeMap<String, String>);

impl DemoPolicies {
    /// Allows the guest the actions that the built-in schemas class as `read`.
    pub fn from_schemas() -> Result<Self, FleetRequestError> {
        let schemas = AgentSchemas::load(None)?;
        let mut policies = BTreeMap::from([
            ("default".to_owned(), policy_text("")),
            // `fstat` reads the attributes of any file.
            (
                "data".to_owned(),
                policy_text(&format!(
                    "deny\t{GUEST_USER}\tfstat\t*\t*\nallow\t{GUEST_USER}\t*\t*\t*\n"
                )),
            ),
        ]);
        for ddl in schemas.store.all() {
            let reads = ddl.actions().iter().filter(|action| action.class() == ActionClass::Read);
            let reads: Vec<&str> = reads.map(ActionSchema::name).collect();
            let rule = match reads.as_slice() {
                [] => String::new(),
                reads => format!("allow\t{GUEST_USER}\t{}\t*\t*\n", reads.join(" ")),
            };
            policies.insert(ddl.name().to_owned(), policy_text(&rule));
        }
        Ok(Self(policies))
    }

    pub fn write(&self, directory: &Path) -> Result<(), FileAccessError> {
        self.0.iter().try_for_each(|(agent, text)| {
            files::replace_public(&directory.join(format!("{agent}.policy")), text.as_bytes())
        })
    }
}

/// A policy that allows the demonstration's user everything, and has these rules in addition.
fn policy_text(rules: &str) -> String {
    format!("policy default deny\nallow\t{DEMO_USER}\t*\t*\t*\n{rules}")
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
        for (agent, action) in [("service", "restart"), ("shell", "run"), ("puppetral", "do")] {
            let guest = text(agent)
                .lines()
                .filter(|line| line.contains("guest"))
                .any(|line| line.split('\t').nth(2).unwrap().split(' ').any(|word| word == action));
            assert!(!guest, "{agent}: {}", text(agent));
        }
    }
}
