//! The committed documents equal the generated ones, byte for byte. `UPDATE_GOLDEN=1` rewrites them.

use std::path::Path;
use std::{env, fs};

use muster_contract::again::AgainAgent;
use muster_contract::catalog::CatalogAgent;
use muster_contract::compiler::CompilerAgent;
use muster_contract::config::ConfigAgent;
use muster_contract::directory::DirectoryAgent;
use muster_contract::filecopy::FilecopyAgent;
use muster_contract::filemgr::FilemgrAgent;
use muster_contract::history::HistoryAgent;
use muster_contract::ledger::LedgerAgent;
use muster_contract::motd::MotdAgent;
use muster_contract::nettest::NettestAgent;
use muster_contract::nrpe::NrpeAgent;
use muster_contract::package::PackageAgent;
use muster_contract::permit::PermitAgent;
use muster_contract::process::ProcessAgent;
use muster_contract::provision::ProvisionAgent;
use muster_contract::provisioner::ProvisionerAgent;
use muster_contract::puppet::PuppetAgent;
use muster_contract::puppetca::PuppetcaAgent;
use muster_contract::puppetral::PuppetralAgent;
use muster_contract::release::ReleaseAgent;
use muster_contract::restart::RestartAgent;
use muster_contract::rpcutil::RpcutilAgent;
use muster_contract::schedule::ScheduleAgent;
use muster_contract::service::ServiceAgent;
use muster_contract::shell::ShellAgent;
use muster_contract::ssh::{SshAgent, SshCaAgent};
use muster_contract::tunnel::TunnelAgent;
use muster_ddl::BUILTIN_AGENTS;

use crate::generator::generate_document;

/// All built-in agents.
fn generated_documents() -> Vec<(&'static str, Result<String, String>)> {
    vec![
        generate_document::<AgainAgent>(),
        generate_document::<CatalogAgent>(),
        generate_document::<CompilerAgent>(),
        generate_document::<ConfigAgent>(),
        generate_document::<DirectoryAgent>(),
        generate_document::<FilecopyAgent>(),
        generate_document::<FilemgrAgent>(),
        generate_document::<HistoryAgent>(),
        generate_document::<LedgerAgent>(),
        generate_document::<MotdAgent>(),
        generate_document::<NettestAgent>(),
        generate_document::<NrpeAgent>(),
        generate_document::<PackageAgent>(),
        generate_document::<PermitAgent>(),
        generate_document::<ProcessAgent>(),
        generate_document::<ProvisionAgent>(),
        generate_document::<ProvisionerAgent>(),
        generate_document::<PuppetAgent>(),
        generate_document::<PuppetcaAgent>(),
        generate_document::<PuppetralAgent>(),
        generate_document::<ReleaseAgent>(),
        generate_document::<RestartAgent>(),
        generate_document::<RpcutilAgent>(),
        generate_document::<ScheduleAgent>(),
        generate_document::<ServiceAgent>(),
        generate_document::<ShellAgent>(),
        generate_document::<SshAgent>(),
        generate_document::<SshCaAgent>(),
        generate_document::<TunnelAgent>(),
    ]
}

#[test]
fn documents_are_generated_from_the_types_of_their_actions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents");
    let mut differences = Vec::new();
    for (name, document) in generated_documents() {
        let path = directory.join(format!("{name}.json"));
        let document = document.unwrap_or_else(|problem| panic!("{problem}"));
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &document).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let lines = committed.lines().zip(document.lines()).enumerate();
        let first =
            lines.map(|(at, (old, new))| (at + 1, old, new)).find(|(_, old, new)| old != new);
        if committed != document {
            differences.push(format!("{name}.json: {first:?}"));
        }
    }
    let advice = "UPDATE_GOLDEN=1 rewrites the documents";
    assert!(differences.is_empty(), "{}\n{advice}", differences.join("\n"));
}

#[test]
fn every_built_in_agent_is_generated() {
    let generated = generated_documents().into_iter().map(|(name, _)| name);
    assert!(generated.eq(BUILTIN_AGENTS.iter().map(|(name, _)| *name)));
}
