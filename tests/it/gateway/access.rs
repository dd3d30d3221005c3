//! Who may read what: by certificate, and by what the released catalogs of a node name.

use muster_wire::catalog::content::ContentAddress;

use super::fixture::{GatewayFleet, NODE, OTHER};

#[tokio::test(flavor = "multi_thread")]
async fn node_reads_only_what_its_released_catalogs_name() {
    let Some(fleet) = GatewayFleet::start().await else { return };
    let (own, other) = (fleet.certificate(NODE), fleet.certificate(OTHER));
    let unknown = fleet.certificate("unknown.acme.net");
    let content = |text: &str| {
        format!("/puppet/v3/static_file_content/sha256/{}", ContentAddress::of(text.as_bytes()))
    };
    let node = |name: &str| format!("/puppet/v3/node/{name}?environment=production");
    let catalog = |name: &str| format!("/puppet/v3/catalog/{name}");
    let plugins = "/puppet/v3/file_metadatas/plugins?recurse=true&checksum_type=sha256";
    // Nothing is released.
    for target in [&node(NODE), &catalog(NODE), &content("1\n")] {
        assert_eq!(fleet.get(&own, target).await.0, 404, "{target}");
    }
    assert_eq!(fleet.get(&own, plugins).await.0, 403);
    fleet.promote("r1").await;
    let (of_web1, of_web2) = (content("a tool of web1\n"), content("a tool of web2\n"));
    for (client, target, status) in [
        (&own, node(NODE), 200),
        (&own, catalog(NODE), 200),
        (&own, of_web1.clone(), 200),
        (&own, content("1\n"), 200),
        (&own, plugins.to_owned(), 200),
        (&own, "/puppet/v3/file_content/plugins/facter/tool.rb".to_owned(), 200),
        (&own, "/puppet/v3/file_content/plugins/facter/other.rb".to_owned(), 404),
        (&own, "/puppet/v3/file_content/pluginfacts/site.sh".to_owned(), 200),
        (&own, "/status/v1/simple".to_owned(), 200),
        (&own, node(OTHER), 403),
        (&own, catalog(OTHER), 403),
        (&own, of_web2.clone(), 403),
        (&other, of_web2, 200),
        (&other, of_web1.clone(), 403),
        (&other, catalog(NODE), 403),
        (&unknown, catalog("unknown.acme.net"), 404),
        (&unknown, of_web1, 404),
        (&unknown, plugins.to_owned(), 403),
    ] {
        let (found, body) = fleet.get(client, &target).await;
        assert_eq!(found, status, "{target}: {body}");
    }
    let (_, body) = fleet.get(&own, &content("a tool of web1\n")).await;
    assert_eq!(body, "a tool of web1\n");

    // Without a certificate, and with a revoked one, there is no connection.
    let request = b"GET /status/v1/simple HTTP/1.1\r\nConnection: close\r\n\r\n";
    fleet.exchange(None, request).await.unwrap_err();
    fleet.ca.revoke(NODE);
    fleet.write_revocations();
    fleet.exchange(Some(&own), request).await.unwrap_err();
    assert!(fleet.exchange(Some(&other), request).await.unwrap().starts_with("HTTP/1.1 200"));
}
