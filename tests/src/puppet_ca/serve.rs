//! Serves one connection of the simulated authority: reads requests, authenticates the client, writes responses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::database::{ADMINISTRATOR, CaDatabase};
use super::{HandledRequest, RequestHold};

/// Maximum size of a request's head and of its body in bytes.
const MAX_BYTES: usize = 256 * 1024;

pub(super) struct CaRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// The content type.
    pub(super) kind: String,
    pub(super) body: String,
}

/// Serves one connection until the client closes it.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    database: Arc<Mutex<CaDatabase>>,
    hold: watch::Sender<RequestHold>,
) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (serial, is_admin) = identify_client(&stream);
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        RequestHold::wait_released(&hold).await;
        let response = {
            let mut database = database.lock().unwrap();
            // Closes connections of clients whose certificate was revoked.
            if serial.is_some_and(|serial| database.revoked.contains(&serial)) {
                return;
            }
            let response = database.respond(&request, is_admin);
            let path = request.path.strip_prefix("/puppet-ca/v1").unwrap_or(&request.path);
            let handled = HandledRequest {
                method: request.method.clone(),
                path: path.to_owned(),
                status: response.status,
            };
            database.handled.push(handled);
            response
        };
        let head = format!(
            "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
            response.status,
            response.kind,
            response.body.len()
        );
        let whole = [head.as_bytes(), response.body.as_bytes()].concat();
        if stream.write_all(&whole).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Serial number of the client's certificate, and whether it may administer the authority.
pub(super) fn identify_client(stream: &TlsStream<TcpStream>) -> (Option<u64>, bool) {
    let Some([certificate, ..]) = stream.get_ref().1.peer_certificates() else {
        return (None, false);
    };
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    let rights: Vec<String> = ADMINISTRATOR.iter().map(ToString::to_string).collect();
    let rights = rights.join(".");
    let may = certificate.extensions().iter().any(|extension| {
        extension.oid.to_id_string() == rights && extension.value.ends_with(b"true")
    });
    (certificate.tbs_certificate.serial.iter_u64_digits().next(), may)
}

pub(super) async fn read_request(
    stream: &mut BufReader<TlsStream<TcpStream>>,
) -> Option<CaRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        if head.len() > MAX_BYTES {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(Ok(0), |it| it.parse::<usize>());
    let length = length.ok().filter(|length| *length <= MAX_BYTES)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(CaRequest {
        method,
        path,
        kind: headers.get("content-type").cloned().unwrap_or_default(),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
