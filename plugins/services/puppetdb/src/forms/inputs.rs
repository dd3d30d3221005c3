//! What the compile of a catalog read: the command `replace catalog inputs`, version 1.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::source::FormSource;
use super::values::{clean_text, format_time};

/// The body of `replace catalog inputs`. An input is a type, which is free text, and a name: `("hiera", "ntp::servers")`.
pub fn inputs_form(
    inputs: impl IntoIterator<Item = (String, String)>,
    catalog_uuid: Uuid,
    source: FormSource<'_>,
) -> Map<String, Value> {
    let inputs: Value = inputs
        .into_iter()
        .map(|(kind, name)| json!([clean_text(&kind), clean_text(&name)]))
        .collect();
    let mut form = Map::new();
    form.insert("certname".to_owned(), clean_text(source.certname).into());
    form.insert("producer_timestamp".to_owned(), format_time(source.producer_timestamp).into());
    form.insert("catalog_uuid".to_owned(), catalog_uuid.to_string().into());
    form.insert("inputs".to_owned(), inputs);
    form
}
