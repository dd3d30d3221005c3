//! An environment in a directory, and a compiler of it.

#![expect(clippy::indexing_slicing, reason = "catalogs are indexed; tests end by panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_catalogs::compiler::protocol::{CompileOutcome, CompileRequest, QueryAnswer};
use muster_catalogs::compiler::{
    CompileLimits, Compiler, CompilerError, CompilerOptions, QuerySource,
};
use muster_catalogs::inputs::{
    CodeDirectory, CompileInputs, InputDigest, InputName, InputSources, NodeValues, QueryDigests,
};
use muster_filter::FactPatterns;
use muster_host::sandbox::UnixAccount;
use muster_tests::tools::{find_tool, is_skipped};
use nix::unistd::{User, geteuid};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::external::sandbox_helper;

pub(super) const ENVIRONMENT: &str = "production";

/// One environment, without files at first.
pub(crate) struct Environment {
    directory: TempDir,
}

impl Environment {
    /// `None` if this run skips the tests that need Puppet.
    pub(crate) fn create() -> Option<Self> {
        if is_skipped("puppet") {
            return None;
        }
        let environment = Self { directory: TempDir::new().unwrap() };
        // The compiler's user enters it.
        let path = environment.directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(path.join("state")).unwrap();
        environment.write("manifests/site.pp", "");
        Some(environment)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Below a directory `lib`, as by default below `/var/lib`.
    fn environments(&self) -> PathBuf {
        self.path().join("lib/code")
    }

    pub(crate) fn code_path(&self) -> PathBuf {
        self.environments().join(ENVIRONMENT)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.code_path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn code(&self) -> CodeDirectory {
        CodeDirectory::open(&self.code_path()).unwrap()
    }

    pub(super) fn compiler(&self) -> Compiler {
        self.compiler_with(CompileLimits::default())
    }

    pub(super) fn compiler_with(&self, limits: CompileLimits) -> Compiler {
        self.compiler_of("nobody", limits)
    }

    /// A compiler that starts this program for each compile.
    pub(super) fn compiler_with_program(&self, words: &[&str]) -> Compiler {
        let program = words.iter().map(|word| (*word).to_owned()).collect();
        let options =
            CompilerOptions { program, ..self.options("nobody", CompileLimits::default()) };
        Compiler::start(options, &sandbox_helper()).unwrap()
    }

    /// A compiler that runs as this user, if the test is root.
    pub(super) fn compiler_of(&self, user: &str, limits: CompileLimits) -> Compiler {
        Compiler::start(self.options(user, limits), &sandbox_helper()).unwrap()
    }

    fn options(&self, user: &str, limits: CompileLimits) -> CompilerOptions {
        let user = User::from_name(user).unwrap().unwrap();
        let account =
            UnixAccount { uid: user.uid.as_raw(), gid: user.gid.as_raw(), groups: Vec::new() };
        CompilerOptions {
            ruby: find_tool("ruby"),
            environments: self.environments(),
            environment: ENVIRONMENT.to_owned(),
            state: self.path().join("state"),
            user: geteuid().is_root().then_some(account),
            limits,
            program: Vec::new(),
        }
    }
}

/// A node with its values.
#[derive(Debug, Clone)]
pub(super) struct TestNode {
    name: String,
    pub(super) facts: Map<String, Value>,
    trusted: Map<String, Value>,
    server_facts: Map<String, Value>,
    pub(super) volatile: FactPatterns,
    pub(super) classes: Vec<String>,
}

impl TestNode {
    pub(super) fn new(name: &str, facts: Value) -> Self {
        let map = |value: Value| match value {
            Value::Object(map) => map,
            other => panic!("{other} is no map"),
        };
        let (hostname, domain) = name.split_once('.').unwrap();
        Self {
            name: name.to_owned(),
            facts: map(facts),
            trusted: map(json!({
                "authenticated": "remote", "certname": name, "hostname": hostname, "domain": domain,
                "extensions": {}, "external": {},
            })),
            server_facts: map(json!({"serverversion": "7.23.0"})),
            volatile: FactPatterns::default(),
            classes: Vec::new(),
        }
    }

    pub(super) async fn compile(
        &self,
        compiler: &Compiler,
    ) -> Result<CompileOutcome, CompilerError> {
        let request = CompileRequest {
            node: &self.name,
            facts: &self.facts,
            trusted: &self.trusted,
            server_facts: &self.server_facts,
            classes: &self.classes,
            code_id: None,
        };
        compiler.compile(&request, &FixedQueries).await
    }

    fn sources<'a>(&'a self, code: &'a CodeDirectory) -> InputSources<'a> {
        let values = NodeValues {
            facts: &self.facts,
            trusted: &self.trusted,
            server_facts: &self.server_facts,
            volatile: &self.volatile,
        };
        InputSources { values, code, queries: &FixedQueries }
    }

    pub(super) fn inputs(&self, outcome: &CompileOutcome, code: &CodeDirectory) -> CompileInputs {
        CompileInputs::of(outcome.inputs.as_ref(), &self.sources(code)).unwrap()
    }

    pub(super) fn changes(&self, inputs: &CompileInputs, code: &CodeDirectory) -> Vec<InputName> {
        inputs.changes(&self.sources(code)).unwrap().into_iter().cloned().collect()
    }
}

/// A directory with two nodes.
#[derive(Debug)]
struct FixedQueries;

impl QueryDigests for FixedQueries {
    fn digest(&self, query: &str) -> InputDigest {
        InputDigest::of_answer(200, &query.into())
    }
}

impl QuerySource for FixedQueries {
    async fn answer(&self, query: &str) -> QueryAnswer {
        assert!(query.contains("\"/v1/nodes\""), "{query}");
        let document = json!({"nodes": [{"node": "db1.acme.net"}, {"node": "db2.acme.net"}]});
        QueryAnswer { status: 200, document }
    }
}

/// What does not differ between two compiles of the same inputs: everything but the version and the id.
pub(super) fn comparable(outcome: &CompileOutcome) -> Value {
    match &outcome.result {
        Ok(catalog) => {
            let mut catalog = catalog.clone();
            catalog.remove("version");
            catalog.remove("catalog_uuid");
            Value::Object(catalog)
        }
        Err(failure) => json!({"error": failure.message}),
    }
}

/// The message of the resource `Notify[r]`, or the error.
pub(super) fn message(outcome: &CompileOutcome) -> String {
    let catalog = match &outcome.result {
        Ok(catalog) => catalog,
        Err(failure) => return failure.message.clone(),
    };
    let resources = catalog["resources"].as_array().unwrap();
    let notify = resources.iter().find(|resource| resource["type"] == "Notify").unwrap();
    notify["parameters"]["message"].to_string()
}
