//! Checks that the files of a bundle are a complete external agent. Pure functions.

use std::collections::BTreeMap;

use muster_ddl::AgentDdl;

use super::error::BundleFileError;
use super::manifest::{BundleFile, BundleFileMode};

/// Returns the DDL, if the agent with this name has all its programs.
pub fn check_agent_files(
    name: &str,
    files: &BTreeMap<&str, BundleFile<'_>>,
) -> Result<(AgentDdl, semver::Version), BundleFileError> {
    let file = format!("{name}.json");
    let content = files
        .get(file.as_str())
        .ok_or_else(|| BundleFileError::Agent(format!("{file} is missing")))?;
    let ddl =
        AgentDdl::from_slice(content.bytes).map_err(|source| BundleFileError::Ddl(file, source))?;
    if ddl.name() != name {
        return Err(BundleFileError::Agent(format!(
            "{name}.json describes the agent {ddl_name}; rename the file to {ddl_name}.json",
            ddl_name = ddl.name()
        )));
    }
    let scripts = |action: &&muster_ddl::ActionSchema| action.implemented_by().is_some();
    let external = ddl.metadata().provider.as_deref() == Some("external");
    if !external && !ddl.actions().iter().any(|action| scripts(&action)) {
        return Err(BundleFileError::Agent(format!(
            "{name} is not an external agent: its DDL has neither `\"provider\": \"external\"` nor `implemented_by`"
        )));
    }
    for action in ddl.actions() {
        check_program(name, action.implemented_by(), files)?;
    }
    let version = ddl
        .version()
        .parse()
        .map_err(|source| BundleFileError::Version(ddl.version().to_owned(), source))?;
    Ok((ddl, version))
}

/// One of these paths, where a node searches, must be a program. `plugins/host/src/external/candidate.rs` implements the search.
fn check_program(
    name: &str,
    script: Option<&str>,
    files: &BTreeMap<&str, BundleFile<'_>>,
) -> Result<(), BundleFileError> {
    let is_program =
        |path: &str| files.get(path).is_some_and(|file| file.mode == BundleFileMode::Program);
    let platform = format!("{name}/{name}-");
    let is_present = match script {
        Some(script) => is_program(script) || is_program(&format!("{name}/{script}")),
        None => {
            is_program(name)
                || files.keys().any(|path| path.starts_with(&platform) && is_program(path))
        }
    };
    if is_present {
        return Ok(());
    }
    Err(BundleFileError::NoProgram(script.unwrap_or(name).to_owned()))
}
