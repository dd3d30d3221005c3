//! Forms of the lists of nodes and of checks.

use muster_display::json_path::JsonPathExpression;

#[derive(Debug, Clone, Default)]
pub enum NodeListForm {
    /// Name, state, and time since the node was seen.
    #[default]
    Table,
    /// Version, collectives and number of classes, too.
    Wide,
    Name,
    /// The document of `-j` as JSON.
    Json,
    /// The document of `-j` as YAML.
    Yaml,
    /// Values of the document of `-j`.
    JsonPath(JsonPathExpression),
}

impl NodeListForm {
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "name" => Ok(Self::Name),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            other => match other.strip_prefix("jsonpath=") {
                Some(expression) => JsonPathExpression::parse(expression).map(Self::JsonPath),
                None => Err("use table, wide, name, json, yaml or jsonpath=EXPRESSION".to_owned()),
            },
        }
    }
}
