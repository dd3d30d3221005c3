//! Google's metadata server: requests and responses carry a fixed header.
//!
//! Attributes of instance and project are not requested: they include start-up scripts and keys.

use super::http::{CloudError, MetadataSession};
use super::metadata::CloudMetadata;

const FLAVOR_HEADER: &str = "Metadata-Flavor";
const FLAVOR_VALUE: &str = "Google";

/// Fetches the metadata; `None` if the responder is another service.
pub(super) fn fetch_metadata(
    session: &MetadataSession<'_>,
) -> Result<Option<CloudMetadata>, CloudError> {
    let headers = [(FLAVOR_HEADER, FLAVOR_VALUE)];
    let first = session.send_get("/computeMetadata/v1/instance/id", &headers)?;
    let flavor = first.headers().get(FLAVOR_HEADER);
    if first.status() != 200 || flavor.is_none_or(|flavor| flavor != FLAVOR_VALUE) {
        return Ok(None);
    }
    let get = |path: &str| session.fetch_value(&format!("/computeMetadata/v1/{path}"), &headers);
    let zone = get("instance/zone")?.as_deref().map(last_segment);
    let tags = session.fetch_document("/computeMetadata/v1/instance/tags?alt=json", &headers)?;
    let tags = tags.as_ref().and_then(|tags| tags.as_array());
    let tags = tags.into_iter().flatten().filter_map(|tag| tag.as_str());
    Ok(Some(CloudMetadata {
        instance_id: get("instance/id")?,
        hostname: get("instance/hostname")?,
        // The region of europe-west1-b is europe-west1.
        region: zone.as_deref().and_then(|zone| Some(zone.rsplit_once('-')?.0.to_owned())),
        zone,
        kind: get("instance/machine-type")?.as_deref().map(last_segment),
        image: get("instance/image")?.as_deref().map(last_segment),
        account: get("project/project-id")?,
        local_ip: get("instance/network-interfaces/0/ip")?,
        public_ip: get("instance/network-interfaces/0/access-configs/0/external-ip")?
            .filter(|address| !address.trim().is_empty()),
        // Google's network tags have no values.
        tags: tags.map(|tag| (tag.to_owned(), "true".to_owned())).collect(),
        ..CloudMetadata::default()
    }))
}

/// The last segment of a path: `europe-west1-b` of `projects/123/zones/europe-west1-b`.
fn last_segment(path: &str) -> String {
    let path = path.trim();
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
