//! The book: `docs/SUMMARY.md` lists each page once, and each link in a document leads to a file and a heading. Does not build it: `make docs` does.
//! Pages of decisions are for contributors and no part of the book, which has their list: `docs/decisions/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

/// Documents in the project's directory.
const ROOT_DOCUMENTS: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Maximum length of the README in lines.
const MAX_README_LINES: usize = 120;

#[test]
fn summary_lists_each_page_once() {
    let root = project_root();
    let docs = root.join("docs");
    let mut pages = documents(&root);
    pages.retain(|page| !is_decision(page));
    assert_lists_each_once(&docs.join("SUMMARY.md"), pages);
}

#[test]
fn list_of_decisions_has_each_page_once() {
    let root = project_root();
    let mut pages = documents(&root);
    pages.retain(|page| is_decision(page));
    assert!(pages.len() > 70, "{} pages", pages.len());
    assert_lists_each_once(&root.join("docs/decisions/README.md"), pages);
}

/// Fails unless the list links to each of these pages once, and to nothing else. The list itself may be among them.
fn assert_lists_each_once(list: &Path, mut pages: BTreeSet<PathBuf>) {
    let directory = list.parent().unwrap();
    let text = std::fs::read_to_string(list).unwrap();
    let mut listed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (_, target) in links(&text) {
        *listed.entry(normalize(&directory.join(target))).or_default() += 1;
    }
    pages.remove(list);
    let name = list.display();
    let missing: Vec<_> = pages.iter().filter(|page| !listed.contains_key(*page)).collect();
    assert!(missing.is_empty(), "{name} does not list {missing:#?}");
    let repeated: Vec<_> = listed.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "{name} lists more than once: {repeated:#?}");
    let others: Vec<_> = listed.keys().filter(|page| !pages.contains(*page)).collect();
    assert!(others.is_empty(), "{name} lists what is no page of it: {others:#?}");
}

/// Whether a document is a page of `docs/decisions`, which the book does not have.
fn is_decision(page: &Path) -> bool {
    page.parent().is_some_and(|parent| parent.ends_with("docs/decisions"))
        && !page.ends_with("README.md")
}

#[test]
fn links_in_documents_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    let mut count = 0;
    for document in documents(&project_root()) {
        let text = std::fs::read_to_string(&document).unwrap();
        for (line, target) in links(&text) {
            count += 1;
            if !resolves(&document, target) {
                broken.push(format!("{}:{line}: {target}", document.display()));
            }
        }
    }
    assert!(count > 300, "only {count} links");
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

#[test]
fn readme_is_short() {
    let readme = std::fs::read_to_string(project_root().join("README.md")).unwrap();
    let lines = readme.lines().count();
    assert!(lines <= MAX_README_LINES, "README.md has {lines} lines, more than {MAX_README_LINES}");
}

#[test]
fn anchors_are_those_of_headings() {
    let text = "# A `file`: one, two\n```sh\n# no heading\n```\n## Not ready\n## Not ready\n";
    assert_eq!(
        anchors(text),
        ["a-file-one-two", "not-ready", "not-ready-1"].map(str::to_owned).into()
    );
    let found: Vec<_> = links("`[a](b)` [c](d.md#e) [f][g]\n```\n[h](i)\n```\n").collect();
    assert_eq!(found, [(1, "d.md#e")]);
}

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All documents of the book, its summary, and the decisions.
fn documents(root: &Path) -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = ROOT_DOCUMENTS.map(|name| root.join(name)).into();
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.insert(path);
            }
        }
    }
    found
}

/// Whether the file of a link exists and has the heading. Addresses on other machines are not checked.
fn resolves(document: &Path, target: &str) -> bool {
    if target.contains("://") {
        return true;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => document.to_owned(),
        file => normalize(&document.parent().unwrap().join(file)),
    };
    if anchor.is_empty() {
        return path.exists();
    }
    std::fs::read_to_string(path).is_ok_and(|text| anchors(&text).contains(anchor))
}

/// Line number and target of each link outside of code.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let code = Regex::new(r"`[^`]*`").unwrap();
    prose(text).flat_map(move |(number, line)| {
        let spans: Vec<_> = code.find_iter(line).map(|span| span.range()).collect();
        let found: Vec<_> = link.captures_iter(line).filter_map(|found| found.get(1)).collect();
        let is_code = move |at: usize| spans.iter().any(|span| span.contains(&at));
        found
            .into_iter()
            .filter(move |target| !is_code(target.start()))
            .map(move |t| (number, t.as_str()))
    })
}

/// The anchors of a document's headings: lower case, without punctuation, hyphens for spaces, a number for repeated ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug = kept.collect::<String>().replace(' ', "-");
        let count = counts.entry(slug.clone()).or_default();
        found.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    found
}

/// The numbered lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// The path without `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." {
            clean.pop();
        } else if part.as_os_str() != "." {
            clean.push(part);
        }
    }
    clean
}
