//! Documentation of data sources as one page of Markdown.

use super::markdown::{code_span, escape_prose, indented_code};
use crate::data::DataDdl;
use crate::schema::OutputSchema;

/// The reference of these data sources.
pub fn render_data_markdown(sources: &[DataDdl]) -> String {
    let mut blocks = vec![
        "# Data sources".to_owned(),
        "Values of a node that expressions (`-S`), `rpc do rpcutil get_data` and policies can look up. Generated from the DDLs.".to_owned(),
    ];
    for ddl in sources {
        blocks.extend(render_source(ddl));
    }
    blocks.join("\n\n") + "\n"
}

fn render_source(ddl: &DataDdl) -> Vec<String> {
    let query = ddl.query_schema().map_or_else(
        || "Takes no query".to_owned(),
        |query| {
            let optional = if query.optional { ", or nothing" } else { "" };
            format!("Query: {}{optional}", escape_prose(&query.prompt))
        },
    );
    let mut blocks = vec![
        format!("## {}", code_span(ddl.name())),
        format!("{}.", escape_prose(&ddl.metadata().description)),
        format!("{query}. Timeout: {} seconds.", ddl.timeout().as_secs()),
    ];
    let mut table = vec!["| output | type | meaning |".to_owned(), "|---|---|---|".to_owned()];
    table.extend(ddl.outputs().iter().map(output_row));
    blocks.push(table.join("\n"));
    for example in ddl.examples() {
        blocks.push(format!("{}:", escape_prose(&example.description)));
        blocks.push(indented_code(std::slice::from_ref(&example.expression)));
    }
    blocks
}

fn output_row(output: &OutputSchema) -> String {
    format!(
        "| {} | {} | {} |",
        code_span(&output.name),
        output.value_type,
        escape_prose(&output.description)
    )
}
