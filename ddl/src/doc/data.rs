//! Documentation of data sources as one page of Markdown.

use super::markdown::{code, indented_code, prose};
use crate::data::DataDdl;
use crate::schema::Output;

/// The reference of these data sources.
pub fn data_markdown(sources: &[DataDdl]) -> String {
    let mut blocks = vec![
        "# Data sources".to_owned(),
        "What a node can be asked for in expressions (`-S`), by `rpc do rpcutil get_data`, and by policies. Written from their DDLs.".to_owned(),
    ];
    for ddl in sources {
        blocks.extend(source(ddl));
    }
    blocks.join("\n\n") + "\n"
}

fn source(ddl: &DataDdl) -> Vec<String> {
    let query = ddl.query().map_or_else(
        || "Takes no query".to_owned(),
        |query| {
            let optional = if query.optional { ", or nothing" } else { "" };
            format!("Query: {}{optional}", prose(&query.prompt))
        },
    );
    let mut blocks = vec![
        format!("## {}", code(ddl.name())),
        format!("{}.", prose(&ddl.metadata().description)),
        format!(
            "{query}. Answers within {} seconds.",
            ddl.timeout().as_secs()
        ),
    ];
    let mut table = vec![
        "| output | type | meaning |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    table.extend(ddl.outputs().iter().map(row));
    blocks.push(table.join("\n"));
    for example in ddl.examples() {
        blocks.push(format!("{}:", prose(&example.description)));
        blocks.push(indented_code(std::slice::from_ref(&example.expression)));
    }
    blocks
}

fn row(output: &Output) -> String {
    format!(
        "| {} | {} | {} |",
        code(&output.name),
        output.value_type,
        prose(&output.description)
    )
}
