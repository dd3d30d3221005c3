//! `rpc inventory --export` and `--validate`: writes the live fleet to an inventory document, and validates a document.
//!
//! Nodes are asked in batches and written as they reply, so memory use does not depend on the size of the fleet. The file is written
//! atomically and is readable by its owner only, because facts contain sensitive details of a machine.

use std::io;
use std::io::{BufWriter, Write};
use std::path::Path;

use muster_calls::discovery::inventory::{
    FleetInventory, INVENTORY_SCHEMA, InventoryGroup, InventoryNode, MAX_INVENTORY_BYTES,
    STATE_INVENTORY_SCHEMA, find_problems,
};
use muster_client::NodeReply;
use muster_contract::read_values;
use muster_contract::rpcutil::{RpcutilAgent, RpcutilInventoryOutput};
use muster_ddl::AgentContract as _;
use muster_display::{count_text, json, node_count_text};
use muster_files::files;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::commands::inventory::args::InventoryArgs;
use crate::request::batches::{InventoryQuery, UnusableReplyError, successful_outputs};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::session::errors::InventoryFileError;

pub fn validate_file(path: &Path, cx: CommandContext<'_>) -> CommandResult {
    let to_error = |source| InventoryFileError::Inventory { path: path.to_owned(), source };
    let text = files::read_text(path, MAX_INVENTORY_BYTES)?;
    let problems = find_problems(&text, None).map_err(to_error)?;
    for problem in &problems {
        cx.printer.print_line(format_args!("{}: {problem}", path.display()))?;
    }
    if !problems.is_empty() {
        return Ok(CommandExitCode::Local);
    }
    let inventory = FleetInventory::parse(&text, None).map_err(to_error)?;
    let nodes = node_count_text(inventory.nodes.len());
    let groups = count_text(inventory.groups.len(), "group", "groups");
    cx.printer.print_line(format_args!("{}: {nodes}, {groups}, no problems", path.display()))?;
    Ok(CommandExitCode::Passed)
}

/// Writes the document of the matching nodes.
pub async fn run(path: &Path, args: &InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.query.filters)?.with_agent(RpcutilAgent::NAME)?;
    let groups = existing_groups(path, args.update)?;
    let Some(query) = InventoryQuery::prepare(&target, None, cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let failed = files::file_error("write", path);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(&failed)?;
    let mut document =
        InventoryWriter::begin_document(file, &groups, args.with_state).map_err(&failed)?;
    let total = query.ask_in_batches("left out of the file", cx, |reply| {
        match node_entry(reply, args.with_state) {
            Ok(node) => Ok(Ok(document.write_node(&node).map_err(&failed)?)),
            Err(error) => Ok(Err(error)),
        }
    });
    let total = total.await?;
    if total.ok == 0 {
        return Ok(total.outcome().into());
    }
    let file = document.finish_document().map_err(&failed)?;
    // Synced before the rename, so that a crash leaves either the old or the complete new document.
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    let nodes = node_count_text(total.ok);
    cx.printer.print_message(format_args!("{nodes} in {}", path.display()));
    Ok(total.outcome().into())
}

/// The groups of the existing document, for `--update`.
fn existing_groups(path: &Path, update: bool) -> Result<Vec<InventoryGroup>> {
    match (path.try_exists().map_err(files::file_error("read", path))?, update) {
        (false, _) => Ok(Vec::new()),
        (true, false) => Err(InventoryFileError::Exists { path: path.to_owned() }.into()),
        (true, true) => Ok(FleetInventory::read(path)
            .map_err(|source| InventoryFileError::Inventory { path: path.to_owned(), source })?
            .groups),
    }
}

fn node_entry(reply: &NodeReply, with_state: bool) -> Result<InventoryNode, UnusableReplyError> {
    let output: RpcutilInventoryOutput = read_values(successful_outputs(reply)?)?;
    let state = output.state.filter(|_| with_state);
    let state = state.map(|state| serde_json::from_value(state.into())).transpose()?;
    Ok(InventoryNode {
        state,
        name: reply.node.to_string(),
        collectives: output.collectives,
        facts: serde_json::from_value(output.facts.into())?,
        classes: output.classes,
        agents: output.agents,
    })
}

/// Writes a document node by node.
struct InventoryWriter {
    writer: BufWriter<NamedTempFile>,
    first: bool,
}

impl InventoryWriter {
    fn begin_document(
        file: NamedTempFile,
        groups: &[InventoryGroup],
        with_state: bool,
    ) -> io::Result<Self> {
        let schema = if with_state { STATE_INVENTORY_SCHEMA } else { INVENTORY_SCHEMA };
        let mut writer = BufWriter::new(file);
        write!(writer, "{{\n\"$schema\": {},\n", json!(schema))?;
        if !groups.is_empty() {
            writeln!(writer, "\"groups\": {},", serde_json::to_string_pretty(groups)?)?;
        }
        writer.write_all(b"\"nodes\": [")?;
        Ok(Self { writer, first: true })
    }

    /// Writes a node on one line, so that documents can be compared by line.
    fn write_node(&mut self, node: &InventoryNode) -> io::Result<()> {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        write!(self.writer, "{comma}\n{}", json::to_safe_line(node)?)
    }

    fn finish_document(mut self) -> io::Result<NamedTempFile> {
        self.writer.write_all(b"\n]\n}\n")?;
        self.writer.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_calls::DiscoveryQuery;
    use muster_wire::identity::Identity;
    use serde_json::json;

    use super::{FleetInventory, InventoryWriter, existing_groups, node_entry};
    use crate::report::testing::reply;

    #[test]
    fn exported_inventory_is_readable_and_keeps_groups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fleet.json");
        let earlier = json!({
            "$schema": super::INVENTORY_SCHEMA,
            "groups": [{"name": "web", "filter": {"classes": ["apache"]}}],
            "nodes": [],
        });
        assert!(existing_groups(&path, false).unwrap().is_empty());
        std::fs::write(&path, earlier.to_string()).unwrap();
        let told = existing_groups(&path, false).unwrap_err().to_string();
        assert!(told.contains("--update"), "{told}");
        let kept = existing_groups(&path, true).unwrap();

        let file = tempfile::NamedTempFile::new_in(directory.path()).unwrap();
        let mut document = InventoryWriter::begin_document(file, &kept, false).unwrap();
        for (name, class) in [("db1", "mysql"), ("web1", "apache")] {
            let data = json!({"collectives": ["muster"], "facts": {"n": 1}, "classes": [class], "agents": ["rpcutil"], "version": "1"});
            document.write_node(&node_entry(&reply(name, 0, "", data), false).unwrap()).unwrap();
        }
        document.finish_document().unwrap().persist(&path).unwrap();
        let inventory = FleetInventory::read(Path::new(&path)).unwrap();
        let wanted = DiscoveryQuery { groups: vec!["web".to_owned()], ..DiscoveryQuery::default() };
        let found = inventory.find_nodes(&wanted).unwrap();
        assert_eq!(found.iter().map(Identity::as_str).collect::<Vec<_>>(), ["web1"]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(super::find_problems(&text, None).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn invalid_inventory_of_a_node_is_an_error() {
        assert!(
            node_entry(&reply("a", 5, "denied", json!({})), false)
                .unwrap_err()
                .to_string()
                .contains("denied")
        );
        let error = node_entry(&reply("a", 0, "", json!({"classes": 7})), false).unwrap_err();
        assert!(error.to_string().starts_with("its inventory is not valid"), "{error}");
        assert!(node_entry(&reply("a", 0, "", json!({})), false).is_ok());
    }
}
