//! Renders where a change goes and with what, for the question before it.

use muster_display::{TextPage, escape_to_line};
use serde_json::{Map, Value};

/// Characters of an input's value.
const MAX_VALUE_CHARS: usize = 60;

/// Where a change goes and with what, for the question before it.
#[derive(Debug, Clone, Copy)]
pub struct ChangeScope<'a> {
    /// Name of the fleet, if known.
    pub fleet: Option<&'a str>,
    /// The context that selects it.
    pub context: Option<&'a str>,
    pub collective: &'a str,
    /// The filter in words.
    pub filter: &'a str,
    /// The inputs; sensitive ones are redacted.
    pub inputs: &'a Map<String, Value>,
}

impl ChangeScope<'_> {
    /// Renders it, a line each.
    pub fn render_text(&self) -> String {
        let fleet = self.fleet.unwrap_or("(unknown)");
        let context = self.context.map(|name| format!(", context {name}")).unwrap_or_default();
        let mut page = TextPage::default();
        page.push_line(format_args!("  fleet:  {fleet} (collective {}{context})", self.collective));
        page.push_line(format_args!("  filter: {}", self.filter));
        let inputs = self.inputs.iter().map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{name}={}", shorten_value(&escape_to_line(&text)))
        });
        let inputs = inputs.collect::<Vec<_>>().join(" ");
        if !inputs.is_empty() {
            page.push_line(format_args!("  inputs: {inputs}"));
        }
        page.into_text()
    }
}

fn shorten_value(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ChangeScope;

    #[test]
    fn scope_names_the_fleet_the_filter_and_the_inputs() {
        let inputs =
            json!({"name": "rip", "password": "[redacted]", "uid": 1000, "text": "x\n".repeat(50)});
        let scope = ChangeScope {
            fleet: Some("acme"),
            context: Some("prod"),
            collective: "muster",
            filter: "nodes with the class apache",
            inputs: inputs.as_object().unwrap(),
        };
        assert_eq!(
            scope.render_text(),
            format!(
                "  fleet:  acme (collective muster, context prod)\n  \
                 filter: nodes with the class apache\n  \
                 inputs: name=rip password=[redacted] text={}... uid=1000\n",
                "x\\n".repeat(20)
            )
        );
    }
}
