//! Queries against a test server over mutual TLS.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_filter::NodeFilter;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{PuppetDbError, PuppetDbServer};
use crate::discovery::DiscoveryQuery;
use crate::https::HttpsFileError;

/// A certificate authority and its certificates, as files.
struct Pki {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let pki = Self { directory, issuer };
        pki.sign("server", &["localhost", "127.0.0.1"]);
        pki.sign("client", &["rip"]);
        pki
    }

    fn sign(&self, name: &str, names: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        let path = self.path(&format!("{name}.key"));
        std::fs::write(&path, key.serialize_pem()).unwrap();
        set_mode(&path, 0o640);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn acceptor(&self) -> TlsAcceptor {
        let certificate = |name: &str| CertificateDer::from_pem_file(self.path(name)).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate("server.pem")],
                PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server that sends the same response to every request, and records the requests.
struct Oracle {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Oracle {
    async fn start(pki: &Pki, status: &'static str, answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (acceptor, log) = (pki.acceptor(), Arc::clone(&asked));
        tokio::spawn(async move {
            let mut answers = answers.iter().cycle();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                while let Some(body) = request(&mut stream).await {
                    log.lock().unwrap().push(body);
                    let answer = answers.next().unwrap();
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        answer.len()
                    );
                    stream.write_all(head.as_bytes()).await.unwrap();
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        });
        Self { port, asked }
    }

    fn server(&self, ca: &Path, pair: Option<(PathBuf, PathBuf)>) -> PuppetDbServer {
        let url = format!("https://localhost:{}", self.port);
        PuppetDbServer::new(&url, Some(ca.to_owned()), pair, Duration::from_secs(30)).unwrap()
    }
}

/// Reads the body of the next request on a connection.
async fn request(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("post /pdb/query/v4 http/1.1\r\n"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(String::from_utf8(body).unwrap())
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn pair(pki: &Pki) -> (PathBuf, PathBuf) {
    (pki.path("client.pem"), pki.path("client.key"))
}

fn wanted(words: &str, pql: &[&str]) -> DiscoveryQuery {
    DiscoveryQuery {
        filter: NodeFilter::default().with_words(words).unwrap(),
        pql: pql.iter().map(ToString::to_string).collect(),
        ..DiscoveryQuery::default()
    }
}

#[tokio::test]
async fn queries_nodes_over_mutual_tls() {
    let pki = Pki::new();
    let answers = &[r#"[{"certname": "web1.acme.net"}, {"certname": "DB1.acme.net"}]"#];
    let oracle = Oracle::start(&pki, "200 OK", answers).await;
    let server = oracle.server(&pki.path("ca.pem"), Some(pair(&pki)));
    let nodes = server.find_nodes(&wanted("country=uk apache", &[])).await.unwrap();
    let names: Vec<&str> = nodes.iter().map(muster_wire::identity::Identity::as_str).collect();
    assert_eq!(names, ["db1.acme.net", "web1.acme.net"]);
    let asked = oracle.asked.lock().unwrap().concat();
    assert!(asked.starts_with(r#"{"query":["from","nodes""#), "{asked}");
    assert!(asked.contains(r#"["=","title","Apache"]"#), "{asked}");
}

#[tokio::test]
async fn pql_and_filters_are_intersected() {
    let pki = Pki::new();
    let answers =
        &[r#"[{"certname": "a"}, {"certname": "b"}]"#, r#"[{"certname": "b"}, {"certname": "c"}]"#];
    let oracle = Oracle::start(&pki, "200 OK", answers).await;
    let server = oracle.server(&pki.path("ca.pem"), Some(pair(&pki)));
    let nodes = server.find_nodes(&wanted("apache", &["nodes[certname] {}"])).await.unwrap();
    assert_eq!(
        nodes.iter().map(muster_wire::identity::Identity::as_str).collect::<Vec<_>>(),
        ["b"]
    );
    assert!(oracle.asked.lock().unwrap()[0].contains("nodes[certname] {}"));
}

/// `PuppetDB` compares a list as a whole, so that `roles!=db` once selected the nodes whose list contains `db`.
#[tokio::test]
async fn negated_facts_are_compared_as_on_nodes() {
    let pki = Pki::new();
    let answers = &[
        r#"[{"certname": "list"}, {"certname": "map"}, {"certname": "text"}, {"certname": "other"}, {"certname": "none"}]"#,
        r#"[{"certname": "list", "name": "roles", "value": ["web", "DB"]},
            {"certname": "map", "name": "roles", "value": {"db": 1}},
            {"certname": "text", "name": "roles", "value": "Db"},
            {"certname": "other", "name": "roles", "value": ["web"]}]"#,
    ];
    for fact in ["roles!=db", "roles!~/^db$/i"] {
        let oracle = Oracle::start(&pki, "200 OK", answers).await;
        let server = oracle.server(&pki.path("ca.pem"), Some(pair(&pki)));
        let nodes = server.find_nodes(&wanted(fact, &[])).await.unwrap();
        let names: Vec<&str> = nodes.iter().map(muster_wire::identity::Identity::as_str).collect();
        assert_eq!(names, ["none", "other"], "{fact}");
        let asked = oracle.asked.lock().unwrap();
        assert!(
            asked[1].contains(
                r#"["from","facts",["extract",["certname","name","value"],["=","name","roles"]]]"#
            ),
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn query_fails_without_mutual_trust_of_certificates() {
    let pki = Pki::new();
    let oracle = Oracle::start(&pki, "200 OK", &["[]"]).await;
    let other = Pki::new();
    for server in [
        oracle.server(&other.path("ca.pem"), Some(pair(&pki))),
        oracle.server(&pki.path("ca.pem"), Some(pair(&other))),
        oracle.server(&pki.path("ca.pem"), None),
    ] {
        let error = server.find_nodes(&wanted("apache", &[])).await.unwrap_err();
        assert!(matches!(error, PuppetDbError::Http { .. }), "{error:?}");
    }
    assert!(oracle.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn reports_error_responses_and_invalid_bodies() {
    let pki = Pki::new();
    for (status, answer, expected) in [
        (
            "400 Bad Request",
            &["PQL parse error\u{1b}[2J at line 1"],
            "returned status 400: PQL parse error [2J",
        ),
        ("302 Found", &["elsewhere"], "returned status 302"),
        ("200 OK", &["<html>"], "not a valid list"),
        ("200 OK", &[r#"[{"name": "a"}]"#], "not a valid list"),
    ] {
        let oracle = Oracle::start(&pki, status, answer).await;
        let server = oracle.server(&pki.path("ca.pem"), Some(pair(&pki)));
        let error = server.find_nodes(&wanted("apache", &[])).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn invalid_key_file_is_not_quoted_in_the_error() {
    let pki = Pki::new();
    std::fs::write(pki.path("client.key"), "hunter2").unwrap();
    let server = PuppetDbServer::new(
        "https://localhost:1",
        Some(pki.path("ca.pem")),
        Some(pair(&pki)),
        Duration::from_secs(1),
    );
    let error = server.unwrap().find_nodes(&DiscoveryQuery::default()).await.unwrap_err();
    let told = format!("{error:?} {error}");
    assert!(told.contains("no private key") && !told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let server = PuppetDbServer::new(&url, None, None, Duration::from_millis(200)).unwrap();
    let error = server.find_nodes(&DiscoveryQuery::default()).await.unwrap_err();
    assert!(matches!(error, PuppetDbError::Http { .. }), "{error:?}");
}

#[test]
fn plain_http_is_refused_except_on_loopback() {
    let new = |url| PuppetDbServer::new(url, None, None, Duration::from_secs(1));
    for url in [
        "https://puppetdb:8081",
        "https://[::1]:8081/",
        "http://localhost:8080",
        "http://127.0.0.1",
        "http://[::1]:8080",
    ] {
        assert!(new(url).is_some(), "{url}");
    }
    for url in [
        "",
        "puppetdb:8081",
        "http://puppetdb:8080",
        "http://10.0.0.1",
        "ftp://localhost",
        "https://",
        "https://a@b",
        "https://a/b",
        "https://a?b",
    ] {
        assert!(new(url).is_none(), "{url}");
    }
}

#[tokio::test]
async fn key_readable_by_all_users_is_refused() {
    let pki = Pki::new();
    let oracle = Oracle::start(&pki, "200 OK", &["[]"]).await;
    for (mode, good) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false)] {
        set_mode(&pki.path("client.key"), mode);
        let server = oracle.server(&pki.path("ca.pem"), Some(pair(&pki)));
        match server.find_nodes(&wanted("apache", &[])).await {
            Ok(nodes) => assert!(good && nodes.is_empty(), "{mode:o}"),
            Err(PuppetDbError::File(HttpsFileError::Secret(refused))) => {
                assert!(!good, "{mode:o}");
                let told = refused.to_string();
                assert!(told.contains("run `chmod 640 "), "{told}");
            }
            Err(other) => panic!("{mode:o}: {other}"),
        }
    }
    assert_eq!(oracle.asked.lock().unwrap().len(), 2);
}
