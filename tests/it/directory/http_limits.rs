//! Clients of the HTTP API that read or send slowly, too much, or on too many connections. Callers are answered meanwhile.

#![expect(clippy::disallowed_types, reason = "runs curl")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use muster_calls::Client;
use muster_contract::directory::{DirectoryFind, DirectoryQueryInput};
use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use nix::unistd::{Gid, Group, getegid, geteuid};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Command;
use tokio::time::{Instant, interval, timeout};

use super::http::HttpFleet;

/// Time for callers to be answered while clients of the API misbehave.
const CALLER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time until a slow client is gone: 30 s for the response, or two events of 30 s each.
const SLOW_TIMEOUT: Duration = Duration::from_mins(3);
/// Bytes of a fact: two of them do not fit into the buffer of a socket.
const BLOB_BYTES: usize = 180 * 1024;
/// The limits that the guide names.
const REQUESTS: usize = 16;
const WATCHES: usize = 64;
const ADMITTED: usize = 256;
const WAITING: usize = 64;
/// Files of connections that end at this moment.
const SLACK: usize = 64;

/// The directory answers callers, in time.
async fn assert_callers_are_answered(client: &Client) {
    let none = DirectoryQueryInput::default();
    let found = client.query_directory::<DirectoryFind>(&none, CALLER_TIMEOUT).await.unwrap();
    assert_eq!(found.total, 4);
}

async fn open(fleet: &HttpFleet, request: &str) -> UnixStream {
    let mut stream = UnixStream::connect(fleet.socket()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: directory\r\n\r\n")
}

/// The code of the response; the rest of it stays unread.
async fn read_code(stream: &mut UnixStream) -> String {
    let mut start = [0; 12];
    timeout(Duration::from_secs(30), stream.read_exact(&mut start)).await.unwrap().unwrap();
    let start = String::from_utf8(start.to_vec()).unwrap();
    start.strip_prefix("HTTP/1.1 ").unwrap().to_owned()
}

/// Everything that comes until the connection ends, even by a reset.
async fn read_rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let (mut text, mut part) = (Vec::new(), [0; 8192]);
    loop {
        match timeout(Duration::from_secs(30), stream.read(&mut part)).await.unwrap() {
            Ok(0) | Err(_) => return String::from_utf8_lossy(&text).into_owned(),
            Ok(count) => text.extend_from_slice(&part[..count]),
        }
    }
}

/// Open files of the instance's process.
fn open_files(fleet: &HttpFleet) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", fleet.directory.pid())).unwrap().count()
}

/// Gives each node a fact that fills a socket's buffer.
async fn grow_facts(fleet: &HttpFleet) {
    let facts = json!({"blob": "x".repeat(BLOB_BYTES)}).to_string();
    for node in &fleet.nodes {
        node.daemon.home().write("facts.d/site.json", &facts, 0o644);
        node.reload();
    }
    poll_until_ok("the facts are known", Duration::from_mins(1), async || {
        let (_, counted) = fleet.get("/v1/facets", &["path=blob"]).await;
        if counted["values"][0]["nodes"] == 3 { Ok(()) } else { Err(counted["absent"].clone()) }
    })
    .await;
}

