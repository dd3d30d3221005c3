//! A catalog that is compiled ahead, beside `puppet catalog compile` of the same code: processor time, memory of the resident process, and the check of a fleet
//! for which nothing is to be compiled.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use muster_catalogs::compiler::protocol::{CompileOutcome, CompileRequest, QueryAnswer};
use muster_catalogs::compiler::{CompileLimits, Compiler, CompilerOptions, QuerySource};
use muster_catalogs::inputs::{
    CodeDirectory, CompileInputs, InputDigest, InputSources, NodeValues, QueryDigests,
};
use muster_filter::FactPatterns;
use muster_host::external::{SandboxHelper, find_account};
use muster_tests::puppetserver::{self, PuppetServer};
use muster_tests::tools::puppet_directories;
use nix::unistd::{SysconfVar, geteuid, sysconf};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::process::{find_program, measure_cost, mib, proportional_memory};
use crate::report::{Figure, Section, Table};

/// Classes of the environment, and resources of each.
const CLASSES: usize = 25;
const RESOURCES: usize = 6;
/// Measurements of `puppet catalog compile`.
const ROUNDS: usize = 3;
/// Compiles after which the memory is read first.
const WARM_COMPILES: usize = 10;
const CHECKED_NODES: usize = 1_000;
/// In a shorter run, no Puppet Server is started: it takes half a minute.
const MIN_SERVER_COMPILES: usize = 1_000;
/// Compiles by which its just-in-time compiler has seen the code.
const SERVER_WARM_COMPILES: usize = 60;
const SERVER_COMPILES: usize = 60;

const METHOD: &str = "The resident compiler forks for each compile; its processor time includes that of the forks. `puppet catalog compile` is a complete program. \
    A Puppet Server compiles its own node, over HTTP. All compile the same code. The check compares what the last compile of each node read.";

/// Measures this many compiles.
pub(crate) fn bench(compiles: usize) -> Section {
    let mut section = Section::of(format!("{compiles} catalogs compiled ahead"), METHOD);
    if !Path::new("/usr/bin/puppet").exists() {
        section.method = "Not measured: Puppet is not installed on this machine.";
        return section;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let code = TestCode::write();
    let theirs = code.measure_puppet();
    let server = (compiles >= MIN_SERVER_COMPILES && puppetserver::is_installed())
        .then(|| runtime.block_on(code.measure_server()));
    runtime.block_on(measure(&code, compiles, (theirs, server), &mut section));
    section
}

async fn measure(
    code: &TestCode,
    count: usize,
    (theirs, server): (Duration, Option<ServerCost>),
    section: &mut Section,
) {
    let resident = code.start();
    for number in 0..WARM_COMPILES {
        code.compile(&resident, number).await;
    }
    let pid = resident_process(code.directory.path());
    let (memory, before) = (proportional_memory(pid), family_time(pid));
    let mut outcome = None;
    for number in 0..count {
        outcome = Some(code.compile(&resident, number).await);
    }
    let each = family_time(pid).saturating_sub(before) / u32::try_from(count).unwrap();
    let grown = proportional_memory(pid);
    let check = code.time_checks(&outcome.unwrap());

    let mut table = Table::new(["", "processor ms", "memory MiB"]);
    let ms = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e3);
    let memories = format!("{:.0}, then {:.0}", mib(memory), mib(grown));
    table.rows.push(vec!["a compile ahead".to_owned(), ms(each), memories]);
    table.rows.push(vec!["puppet catalog compile".to_owned(), ms(theirs), String::new()]);
    if let Some(ServerCost { each: server, memory }) = server {
        let memory = format!("{:.0}", mib(memory));
        table.rows.push(vec!["Puppet Server, warm".to_owned(), ms(server), memory]);
        let ratio = each.as_secs_f64() / server.as_secs_f64();
        section.figures.push(Figure::ratio("a compile ahead x Puppet Server", ratio));
    }
    section.tables.push(table);
    section.figures.extend([
        Figure::ratio(
            "a compile ahead x puppet catalog compile",
            each.as_secs_f64() / theirs.as_secs_f64(),
        )
        .aim(1.0 / 15.0),
        Figure::ratio(
            format!("memory after {count} compiles x after {WARM_COMPILES}"),
            mib(grown) / mib(memory),
        )
        .aim(1.05),
        Figure::of(format!("check of {CHECKED_NODES} nodes"), check.as_secs_f64() * 1e3, "ms")
            .aim(1000.0),
    ]);
}

/// Processor time of a compile, and memory of the process after many.
struct ServerCost {
    each: Duration,
    memory: u64,
}

/// An environment, and the directories of both programs.
struct TestCode {
    directory: TempDir,
    facts: Map<String, Value>,
}

