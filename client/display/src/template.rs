//! Renders results with templates: `{{ sender }} {{ data.status }}`, in the Jinja language. A template has access to the given values only; its steps,
//! its run time, its memory and its output are limited.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, escape_formatter};
use muster_base::nearest_name;
use serde::Serialize;

use crate::evaluation_limit::{EvaluationError, evaluate_within, limit_memory};

/// Longest template, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 256 * 1024;
const MAX_RENDER_STEPS: u64 = 2_000_000;
/// Maximum run time of one rendering: one step of a filter can read a whole list.
const RENDER_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Name of the only template in the environment.
const TEMPLATE_NAME: &str = "template";

/// A valid template.
#[derive(Debug)]
pub struct OutputTemplate {
    environment: Arc<Environment<'static>>,
    /// Whether a rendering exceeded its time. No other one begins, because the abandoned one still uses a processor.
    is_abandoned: AtomicBool,
}

/// Why a template is invalid, or cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum OutputTemplateError {
    /// It cannot be parsed.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// It is too long.
    #[error("the template is longer than {MAX_TEMPLATE_BYTES} bytes")]
    TooLong,
    /// It uses a name that does not exist.
    #[error("unknown name `{name}`; the known names are {}", .known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
    /// It uses a field that does not exist.
    #[error("unknown field `{name}.{field}`; {hint}")]
    UnknownField {
        /// The name that has fields.
        name: &'static str,
        /// The field.
        field: String,
        /// The most similar field, or all of them.
        hint: String,
    },
    /// It cannot be rendered.
    #[error("line {line}: {problem}")]
    Render {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// It did not end.
    #[error(transparent)]
    Unfinished(#[from] EvaluationError),
}

impl OutputTemplate {
    /// Parses a template for values with these names.
    pub fn new(source: &str, known: &[&'static str]) -> Result<Self, OutputTemplateError> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(OutputTemplateError::TooLong);
        }
        limit_memory();
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_fuel(Some(MAX_RENDER_STEPS));
        environment.set_recursion_limit(64);
        // HTML escaping does not apply.
        environment.set_formatter(|out, state, value| match value.as_str() {
            Some(text) => out.write_str(text).map_err(Into::into),
            None => escape_formatter(out, state, value),
        });
        let syntax = |error| {
            let (line, problem) = error_location(&error);
            OutputTemplateError::Syntax { line, problem }
        };
        environment.add_template_owned(TEMPLATE_NAME, source.to_owned()).map_err(syntax)?;
        let template = environment.get_template(TEMPLATE_NAME).map_err(syntax)?;
        let mut variables: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        variables.sort();
        let is_known = |name: &String| {
            known.contains(&name.as_str())
                || environment.globals().any(|(global, _)| global == name)
        };
        if let Some(name) = variables.into_iter().find(|name| !is_known(name)) {
            return Err(OutputTemplateError::Unknown { name, known: known.to_vec() });
        }
        Ok(Self { environment: Arc::new(environment), is_abandoned: AtomicBool::new(false) })
    }

    /// Checks that the template uses only these fields of a name.
    pub fn check_fields(
        &self,
        name: &'static str,
        known: &[&str],
    ) -> Result<(), OutputTemplateError> {
        let Ok(template) = self.environment.get_template(TEMPLATE_NAME) else { return Ok(()) };
        let mut used: Vec<String> = template.undeclared_variables(true).into_iter().collect();
        used.sort();
        let fields = used.iter().filter_map(|path| path.strip_prefix(name)?.strip_prefix('.'));
        let mut fields = fields.map(|rest| rest.split('.').next().unwrap_or(rest));
        let Some(field) = fields.find(|field| !known.contains(field)) else {
            return Ok(());
        };
        let hint = match nearest_name(field, known.iter().copied()) {
            Some(nearest) => format!("did you mean `{name}.{nearest}`?"),
            None if known.is_empty() => format!("`{name}` has no fields"),
            None => format!("the fields are {}", known.join(", ")),
        };
        Err(OutputTemplateError::UnknownField { name, field: field.to_owned(), hint })
    }

    /// Adds a missing line end, unless the text is empty.
    pub fn render(&self, values: &impl Serialize) -> Result<String, OutputTemplateError> {
        if self.is_abandoned.load(Ordering::Relaxed) {
            return Err(EvaluationError::TooSlow(RENDER_TIMEOUT).into());
        }
        let (environment, values) = (Arc::clone(&self.environment), Value::from(Serde(values)));
        let rendered = evaluate_within(RENDER_TIMEOUT, move || render_text(&environment, &values));
        self.is_abandoned.store(rendered.is_err(), Ordering::Relaxed);
        rendered?
    }
}

fn render_text(
    environment: &Environment<'_>,
    values: &Value,
) -> Result<String, OutputTemplateError> {
    let mut output = BoundedTemplateBuffer(Vec::new());
    environment
        .get_template(TEMPLATE_NAME)
        .and_then(|template| template.render_captured_to(values, &mut output))
        .map_err(|error| {
            let (line, problem) = error_location(&error);
            OutputTemplateError::Render { line, problem }
        })?;
    let mut text = String::from_utf8_lossy(&output.0).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

struct BoundedTemplateBuffer(Vec<u8>);

impl io::Write for BoundedTemplateBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT_BYTES {
            let problem = format!("the output is larger than {MAX_OUTPUT_BYTES} bytes");
            return Err(io::Error::other(problem));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn error_location(error: &minijinja::Error) -> (usize, String) {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let problem = format!("{}{detail}", error.kind());
    (error.line().unwrap_or(1), problem)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{OutputTemplate, OutputTemplateError};

    fn render(source: &str) -> Result<String, OutputTemplateError> {
        let values =
            json!({"sender": "web1", "data": {"status": "running\u{1b}[2J", "list": [1, 2]}});
        OutputTemplate::new(source, &["sender", "data"])?.render(&values)
    }

    #[test]
    fn values_are_inserted() {
        assert_eq!(render("{{ sender }}: {{ data.status }}").unwrap(), "web1: running\u{1b}[2J\n");
        assert_eq!(render("{{ data.list | join('+') }}\n\n").unwrap(), "1+2\n");
        assert_eq!(render("{{ data.list | tojson }}").unwrap(), "[1, 2]\n");
        assert_eq!(render("{% if data.nothing.below %}x{% endif %}").unwrap(), "");
        assert_eq!(render("{% for n in data.list %}{{ n }},{% endfor %}").unwrap(), "1,2,\n");
        assert_eq!(render("<b>{{ '<' }}").unwrap(), "<b><\n");
    }

    #[test]
    fn invalid_templates_are_refused_before_rendering() {
        let error = render("a\n{{ sender").unwrap_err();
        assert!(matches!(error, OutputTemplateError::Syntax { line: 2, .. }), "{error}");
        let error = render("{{ sendr }}").unwrap_err();
        assert_eq!(error.to_string(), "unknown name `sendr`; the known names are sender, data");
        let error = render("{{ 'a' / 2 }}").unwrap_err();
        assert!(matches!(error, OutputTemplateError::Render { line: 1, .. }), "{error}");
        assert!(render("{% include '/etc/passwd' %}").is_err());
    }

    #[test]
    fn unknown_fields_are_refused() {
        let check = |source: &str, known: &[&str]| {
            let template = OutputTemplate::new(source, &["sender", "data"]).unwrap();
            template.check_fields("data", known).map_err(|error| error.to_string())
        };
        assert_eq!(check("{{ data.status }} {{ data.list[0] }}", &["status", "list"]), Ok(()));
        assert_eq!(check("{{ data }} {{ sender.x }}", &[]), Ok(()));
        assert_eq!(
            check("{% if data.status %}{{ data.staus.x }}{% endif %}", &["status"]),
            Err("unknown field `data.staus`; did you mean `data.status`?".to_owned())
        );
        assert_eq!(
            check("{{ data.x }}", &["status", "list"]),
            Err("unknown field `data.x`; the fields are status, list".to_owned())
        );
    }

    #[test]
    fn rendering_work_and_output_are_limited() {
        assert!(
            render(
                "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}"
            )
            .is_err()
        );
        assert!(render("{% for a in range(9000) %}{{ 'x' * 9000 }}{% endfor %}").is_err());
        assert!(OutputTemplate::new(&"x".repeat(300_000), &[]).is_err());
    }
}
