//! jq expressions on documents: `.replies[].sender`. Expressions see the document and nothing else: no environment, no
//! files, no further input; and what they print has a limit, as has their time.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jaq_core::compile::Compiler;
use jaq_core::data::JustLut;
use jaq_core::load::{Arena, Error as LoadError, File, Loader};
use jaq_core::{Ctx, Filter, Vars, unwrap_valr};
use jaq_json::{Val, read};

use super::printable::{line, printable};

/// Longest expression in bytes.
const LONGEST: usize = 16 * 1024;
/// Most bytes that an expression may print.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// How long an expression may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What would let an expression look around, or end the process.
const FORBIDDEN: [&str; 8] = [
    "env",
    "halt",
    "halt_error",
    "debug",
    "stderr",
    "input",
    "inputs",
    "input_filename",
];

/// An expression that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jq(String);

/// Why an expression cannot be used, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum JqError {
    /// The expression is no jq.
    #[error("{expected} at column {column}\n\n  {shown}\n  {}^", " ".repeat(column.saturating_sub(1)))]
    Syntax {
        /// What is wrong.
        expected: String,
        /// Where, in characters from 1.
        column: usize,
        /// The expression on one line.
        shown: String,
    },
    /// Longer than any honest expression.
    #[error("the expression is longer than {LONGEST} bytes")]
    TooLong,
    /// It does not fit the document.
    #[error("{}", line(.0))]
    Run(String),
    /// It prints without end.
    #[error("it prints more than {} MiB", MOST_BYTES / (1024 * 1024))]
    TooMuch,
    /// It works without end.
    #[error("it takes longer than {} seconds", PATIENCE.as_secs())]
    TooSlow,
    /// The document cannot be written as JSON, or not be read back.
    #[error("the result cannot be written as JSON")]
    Json(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thread that runs it cannot be started, or broke.
    #[error("the expression cannot be run")]
    Broken,
}

impl Jq {
    /// Reads an expression.
    pub fn new(code: &str) -> Result<Self, JqError> {
        if code.len() > LONGEST {
            return Err(JqError::TooLong);
        }
        compile(code)?;
        Ok(Self(code.to_owned()))
    }

    /// Hands out what the expression makes of a JSON text, value by value: texts as they are, everything else as JSON on
    /// a line. Works aside, so that an expression without end can be given up.
    pub fn run<E: From<JqError>>(
        &self,
        document: Vec<u8>,
        mut print: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let (sender, results) = sync_channel(64);
        let code = self.0.clone();
        std::thread::Builder::new()
            .name("jq".to_owned())
            .stack_size(16 * 1024 * 1024)
            .spawn(move || work(&code, &document, &sender))
            .map_err(|_| JqError::Broken)?;
        let (end, mut printed) = (Instant::now() + PATIENCE, 0);
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let result = match results.recv_timeout(rest) {
                Ok(result) => result?,
                Err(RecvTimeoutError::Timeout) => return Err(JqError::TooSlow.into()),
                Err(RecvTimeoutError::Disconnected) => return Err(JqError::Broken.into()),
            };
            let Some(text) = result else { return Ok(()) };
            printed += text.len() + 1;
            if printed > MOST_BYTES {
                return Err(JqError::TooMuch.into());
            }
            print(&text)?;
        }
    }
}

/// Sends each result, then nothing once. Whoever gave up reads no more, and then there is nobody to tell.
fn work(code: &str, document: &[u8], results: &SyncSender<Result<Option<String>, JqError>>) {
    let ended = (|| {
        let filter = compile(code)?;
        let input = read::parse_single(document)
            .map_err(|error| JqError::Json(error.to_string().into()))?;
        let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
        for value in filter.id.run((context, input)).map(unwrap_valr) {
            let value = value.map_err(|error| JqError::Run(error.to_string()))?;
            if results.send(Ok(Some(written(&value)))).is_err() {
                break;
            }
        }
        Ok(None)
    })();
    let _ = results.send(ended);
}

fn written(value: &Val) -> String {
    match value {
        Val::TStr(text) => printable(&String::from_utf8_lossy(text)).into_owned(),
        other => super::json::safe(other.to_string()),
    }
}

