//! Texts for users contain no idiom of a list: errors, hints, messages, log lines and help.

use std::path::{Path, PathBuf};

use regex::Regex;

/// Idioms that are not plain technical English; CONTRIBUTING.md has the rules.
const IDIOMS: [&str; 22] = [
    "whoever",
    "whom",
    "somebody",
    "everybody",
    "nobody (answers|is|has|to|was|said|who)",
    "(is|are|was|were|be|been) told",
    "anew",
    "without end",
    "for good",
    "(go|goes|gone|went) on with",
    "(dis)?believed?",
    "void(s|ed)?",
    "part(y|ies)",
    "rooms?",
    "wish(es|ed)?",
    "strangers?",
    "(break|breaks|broke|broken) off",
    "(is|are) over",
    "say (which|whom|who|where|what)",
    "all the same",
    "at rest",
    "(is|are) there already",
];

/// Directories of code with texts for users.
const SOURCE_DIRECTORIES: [&str; 5] = ["agent", "client", "ddl", "plugins", "wire"];

#[test]
fn texts_for_users_contain_no_idioms() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let idioms = Regex::new(&format!(r"(?i)\b({})\b", IDIOMS.join("|"))).unwrap();
    // Placeholders, and keys of documents.
    let names = Regex::new(r"\{[^}]*\}|\.\w+").unwrap();
    let mut found = Vec::new();
    let mut count = 0;
    for file in
        SOURCE_DIRECTORIES.iter().flat_map(|directory| source_files(&project.join(directory)))
    {
        let text = std::fs::read_to_string(&file).unwrap();
        let texts = match file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => vec![text],
            _ => extract_texts(&text),
        };
        count += texts.len();
        let name = file.strip_prefix(project).unwrap().display();
        for text in texts {
            let prose = names.replace_all(&text, "");
            if let Some(idiom) = idioms.find(&prose) {
                found.push(format!("{name}: `{}` in: {text}", idiom.as_str()));
            }
        }
    }
    assert!(count > 3_000, "only {count} texts were found");
    assert!(found.is_empty(), "{found:#?}");
}

/// Source files without tests, and the DDLs.
fn source_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "tests", "fuzz", "snapshots"].contains(&name.as_str()) {
                found.extend(source_files(&path));
            }
        } else if is_source(&name) {
            found.push(path);
        }
    }
    found
}

/// Excludes `creds.rs`, which quotes the header of a credentials file of NATS.
fn is_source(name: &str) -> bool {
    let extension = name.rsplit('.').next();
    let is_code = extension == Some("rs") && !["tests.rs", "creds.rs"].contains(&name);
    is_code || extension == Some("json")
}

/// String literals of several words, and doc comments of arguments, which are their help.
fn extract_texts(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let literals = string_literals(code).into_iter().filter(|text| text.trim().contains(' '));
    let is_help = code.contains("clap::");
    let help = code
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("/// "))
        .filter(|_| is_help)
        .map(str::to_owned);
    literals.chain(help).collect()
}

/// String literals including raw ones; a line continuation is removed.
fn string_literals(code: &str) -> Vec<String> {
    let token = Regex::new(concat!(
        r#"(?s)//[^\n]*"#,
        r#"|/\*.*?\*/"#,
        r##"|r#"(?P<hashed>.*?)"#"##,
        r#"|\br"(?P<raw>[^"]*)""#,
        r#"|"(?P<plain>(?:\\.|[^"\\])*)""#,
        r#"|'(?:\\.[^']*|[^'\\])'"#,
    ))
    .unwrap();
    let continued = Regex::new(r"\\\n\s*").unwrap();
    token
        .captures_iter(code)
        .filter_map(|found| {
            let text = ["hashed", "raw", "plain"].iter().find_map(|group| found.name(group))?;
            Some(continued.replace_all(text.as_str(), "").into_owned())
        })
        .collect()
}
