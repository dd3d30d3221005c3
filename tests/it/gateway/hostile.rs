//! Requests that no agent sends: each gets its status, and the gateway serves others afterwards.

use super::fixture::{GatewayFleet, NODE};

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_refused_and_harm_nobody_else() {
    let Some(fleet) = GatewayFleet::start().await else { return };
    let own = fleet.certificate(NODE);
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n");
    let hash = "0".repeat(64);
    let long = "a".repeat(20_000);
    for (request, status) in [
        ("\x16\x03\x01\r\n\r\n".to_owned(), "400"),
        ("GET\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "400"),
        ("DELETE / HTTP/1.1\r\n\r\n".to_owned(), "405"),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100)), "431"),
        ("PUT /puppet/v3/report/x HTTP/1.1\r\nContent-Length: 17000000\r\n\r\n".to_owned(), "413"),
        ("PUT /puppet/v3/report/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(), "400"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), "400"),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(), "400"),
        (get("https://localhost/status/v1/simple"), "400"),
        (get("/puppet/v3/file_content/plugins/../../../etc/passwd"), "400"),
        (get("/puppet/v3/file_content/plugins/%2e%2e/%2e%2e/etc/passwd"), "400"),
        (get("/puppet/v3/file_content/plugins/..%2f..%2fetc%2fpasswd"), "400"),
        (get("/puppet/v3/file_content/plugins/a%00b"), "400"),
        (get("/puppet/v3/file_content/modules/tool/web1"), "404"),
        (get("/puppet/v3/static_file_content/sha256/%2e%2e"), "400"),
        (get(&format!("/puppet/v3/static_file_content/SHA256/{hash}")), "404"),
        (get(&format!("/puppet/v3/static_file_content/sha256/{}", "A".repeat(64))), "400"),
        (get(&format!("/puppet/v3/static_file_content/{{sha256}}{hash}")), "404"),
        (get("/puppet/v3/node/%57eb1.acme.net"), "403"),
        (get(&format!("/puppet/v3/node/{NODE}%00")), "400"),
        (get("/puppet/v3/file_metadatas/plugins?checksum_type=md5"), "400"),
        (get("/puppet-ca/v1/certificate/ca"), "404"),
    ] {
        let shown: String = request.chars().take(120).collect();
        let answer = fleet.exchange(Some(&own), request.as_bytes()).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
        assert!(!answer.contains("root:"), "{shown}: {answer}");
    }
    // A body is skipped, so it is not read as a request.
    let inner = get("/puppet/v3/node/web2.acme.net");
    let body = format!("{}{inner}", "x".repeat(300_000));
    let smuggled = format!(
        "PUT /puppet/v3/report/{NODE} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}{}",
        body.len(),
        get("/status/v1/simple")
    );
    let answer = fleet.exchange(Some(&own), smuggled.as_bytes()).await.unwrap();
    let statuses: Vec<&str> = answer.matches("HTTP/1.1 200").collect();
    assert!(
        statuses.len() == 2 && answer.ends_with("running") && !answer.contains("403"),
        "{answer}"
    );
    // A name that is no node's is refused after the handshake.
    let nameless = fleet.certificate("a..b");
    fleet.exchange(Some(&nameless), get("/status/v1/simple").as_bytes()).await.unwrap_err();
    assert!(fleet.get(&own, "/status/v1/simple").await.1 == "running");
}
