//! File tree of an in-memory machine. Independent of commands, clock and locks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;

use crate::path::resolve_path;
use crate::{FileAttributes, FileEntryKind, FileMetadata, SystemResult};

#[derive(Debug, Clone)]
pub(super) enum FakeNodeContent {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

#[derive(Debug, Clone)]
struct FakeTreeNode {
    content: FakeNodeContent,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: SystemTime,
    changed: SystemTime,
    inode: u64,
}

/// All nodes by path without links; always contains `/`.
#[derive(Debug)]
pub(super) struct FakeFileTree {
    nodes: BTreeMap<PathBuf, FakeTreeNode>,
    /// Number of nodes created so far.
    last_inode: u64,
}

impl FakeFileTree {
    pub(super) fn new(now: SystemTime) -> Self {
        let root = FakeTreeNode {
            content: FakeNodeContent::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            modified: now,
            changed: now,
            inode: 0,
        };
        Self { nodes: BTreeMap::from([(PathBuf::from("/"), root)]), last_inode: 0 }
    }

    pub(super) fn resolve_path(&self, path: &Path, follow: bool) -> SystemResult<PathBuf> {
        resolve_path(path, follow, &|link| {
            Ok(match self.nodes.get(link).map(|node| &node.content) {
                Some(FakeNodeContent::Link(target)) => Some(target.clone()),
                _ => None,
            })
        })
    }

    pub(super) fn get_metadata(&self, path: &Path) -> Option<FileMetadata> {
        self.nodes.get(path).map(|node| FileMetadata {
            kind: match node.content {
                FakeNodeContent::File(_) => FileEntryKind::File,
                FakeNodeContent::Directory => FileEntryKind::Directory,
                FakeNodeContent::Link(_) => FileEntryKind::Link,
            },
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            size: match &node.content {
                FakeNodeContent::File(bytes) => bytes.len() as u64,
                FakeNodeContent::Directory => 0,
                FakeNodeContent::Link(target) => target.as_os_str().len() as u64,
            },
            modified: node.modified,
            accessed: node.modified,
            changed: node.changed,
            inode: node.inode,
        })
    }

    pub(super) fn get_content(&self, path: &Path) -> io::Result<&FakeNodeContent> {
        self.nodes.get(path).map(|node| &node.content).ok_or_else(|| Errno::ENOENT.into())
    }

    pub(super) fn list_names(&self, directory: &Path) -> io::Result<Vec<String>> {
        match self.get_content(directory)? {
            FakeNodeContent::Directory => Ok(self
                .nodes
                .keys()
                .filter(|path| path.parent() == Some(directory))
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .collect()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Creates a file, directory or link; attributes not given are taken from the previous node, then from the default.
    pub(super) fn put_node(
        &mut self,
        path: &Path,
        content: FakeNodeContent,
        attributes: &FileAttributes,
        now: SystemTime,
    ) -> io::Result<()> {
        self.parent_is_directory(path)?;
        let existing = self.nodes.get(path);
        let default = match content {
            FakeNodeContent::File(_) => 0o644,
            FakeNodeContent::Directory => 0o755,
            FakeNodeContent::Link(_) => 0o777,
        };
        let node = FakeTreeNode {
            content,
            mode: attributes.mode.or(existing.map(|existing| existing.mode)).unwrap_or(default)
                & 0o7777,
            uid: attributes.uid.or(existing.map(|existing| existing.uid)).unwrap_or(0),
            gid: attributes.gid.or(existing.map(|existing| existing.gid)).unwrap_or(0),
            modified: now,
            changed: now,
            inode: self.last_inode + 1,
        };
        self.last_inode += 1;
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    pub(super) fn set_attributes(
        &mut self,
        path: &Path,
        attributes: &FileAttributes,
        now: SystemTime,
    ) -> io::Result<()> {
        let node = self.nodes.get_mut(path).ok_or(Errno::ENOENT)?;
        node.changed = now;
        if !matches!(node.content, FakeNodeContent::Link(_)) {
            node.mode = attributes.mode.unwrap_or(node.mode) & 0o7777;
        }
        node.uid = attributes.uid.unwrap_or(node.uid);
        node.gid = attributes.gid.unwrap_or(node.gid);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        if let Some(FakeTreeNode { content: FakeNodeContent::Directory, .. }) = self.nodes.get(path)
        {
            return Err(Errno::EISDIR.into());
        }
        self.nodes.remove(path);
        Ok(())
    }

    pub(super) fn remove_tree(&mut self, directory: &Path) -> io::Result<()> {
        if directory == Path::new("/") {
            return Err(Errno::EINVAL.into());
        }
        self.nodes.retain(|path, _| !path.starts_with(directory));
        Ok(())
    }

    pub(super) fn rename_node(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.parent_is_directory(to)?;
        let is_directory = matches!(self.get_content(from)?, FakeNodeContent::Directory);
        if to != from && to.starts_with(from) {
            return Err(Errno::EINVAL.into());
        }
        match (is_directory, self.get_content(to)) {
            (false, Ok(FakeNodeContent::Directory)) => return Err(Errno::EISDIR.into()),
            (true, Ok(FakeNodeContent::File(_) | FakeNodeContent::Link(_))) => {
                return Err(Errno::ENOTDIR.into());
            }
            (true, Ok(FakeNodeContent::Directory))
                if from != to && !self.list_names(to)?.is_empty() =>
            {
                return Err(Errno::ENOTEMPTY.into());
            }
            _ => {}
        }
        let moved: Vec<PathBuf> =
            self.nodes.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            let suffix = path.strip_prefix(from).unwrap_or(Path::new(""));
            let new_path =
                if suffix.as_os_str().is_empty() { to.to_owned() } else { to.join(suffix) };
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert(new_path, node);
            }
        }
        Ok(())
    }

    fn parent_is_directory(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().ok_or(Errno::EEXIST)?;
        match self.get_content(parent)? {
            FakeNodeContent::Directory => Ok(()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }
}
