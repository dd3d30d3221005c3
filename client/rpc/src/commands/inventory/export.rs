//! `rpc inventory --export` and `--validate`: the live fleet as a document, and whether a document is one.
//!
//! Nodes are asked some at a time, and written as they answer: however large the fleet, only so many are in memory. The file is whole
//! or not there, and only its owner may read it: facts tell a lot about a machine.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use muster_client::discovery::inventory::{Group, Inventory, MAX_BYTES, Node, SCHEMA, problems};
use serde_json::{Map, Value, json};

use super::super::context::Context;
use super::super::inquiry;
use super::super::request::nobody_found;
use super::error::InventoryFileError;
use super::turns::{self, Taken};
use crate::ask::{Fleet, Progress, Schemas};
use crate::cli::filters::Filters;
use crate::error::Error;
use crate::exit::Exit;
use crate::files;
use crate::render::printable;
use crate::report::Reply;

/// Checks a document.
pub fn validate(path: &Path, cx: Context<'_>) -> Result<Exit, Error> {
    let unusable = |source| InventoryFileError::Inventory {
        path: path.to_owned(),
        source,
    };
    let text = files::read(path, MAX_BYTES).map_err(InventoryFileError::from)?;
    let found = problems(&text, None).map_err(unusable)?;
    for problem in &found {
        cx.printer.line(format_args!(
            "{}: {}",
            path.display(),
            printable::line(problem)
        ))?;
    }
    if !found.is_empty() {
        return Ok(Exit::Local);
    }
    let inventory = Inventory::parse(&text, None).map_err(unusable)?;
    cx.printer.line(format_args!(
        "{}: {} nodes, {} groups, no problems",
        path.display(),
        inventory.nodes.len(),
        inventory.groups.len()
    ))?;
    Ok(Exit::Passed)
}

/// Writes the document of the nodes that match.
pub async fn run(
    path: &Path,
    update: bool,
    filters: &Filters,
    cx: Context<'_>,
) -> Result<Exit, Error> {
    let target = cx.target(filters)?.with_agent(inquiry::AGENT)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let groups = groups(path, update)?;
    let plan = inquiry::plan(&schemas, "inventory", &[])?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, true);
    let found = fleet.discover(&target, &progress).await?;
    if found.nodes.is_empty() {
        nobody_found(&target, cx);
        return Ok(Exit::Local);
    }
    let failed = |source| InventoryFileError::from(files::failed("write", path)(source));
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let file =
        tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(failed)?;
    let mut document = Document::begin(BufWriter::new(file), &groups).map_err(failed)?;

    let total = turns::ask(&fleet, &plan, found, cx, |reply| match node(reply) {
        Ok(node) => {
            document.node(&node).map_err(failed)?;
            Ok(Taken::Good)
        }
        Err(complaint) => Ok(Taken::Bad(complaint)),
    })
    .await?;
    turns::tell(&total, "and not in the file", cx);
    if total.ok == 0 {
        return Ok(total.exit());
    }
    let file = document.end().map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    cx.printer
        .say(format_args!("{} nodes in {}", total.ok, path.display()));
    Ok(total.exit())
}

/// The groups of the document that is there.
fn groups(path: &Path, update: bool) -> Result<Vec<Group>, InventoryFileError> {
    match (
        path.try_exists().map_err(files::failed("read", path))?,
        update,
    ) {
        (false, _) => Ok(Vec::new()),
        (true, false) => Err(InventoryFileError::Exists {
            path: path.to_owned(),
        }),
        (true, true) => Inventory::read(path)
            .map(|inventory| inventory.groups)
            .map_err(|source| InventoryFileError::Inventory {
                path: path.to_owned(),
                source,
            }),
    }
}

/// What a node told, as the document has it.
fn node(reply: Reply) -> Result<Node, String> {
    let name = reply.node.to_string();
    if !reply.is_ok() {
        return Err(format!("{name}: {}", printable::line(&reply.message)));
    }
    let mut told = reply.data;
    let mut fields = Map::from_iter([("name".to_owned(), json!(name))]);
    for key in ["collectives", "facts", "classes", "agents"] {
        fields.insert(key.to_owned(), told.remove(key).unwrap_or(Value::Null));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        format!(
            "{name}: its inventory is none: {}",
            printable::line(&error.to_string())
        )
    })
}

/// A document that is written node by node.
struct Document<W> {
    to: W,
    first: bool,
}

impl<W: Write> Document<W> {
    fn begin(mut to: W, groups: &[Group]) -> io::Result<Self> {
        write!(to, "{{\n\"$schema\": {},\n", json!(SCHEMA))?;
        if !groups.is_empty() {
            writeln!(to, "\"groups\": {},", serde_json::to_string_pretty(groups)?)?;
        }
        to.write_all(b"\"nodes\": [")?;
        Ok(Self { to, first: true })
    }

    /// A node is a line, so that two documents can be compared.
    fn node(&mut self, node: &Node) -> io::Result<()> {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        write!(self.to, "{comma}\n{}", serde_json::to_string(node)?)
    }
}

impl Document<BufWriter<tempfile::NamedTempFile>> {
    fn end(mut self) -> io::Result<tempfile::NamedTempFile> {
        self.to.write_all(b"\n]\n}\n")?;
        self.to.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_client::Wanted;
    use muster_wire::identity::Identity;
    use serde_json::json;

    use super::{Document, Inventory, groups, node};
    use crate::render::fixtures::reply;

    #[test]
    fn what_nodes_tell_is_an_inventory_again_and_groups_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fleet.json");
        let earlier = json!({
            "$schema": super::SCHEMA,
            "groups": [{"name": "web", "filter": {"classes": ["apache"]}}],
            "nodes": [],
        });
        assert!(groups(&path, false).unwrap().is_empty());
        std::fs::write(&path, earlier.to_string()).unwrap();
        let told = groups(&path, false).unwrap_err().to_string();
        assert!(told.contains("--update"), "{told}");
        let kept = groups(&path, true).unwrap();

        let file = tempfile::NamedTempFile::new_in(directory.path()).unwrap();
        let mut document = Document::begin(std::io::BufWriter::new(file), &kept).unwrap();
        for (name, class) in [("db1", "mysql"), ("web1", "apache")] {
            let data = json!({"collectives": ["muster"], "facts": {"n": 1}, "classes": [class], "agents": ["rpcutil"], "version": "1"});
            document
                .node(&node(reply(name, 0, "", data)).unwrap())
                .unwrap();
        }
        document.end().unwrap().persist(&path).unwrap();
        let inventory = Inventory::read(Path::new(&path)).unwrap();
        let wanted = Wanted {
            groups: vec!["web".to_owned()],
            ..Wanted::default()
        };
        let found = inventory.find(&wanted).unwrap();
        assert_eq!(
            found.iter().map(Identity::as_str).collect::<Vec<_>>(),
            ["web1"]
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(super::problems(&text, None).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_node_that_tells_nonsense_is_left_out_and_told() {
        assert!(
            node(reply("a", 5, "denied", json!({})))
                .unwrap_err()
                .contains("denied")
        );
        let odd = node(reply("a", 0, "", json!({"classes": 7}))).unwrap_err();
        assert!(odd.starts_with("a: its inventory is none"), "{odd}");
        assert!(node(reply("a", 0, "", json!({}))).is_ok());
    }
}