fn compile(code: &str) -> Result<Filter<JustLut<Val>>, JqError> {
    let allowed = |name: &str| !FORBIDDEN.contains(&name);
    let defs = jaq_core::defs()
        .chain(jaq_std::defs())
        .chain(jaq_json::defs());
    let funs = jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(defs.filter(|def| allowed(def.name)))
        .load(&arena, File { code, path: () })
        .map_err(|errors| first(code, errors.into_iter().map(|(_, error)| load_fault(error))))?;
    Compiler::default()
        .with_funs(funs.filter(|(name, ..)| allowed(name)))
        .compile(modules)
        .map_err(|errors| {
            let faults = errors.into_iter().flat_map(|(_, errors)| errors);
            first(
                code,
                faults.map(|(at, what)| (at, format!("there is no {} `{at}`", what.as_str()))),
            )
        })
}

/// Where a fault is, and what it is.
fn load_fault(error: LoadError<&str>) -> (&str, String) {
    let fault = match error {
        LoadError::Io(faults) => faults.into_iter().next(),
        LoadError::Lex(faults) => faults
            .into_iter()
            .next()
            .map(|(expected, at)| (at, format!("expected {}", expected.as_str()))),
        LoadError::Parse(faults) => faults
            .into_iter()
            .next()
            .map(|(expected, at)| (at, format!("expected {}", expected.as_str()))),
    };
    fault.unwrap_or(("", "this is no jq expression".to_owned()))
}

fn first<'a>(code: &str, mut faults: impl Iterator<Item = (&'a str, String)>) -> JqError {
    let (at, expected) = faults
        .next()
        .unwrap_or(("", "this is no jq expression".to_owned()));
    // The fault is a part of the code; what is none, such as the end, stands behind it.
    let start = at.as_ptr().addr().checked_sub(code.as_ptr().addr());
    let start = start
        .filter(|start| *start <= code.len())
        .unwrap_or(code.len());
    let before = code.char_indices().take_while(|(at, _)| *at < start);
    JqError::Syntax {
        expected,
        column: 1 + before.count(),
        shown: code
            .chars()
            .map(|c| {
                if super::printable::is_harmful(c) {
                    ' '
                } else {
                    c
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Jq, JqError};

    fn run(code: &str) -> Result<Vec<String>, JqError> {
        let document = json!({
            "replies": [{"sender": "web1", "data": {"n": 1}}, {"sender": "web2\u{1b}[2J", "data": {"n": null}}],
        });
        let mut printed = Vec::new();
        Jq::new(code)?.run(document.to_string().into_bytes(), |text| {
            printed.push(text.to_owned());
            Ok::<_, JqError>(())
        })?;
        Ok(printed)
    }

    #[test]
    fn texts_are_printed_as_they_are_and_everything_else_as_json() {
        assert_eq!(run(".replies[].sender").unwrap(), ["web1", "web2\\x1b[2J"]);
        assert_eq!(
            run(".replies | map(.data)").unwrap(),
            [r#"[{"n":1},{"n":null}]"#]
        );
        assert_eq!(
            run(".replies[1]").unwrap(),
            [r#"{"data":{"n":null},"sender":"web2\u001b[2J"}"#]
        );
        assert_eq!(
            run("[.replies[].data.n // 0] | add, \"\\(.[0])\"").unwrap(),
            ["1", "1"]
        );
        assert!(run("empty").unwrap().is_empty());
        assert_eq!(
            run(".replies[0].sender | test(\"^web[0-9]+$\")").unwrap(),
            ["true"]
        );
    }

    #[test]
    fn mistakes_have_a_column() {
        for (code, column) in [
            ("", 1),
            (".a | ", 6),
            (".replies | nonsense", 12),
            (".a | $x", 6),
            ("[.a", 4),
            (".ä | é", 2),
        ] {
            let error = Jq::new(code).unwrap_err();
            assert!(
                matches!(error, JqError::Syntax { column: at, .. } if at == column),
                "{code}: {error}"
            );
        }
        assert!(matches!(
            Jq::new(&" ".repeat(20_000)),
            Err(JqError::TooLong)
        ));
        let error = run(".replies.sender").unwrap_err();
        assert!(matches!(error, JqError::Run(_)), "{error}");
    }

    #[test]
    fn nothing_but_the_document_is_in_reach() {
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
                matches!(Jq::new(code), Err(JqError::Syntax { .. })),
                "{code}"
            );
        }
    }
}
