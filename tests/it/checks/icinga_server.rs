//! A server that plays the HTTP API of Icinga 2 over TLS, and records what it receives.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use muster_tests::command::RpcCommand;
use muster_tests::tls_acceptor::build_tls_acceptor;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The password of the user, which no output may contain.
pub(super) const PASSWORD: &str = "hunter2-icinga";
/// The header `Authorization` of the user `muster`.
pub(super) const AUTHORIZATION: &str = "Basic bXVzdGVyOmh1bnRlcjItaWNpbmdh";

/// How a request to the action is answered.
#[derive(Debug, Clone)]
pub(super) enum IcingaReply {
    /// The service is known.
    Accept,
    /// This status and body.
    Status(u16, String),
    /// No answer.
    Silence,
}

/// A request to the action.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) body: Value,
    pub(super) authorization: Option<String>,
    /// Whether the client had a certificate of the CA.
    pub(super) has_certificate: bool,
}

#[derive(Debug, Default)]
struct ServerLog {
    requests: Vec<ReceivedRequest>,
    replies: VecDeque<IcingaReply>,
    lasting: Option<IcingaReply>,
    connections: usize,
}

/// The server, with its CA and its certificates as files.
#[derive(Debug)]
pub(super) struct IcingaServer {
    directory: TempDir,
    log: Arc<Mutex<ServerLog>>,
    port: u16,
    connections: JoinSet<()>,
}

impl IcingaReply {
    pub(super) fn error(status: u16, text: &str, reason: &str) -> Self {
        let body = json!({"error": status, "status": text, "diagnostic_information": reason});
        Self::Status(status, body.to_string())
    }

    /// What Icinga 2.13 answers for a service that it does not know.
    pub(super) fn unknown() -> Self {
        Self::error(404, "No objects found.", "Error: Object does not exist.")
    }
}

impl IcingaServer {
    pub(super) async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        for ca in ["ca", "other"] {
            write_certificates(&directory, ca);
        }
        let mut server =
            Self { directory, log: Arc::default(), port: 0, connections: JoinSet::new() };
        server.listen().await;
        server
    }

    /// Listens, again at the same port after `close`.
    pub(super) async fn listen(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.port = listener.local_addr().unwrap().port();
        let directory = self.directory.path();
        let acceptor = build_tls_acceptor(directory, "ca-server.pem", "ca-server.key");
        let log = Arc::clone(&self.log);
        self.connections.spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served.spawn(serve(stream, acceptor.clone(), Arc::clone(&log)));
            }
        });
    }

    /// Closes the port and all connections.
    pub(super) async fn close(&mut self) {
        self.connections.shutdown().await;
    }

    pub(super) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Answers the next requests like this, and later ones as before.
    pub(super) fn reply_next(&self, replies: impl IntoIterator<Item = IcingaReply>) {
        self.log.lock().unwrap().replies.extend(replies);
    }

    /// Answers all requests like this.
    pub(super) fn reply_always(&self, reply: IcingaReply) {
        self.log.lock().unwrap().lasting = Some(reply);
    }

    /// Requests since the last call.
    pub(super) fn take_requests(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut self.log.lock().unwrap().requests)
    }

    /// Requests so far, without removing them.
    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.log.lock().unwrap().requests.clone()
    }

    /// How many connections there were.
    pub(super) fn connection_count(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    /// The section of `rpc.toml` for the user `muster` with its password, which is written to a file beside the certificates.
    pub(super) fn settings(&self) -> String {
        write_secret(self.directory.path().join("password"), &format!("{PASSWORD}\n"), 0o600);
        format!(
            "[icinga]\nurl = \"{}\"\nuser = \"muster\"\npassword_file = \"{}\"\nca = \"{}\"\ntimeout_seconds = 3\n",
            self.url(),
            self.path("password"),
            self.path("ca.pem")
        )
    }
}

/// Replaces the section `[icinga]` of `rpc.toml`.
pub(super) fn configure_icinga(rpc: &RpcCommand, section: &str) {
    let text = std::fs::read_to_string(rpc.path("rpc.toml")).unwrap();
    let others = text.split("[icinga]").next().unwrap();
    rpc.write("rpc.toml", &format!("{others}{section}"));
}

pub(super) fn write_secret(path: PathBuf, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Writes a CA, and a certificate of it for the server and one for a client.
fn write_certificates(directory: &TempDir, ca: &str) {
    let path = |name: String| directory.path().join(name);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, ca);
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(path(format!("{ca}.pem")), certificate.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for (name, host) in [("server", "localhost"), ("client", "muster")] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(path(format!("{ca}-{name}.pem")), certificate.pem()).unwrap();
        write_secret(path(format!("{ca}-{name}.key")), &key.serialize_pem(), 0o600);
    }
}

/// Serves one connection until the client closes it.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, log: Arc<Mutex<ServerLog>>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    log.lock().unwrap().connections += 1;
    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = read_request(&mut stream).await {
        let reply = if head.starts_with("GET /v1 ") {
            IcingaReply::Status(200, "{\"results\":[]}".to_owned())
        } else {
            assert!(
                head.starts_with("POST /v1/actions/process-check-result HTTP/1.1\r\n"),
                "{head}"
            );
            assert!(head.to_lowercase().contains("accept: application/json\r\n"), "{head}");
            let header = |line: &str| line.strip_prefix("authorization: ").map(str::to_owned);
            let mut log = log.lock().unwrap();
            log.requests.push(ReceivedRequest {
                body: serde_json::from_slice(&body).unwrap(),
                authorization: head.lines().find_map(header),
                has_certificate,
            });
            let lasting = log.lasting.clone();
            log.replies.pop_front().or(lasting).unwrap_or(IcingaReply::Accept)
        };
        let (status, text) = match reply {
            IcingaReply::Accept => (
                200,
                json!({"results": [{"code": 200.0, "status": "Successfully processed"}]})
                    .to_string(),
            ),
            IcingaReply::Status(status, text) => (status, text),
            IcingaReply::Silence => std::future::pending().await,
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        let whole = [head.as_bytes(), text.as_bytes()].concat();
        if stream.write_all(&whole).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Head and body of the next request.
async fn read_request(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = |line: &str| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok();
    let mut body = vec![0; head.lines().find_map(length).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}
