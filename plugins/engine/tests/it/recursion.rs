//! Recursive `file` resources: copies, purges, links, limits, and `puppet:` sources.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use muster_engine::resource::{Resource, ResourceValue};
use muster_engine::{FileSourceResolver, ResourceContext};
use muster_system::command::CancelFlag;
use serde_json::json;

use crate::support::{Others, Scratch, apply_all, check, generate};

fn directory(scratch: &Scratch, words: &serde_json::Value) -> Resource {
    let mut all = json!({"ensure": "directory", "recurse": true});
    all.as_object_mut().unwrap().extend(words.as_object().unwrap().clone());
    check(&scratch.engine, "file", "/tmp/d", all).unwrap()
}

/// The directory and its generated children, in the order of a run.
fn with_children(scratch: &Scratch, resource: &Resource, others: &Others) -> Vec<Resource> {
    let cx = ResourceContext::new(&*scratch.system, CancelFlag::default());
    let mut all = vec![resource.clone()];
    all.extend(generate(&cx, resource, others).unwrap());
    all
}

fn titles(all: &[Resource]) -> Vec<&str> {
    all.iter().map(|resource| resource.title.as_str()).collect()
}

fn mode(scratch: &Scratch, path: &str) -> u32 {
    std::fs::symlink_metadata(scratch.path(path)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn mode_applies_to_all_descendants() {
    let scratch = Scratch::new();
    scratch.write("/tmp/d/a", "a");
    scratch.write("/tmp/d/sub/b", "b");
    let resource = directory(&scratch, &json!({"mode": "0640"}));
    let all = with_children(&scratch, &resource, &Others::default());
    assert_eq!(titles(&all), ["/tmp/d", "/tmp/d/a", "/tmp/d/sub", "/tmp/d/sub/b"]);
    apply_all(&scratch.engine, &all);
    assert_eq!(
        (mode(&scratch, "/tmp/d/a"), mode(&scratch, "/tmp/d/sub"), mode(&scratch, "/tmp/d/sub/b")),
        (0o640, 0o750, 0o640)
    );
    assert!(apply_all(&scratch.engine, &all).is_empty());
}

#[test]
fn children_inherit_tags_and_noop_but_no_relations() {
    let scratch = Scratch::new();
    scratch.write("/tmp/d/a", "a");
    let mut resource = directory(&scratch, &json!({"tag": ["t"], "noop": true}));
    let relation = ResourceValue::List(vec!["Exec[x]".to_owned()]);
    resource.values.insert("notify".to_owned(), relation);
    let all = with_children(&scratch, &resource, &Others::default());
    assert_eq!(all[1].get("notify"), None);
    assert_eq!(all[1].get("recurse"), None);
    assert!(all[1].get_flag("noop"));
    assert_eq!(all[1].get_list("tag"), ["t"]);
}

#[test]
fn directory_becomes_a_copy_of_its_source() {
    let scratch = Scratch::new();
    scratch.write("/tmp/from/a", "a");
    scratch.write("/tmp/from/sub/b", "b");
    std::os::unix::fs::symlink("a", scratch.path("/tmp/from/link")).unwrap();
    scratch.write("/tmp/d/old", "x");
    scratch.write("/tmp/d/deep/old", "x");
    scratch.write("/tmp/d/a", "other");
    let words = json!({"source": "/tmp/from", "purge": true, "force": true});
    let resource = directory(&scratch, &words);
    let said = apply_all(&scratch.engine, &with_children(&scratch, &resource, &Others::default()));
    assert_eq!(said.len(), 6, "{said:#?}");
    assert!(said.contains(&"File[/tmp/d/deep]: removed".to_owned()), "{said:#?}");
    assert_eq!(
        (scratch.text("/tmp/d/a").as_str(), scratch.text("/tmp/d/sub/b").as_str()),
        ("a", "b")
    );
    assert_eq!(std::fs::read_link(scratch.path("/tmp/d/link")).unwrap(), PathBuf::from("a"));
    assert!(!scratch.path("/tmp/d/old").exists() && !scratch.path("/tmp/d/deep").exists());
    let again = with_children(&scratch, &resource, &Others::default());
    assert!(apply_all(&scratch.engine, &again).is_empty());
}

#[test]
fn extra_files_stay_without_purge_and_remote_skips_local_files() {
    let scratch = Scratch::new();
    scratch.write("/tmp/from/a", "a");
    scratch.write("/tmp/d/own", "x");
    let resource = directory(&scratch, &json!({"source": "/tmp/from"}));
    let all = with_children(&scratch, &resource, &Others::default());
    assert_eq!(titles(&all), ["/tmp/d", "/tmp/d/a", "/tmp/d/own"]);
    let words = json!({"source": "/tmp/from", "recurse": "remote", "purge": true});
    let resource = directory(&scratch, &words);
    let all = with_children(&scratch, &resource, &Others::default());
    assert_eq!(titles(&all), ["/tmp/d", "/tmp/d/a"]);
}

#[test]
fn sourceselect_uses_the_first_source_or_all_in_order() {
    let scratch = Scratch::new();
    scratch.write("/tmp/one/a", "1");
    scratch.write("/tmp/two/a", "2");
    scratch.write("/tmp/two/b", "2");
    let words = |select: &str| json!({"source": ["/tmp/none", "/tmp/one", "/tmp/two"], "sourceselect": select});
    let first = directory(&scratch, &words("first"));
    let all = with_children(&scratch, &first, &Others::default());
    assert_eq!(titles(&all), ["/tmp/d", "/tmp/d/a"]);
    let both = directory(&scratch, &words("all"));
    let all = with_children(&scratch, &both, &Others::default());
    apply_all(&scratch.engine, &all);
    assert_eq!((scratch.text("/tmp/d/a").as_str(), scratch.text("/tmp/d/b").as_str()), ("1", "2"));
}

#[test]
fn purge_keeps_files_of_the_catalog() {
    let scratch = Scratch::new();
    for path in ["/tmp/d/kept/inner", "/tmp/d/kept/other", "/tmp/d/gone", "/tmp/d/sub/x"] {
        scratch.write(path, "x");
    }
    let others = Others::of(
        &scratch.engine,
        [
            ("file", "/tmp/d/kept/inner", json!({"content": "x"})),
            ("file", "/tmp/elsewhere", json!({"content": "x"})),
        ],
    );
    let resource = directory(&scratch, &json!({"purge": true, "force": true}));
    let all = with_children(&scratch, &resource, &others);
    let said = apply_all(&scratch.engine, &all);
    assert_eq!(
        said,
        [
            "File[/tmp/d/gone]: removed",
            "File[/tmp/d/kept/other]: removed",
            "File[/tmp/d/sub]: removed"
        ]
    );
    assert!(scratch.path("/tmp/d/kept/inner").exists());
}

#[test]
fn purge_without_force_removes_files_but_keeps_directories() {
    let scratch = Scratch::new();
    scratch.write("/tmp/d/sub/x", "x");
    let resource = directory(&scratch, &json!({"purge": true}));
    let all = with_children(&scratch, &resource, &Others::default());
    assert_eq!(apply_all(&scratch.engine, &all), ["File[/tmp/d/sub/x]: removed"]);
    assert!(scratch.path("/tmp/d/sub").is_dir());
}

#[test]
fn recurselimit_ignore_and_max_files_limit_the_children() {
    let scratch = Scratch::new();
    for path in ["/tmp/d/a", "/tmp/d/a.swp", "/tmp/d/sub/b", "/tmp/d/.hidden"] {
        scratch.write(path, "x");
    }
    let found = |words| {
        let resource = directory(&scratch, &words);
        let cx = ResourceContext::new(&*scratch.system, CancelFlag::default());
        generate(&cx, &resource, &Others::default())
    };
    let count = |words| found(words).unwrap().len();
    assert_eq!(count(json!({})), 5);
    assert_eq!(count(json!({"recurselimit": 0})), 0);
    assert_eq!(count(json!({"recurselimit": 1})), 4);
    assert_eq!(count(json!({"ignore": ["*.swp", "s*"]})), 2);
    assert_eq!(count(json!({"ignore": ".*"})), 4);
    assert_eq!(count(json!({"max_files": 5})), 5);
    let error = found(json!({"max_files": 4})).unwrap_err();
    assert!(error.to_string().contains("contains more than 4 entries"), "{error}");
}

#[test]
fn recursive_link_links_each_file_of_the_target() {
    let scratch = Scratch::new();
    scratch.write("/tmp/real/a", "a");
    scratch.write("/tmp/real/sub/b", "b");
    let words = json!({"ensure": "link", "target": "/tmp/real"});
    let resource = directory(&scratch, &words);
    let all = with_children(&scratch, &resource, &Others::default());
    apply_all(&scratch.engine, &all);
    assert!(scratch.path("/tmp/d/sub").is_dir());
    assert_eq!(
        std::fs::read_link(scratch.path("/tmp/d/sub/b")).unwrap(),
        PathBuf::from("/tmp/real/sub/b")
    );
    let again = with_children(&scratch, &resource, &Others::default());
    assert!(apply_all(&scratch.engine, &again).is_empty());
}

/// Resolves `puppet:///modules/MODULE/FILE` to `/tmp/modules/MODULE/files/FILE`.
#[derive(Debug)]
struct Modules;

impl FileSourceResolver for Modules {
    fn locate_file(&self, url: &str) -> Result<Option<PathBuf>, String> {
        let path = url.strip_prefix("puppet:///modules/").ok_or("another server")?;
        let (module, rest) = path.split_once('/').unwrap_or((path, ""));
        Ok(Some(PathBuf::from(format!("/tmp/modules/{module}/files/{rest}"))))
    }
}

#[test]
fn puppet_urls_need_a_source_resolver() {
    let scratch = Scratch::new();
    scratch.write("/tmp/modules/web/files/conf/a", "abc");
    let file = |title: &str, words| check(&scratch.engine, "file", title, words).unwrap();
    let words = json!({"source": "puppet:///modules/web/conf/a"});
    let resource = file("/tmp/a", words);
    let outcome = scratch.engine.apply_resource(&resource, CancelFlag::default(), false);
    assert!(
        outcome
            .error
            .unwrap()
            .one_line_message()
            .contains("is on a Puppet server, and the catalog has no metadata of it")
    );
    let cx = ResourceContext::new(&*scratch.system, CancelFlag::default()).with_sources(&Modules);
    let types = muster_engine::types::builtin_types();
    let known = types.iter().find(|known| known.schema().type_name == "file").unwrap();
    let plan = known.plan(&resource, &known.read_state(&cx.bind(&resource)).unwrap());
    known.apply_change(&cx, &plan, &plan.changes[0]).unwrap();
    assert_eq!(scratch.text("/tmp/a"), "abc");
    let tree = file("/tmp/d", json!({"source": "puppet:///modules/web/conf", "recurse": "remote"}));
    let children = known.generate_resources(&cx.bind(&tree), &()).unwrap();
    assert_eq!(titles(&children), ["/tmp/d/a"]);
}
