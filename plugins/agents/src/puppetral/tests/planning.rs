//! Tests that reading and planning start no program that a resource specifies, for each type and attribute.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::system::real::RealSystem;
use muster_engine::ResourceEngine;
use muster_engine::schema::{AttributeKind, TypeSchema};
use serde_json::{Map, Value, json};

use super::{Machine, memory};

/// A program that creates a file when it is started.
struct Canary {
    directory: tempfile::TempDir,
}

impl Canary {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let canary = Self { directory };
        let script = format!("#!/bin/sh\n: > '{}'\n", canary.mark().display());
        std::fs::write(canary.program(), script).unwrap();
        let runnable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(canary.program(), runnable).unwrap();
        canary
    }

    fn mark(&self) -> PathBuf {
        self.directory.path().join("started")
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("canary")
    }

    fn has_run(&self) -> bool {
        self.mark().exists()
    }
}

/// The words that an attribute accepts; empty if it also accepts other values.
fn choices(schema: &TypeSchema, name: &str) -> Vec<&'static str> {
    match schema.find_attribute(name).map(|attribute| attribute.kind) {
        Some(AttributeKind::Word(words) | AttributeKind::WordOr(words)) => words.to_vec(),
        _ => Vec::new(),
    }
}

/// The resources to try for a type: each attribute alone, and all together for each provider and state.
fn resources(schema: &TypeSchema, program: &Path) -> Vec<Map<String, Value>> {
    let named = |name: &str| (name.to_owned(), json!(program));
    let open: Vec<&str> = schema
        .attributes
        .iter()
        .filter(|attribute| {
            !matches!(
                attribute.kind,
                AttributeKind::Word(_) | AttributeKind::Bool | AttributeKind::Int
            )
        })
        .map(|attribute| attribute.name)
        .filter(|name| !["ensure", "provider", "type", "name", schema.namevar].contains(name))
        .collect();
    let mut tried: Vec<Map<String, Value>> = Vec::new();
    let mut providers = choices(schema, "provider");
    providers.push("");
    let mut states = choices(schema, "ensure");
    states.push("");
    for provider in providers {
        for state in &states {
            let mut base = Map::new();
            for (name, word) in [("provider", provider), ("ensure", *state)] {
                if !word.is_empty() {
                    base.insert(name.to_owned(), json!(word));
                }
            }
            let commands =
                ["command", "status", "binary", "start", "stop", "restart", "path", "source"];
            let mut all = base.clone();
            all.extend(commands.into_iter().filter(|name| open.contains(name)).map(named));
            tried.extend([base, all]);
        }
    }
    tried.extend(open.into_iter().map(|name| Map::from_iter([named(name)])));
    tried
}

#[tokio::test]
async fn plan_reports_guards_and_only_do_runs_them() {
    let canary = Canary::new();
    let machine =
        Machine::new(RealSystem::new("/".into()), json!({"allow_types": ["exec", "service"]}));
    let program = canary.program();
    let guarded = [
        json!({"type": "exec", "name": "/bin/true", "onlyif": program}),
        json!({"type": "exec", "name": "/bin/true", "unless": program}),
        json!({"type": "exec", "name": "/bin/true", "unless": program, "noop": false}),
        json!({"type": "service", "name": "canary", "provider": "base", "status": program, "ensure": "running"}),
        json!({"type": "service", "name": "canary", "provider": "supervised", "status": program, "ensure": "running"}),
    ];
    for asked in guarded {
        let plan = machine.ask("plan", asked.clone()).await.unwrap();
        let result = plan["result"].as_str().unwrap();
        assert!(result.starts_with("not evaluated: "), "{plan}");
        assert_eq!((&plan["changed"], &plan["events"]), (&json!(true), &json!([])));
        assert!(!canary.has_run(), "{asked}");
    }
    // A condition that needs no guard is still evaluated.
    let done = json!({"type": "exec", "name": "/bin/true", "onlyif": program, "creates": "/"});
    let plan = machine.ask("plan", done).await.unwrap();
    assert_eq!((&plan["changed"], &plan["result"]), (&json!(false), &json!("no changes")));
    // Control: `do` with noop is a change by its class; it evaluates the guards and thus starts the canary.
    let asked = json!({"type": "exec", "name": "/bin/true", "unless": program, "noop": true});
    machine.ask("do", asked).await.unwrap();
    assert!(canary.has_run());
}

/// Run by `make test-all`.
mod long {
    use super::{Arc, Canary, Machine, RealSystem, ResourceEngine, json, memory, resources};

    #[tokio::test]
    async fn plan_runs_no_program_that_a_resource_names() {
        let canary = Canary::new();
        let engine = ResourceEngine::new(Arc::new(memory()));
        let types: Vec<&str> = engine.type_schemas().map(|schema| schema.type_name).collect();
        let machine = Machine::new(RealSystem::new("/".into()), json!({"allow_types": types}));
        let program = canary.program();
        let climbing = format!("../..{}", program.display());
        let mut evaluated = 0;
        for schema in engine.type_schemas() {
            let type_name = schema.type_name;
            for title in [program.display().to_string(), climbing.clone(), "canary".to_owned()] {
                let asked = json!({"type": type_name, "name": title});
                drop(machine.ask("find", asked.clone()).await);
                for words in resources(schema, &program) {
                    let mut asked = asked.clone();
                    asked.as_object_mut().unwrap().extend(words);
                    evaluated += usize::from(machine.ask("plan", asked.clone()).await.is_ok());
                    assert!(!canary.has_run(), "plan of {asked}");
                }
            }
            drop(machine.ask("search", json!({"type": type_name})).await);
            assert!(!canary.has_run(), "search of {type_name}");
        }
        assert!(evaluated > 100, "only {evaluated} plans were accepted");
    }
}
