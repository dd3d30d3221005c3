//! Which request is which. Pure: the text of a request becomes a route, or is refused.

use muster_http::{HttpMethod, HttpRequest};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::identity::Identity;

use crate::error::GatewayError;
use crate::plugins::{PluginMount, PluginQuery};

/// The one digest that lists have.
const CHECKSUM_TYPE: &str = "sha256";

/// A request that the gateway knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GatewayRoute {
    /// Whether the server runs.
    Status,
    Node(String),
    Catalog(String),
    Report(String),
    /// The metadata of the plugins below a mount.
    PluginList(PluginMount, PluginQuery),
    /// The metadata of one plugin or directory; the path is empty for the mount.
    PluginMetadata(PluginMount, String),
    PluginContent(PluginMount, String),
    Content(ContentAddress),
}

impl GatewayRoute {
    pub(crate) fn parse(request: &HttpRequest) -> Result<Self, GatewayError> {
        let segments = request.path_segments().map_err(|_| GatewayError::Malformed)?;
        let is_invalid = |segment: &String| {
            matches!(segment.as_str(), "" | "." | "..") || segment.contains(['/', '\\', '\0'])
        };
        if segments.iter().any(is_invalid) {
            return Err(GatewayError::Malformed);
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let unknown = || GatewayError::Unknown(request.path.chars().take(200).collect());
        let is_read = matches!(request.method, HttpMethod::Get | HttpMethod::Head);
        let is_posted = request.method == HttpMethod::Post;
        match segments.as_slice() {
            ["status", "v1", "simple"] | ["status", "v1", "simple", "server"] if is_read => {
                Ok(Self::Status)
            }
            ["puppet", "v3", "node", name] if is_read => Ok(Self::Node((*name).to_owned())),
            ["puppet", "v3", "catalog", name] if is_read || is_posted => {
                Ok(Self::Catalog((*name).to_owned()))
            }
            ["puppet", "v3", "report", name] if request.method == HttpMethod::Put => {
                Ok(Self::Report((*name).to_owned()))
            }
            ["puppet", "v3", "file_metadatas", mount] if is_read || is_posted => {
                let mount = PluginMount::parse(mount).ok_or_else(unknown)?;
                Ok(Self::PluginList(mount, read_query(request)?))
            }
            ["puppet", "v3", "file_metadata", mount, path @ ..] if is_read => {
                read_query(request)?;
                let mount = PluginMount::parse(mount).ok_or_else(unknown)?;
                Ok(Self::PluginMetadata(mount, path.join("/")))
            }
            ["puppet", "v3", "file_content", mount, path @ ..] if is_read => {
                let mount = PluginMount::parse(mount).ok_or_else(unknown)?;
                Ok(Self::PluginContent(mount, path.join("/")))
            }
            ["puppet", "v3", "static_file_content", "sha256", hash] if is_read => {
                let file = ContentAddress::parse(hash).map_err(|_| GatewayError::Malformed)?;
                Ok(Self::Content(file))
            }
            _ => Err(unknown()),
        }
    }

    /// A path that names a node must name that of the certificate.
    pub(crate) fn check_node(&self, client: &Identity) -> Result<(), GatewayError> {
        match self {
            Self::Node(name) | Self::Catalog(name) | Self::Report(name)
                if name != client.as_str() =>
            {
                let asked = name.chars().take(200).collect();
                Err(GatewayError::OtherNode { client: client.clone(), asked })
            }
            _ => Ok(()),
        }
    }
}

fn read_query(request: &HttpRequest) -> Result<PluginQuery, GatewayError> {
    let mut query = PluginQuery::default();
    for (name, value) in request.parameters().map_err(|_| GatewayError::Malformed)? {
        match name.as_str() {
            "recurse" => query.recurse = matches!(value.as_str(), "true" | "remote"),
            "ignore" => query.ignore.push(value),
            "checksum_type" if value != CHECKSUM_TYPE => {
                return Err(GatewayError::ChecksumType(value.chars().take(40).collect()));
            }
            _ => {}
        }
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use muster_http::{HttpMethod, HttpRequest};

    use super::GatewayRoute;
    use crate::error::GatewayError;

    fn route(method: HttpMethod, target: &str) -> Result<GatewayRoute, GatewayError> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        GatewayRoute::parse(&HttpRequest { method, path, query, ..HttpRequest::default() })
    }

    #[test]
    fn hostile_paths_are_refused() {
        let hash = "0".repeat(64);
        for path in [
            "",
            "/",
            "/puppet/v3",
            "/puppet/v3/node",
            "/puppet/v3/node/",
            "/puppet/v3/node/a/b",
            "/puppet/v3/node/%2e%2e",
            "/puppet/v3/node/..%2fb",
            "/puppet/v3/catalog/a%00b",
            "/puppet/v3/catalog/%ff",
            "/puppet/v3/catalog/%",
            "//puppet/v3/catalog/a",
            "/puppet/v3/../v3/catalog/a",
            "/puppet/v3/%2e/catalog/a",
            "/puppet/v3/file_content/plugins/../../etc/passwd",
            "/puppet/v3/file_content/plugins/..%2f..%2fetc%2fpasswd",
            "/puppet/v3/file_content/plugins/%2e%2e/x",
            "/puppet/v3/file_content/plugins/a%5c..%5cb",
            "/puppet/v3/file_content/modules/m/x",
            "/puppet/v3/file_metadatas/plugins/x",
            "/puppet/v3/file_metadatas/plugins?checksum_type=md5",
            "/puppet/v3/file_metadatas/plugins?recurse=%zz",
            "/puppet/v3/static_file_content/md5/d41d8cd98f00b204e9800998ecf8427e",
            "/puppet/v3/static_file_content/sha256/0",
            "/puppet-ca/v1/certificate/ca",
            &format!("/puppet/v3/static_file_content/sha256/{}", "A".repeat(64)),
            &format!("/puppet/v3/static_file_content/sha256/%30{hash}"),
            &format!("/puppet/v3/static_file_content/sha256/../sha256/{hash}"),
            &format!("/puppet/v3/static_file_content/sha256/{hash}/x"),
            &format!("/puppet/v3/static_file_content/{{sha256}}{hash}"),
        ] {
            assert!(route(HttpMethod::Get, path).is_err(), "{path}");
        }
        assert!(route(HttpMethod::Post, "/puppet/v3/node/a").is_err());
        assert!(route(HttpMethod::Put, "/puppet/v3/catalog/a").is_err());
        assert!(route(HttpMethod::Get, "/puppet/v3/report/a").is_err());
        let target = format!("/puppet/v3/static_file_content/sha256/{hash}?environment=x");
        assert!(matches!(route(HttpMethod::Get, &target), Ok(GatewayRoute::Content(_))));
    }
}