/// Writes the start and endless further bytes, one by one, until the server ends the connection; returns its response, and how long it waited.
async fn send_slowly(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    start: &[u8],
) -> (String, Duration) {
    let (started, mut pace) = (Instant::now(), interval(Duration::from_millis(200)));
    let mut first = [0];
    let endless = start.iter().chain(std::iter::repeat(&b'a'));
    for byte in endless {
        tokio::select! {
            read = stream.read(&mut first) => {
                let count = read.unwrap_or(0);
                let rest = if count == 0 { String::new() } else { read_rest(&mut stream).await };
                let first = String::from_utf8_lossy(&first[..count]).into_owned();
                return (format!("{first}{rest}"), started.elapsed());
            }
            _ = pace.tick() => {
                let _ = stream.write_all(std::slice::from_ref(byte)).await;
            }
        }
        assert!(started.elapsed() < Duration::from_mins(1), "the connection is not closed");
    }
    unreachable!("the request is endless")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_oversized_and_pipelined_requests_are_bounded() {
    let fleet = HttpFleet::start().await;
    let client = fleet.fleet.client().await;

    // Headers byte by byte end after 5 s, on the socket and before TLS.
    let address = fleet.address().await;
    let slow_socket = async {
        let stream = UnixStream::connect(fleet.socket()).await.unwrap();
        send_slowly(stream, b"GET /v1/nodes HTTP/1.1\r\nX-Slow: ").await
    };
    // The start of a TLS record of 512 bytes.
    let slow_tls = async {
        let stream = TcpStream::connect(&address).await.unwrap();
        send_slowly(stream, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await
    };
    let ((answer, waited), (_, before_tls), ()) =
        tokio::join!(slow_socket, slow_tls, assert_callers_are_answered(&client));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    for waited in [waited, before_tls] {
        assert!((4..20).contains(&waited.as_secs()), "{waited:?}");
    }

    let headers = |count: usize, bytes: usize| {
        let lines: Vec<String> =
            (0..count).map(|number| format!("X-{number}: {}\r\n", "a".repeat(bytes))).collect();
        format!("GET /v1/nodes HTTP/1.1\r\n{}\r\n", lines.concat())
    };
    for (what, text, status) in [
        ("a header of 15 KiB", headers(1, 15 * 1024), "200"),
        ("a header of 17 KiB", headers(1, 17 * 1024), "431"),
        ("headers of 32 KiB", headers(32, 1024), "431"),
        ("65 headers", headers(65, 1), "431"),
        ("no end of the line", "a".repeat(17 * 1024), "431"),
        ("no HTTP", "\u{1}\u{2}\r\n\r\n".to_owned(), "400"),
    ] {
        let mut stream = UnixStream::connect(fleet.socket()).await.unwrap();
        let _ = stream.write_all(text.as_bytes()).await;
        let answer = read_rest(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
    }

    // A body is not read, however long it is.
    let head = "GET /v1/nodes HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n";
    let (mut reader, mut writer) = UnixStream::connect(fleet.socket()).await.unwrap().into_split();
    let send_body = async {
        writer.write_all(head.as_bytes()).await.unwrap();
        let part = vec![b'a'; 65_536];
        let mut sent = 0;
        while writer.write_all(&part).await.is_ok() {
            sent += part.len();
        }
        sent
    };
    let (sent, answer) = tokio::join!(send_body, read_rest(&mut reader));
    assert!(answer.starts_with("HTTP/1.1 200 ") && sent < 10_000_000, "{sent}: {answer}");

    // Of pipelined requests, the first is answered.
    let two = format!("{}{}", request("/v1/nodes?limit=1"), request("/v1/nodes?limit=2"));
    let mut stream = open(&fleet, &two).await;
    let answer = read_rest(&mut stream).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert!(answer.contains("Connection: close"), "{answer}");
    assert_callers_are_answered(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed_for_new_ones() {
    let fleet = HttpFleet::start().await;
    let client = fleet.fleet.client().await;
    let files = open_files(&fleet);
    let mut idle = Vec::new();
    for _ in 0..4 * WAITING {
        idle.push(UnixStream::connect(fleet.socket()).await.unwrap());
    }
    assert_eq!(fleet.get("/v1/nodes", &["limit=1"]).await.0, 200);
    assert_callers_are_answered(&client).await;
    assert!(open_files(&fleet) <= files + WAITING + SLACK);
    assert_eq!(read_rest(&mut idle[0]).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_live_queries_receive_each_change() {
    let fleet = HttpFleet::start().await;
    let client = fleet.fleet.client().await;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let mut watch = open(&fleet, &request("/v1/watch?fields=tier")).await;
        assert_eq!(read_code(&mut watch).await, "200");
        watches.push(watch);
    }
    let node = &fleet.nodes[0];
    node.daemon.home().write("facts.d/site.json", r#"{"tier": "changed"}"#, 0o644);
    node.reload();
    for watch in &mut watches {
        let (mut text, mut part) = (String::new(), [0; 8192]);
        while !text.contains("\"tier\":\"changed\"") {
            let count =
                timeout(Duration::from_mins(1), watch.read(&mut part)).await.unwrap().unwrap();
            assert!(count > 0, "the stream has ended: {text}");
            text.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }
    assert_callers_are_answered(&client).await;
}

/// A group that is not the one of new files, if this user may give files to one.
fn other_group() -> Group {
    let gid = if geteuid().is_root() { Gid::from_raw(1) } else { getegid() };
    Group::from_gid(gid).unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_belongs_to_its_group() {
    let (open_directory, group) = (TempDir::new().unwrap(), other_group());
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(open_directory.path(), readable).unwrap();
    let socket = open_directory.path().join("directory.sock");
    let fleet = HttpFleet::start_prepared(|home| {
        let options = format!(
            "[plugins.directory.http]\nsocket = {socket:?}\nsocket_group = \"{}\"\n",
            group.name
        );
        home.write("conf.d/http.toml", &options, 0o644);
    })
    .await;
    let found = poll_until_ok("the socket is there", Duration::from_secs(20), async || {
        std::fs::metadata(&socket)
    })
    .await;
    assert_eq!((found.mode() & 0o777, found.gid()), (0o660, group.gid.as_raw()));
    if !geteuid().is_root() {
        return;
    }
    let get_as = async |gid: u32| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", &format!("--regid={gid}"), "--clear-groups"]);
        command.args(["curl", "-sS", "--max-time", "30", "--unix-socket"]).arg(&socket);
        command.arg("http://directory/v1/nodes?limit=1").output().await.unwrap()
    };
    let member = get_as(group.gid.as_raw()).await;
    assert!(member.status.success(), "{}", describe_output(&member));
    let outsider = get_as(65534).await;
    assert_eq!(outsider.status.code(), Some(7), "{}", describe_output(&outsider));
    drop(fleet);
}

/// Run by `make test-all`.
mod long {
    use super::{
        ADMITTED, Duration, HttpFleet, Instant, REQUESTS, SLACK, SLOW_TIMEOUT, WAITING, WATCHES,
        assert_callers_are_answered, grow_facts, open, open_files, poll_until_ok, read_code,
        read_rest, request,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clients_that_read_nothing_are_cut_off_and_block_no_caller() {
        let fleet = HttpFleet::start().await;
        grow_facts(&fleet).await;
        let client = fleet.fleet.client().await;
        let files = open_files(&fleet);
        let (mut pages, mut watches) = (Vec::new(), Vec::new());
        for _ in 0..REQUESTS {
            let mut page = open(&fleet, &request("/v1/nodes?documents=true")).await;
            assert_eq!(read_code(&mut page).await, "200");
            pages.push(page);
        }
        for _ in 0..WATCHES {
            let mut watch = open(&fleet, &request("/v1/watch?fields=blob")).await;
            assert_eq!(read_code(&mut watch).await, "200");
            watches.push(watch);
        }
        assert_callers_are_answered(&client).await;

        // All places are taken: further clients are refused, at once or after 5 s.
        let mut watch = open(&fleet, &request("/v1/watch")).await;
        let refused = read_rest(&mut watch).await;
        assert!(
            refused.starts_with("HTTP/1.1 503") && refused.contains("64 live queries"),
            "{refused}"
        );
        let started = Instant::now();
        let mut page = open(&fleet, &request("/v1/nodes")).await;
        let refused = read_rest(&mut page).await;
        assert!(
            refused.starts_with("HTTP/1.1 503") && refused.contains("too many requests"),
            "{refused}"
        );
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());

        // However many connect, the instance opens no more files than the limits allow.
        let mut more = Vec::new();
        for _ in 0..2 * (ADMITTED + WAITING) {
            more.push(open(&fleet, &request("/v1/nodes")).await);
            // A connection that is cut off is closed a moment later than the next one is accepted.
            poll_until_ok("files are closed", SLOW_TIMEOUT, async || {
                let count = open_files(&fleet);
                if count <= files + ADMITTED + WAITING + SLACK { Ok(()) } else { Err(count) }
            })
            .await;
        }
        assert_callers_are_answered(&client).await;
        drop(more);

        // Clients that read nothing lose their places; their connections are closed within the page.
        poll_until_ok("pages are served again", SLOW_TIMEOUT, async || {
            let (status, answer) = fleet.get("/v1/nodes", &["limit=1"]).await;
            if status == 200 { Ok(()) } else { Err(answer) }
        })
        .await;
        poll_until_ok("live queries are served again", SLOW_TIMEOUT, async || {
            let mut watch = open(&fleet, &request("/v1/watch")).await;
            match read_code(&mut watch).await.as_str() {
                "200" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await;
        assert_callers_are_answered(&client).await;
        let rest = read_rest(&mut pages[0]).await;
        let (head, body) = rest.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        assert!(body.len() < length.parse().unwrap(), "{} of {length}", body.len());
    }
}
