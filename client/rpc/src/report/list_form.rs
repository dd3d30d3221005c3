//! Prints a list in a form of `--output`.

use muster_display::yaml::to_yaml;
use serde::Serialize;

use crate::flags::list_form::NodeListForm;
use crate::outcome::error::ResultWriteError;
use crate::session::context::{CommandContext, Error};
use crate::session::form::{JsonForm, OutputFormError};

/// Prints a document in a form of `--output`; `render` makes the texts of the forms for people: names, a table, a wide table.
pub fn print_in_form(
    form: Option<&NodeListForm>,
    document: &impl Serialize,
    cx: CommandContext<'_>,
    render: impl FnOnce(&NodeListForm) -> String,
) -> Result<(), Error> {
    let form = form.unwrap_or(&NodeListForm::Table);
    let text = match form {
        NodeListForm::Name | NodeListForm::Table | NodeListForm::Wide => render(form),
        NodeListForm::Json => {
            return cx.print_result(Some(&JsonForm::default()), document, String::new);
        }
        NodeListForm::Yaml => to_yaml(document).map_err(OutputFormError::Yaml)?,
        NodeListForm::JsonPath(expression) => {
            let value = serde_json::to_value(document).map_err(ResultWriteError::from)?;
            let text = expression.render(value, cx.printer.prints_raw_values());
            let text = text.map_err(OutputFormError::JsonPath)?;
            return Ok(cx.printer.print_value(&text)?);
        }
    };
    Ok(cx.printer.print_text(text)?)
}
