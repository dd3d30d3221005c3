//! Compares `find` with `puppet resource` on this machine. Read-only; skipped without Puppet.

use muster_api::ddl::REDACTED;
use muster_api::system::Command;
use muster_api::system::real::RealSystem;
use serde_json::{Map, Value, json};

use super::Machine;

/// Type, name, and the properties that differ: Puppet reports a provider for every resource, times of files,
/// and numeric owners where the engine reports names.
const RESOURCES: [(&str, &str, &[&str]); 7] = [
    ("user", "root", &["provider"]),
    ("group", "root", &["provider"]),
    ("host", "localhost", &["provider"]),
    ("mailalias", "postmaster", &["provider"]),
    ("file", "/etc/hosts", &["provider", "ctime", "mtime", "type", "owner", "group"]),
    ("package", "dpkg", &["provider"]),
    ("service", "cron", &["provider"]),
];

/// Run by `make test-all`.
mod long {
    use super::{Command, Machine, Map, REDACTED, RESOURCES, RealSystem, Value, json};

    #[tokio::test]
    async fn a10_5_find_equals_puppet_resource() {
        let machine = Machine::new(RealSystem::new("/".into()), json!({}));
        if machine.system.metadata("/usr/bin/puppet".as_ref()).unwrap().is_none() {
            println!("skipped: there is no /usr/bin/puppet on this machine");
            return;
        }
        for (type_name, name, apart) in RESOURCES {
            let argv = ["/usr/bin/puppet", "resource", type_name, name, "--to_yaml"];
            let output = machine.system.run_command(&Command::new(argv)).unwrap();
            assert!(output.is_success(), "{type_name}: {}", output.combined_text());
            let yaml: Value = serde_saphyr::from_slice(&output.stdout).unwrap();
            let found =
                machine.ask("find", json!({"type": type_name, "name": name})).await.unwrap();
            let comparable = |properties: &Value| {
                let mut properties: Map<String, Value> = properties.as_object().cloned().unwrap();
                properties.retain(|property, _| !apart.contains(&property.as_str()));
                if let Some(password) = properties.get_mut("password") {
                    *password = json!(REDACTED);
                }
                properties
            };
            let (ours, theirs) =
                (comparable(&found["properties"]), comparable(&yaml[type_name][name]));
            assert_eq!(ours, theirs, "{type_name}");
        }
    }
}
