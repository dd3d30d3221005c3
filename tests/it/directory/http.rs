//! The HTTP API of an instance, with curl: pages, who may read, and hostile clients.

#![expect(clippy::disallowed_types, reason = "runs curl and rpcd")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::check_against;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::fixture::{DirectoryFixture, FleetNode};

pub(super) const NODES: [&str; 4] =
    ["db1.acme.net", "db2.acme.net", "dir1.acme.net", "web1.initech.net"];
/// The token `secret`.
const TOKENS: &str =
    "prometheus 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n";

/// A fleet whose directory is read over HTTP.
pub(super) struct HttpFleet {
    pub(super) fleet: DirectoryFixture,
    pub(super) directory: Rpcd,
    pub(super) nodes: Vec<FleetNode>,
}

impl HttpFleet {
    /// The API is on a socket, and with TLS on a free port of this machine.
    pub(super) async fn start() -> Self {
        Self::start_prepared(|_| {}).await
    }

    /// Like [`Self::start`], after a change of the files of the directory's host.
    pub(super) async fn start_prepared(prepare: impl FnOnce(&DaemonHome)) -> Self {
        let fleet = DirectoryFixture::start().await;
        let (_, home) = fleet.directory_home("dir1.acme.net", "directory1", "");
        write_http_files(&home);
        prepare(&home);
        let directory = home.start();
        let facts = |customer: &str, cpus: u8| {
            format!(r#"{{"customer": "{customer}", "cpus": {cpus}, "rack": {{"name": "r1"}}}}"#)
        };
        let nodes = vec![
            fleet.start_node("db1.acme.net", &facts("acme", 4), "common\nmysql::master\n"),
            fleet.start_node("db2.acme.net", &facts("acme", 16), "common\nmysql::master\n"),
            fleet.start_node("web1.initech.net", &facts("initech", 4), "common\n"),
        ];
        fleet.await_present(&NODES).await;
        Self { fleet, directory, nodes }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.home().path("http.sock")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.directory.home().path("http.pem")
    }

    /// The address with TLS, from the log.
    pub(super) async fn address(&self) -> String {
        poll_until_ok("the API is served", Duration::from_secs(20), async || {
            let lines = self.directory.log_lines();
            let entry = lines
                .iter()
                .find(|line| line["fields"]["message"] == "serving the directory with TLS");
            entry
                .and_then(|line| line["fields"]["address"].as_str().map(str::to_owned))
                .ok_or("no address in the log")
        })
        .await
    }

    /// A page with TLS; the error is that of curl.
    pub(super) async fn get_trusting(&self, authority: &Path) -> Result<String, String> {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "-H", "Authorization: Bearer secret"]);
        command.arg("--cacert").arg(authority);
        let url = format!("https://{}/v1/nodes", self.address().await);
        let output = command.arg(url).output().await.unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// curl on the socket.
    pub(super) fn curl(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "--unix-socket"]).arg(self.socket());
        command.kill_on_drop(true);
        command
    }

    /// Status and body of a page.
    pub(super) async fn get(&self, path: &str, parameters: &[&str]) -> (u16, Value) {
        let mut command = self.curl();
        command.args(["-G", "-w", "\n%{http_code}"]);
        for parameter in parameters {
            command.args(["--data-urlencode", parameter]);
        }
        let output = command.arg(format!("http://directory{path}")).output().await.unwrap();
        status_and_json(&output)
    }

    pub(super) async fn get_with_token(&self, address: &str, token: &str) -> (u16, Value) {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "-w", "\n%{http_code}", "--cacert"]);
        command.arg(self.certificate()).arg("-H").arg(format!("Authorization: Bearer {token}"));
        let output = command.arg(format!("https://{address}/v1/nodes")).output().await.unwrap();
        status_and_json(&output)
    }
}

fn status_and_json(output: &Output) -> (u16, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let (body, status) =
        text.rsplit_once('\n').unwrap_or_else(|| panic!("{}", describe_output(output)));
    let status = status.parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| Value::from(body)))
}