impl TestCode {
    fn write() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let facts = json!({"role": "web", "networking": {"ip": "192.0.2.7"}, "uptime": 1});
        let code = Self { directory, facts: facts.as_object().unwrap().clone() };
        let mut site = String::new();
        for class in 0..CLASSES {
            let mut text = format!("class c{class} {{\n");
            for number in 0..RESOURCES {
                let content = format!("${{facts['role']}} ${{facts['networking']['ip']}} {number}");
                writeln!(text, "  file {{ '/srv/c{class}/{number}': mode => '0644', content => \"{content}\" }}").unwrap();
            }
            code.write_file(&format!("modules/c{class}/manifests/init.pp"), &(text + "}\n"));
            writeln!(site, "include c{class}").unwrap();
        }
        code.write_file("manifests/site.pp", &site);
        code
    }

    fn environments(&self) -> PathBuf {
        self.directory.path().join("lib/code")
    }

    fn root(&self) -> PathBuf {
        self.environments().join("production")
    }

    fn write_file(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn start(&self) -> Compiler {
        let options = CompilerOptions {
            ruby: "/usr/bin/ruby".into(),
            environments: self.environments(),
            environment: "production".to_owned(),
            state: self.directory.path().join("state"),
            user: find_account("nobody").unwrap().filter(|_| geteuid().is_root()),
            limits: CompileLimits::default(),
            program: Vec::new(),
        };
        fs::create_dir(&options.state).unwrap();
        let helper = SandboxHelper {
            program: find_program("rpcd"),
            arguments: vec!["exec-sandboxed".into()],
        };
        Compiler::start(options, &helper).unwrap()
    }

    async fn compile(&self, compiler: &Compiler, number: usize) -> CompileOutcome {
        let empty = Map::new();
        let node = format!("n{number}.acme.net");
        let request = CompileRequest {
            node: &node,
            facts: &self.facts,
            trusted: &empty,
            server_facts: &empty,
            classes: &[],
            code_id: None,
        };
        let outcome = compiler.compile(&request, &NoQueries).await.unwrap();
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        outcome
    }

    /// The processor time of `puppet catalog compile`.
    fn measure_puppet(&self) -> Duration {
        let base = self.directory.path().join("puppet");
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let mut command = Command::new("/usr/bin/puppet");
                command.args(["catalog", "compile", "n1.acme.net", "--render-as", "json"]);
                command.args(["--environmentpath", &self.environments().display().to_string()]);
                command.args(["--environment", "production", "--node_terminus", "plain"]);
                command.args(puppet_directories(&base));
                measure_cost(&command).took.cpu
            })
            .collect();
        times.sort_unstable();
        times.get(ROUNDS / 2).copied().unwrap()
    }

    /// What a Puppet Server needs for one catalog of the same code.
    async fn measure_server(&self) -> ServerCost {
        let server = PuppetServer::start().await.unwrap();
        let environment = server.path("code/environments/production");
        let copied = Command::new("cp").arg("-r").arg(self.root()).arg(&environment).status();
        assert!(copied.unwrap().success());
        let copy = environment.join("production");
        fs::rename(copy.join("modules"), environment.join("modules")).unwrap();
        fs::rename(copy.join("manifests/site.pp"), environment.join("manifests/site.pp")).unwrap();
        let facts = Value::Object(self.facts.clone());
        for _ in 0..SERVER_WARM_COMPILES {
            server.compile_own_catalog(&facts).await.unwrap();
        }
        let before = family_time(server.pid());
        for _ in 0..SERVER_COMPILES {
            server.compile_own_catalog(&facts).await.unwrap();
        }
        let used = family_time(server.pid()).saturating_sub(before);
        let each = used / u32::try_from(SERVER_COMPILES).unwrap();
        ServerCost { each, memory: proportional_memory(server.pid()) }
    }

    /// The time to find out that nothing has to be compiled, although facts that no code reads have changed.
    fn time_checks(&self, outcome: &CompileOutcome) -> Duration {
        // As the service opens it: of a version each input is digested once.
        let code = CodeDirectory::open_version(&self.root()).unwrap();
        let (empty, volatile) = (Map::new(), FactPatterns::default());
        let mut facts = self.facts.clone();
        let sources = |facts| InputSources {
            values: NodeValues {
                facts,
                trusted: &empty,
                server_facts: &empty,
                volatile: &volatile,
            },
            code: &code,
            queries: &NoQueries,
        };
        let inputs = CompileInputs::of(outcome.inputs.as_ref(), &sources(&self.facts)).unwrap();
        facts.insert("uptime".to_owned(), 2.into());
        let started = Instant::now();
        for _ in 0..CHECKED_NODES {
            assert_eq!(inputs.changes(&sources(&facts)).unwrap().len(), 0);
        }
        started.elapsed()
    }
}

/// The code asks nothing.
#[derive(Debug)]
struct NoQueries;

impl QuerySource for NoQueries {
    async fn answer(&self, query: &str) -> QueryAnswer {
        panic!("unexpected query {query}")
    }
}

impl QueryDigests for NoQueries {
    fn digest(&self, query: &str) -> InputDigest {
        panic!("unexpected query {query}")
    }
}

/// The resident process: the program of this directory whose parent is this process.
fn resident_process(directory: &Path) -> u32 {
    let directory = directory.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_resident = |pid: &u32| {
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.contains(&directory) && parent_of(*pid) == Some(std::process::id())
    };
    pids.find(is_resident).unwrap()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat_fields(pid).get(1)?.parse().ok()
}

/// Processor time of a process and of its children that have ended.
fn family_time(pid: u32) -> Duration {
    let fields = stat_fields(pid);
    let ticks: u64 =
        fields.iter().skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum();
    let per_second = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap();
    Duration::from_secs(ticks) / u32::try_from(per_second).unwrap()
}

/// The fields of `/proc/PID/stat` after the name of the program, from the state.
fn stat_fields(pid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}
