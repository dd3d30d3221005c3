//! Parses the two operands of `rpc cp`: a path of this machine, or a path on nodes.

use std::path::PathBuf;

use crate::flags::named_nodes::NodeNames;
use crate::session::context::{CommandError, CommandExitCode};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyLocation {
    /// A path of this machine.
    Local(PathBuf),
    /// An absolute path on nodes: on the named ones, or on those that match the filters.
    Remote(Option<NodeNames>, String),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CopyLocationError {
    /// The text before the colon is no name of a node.
    #[error("{0:?} does not name nodes: {1}")]
    Node(String, String),
    #[error("{0:?} is not an absolute path on a node")]
    Relative(String),
    #[error("neither SOURCE nor TARGET is a path on nodes")]
    NoNodes,
    #[error("SOURCE and TARGET are both on nodes; a file cannot be copied between nodes")]
    TwoNodes,
    #[error("the node {0} is named, so filters cannot be used")]
    NamedNode(NodeNames),
    /// A file is the target for the files of several nodes with the same short name.
    #[error("{count} nodes have the name {name}, so {} cannot be their file", file.display())]
    SeveralNodes { count: usize, name: NodeNames, file: PathBuf },
    #[error("--mode, --owner and --group apply to copies to nodes only")]
    LocalAttributes,
    #[error("--batch, --canary and --max-failures apply to copies to nodes only")]
    LocalBatches,
    #[error("{0:?} is a directory; only files can be copied")]
    Directory(String),
}

impl CommandError for CopyLocationError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Node(..) => "write a file of this machine whose name has a colon as `./a:b`",
            Self::Relative(_) | Self::NoNodes | Self::TwoNodes => {
                "write it like `rpc cp motd :/etc/motd -C web` or `rpc cp web1.acme.net:/etc/motd .`"
            }
            Self::SeveralNodes { .. } => "write the whole name, with its domain",
            Self::NamedNode(_) => "write `:PATH` to copy to all nodes that match the filters",
            Self::Directory(_) => "use tar to make a file of it",
            Self::LocalAttributes | Self::LocalBatches => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

impl CopyLocation {
    /// A colon before the first slash separates the node from the path.
    pub fn parse(text: &str) -> Result<Self, CopyLocationError> {
        let remote = text.split_once(':').filter(|(node, _)| !node.contains('/'));
        let Some((node, path)) = remote else {
            return Ok(Self::Local(text.into()));
        };
        let node = match node {
            "" => None,
            node => {
                let parsed = NodeNames::parse(node);
                Some(parsed.map_err(|error| CopyLocationError::Node(node.to_owned(), error))?)
            }
        };
        if !path.starts_with('/') {
            return Err(CopyLocationError::Relative(path.to_owned()));
        }
        Ok(Self::Remote(node, path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyLocation, CopyLocationError, NodeNames};

    #[test]
    fn colon_before_the_first_slash_separates_the_node() {
        let remote = |node: Option<&str>, path: &str| {
            Ok(CopyLocation::Remote(
                node.map(|node| NodeNames::parse(node).unwrap()),
                path.to_owned(),
            ))
        };
        assert_eq!(CopyLocation::parse(":/etc/motd"), remote(None, "/etc/motd"));
        assert_eq!(
            CopyLocation::parse("web1.acme.net:/a:b"),
            remote(Some("web1.acme.net"), "/a:b")
        );
        for local in ["motd", "./a:b", "/srv/a:b", "."] {
            assert_eq!(CopyLocation::parse(local), Ok(CopyLocation::Local(local.into())));
        }
        assert_eq!(CopyLocation::parse("web[1-2]:/a"), remote(Some("web[1-2]"), "/a"));
        assert!(matches!(CopyLocation::parse("a b:/x"), Err(CopyLocationError::Node(..))));
        assert_eq!(CopyLocation::parse("web1:x"), Err(CopyLocationError::Relative("x".to_owned())));
    }
}