/// A certificate for loopback, and its key.
pub(super) fn new_certificate() -> (String, String) {
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    (certified.cert.pem(), certified.signing_key.serialize_pem())
}

/// Configuration, certificate, key and tokens of the API.
fn write_http_files(home: &DaemonHome) {
    let (certificate, key) = new_certificate();
    home.write("http.pem", &certificate, 0o644);
    home.write("http.key", &key, 0o600);
    home.write("http.tokens", TOKENS, 0o600);
    // Paths are relative to the file in `conf.d`.
    let options = "[plugins.directory.http]\nsocket = \"../http.sock\"\nlisten = \"127.0.0.1:0\"\ncertificate = \"../http.pem\"\nkey = \"../http.key\"\ntokens = \"../http.tokens\"\n[log]\nformat = \"json\"\n";
    home.write("conf.d/http.toml", options, 0o644);
}

/// The schema of a page's answer, from the API's own description.
fn answer_schema(openapi: &Value, page: &str) -> Value {
    let content = &openapi["paths"][page]["get"]["responses"]["200"]["content"];
    let mut schema = content["application/json"]["schema"].clone();
    assert!(schema.is_object(), "{page}");
    schema["components"] = openapi["components"].clone();
    schema
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_answer_queries_and_are_as_the_openapi_document_says() {
    let fleet = HttpFleet::start().await;
    let (status, openapi) = fleet.get("/v1/openapi.json", &[]).await;
    assert_eq!((status, &openapi["openapi"]), (200, &json!("3.1.0")));
    let check = async |page: &str, path: &str, parameters: &[&str]| {
        let (status, answer) = fleet.get(path, parameters).await;
        assert_eq!(status, 200, "{answer:#}");
        let checked = check_against(answer_schema(&openapi, page), &answer);
        checked.unwrap_or_else(|error| panic!("{page}: {error}"));
        answer
    };
    let masters = "q={ 'facts.customer': acme, classes: 'mysql::master' }";
    let answer = check("/v1/nodes", "/v1/nodes", &[masters, "fields=cpus,rack.name"]).await;
    let names = |answer: &Value| -> Vec<String> {
        let rows = answer["nodes"].as_array().unwrap().iter();
        rows.map(|row| row["node"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&answer), NODES[..2]);
    assert_eq!(answer["nodes"][0]["fields"], json!({"cpus": 4, "rack.name": "r1"}));
    let documents = check("/v1/nodes", "/v1/nodes", &[masters, "documents=true"]).await;
    assert_eq!(documents["nodes"][1]["document"]["facts"]["cpus"], 16);
    let first = check("/v1/nodes", "/v1/nodes", &["limit=3"]).await;
    let after = format!("after={}", first["next"].as_str().unwrap());
    let second = check("/v1/nodes", "/v1/nodes", &["limit=3", &after]).await;
    assert_eq!([names(&first), names(&second)].concat(), NODES);
    assert_eq!(second["next"], Value::Null);

    let node = check("/v1/nodes/{name}", "/v1/nodes/db1.acme.net", &[]).await;
    assert_eq!(node["classes"], json!(["common", "mysql::master"]));
    let counted = check("/v1/facets", "/v1/facets", &["path=customer"]).await;
    assert_eq!(counted["values"][0], json!({"value": "acme", "nodes": 2}));
    let targets = ["port=9100", "label=rack=rack.name", "q={ 'facts.cpus': { $gt: 4 } }"];
    let targets = check("/v1/http_sd", "/v1/http_sd", &targets).await;
    assert_eq!(targets[0]["targets"], json!(["db2.acme.net:9100"]));
    assert_eq!(targets[0]["labels"]["rack"], "r1");

    for (path, parameters, expected, message) in [
        ("/v1/nodes", &["q={ $where: 'x' }"][..], 400, "q: "),
        ("/v1/nodes", &["quantity=1"], 400, "unknown parameter `quantity`"),
        ("/v1/nodes/db9.acme.net", &[], 404, "no node `db9.acme.net`"),
        ("/v1/nodes/a%20b", &[], 400, "node: "),
        ("/v1/facets", &[], 400, "path: missing"),
        ("/v1/http_sd", &[], 400, "port: missing"),
        ("/v2/nodes", &[], 404, "/v1/openapi.json"),
    ] {
        let (status, answer) = fleet.get(path, parameters).await;
        let text = answer["error"].as_str().unwrap_or_default();
        assert!(status == expected && text.contains(message), "{path}: {status} {answer}");
    }
    let posted = fleet.curl().args(["-X", "POST", "-i", "http://directory/v1/nodes"]).output();
    let posted = String::from_utf8(posted.await.unwrap().stdout).unwrap();
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("Allow: GET"), "{posted}");
    let long = format!("http://directory/v1/nodes?q={}", "a".repeat(20_000));
    let refused = fleet.curl().arg("-i").arg(&long).output().await.unwrap();
    let refused = String::from_utf8(refused.stdout).unwrap();
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    let mode = std::fs::metadata(fleet.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_a_token_and_slow_clients_without_one_block_nobody() {
    let fleet = HttpFleet::start().await;
    let address = fleet.address().await;
    for wrong in ["", "wrong", "secret2"] {
        let (status, answer) = fleet.get_with_token(&address, wrong).await;
        assert_eq!(status, 401, "{answer}");
    }
    assert_eq!(fleet.get_with_token(&address, "secret").await.0, 200);
    // As clients of PuppetDB send it.
    let mut client = Command::new("curl");
    client.args(["-sSf", "-H", "X-Authentication: secret", "--cacert"]).arg(fleet.certificate());
    let output = client.arg(format!("https://{address}/v1/nodes")).output().await.unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    // A client without the certificate's authority does not trust the server.
    let untrusted = Command::new("curl").arg(format!("https://{address}/v1/nodes")).output();
    assert_eq!(untrusted.await.unwrap().status.code(), Some(60));

    // The oldest connections without a token are closed, and the newest are served.
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(&address).await.unwrap());
    }
    assert_eq!(fleet.get_with_token(&address, "secret").await.0, 200);
    let mut byte = [0];
    let closed = tokio::time::timeout(Duration::from_secs(20), idle[0].read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");

    // The file of tokens is read again when it changes, and while others can read it there are no tokens.
    fleet.directory.home().write("http.tokens", "# none\n", 0o600);
    assert_eq!(fleet.get_with_token(&address, "secret").await.0, 401);
    let path = fleet.directory.home().path("http.tokens");
    fleet.directory.home().write("http.tokens", TOKENS, 0o600);
    assert_eq!(fleet.get_with_token(&address, "secret").await.0, 200);
    std::fs::remove_file(&path).unwrap();
    fleet.directory.home().write("http.tokens", TOKENS, 0o644);
    assert_eq!(fleet.get_with_token(&address, "secret").await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_the_api_are_checked_before_the_start() {
    let fleet = DirectoryFixture::start().await;
    let (_, home) = fleet.directory_home("dir1.acme.net", "directory1", "");
    write_http_files(&home);
    let (config, tokens) = (home.path("rpcd.toml"), home.path("http.tokens"));
    let checked = check_config(&config).await;
    assert!(checked.status.success(), "{}", describe_output(&checked));
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).unwrap();
    let message = refused_with(&config).await;
    assert!(message.contains("http.tokens") && message.contains("chmod 600"), "{message}");
    home.write("conf.d/http.toml", "[plugins.directory.http]\nlisten = \"127.0.0.1:0\"\n", 0o644);
    let message = refused_with(&config).await;
    assert!(message.contains("`certificate` is not"), "{message}");
    home.write("conf.d/http.toml", "[plugins.directory.http]\nport = 1\n", 0o644);
    let message = refused_with(&config).await;
    assert!(message.contains("port"), "{message}");
}

async fn check_config(config: &Path) -> Output {
    let mut command = Command::new(find_program("rpcd"));
    command.arg("--config").arg(config).arg("--check").output().await.unwrap()
}

async fn refused_with(config: &Path) -> String {
    let output = check_config(config).await;
    assert!(!output.status.success(), "{}", describe_output(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}
