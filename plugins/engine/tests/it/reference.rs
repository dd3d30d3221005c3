//! The reference of resource types in the documentation is what the types themselves say.
//!
//! `UPDATE_GOLDEN=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use muster_engine::schema::{
    AttributeKind, AttributeRole, AttributeSchema, METAPARAMETERS, TypeSchema,
};

const HEAD: &str = "# Resource types

What a catalog, and a single resource of the agent [puppetral](puppetral.md), may ask for. Names, meaning and messages are Puppet 7's.
Properties, which are compared with the machine, are **bold**. Generated from the types themselves.

## Where this is not Puppet

- A directory is never removed without `force`, and the resource fails then; Puppet says `removed` and leaves it. With `purge`, such a
  directory is left alone, and so is one in which the catalog has a file.
- `tidy` with `rmdirs` removes a directory only when everything in it goes too.
- A file whose owner or group does not exist is not written at all; Puppet writes it with another owner.
- A check of an `exec` (`onlyif`, `unless`) that takes longer than `timeout` fails the resource; Puppet takes it for in order.
- Every `filebucket` is a directory of the machine, also one that Puppet keeps on a server. Without a `path` it is
  `/var/lib/muster/clientbucket`, laid out as Puppet's, so that `puppet filebucket --local --bucket DIR` reads it.
- `puppet:` sources need somebody who finds them; a run without a server refuses the file, and goes on with what does not depend on it.
- The context of `SELinux` is accepted and not managed, `show_diff` is accepted and contents are never shown.
- `provider => supervised` of a `service` is ours: for machines on which no init system runs, the daemon starts the process itself, in a
  session of its own, and knows it again after a restart. What is known of it, and what it printed, is in `/var/lib/muster/services/NAME`.
- Version ranges of packages (`>= 1.0`) are refused; a version is exactly that one.
";

fn page() -> String {
    let types = muster_engine::types::builtin_types();
    let mut page = HEAD.to_owned();
    for known in &types {
        section(&mut page, known.schema());
    }
    page.push_str("\n## Of every type\n\n");
    table(&mut page, METAPARAMETERS.iter());
    page
}

fn section(page: &mut String, schema: &TypeSchema) {
    let TypeSchema {
        type_name,
        doc,
        namevar,
        ..
    } = schema;
    writeln!(
        page,
        "\n## {type_name}\n\n{doc} The title stands for `{namevar}`.\n"
    )
    .unwrap();
    table(page, schema.attributes.iter());
}

fn table<'a>(page: &mut String, attributes: impl Iterator<Item = &'a AttributeSchema>) {
    page.push_str("| name | value | default | meaning |\n|---|---|---|---|\n");
    for attribute in attributes {
        let name = match attribute.role {
            AttributeRole::Property => format!("**{}**", attribute.name),
            AttributeRole::Parameter => attribute.name.to_owned(),
        };
        let default = attribute
            .default
            .map_or_else(String::new, |word| format!("`{word}`"));
        let (value, doc) = (value(attribute.kind), attribute.doc.replace('|', "\\|"));
        writeln!(page, "| {name} | {value} | {default} | {doc} |").unwrap();
    }
}

fn value(kind: AttributeKind) -> String {
    let words = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match kind {
        AttributeKind::Text => "text".to_owned(),
        AttributeKind::Data => "any value".to_owned(),
        AttributeKind::Word(all) => words(all),
        AttributeKind::WordOr(all) => format!("{}, or text", words(all)),
        AttributeKind::Int => "number".to_owned(),
        AttributeKind::Bool => "truth".to_owned(),
        AttributeKind::Path => "absolute path".to_owned(),
        AttributeKind::Mode => "mode".to_owned(),
        AttributeKind::List => "texts".to_owned(),
        AttributeKind::Options => "options".to_owned(),
        AttributeKind::Commands => "commands".to_owned(),
        AttributeKind::Seconds => "seconds".to_owned(),
    }
}

#[test]
fn the_reference_says_what_the_types_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/resources.md");
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/resources.md is old: run this test with UPDATE_GOLDEN=1"
    );
}
