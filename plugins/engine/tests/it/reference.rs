//! The reference page of resource types, and the rules by which callers check attributes, are generated from the schemas of the types.
//!
//! `UPDATE_GOLDEN=1` rewrites both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use muster_engine::schema::{
    AttributeKind, AttributeRole, AttributeSchema, METAPARAMETERS, RELATION_METAPARAMETERS,
    TypeSchema,
};
use serde::Serialize;

const HEAD: &str = "# Resource types

The resource types of catalogs and of the agent [puppetral](puppetral.md). Names, meanings and messages are those of Puppet 7.
Properties (attributes that are compared with the node) are **bold**. This page is generated from the types.

## Differences from Puppet

- A directory is never removed without `force`; the resource fails. Puppet reports `removed` and leaves the directory. `purge` does not
  remove such a directory, nor one that contains a file of the catalog.
- `tidy` with `rmdirs` removes a directory only if all its contents are removed.
- A file whose owner or group does not exist is not written. Puppet writes it with another owner.
- A check of an `exec` (`onlyif`, `unless`) that takes longer than `timeout` fails the resource. Puppet treats the resource as in sync.
- Every `filebucket` is a directory on the node, even if Puppet keeps it on a server. Without a `path` it is
  `/var/lib/muster/clientbucket`, in the layout of Puppet, so `puppet filebucket --local --bucket DIR` can read it.
- A `puppet:` source needs a [static catalog](../guides/catalogs.md#files-of-static-catalogs), because no run asks a Puppet server. Without one the file fails;
  resources that do not depend on it are applied.
- `SELinux` contexts are accepted but not managed. `show_diff` is accepted, but contents are never shown.
- `provider => supervised` of a `service` does not exist in Puppet: on nodes without a running init system, the daemon starts the process
  in a session of its own, and recognizes it after a restart. Its state and output are in `/var/lib/muster/services/NAME`.
- If a file has several records of one name, the resource is the one that already has the desired properties, otherwise the last. Puppet always
  takes the last: with `127.0.0.1 localhost` and `::1 localhost`, it overwrites the second if the first is declared. `ensure => absent` removes
  all records of that name at once; Puppet removes one in each run.
- A change of a record keeps the bytes of all other lines. Puppet changes blanks and line ends of other records, moves `TZ=` to the top of a
  crontab, and loses settings of a crontab that no job follows.
- Records are recognized as the programs that use the files read them: mail aliases with quoted names and with continuation lines, also after
  comments; indented lines; lines that end with CR LF; a comment after the fields of an `fstab` or `ssh_known_hosts` line. Puppet adds a second
  record, changes the line, or fails.
- A comment at the end of a record's line stays when the record of a `host` is changed, and is lost when that of a `mount`, `mailalias` or `sshkey` is changed, as
  in Puppet. Puppet reads it as part of the last field, so it also removes the comment of an `fstab` line that has all desired properties.
- `recipient` and `file` of a `mailalias` replace each other, with an event for both. Puppet keeps the recipients if `file` is set.
- The environment of an `exec` is `PATH`, `LANG=C`, `LC_ALL=C`, `HOME` of the user, and `environment`. Puppet also passes on the environment of its own
  process, such as proxies and the language, and removes `HOME`, `USER` and `LOGNAME`.
- Version ranges of packages (`>= 1.0`) are rejected; a version means exactly this version.
";

fn page() -> String {
    let types = muster_engine::types::builtin_types();
    let mut page = HEAD.to_owned();
    for known in &types {
        section(&mut page, known.schema());
    }
    page.push_str("\n## Metaparameters (all types)\n\n");
    table(&mut page, METAPARAMETERS.iter());
    page
}

fn section(page: &mut String, schema: &TypeSchema) {
    let TypeSchema { type_name, doc, namevar, .. } = schema;
    writeln!(page, "\n## {type_name}\n\n{doc} The title is the default of `{namevar}`.\n").unwrap();
    table(page, schema.attributes.iter());
}

fn table<'a>(page: &mut String, attributes: impl Iterator<Item = &'a AttributeSchema>) {
    page.push_str("| name | value | default | meaning |\n|---|---|---|---|\n");
    for attribute in attributes {
        let name = match attribute.role {
            AttributeRole::Property => format!("**{}**", attribute.name),
            AttributeRole::Parameter => attribute.name.to_owned(),
        };
        let default = attribute.default.map_or_else(String::new, |word| format!("`{word}`"));
        let mut value = value(attribute.kind);
        if attribute.comma_separated {
            value.push_str(", separated by commas");
        }
        let doc = attribute.doc.replace('|', "\\|");
        writeln!(page, "| {name} | {value} | {default} | {doc} |").unwrap();
    }
}

