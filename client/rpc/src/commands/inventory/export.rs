//! `rpc inventory --export` and `--validate`: writes the live fleet to an inventory document, and validates a document.
//!
//! Nodes are asked in batches and written as they reply, so memory use does not depend on the size of the fleet. The file is written
//! atomically and is readable by its owner only, because facts contain sensitive details of a machine.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use muster_client::discovery::inventory::{
    FleetInventory, INVENTORY_SCHEMA, InventoryGroup, InventoryNode, MAX_INVENTORY_BYTES,
    find_problems,
};
use muster_contract::read_values;
use muster_contract::rpcutil::RpcutilInventoryOutput;
use muster_request::{AgentSchemas, FleetConnection, NodeReply};
use muster_secret::files;
use serde_json::json;

use super::super::context::CommandContext;
use super::super::inquiry;
use super::super::request::report_no_nodes;
use super::batches::{self, ReplyVerdict};
use super::error::InventoryFileError;
use crate::cli::filters::FilterArgs;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::progress::ProgressReporter;
use crate::render::printable;

/// Validates a document.
pub fn validate_file(path: &Path, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    let to_error = |source| InventoryFileError::Inventory { path: path.to_owned(), source };
    let text = files::read_text(path, MAX_INVENTORY_BYTES).map_err(InventoryFileError::from)?;
    let problems = find_problems(&text, None).map_err(to_error)?;
    for problem in &problems {
        cx.printer.print_line(format_args!(
            "{}: {}",
            path.display(),
            printable::escape_to_line(problem)
        ))?;
    }
    if !problems.is_empty() {
        return Ok(CommandExitCode::Local);
    }
    let inventory = FleetInventory::parse(&text, None).map_err(to_error)?;
    cx.printer.print_line(format_args!(
        "{}: {} nodes, {} groups, no problems",
        path.display(),
        inventory.nodes.len(),
        inventory.groups.len()
    ))?;
    Ok(CommandExitCode::Passed)
}

/// Writes the document of the matching nodes.
pub async fn run(
    path: &Path,
    update: bool,
    filters: &FilterArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let target = cx.read_target(filters)?.with_agent(inquiry::RPCUTIL_AGENT)?;
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(&settings))?;
    let groups = existing_groups(path, update)?;
    let plan = inquiry::plan_rpcutil(&schemas, "inventory", &[])?;
    let fleet = FleetConnection::connect(&settings, &target).await?;
    let progress = ProgressReporter::new(cx.printer, true);
    let found = fleet.discover_nodes(&target, &progress).await?;
    if found.nodes.is_empty() {
        report_no_nodes(&target, cx);
        return Ok(CommandExitCode::Local);
    }
    let failed = |source| InventoryFileError::from(files::file_error("write", path)(source));
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file =
        tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(failed)?;
    let mut document =
        InventoryWriter::begin_document(BufWriter::new(file), &groups).map_err(failed)?;

    let total =
        batches::ask_in_batches(&fleet, &plan, found, cx, |reply| match node_entry(&reply) {
            Ok(node) => {
                document.write_node(&node).map_err(failed)?;
                Ok(ReplyVerdict::Accepted)
            }
            Err(message) => Ok(ReplyVerdict::Rejected(message)),
        })
        .await?;
    batches::report_missing(&total, "left out of the file", cx);
    if total.ok == 0 {
        return Ok(total.outcome().into());
    }
    let file = document.finish_document().map_err(failed)?;
    // Synced before the rename, so that a crash leaves either the old or the complete new document.
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    cx.printer.print_message(format_args!("{} nodes in {}", total.ok, path.display()));
    Ok(total.outcome().into())
}

/// The groups of the existing document, for `--update`.
fn existing_groups(path: &Path, update: bool) -> Result<Vec<InventoryGroup>, InventoryFileError> {
    match (path.try_exists().map_err(files::file_error("read", path))?, update) {
        (false, _) => Ok(Vec::new()),
        (true, false) => Err(InventoryFileError::Exists { path: path.to_owned() }),
        (true, true) => FleetInventory::read(path)
            .map(|inventory| inventory.groups)
            .map_err(|source| InventoryFileError::Inventory { path: path.to_owned(), source }),
    }
}

/// Converts a reply into the node's entry in the document.
fn node_entry(reply: &NodeReply) -> Result<InventoryNode, String> {
    let name = reply.node.to_string();
    if !reply.is_ok() {
        return Err(format!("{name}: {}", printable::escape_to_line(&reply.message)));
    }
    let node = read_values(&reply.data).and_then(|output: RpcutilInventoryOutput| {
        Ok(InventoryNode {
            name: name.clone(),
            collectives: output.collectives,
            facts: serde_json::from_value(output.facts.into())?,
            classes: output.classes,
            agents: output.agents,
        })
    });
    node.map_err(|error| {
        format!(
            "{name}: its inventory is not valid: {}",
            printable::escape_to_line(&error.to_string())
        )
    })
}

/// Writes a document node by node.
struct InventoryWriter<W> {
    writer: W,
    first: bool,
}

impl<W: Write> InventoryWriter<W> {
    fn begin_document(mut writer: W, groups: &[InventoryGroup]) -> io::Result<Self> {
        write!(writer, "{{\n\"$schema\": {},\n", json!(INVENTORY_SCHEMA))?;
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
        write!(self.writer, "{comma}\n{}", serde_json::to_string(node)?)
    }
}

impl InventoryWriter<BufWriter<tempfile::NamedTempFile>> {
    fn finish_document(mut self) -> io::Result<tempfile::NamedTempFile> {
        self.writer.write_all(b"\n]\n}\n")?;
        self.writer.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_client::DiscoveryQuery;
    use muster_wire::identity::Identity;
    use serde_json::json;

    use super::{FleetInventory, InventoryWriter, existing_groups, node_entry};
    use crate::render::fixtures::reply;

    #[test]
    fn what_nodes_tell_is_an_inventory_again_and_groups_are_kept() {
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
        let mut document =
            InventoryWriter::begin_document(std::io::BufWriter::new(file), &kept).unwrap();
        for (name, class) in [("db1", "mysql"), ("web1", "apache")] {
            let data = json!({"collectives": ["muster"], "facts": {"n": 1}, "classes": [class], "agents": ["rpcutil"], "version": "1"});
            document.write_node(&node_entry(&reply(name, 0, "", data)).unwrap()).unwrap();
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
    fn a_node_that_tells_nonsense_is_left_out_and_told() {
        assert!(node_entry(&reply("a", 5, "denied", json!({}))).unwrap_err().contains("denied"));
        let error = node_entry(&reply("a", 0, "", json!({"classes": 7}))).unwrap_err();
        assert!(error.starts_with("a: its inventory is not valid"), "{error}");
        assert!(node_entry(&reply("a", 0, "", json!({}))).is_ok());
    }
}
