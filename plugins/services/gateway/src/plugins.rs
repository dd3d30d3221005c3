//! The plugins of a release as Puppet's file metadata. Pure.

use std::collections::BTreeMap;

use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::PluginList;
use serde_json::{Value, json};

/// The data formats of external facts. Other files are programs.
const FACT_DATA: [&str; 4] = ["yaml", "yml", "json", "txt"];
const FILE_MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;
/// Lists name no times; Puppet compares those of directories with nothing.
const DIRECTORY_CHECKSUM: &str = "{ctime}1970-01-01 00:00:00 +0000";

/// What an agent synchronises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginMount {
    Plugins,
    Facts,
}

/// Which entries a list has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PluginQuery {
    pub(crate) recurse: bool,
    /// Names that are left out; `*` at the beginning stands for any text.
    pub(crate) ignore: Vec<String>,
}

impl PluginMount {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "plugins" => Some(Self::Plugins),
            "pluginfacts" => Some(Self::Facts),
            _ => None,
        }
    }

    /// The directory in the list.
    fn prefix(self) -> &'static str {
        match self {
            Self::Plugins => "lib/",
            Self::Facts => "facts.d/",
        }
    }

    fn mode(self, path: &str) -> u32 {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        match self {
            Self::Facts if !FACT_DATA.contains(&extension) => EXECUTABLE_MODE,
            _ => FILE_MODE,
        }
    }
}

impl PluginQuery {
    fn ignores(&self, path: &str) -> bool {
        let matches = |name: &str, pattern: &String| match pattern.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => name == pattern,
        };
        path.split('/').any(|name| self.ignore.iter().any(|pattern| matches(name, pattern)))
    }
}

/// The content of one plugin.
pub(crate) fn find_plugin(
    list: &PluginList,
    mount: PluginMount,
    path: &str,
) -> Option<ContentAddress> {
    let mut files = mount_files(list, mount);
    files.find(|(name, _)| *name == path).map(|(_, file)| file)
}

/// The metadata of one plugin, or of a directory.
pub(crate) fn describe_plugin(list: &PluginList, mount: PluginMount, path: &str) -> Option<Value> {
    let entries =
        list_entries(list, mount, &PluginQuery { recurse: true, ..PluginQuery::default() });
    let path = if path.is_empty() { "." } else { path };
    let file = entries.get(path)?;
    Some(Value::Object(describe(mount, path, *file)))
}

/// The metadata of the mount itself and of what is below it.
pub(crate) fn describe_plugins(
    list: &PluginList,
    mount: PluginMount,
    query: &PluginQuery,
) -> Value {
    let entries = list_entries(list, mount, query);
    let described = entries.into_iter().map(|(path, file)| {
        let mut entry = describe(mount, path, file);
        entry.insert("relative_path".to_owned(), path.into());
        Value::Object(entry)
    });
    described.collect()
}

fn mount_files(
    list: &PluginList,
    mount: PluginMount,
) -> impl Iterator<Item = (&str, ContentAddress)> {
    list.files().filter_map(move |(path, file)| Some((path.strip_prefix(mount.prefix())?, file)))
}

/// Files, and directories without content, by path. `.` is the mount, and sorts before names: an agent creates a directory before what is in it.
fn list_entries<'a>(
    list: &'a PluginList,
    mount: PluginMount,
    query: &PluginQuery,
) -> BTreeMap<&'a str, Option<ContentAddress>> {
    let mut entries = BTreeMap::from([(".", None)]);
    let files = mount_files(list, mount).filter(|(path, _)| query.recurse && !query.ignores(path));
    for (path, file) in files {
        let directories = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        entries.extend(directories.map(|directory| (directory, None)));
        entries.insert(path, Some(file));
    }
    entries
}

fn describe(
    mount: PluginMount,
    path: &str,
    file: Option<ContentAddress>,
) -> serde_json::Map<String, Value> {
    let (kind, mode, checksum) = match file {
        Some(file) => {
            let value = format!("{{sha256}}{file}");
            ("file", mount.mode(path), json!({"type": "sha256", "value": value}))
        }
        None => {
            ("directory", EXECUTABLE_MODE, json!({"type": "ctime", "value": DIRECTORY_CHECKSUM}))
        }
    };
    let entry = json!({
        "path": format!("/{}", mount.prefix().trim_end_matches('/')), "relative_path": null,
        "links": "follow", "owner": 0, "group": 0, "mode": mode, "type": kind,
        "destination": null, "checksum": checksum,
    });
    match entry {
        Value::Object(entry) => entry,
        _ => serde_json::Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_wire::catalog::content::ContentAddress;
    use muster_wire::catalog::plugins::PluginList;
    use serde_json::Value;

    use super::{PluginMount, PluginQuery, describe_plugin, describe_plugins, find_plugin};

    fn list() -> PluginList {
        let file = |path: &str| (path.to_owned(), ContentAddress::of(path.as_bytes()));
        let paths = [
            "lib/facter/site.rb",
            "lib/puppet/type/a.rb",
            "lib/.git/x",
            "facts.d/run.sh",
            "facts.d/a.yaml",
        ];
        PluginList::new(paths.into_iter().map(file).collect::<BTreeMap<_, _>>()).unwrap()
    }

    fn paths(mount: PluginMount, query: &PluginQuery) -> Vec<(String, u64)> {
        let described = describe_plugins(&list(), mount, query);
        let of = |entry: &Value| {
            (entry["relative_path"].as_str().unwrap().to_owned(), entry["mode"].as_u64().unwrap())
        };
        described.as_array().unwrap().iter().map(of).collect()
    }

    #[test]
    fn entries_have_their_directories_and_modes() {
        let query =
            PluginQuery { recurse: true, ignore: vec![".git".to_owned(), "*.pot".to_owned()] };
        let owned = |path: &str, mode| (path.to_owned(), mode);
        let expected = [
            owned(".", 0o755),
            owned("facter", 0o755),
            owned("facter/site.rb", 0o644),
            owned("puppet", 0o755),
            owned("puppet/type", 0o755),
            owned("puppet/type/a.rb", 0o644),
        ];
        assert_eq!(paths(PluginMount::Plugins, &query), expected);
        let facts = [owned(".", 0o755), owned("a.yaml", 0o644), owned("run.sh", 0o755)];
        assert_eq!(paths(PluginMount::Facts, &query), facts);
        let root = PluginQuery::default();
        assert_eq!(paths(PluginMount::Plugins, &root), [owned(".", 0o755)]);
    }

    #[test]
    fn one_plugin_is_found_in_its_mount_only() {
        let (list, plugins) = (list(), PluginMount::Plugins);
        let expected = ContentAddress::of(b"lib/puppet/type/a.rb");
        assert_eq!(find_plugin(&list, plugins, "puppet/type/a.rb"), Some(expected));
        assert_eq!(find_plugin(&list, PluginMount::Facts, "puppet/type/a.rb"), None);
        assert_eq!(find_plugin(&list, plugins, "puppet"), None);
        let kind =
            |path: &str| describe_plugin(&list, plugins, path).map(|entry| entry["type"].clone());
        assert_eq!(kind(""), Some("directory".into()));
        assert_eq!(kind("puppet"), Some("directory".into()));
        assert_eq!(kind("puppet/type/a.rb"), Some("file".into()));
        assert_eq!(kind("a.rb"), None);
    }
}