fn value(kind: AttributeKind) -> String {
    let words = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match kind {
        AttributeKind::Text => "string".to_owned(),
        AttributeKind::Data => "any value".to_owned(),
        AttributeKind::Word(all) => words(all),
        AttributeKind::WordOr(all) => format!("{}, or a string", words(all)),
        AttributeKind::Int => "number".to_owned(),
        AttributeKind::Bool => "boolean".to_owned(),
        AttributeKind::AbsolutePath => "absolute path".to_owned(),
        AttributeKind::Mode => "mode".to_owned(),
        AttributeKind::List => "strings".to_owned(),
        AttributeKind::Options => "options".to_owned(),
        AttributeKind::Commands => "commands".to_owned(),
        AttributeKind::Seconds => "seconds".to_owned(),
    }
}

/// The document that `muster-ddl` reads. Structs fix the order of its keys, which otherwise depends on how `serde_json` is built.
#[derive(Serialize)]
struct TypesDocument {
    metaparameters: BTreeMap<&'static str, AttributeEntry>,
    types: BTreeMap<&'static str, TypeEntry>,
}

#[derive(Serialize)]
struct TypeEntry {
    description: &'static str,
    attributes: BTreeMap<&'static str, AttributeEntry>,
}

#[derive(Serialize)]
struct AttributeEntry {
    description: &'static str,
    accepts: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    values: &'static [&'static str],
}

fn attribute_entry(attribute: &AttributeSchema) -> AttributeEntry {
    let (accepts, values): (&'static str, &'static [&'static str]) = match attribute.kind {
        AttributeKind::Word(words) => ("word", words),
        _ if RELATION_METAPARAMETERS.contains(&attribute.name) => ("relation", &[]),
        AttributeKind::List if attribute.comma_separated => ("comma_list", &[]),
        AttributeKind::List | AttributeKind::Commands => ("list", &[]),
        AttributeKind::WordOr(words) => ("text", words),
        AttributeKind::Text | AttributeKind::Data => ("text", &[]),
        AttributeKind::Int => ("integer", &[]),
        AttributeKind::Bool => ("boolean", &["true", "false"]),
        AttributeKind::AbsolutePath => ("path", &[]),
        AttributeKind::Mode => ("mode", &[]),
        AttributeKind::Options => ("options", &[]),
        AttributeKind::Seconds => ("seconds", &[]),
    };
    AttributeEntry { description: attribute.doc, accepts, values }
}

fn attribute_entries(attributes: &[AttributeSchema]) -> BTreeMap<&'static str, AttributeEntry> {
    attributes.iter().map(|attribute| (attribute.name, attribute_entry(attribute))).collect()
}

/// All types and their attributes, for callers.
fn rules() -> String {
    let types = muster_engine::types::builtin_types();
    let types = types.iter().map(|known| {
        let schema = known.schema();
        let attributes = attribute_entries(schema.attributes);
        (schema.type_name, TypeEntry { description: schema.doc, attributes })
    });
    let types = types.collect();
    let document = TypesDocument { metaparameters: attribute_entries(METAPARAMETERS), types };
    serde_json::to_string_pretty(&document).unwrap() + "\n"
}

#[test]
fn generated_files_match_the_types() {
    for (name, text) in
        [("docs/reference/resources.md", page()), ("ddl/resource_types.json", rules())]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{name} is out of date: run this test with UPDATE_GOLDEN=1");
    }
}
