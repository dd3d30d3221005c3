//! Attacks on the HTTP API with TLS: tokens in other places and forms, smuggled requests, paths, methods, old protocols,
//! and queries that cost much.

#![expect(clippy::disallowed_types, reason = "runs openssl")]

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use muster_tests::memory::anonymous_kib;
use muster_tests::poll_until_ok;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::http::HttpFleet;

const TOKEN: &str = "kUnuzKVQ0vBqk3Tg";
/// `printf %s TOKEN | sha256sum`
const TOKEN_HASH: &str = "24f9eb979f396f64b0551cb42f28fb516b7b4f8d81f3becc6afe647806fad2c8";
const GUESS: &str = "guessed-token-of-a-thief";
/// A fact that a browser would execute if it were HTML.
const HTML_FACT: &str = "<script>alert(1)</script>";
const READ_TIMEOUT: Duration = Duration::from_secs(30);

struct Target {
    fleet: HttpFleet,
    address: String,
    connector: TlsConnector,
}

impl Target {
    async fn start() -> Self {
        let fleet = HttpFleet::start_prepared(|home| {
            home.write("http.tokens", &format!("prometheus {TOKEN_HASH}\n"), 0o600);
            home.write("conf.d/log.toml", "[log]\nlevel = \"trace\"\n", 0o644);
        })
        .await;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(fleet.certificate()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Self { address: fleet.address().await, fleet, connector }
    }

    /// Sends these bytes through TLS; returns everything until the server ends the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = self.connector.connect(name, stream).await.unwrap();
        // The server may answer before it has read everything.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let mut answer = Vec::new();
        let _ = timeout(READ_TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A page with the token.
    async fn get(&self, target: &str) -> String {
        self.send(request("GET", target, &bearer(TOKEN)).as_bytes()).await
    }
}

fn request(method: &str, target: &str, headers: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: directory\r\n{headers}\r\n")
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or("none")
}

/// Everything that is not text survives in a query.
fn encode(text: &str) -> String {
    let hex = data_encoding::HEXLOWER.encode(text.as_bytes());
    let mut encoded = String::with_capacity(3 * text.len());
    for (index, digit) in hex.chars().enumerate() {
        if index % 2 == 0 {
            encoded.push('%');
        }
        encoded.push(digit);
    }
    encoded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_is_accepted_in_one_place_and_form_and_is_never_shown() {
    let target = Box::pin(Target::start()).await;
    assert_eq!(status(&target.get("/v1/nodes?limit=1").await), "200");
    let page = "/v1/nodes?limit=1";
    let last_wrong = format!("{}x", &TOKEN[..TOKEN.len() - 1]);
    let basic = data_encoding::BASE64.encode(format!("prometheus:{TOKEN}").as_bytes());
    let headers = [
        String::new(),
        bearer(""),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer \u{a0}\r\n".to_owned(),
        bearer(GUESS),
        bearer(TOKEN_HASH),
        bearer("prometheus"),
        bearer(&TOKEN.to_lowercase()),
        bearer(&TOKEN[..TOKEN.len() - 1]),
        bearer(&last_wrong),
        bearer(&format!("{TOKEN}{TOKEN}")),
        bearer(&format!("{TOKEN} {TOKEN}")),
        bearer(&format!("{TOKEN},{GUESS}")),
        bearer(&"a".repeat(15 * 1024)),
        format!("Authorization: {TOKEN}\r\n"),
        format!("Authorization: Bearer:{TOKEN}\r\n"),
        format!("Authorization: Token {TOKEN}\r\n"),
        format!("Authorization: Basic {basic}\r\n"),
        format!("{}{}", bearer(TOKEN), bearer(GUESS)),
        format!("{}{}", bearer(GUESS), bearer(TOKEN)),
        format!("X-Authorization: Bearer {TOKEN}\r\n"),
        format!("Proxy-Authorization: Bearer {TOKEN}\r\n"),
        format!("Cookie: token={TOKEN}; Authorization=Bearer {TOKEN}\r\n"),
        format!("X-Forwarded-For: 127.0.0.1\r\nX-Api-Key: {TOKEN}\r\n"),
    ];
    for header in &headers {
        let answer = target.send(request("GET", page, header).as_bytes()).await;
        assert_eq!(status(&answer), "401", "{header}: {answer}");
        assert!(!answer.contains(TOKEN) && !answer.contains(GUESS), "{answer}");
    }
    // Headers that are not valid.
    for header in [
        format!("Authorization : Bearer {TOKEN}\r\n"),
        format!("Authorization: Bearer\r\n {TOKEN}\r\n"),
        format!("Authorization: Bearer {TOKEN}\0\r\n"),
        format!("\u{b}Authorization: Bearer {TOKEN}\r\n"),
    ] {
        let answer = target.send(request("GET", page, &header).as_bytes()).await;
        assert_eq!(status(&answer), "400", "{header:?}: {answer}");
    }
    let long = bearer(&"a".repeat(17 * 1024));
    assert_eq!(status(&target.send(request("GET", page, &long).as_bytes()).await), "431");
    // A token in the address would be in the logs of proxies.
    for parameter in ["token", "access_token", "authorization"] {
        let page = format!("/v1/nodes?{parameter}={TOKEN}");
        let answer = target.send(request("GET", &page, "").as_bytes()).await;
        assert_eq!(status(&answer), "401", "{answer}");
    }
    // Neither tokens nor guesses are in the log, the arguments, the environment or the metrics.
    let pid = target.fleet.directory.pid();
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap();
    let process = [read("cmdline"), read("environ")].concat();
    let shown = target.fleet.directory.log() + &String::from_utf8_lossy(&process);
    assert!(shown.contains("the directory is read over HTTP"), "{shown}");
    assert!(!shown.contains(TOKEN) && !shown.contains(GUESS), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smuggled_requests_methods_and_paths_get_nothing() {
    let target = Box::pin(Target::start()).await;
    let second = request("GET", "/v1/facets?path=customer", &bearer(TOKEN));
    let length = second.len();
    let bodies = [
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{second}"),
        format!("Content-Length: {length}, 0\r\n\r\n{second}"),
        format!("Content-Length: -1\r\n\r\n{second}"),
        format!(
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{length:x}\r\n{second}\r\n0\r\n\r\n"
        ),
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{second}"),
        format!("Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n{second}"),
        format!("\r\n{second}"),
    ];
    for body in &bodies {
        for (token, expected) in [(TOKEN, "200"), (GUESS, "401")] {
            let head = format!("GET /v1/nodes?limit=1 HTTP/1.1\r\nHost: a\r\n{}", bearer(token));
            let answer = target.send(format!("{head}{body}").as_bytes()).await;
            assert_eq!(status(&answer), expected, "{body}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{body}: {answer}");
            assert!(answer.contains("Connection: close") && !answer.contains("absent"), "{answer}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "GET\t"]
    {
        let answer = target.send(request(method, "/v1/nodes", &bearer(TOKEN)).as_bytes()).await;
        assert!(matches!(status(&answer), "405" | "400"), "{method}: {answer}");
        assert!(!answer.contains(TOKEN), "{method}: {answer}");
    }
    for path in [
        "/v1/../v1/nodes",
        "//v1/nodes",
        "/v1//nodes",
        "/V1/nodes",
        "/v1/nodes/",
        "/v1/nodes/../../../../etc/passwd",
        "/v1/nodes/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/nodes/%2e%2e",
        "/v1/nodes/%00",
        "/v1/nodes/db1.acme.net%0d%0aSet-Cookie:%20a=b",
        "/v1/nodes/db1.acme.net/facts",
        "/v1/nodes/%ff",
        "/v1/nodes/<script>alert(1)</script>",
        "/etc/passwd",
        "http://directory/v1/nodes",
        "*",
        "/v1/nodes?fields=<script>&q={a:'<script>'",
    ] {
        let answer = target.get(path).await;
        assert!(matches!(status(&answer), "400" | "404"), "{path}: {answer}");
        assert!(!answer.contains("root:") && !answer.contains("\nSet-Cookie"), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_rendered_as_html_or_cached() {
    let target = Box::pin(Target::start()).await;
    let node = &target.fleet.nodes[0];
    let facts = serde_json::json!({ "motto": HTML_FACT, "<img src=x onerror=alert(1)>": "x" });
    node.daemon.home().write("facts.d/site.json", &facts.to_string(), 0o644);
    node.reload();
    poll_until_ok("the fact is known", Duration::from_mins(1), async || {
        let answer = target.get("/v1/facets?path=motto").await;
        if answer.contains(HTML_FACT) { Ok(()) } else { Err(answer) }
    })
    .await;
    for (page, expected) in [
        ("/v1/nodes?documents=true", "200"),
        ("/v1/nodes/db1.acme.net", "200"),
        ("/v1/nodes/<script>", "400"),
        ("/v1/http_sd?port=1&label=motto", "200"),
        ("/v1/openapi.json", "200"),
        ("/v1/<script>", "404"),
        ("/v1/nodes?<script>=1", "400"),
    ] {
        let answer = target.get(page).await;
        assert_eq!(status(&answer), expected, "{page}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for line in [
            "Content-Type: application/json",
            "X-Content-Type-Options: nosniff",
            "Cache-Control: no-store",
        ] {
            assert!(head.contains(line), "{page}: {head}");
        }
        assert!(!head.contains("Access-Control-Allow"), "{page}: {head}");
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
    // Text that is no request gets plain text without what was sent.
    let answer = target.send(b"<script>alert(1)</script>\r\n\r\n").await;
    assert!(
        answer.contains("Content-Type: text/plain") && !answer.contains("<script>"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_and_old_versions_of_tls_get_no_page() {
    let target = Box::pin(Target::start()).await;
    let mut plain = TcpStream::connect(&target.address).await.unwrap();
    let text = request("GET", "/v1/nodes", &bearer(TOKEN));
    plain.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(READ_TIMEOUT, plain.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("HTTP/1.1") && !answer.contains("db1.acme.net"), "{answer}");

    let handshake = async |version: &str| {
        let mut command = Command::new("openssl");
        // At level 0, openssl offers what it would refuse itself.
        command.args(["s_client", "-connect", &target.address, version, "-ign_eof"]);
        command.args(["-cipher", "ALL:eNULL:@SECLEVEL=0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
        let output = timeout(READ_TIMEOUT, child.wait_with_output()).await.unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let output = handshake(version).await;
        assert!(output.contains("HTTP/1.1 200 OK"), "{version}: {output}");
    }
    for version in ["-tls1", "-tls1_1"] {
        let output = handshake(version).await;
        assert!(!output.contains("HTTP/1.1") && !output.contains("db1.acme.net"), "{output}");
    }
    // A client may not renegotiate.
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &target.address, "-tls1_2", "-legacy_renegotiation"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut output, mut part) = (String::new(), [0; 4096]);
    while !output.contains("Verify return code") {
        let count = timeout(READ_TIMEOUT, stdout.read(&mut part)).await.unwrap().unwrap();
        assert!(count > 0, "{output}");
        output.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    stdin.write_all(b"R\n").await.unwrap();
    let ended = timeout(READ_TIMEOUT, child.wait()).await.unwrap().unwrap();
    let _ = stdout.read_to_string(&mut output).await;
    assert!(!ended.success() && !output.contains("HTTP/1.1"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costly_queries_are_refused_or_answered_soon() {
    let target = Box::pin(Target::start()).await;
    let pid = target.fleet.directory.pid().unsigned_abs();
    let before = anonymous_kib(pid).unwrap();
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let regex = |pattern: &str| format!("{{'facts.customer':{{$regex:'{pattern}'}}}}");
    let conditions = |count: usize, one: &str| format!("{{$or:[{}]}}", vec![one; count].join(","));
    // In a query, three bytes are one: 16 KiB of a head are 5 KiB of a document.
    for (what, query, expected) in [
        ("nested $not", nested("{$nor:[", "{a:1}", "]}", 400), "400"),
        ("nested lists", nested("[", "", "]", 4000), "400"),
        ("nested objects", nested("{a:", "1", "}", 1200), "400"),
        ("nested without an end", "{a:".repeat(1600), "400"),
        ("a repeated repetition", regex("(((a{100}){100}){100}){100}"), "400"),
        ("a large class", regex(&"\\\\w{999}".repeat(20)), "400"),
        ("many regexes", conditions(100, &regex("a")), "400"),
        ("backtracking", regex("^(a+)+$"), "200"),
        ("alternatives", regex(&format!("^({}a)$", "a|".repeat(400))), "200"),
        ("$where", "{$where:'while(1);'}".to_owned(), "400"),
        ("many conditions", conditions(600, "{a:1}"), "any"),
        ("a huge number", format!("{{a:{}}}", "9".repeat(4000)), "any"),
        ("invalid UTF-8", "\u{fffd}".repeat(500), "400"),
    ] {
        for page in ["/v1/nodes?q=", "/v1/facets?path=customer&q=", "/v1/watch?q="] {
            let started = Instant::now();
            let mut text = format!("{page}{}", encode(&query));
            if text.len() > 15 * 1024 {
                text = format!("{page}{}", query.replace('&', "%26").replace(' ', "+"));
            }
            if page.contains("watch") && expected != "400" {
                // A stream has no end.
                continue;
            }
            let answer = target.get(&text).await;
            let short: String = answer.chars().take(400).collect();
            assert!(expected == "any" || status(&answer) == expected, "{what}: {page}: {short}");
            assert!(answer.len() < 64 * 1024, "{what}: {}", answer.len());
            assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
        }
    }
    let fields = format!("/v1/nodes?fields={}", vec!["customer"; 500].join(","));
    assert_eq!(status(&target.get(&fields).await), "400");
    let grown = anonymous_kib(pid).unwrap().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
}
