//! Evaluates jq expressions on documents: `.replies[].sender`. An expression has access to the document only, not to the environment, files or
//! further input; its output, memory and run time are limited.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jaq_core::compile::Compiler;
use jaq_core::data::JustLut;
use jaq_core::load::{Arena, Error as LoadError, File, Loader};
use jaq_core::{Ctx, Filter, Vars, unwrap_valr};
use jaq_json::{Val, read};

use crate::evaluation_limit::{EvaluationError, limit_memory, start_evaluation};

const MAX_EXPRESSION_BYTES: usize = 16 * 1024;
const MAX_OUTPUT_BYTES: usize = 256 * 1024 * 1024;
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Functions with access beyond the document, or that end the process.
const FORBIDDEN_FUNCTIONS: [&str; 8] =
    ["env", "halt", "halt_error", "debug", "stderr", "input", "inputs", "input_filename"];

/// A valid expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JqExpression(String);

/// Why an expression is invalid, or has no result.
#[derive(Debug, thiserror::Error)]
pub enum JqExpressionError {
    /// It cannot be compiled.
    #[error("{expected} at column {column}\n\n  {shown}\n  {}^", " ".repeat(column.saturating_sub(1)))]
    Syntax {
        /// What is expected or unknown there.
        expected: String,
        /// Column in characters, from 1.
        column: usize,
        /// The expression on one line.
        shown: String,
    },
    /// It is too long.
    #[error("the expression is longer than {MAX_EXPRESSION_BYTES} bytes")]
    TooLong,
    /// It failed, with this message.
    #[error("{0}")]
    Run(String),
    /// Its results are too long.
    #[error("the output is larger than {} MiB", MAX_OUTPUT_BYTES / (1024 * 1024))]
    OutputTooLong,
    /// It did not end.
    #[error(transparent)]
    Unfinished(#[from] EvaluationError),
    /// The document or a result is not JSON.
    #[error("the document or the result cannot be converted to JSON")]
    Json(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl JqExpression {
    /// Compiles the expression, to find its errors.
    pub fn new(code: &str) -> Result<Self, JqExpressionError> {
        if code.len() > MAX_EXPRESSION_BYTES {
            return Err(JqExpressionError::TooLong);
        }
        compile_expression(code)?;
        Ok(Self(code.to_owned()))
    }

    /// Evaluates the expression for a JSON text and passes on each result: strings unquoted, other values as one line of JSON. Runs on a separate
    /// thread, so that an endless expression can be abandoned.
    pub fn run<E: From<JqExpressionError>>(
        &self,
        document: Vec<u8>,
        mut print: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        limit_memory();
        let (sender, results) = sync_channel(64);
        let code = self.0.clone();
        start_evaluation(move || evaluate_expression(&code, &document, &sender))
            .map_err(JqExpressionError::from)?;
        let (deadline, mut printed) = (Instant::now() + EVALUATION_TIMEOUT, 0);
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let unfinished = |error| match error {
                RecvTimeoutError::Timeout => EvaluationError::TooSlow(EVALUATION_TIMEOUT),
                RecvTimeoutError::Disconnected => EvaluationError::Broken,
            };
            let result = results.recv_timeout(remaining);
            let result = result.map_err(|error| JqExpressionError::from(unfinished(error)))??;
            let Some(text) = result else { return Ok(()) };
            printed += text.len() + 1;
            if printed > MAX_OUTPUT_BYTES {
                return Err(JqExpressionError::OutputTooLong.into());
            }
            print(&text)?;
        }
    }
}

/// Sends each result, then `None`. A send error means that the receiver has given up.
fn evaluate_expression(
    code: &str,
    document: &[u8],
    results: &SyncSender<Result<Option<String>, JqExpressionError>>,
) {
    let result = (|| {
        let filter = compile_expression(code)?;
        let input = read::parse_single(document)
            .map_err(|error| JqExpressionError::Json(error.to_string().into()))?;
        let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
        for value in filter.id.run((context, input)).map(unwrap_valr) {
            let value = value.map_err(|error| JqExpressionError::Run(error.to_string()))?;
            if results.send(Ok(Some(format_value(&value)))).is_err() {
                break;
            }
        }
        Ok(None)
    })();
    let _ = results.send(result);
}

fn format_value(value: &Val) -> String {
    match value {
        Val::TStr(text) => String::from_utf8_lossy(text).into_owned(),
        other => crate::json::escape_harmful(other.to_string()),
    }
}

fn compile_expression(code: &str) -> Result<Filter<JustLut<Val>>, JqExpressionError> {
    let is_allowed = |name: &str| !FORBIDDEN_FUNCTIONS.contains(&name);
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(defs.filter(|def| is_allowed(def.name)))
        .load(&arena, File { code, path: () })
        .map_err(|errors| {
            first_syntax_error(code, errors.into_iter().map(|(_, error)| load_error_text(error)))
        })?;
    Compiler::default()
        .with_funs(funs.filter(|(name, ..)| is_allowed(name)))
        .compile(modules)
        .map_err(|errors| {
            let errors = errors.into_iter().flat_map(|(_, errors)| errors);
            first_syntax_error(
                code,
                errors.map(|(at, kind)| (at, format!("unknown {} `{at}`", kind.as_str()))),
            )
        })
}

/// The position and message of a syntax error.
fn load_error_text(error: LoadError<&str>) -> (&str, String) {
    let first_error = match error {
        LoadError::Io(errors) => errors.into_iter().next(),
        LoadError::Lex(errors) => {
            errors.first().map(|(expected, at)| (*at, format!("expected {}", expected.as_str())))
        }
        LoadError::Parse(errors) => {
            errors.first().map(|(expected, at)| (*at, format!("expected {}", expected.as_str())))
        }
    };
    first_error.unwrap_or(("", "not a jq expression".to_owned()))
}

fn first_syntax_error<'a>(
    code: &str,
    mut errors: impl Iterator<Item = (&'a str, String)>,
) -> JqExpressionError {
    let (at, expected) = errors.next().unwrap_or(("", "not a jq expression".to_owned()));
    // The error position is a slice of the code; any other slice, such as at the end of input, counts as the end.
    let start = at.as_ptr().addr().checked_sub(code.as_ptr().addr());
    let start = start.filter(|start| *start <= code.len()).unwrap_or(code.len());
    let before = code.char_indices().take_while(|(at, _)| *at < start);
    JqExpressionError::Syntax {
        expected,
        column: 1 + before.count(),
        shown: code
            .chars()
            .map(|c| if crate::printable::is_harmful(c) { ' ' } else { c })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{JqExpression, JqExpressionError};

    fn run(code: &str) -> Result<Vec<String>, JqExpressionError> {
        let document = json!({
            "replies": [{"sender": "web1", "data": {"n": 1}}, {"sender": "web2\u{1b}[2J", "data": {"n": null}}],
        });
        let mut printed = Vec::new();
        JqExpression::new(code)?.run(document.to_string().into_bytes(), |text| {
            printed.push(text.to_owned());
            Ok::<_, JqExpressionError>(())
        })?;
        Ok(printed)
    }

    #[test]
    fn strings_are_printed_raw_and_other_values_as_json() {
        assert_eq!(run(".replies[].sender").unwrap(), ["web1", "web2\u{1b}[2J"]);
        assert_eq!(run(".replies | map(.data)").unwrap(), [r#"[{"n":1},{"n":null}]"#]);
        assert_eq!(
            run(".replies[1]").unwrap(),
            [r#"{"data":{"n":null},"sender":"web2\u001b[2J"}"#]
        );
        assert_eq!(run("[.replies[].data.n // 0] | add, \"\\(.[0])\"").unwrap(), ["1", "1"]);
        assert!(run("empty").unwrap().is_empty());
        assert_eq!(run(".replies[0].sender | test(\"^web[0-9]+$\")").unwrap(), ["true"]);
    }

    #[test]
    fn errors_have_a_column() {
        for (code, column) in [
            ("", 1),
            (".a | ", 6),
            (".replies | nonsense", 12),
            (".a | $x", 6),
            ("[.a", 4),
            (".ä | é", 2),
        ] {
            let error = JqExpression::new(code).unwrap_err();
            assert!(
                matches!(error, JqExpressionError::Syntax { column: at, .. } if at == column),
                "{code}: {error}"
            );
        }
        assert!(matches!(JqExpression::new(&" ".repeat(20_000)), Err(JqExpressionError::TooLong)));
        let error = run(".replies.sender").unwrap_err();
        assert!(matches!(error, JqExpressionError::Run(_)), "{error}");
    }

    #[test]
    fn expressions_access_the_document_only() {
        for code in [
            "env",
            "$ENV",
            "env.HOME",
            "input",
            "[inputs]",
            "halt",
            "halt_error",
            "debug",
            "stderr",
            "import \"a\" as a; .",
            "include \"a\"; .",
        ] {
            assert!(
                matches!(JqExpression::new(code), Err(JqExpressionError::Syntax { .. })),
                "{code}"
            );
        }
    }
}
