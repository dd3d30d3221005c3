//! Azure's instance metadata service: one JSON document; requests need the header `Metadata: true`.

use serde_json::Value;

use super::http::MetadataSession;
use super::metadata::CloudMetadata;

const METADATA_PATH: &str = "/metadata/instance?api-version=2021-02-01&format=json";

/// Fetches the metadata; `None` if the responder is another service.
pub(super) fn fetch_metadata(session: &MetadataSession<'_>) -> Option<CloudMetadata> {
    // Another service's response may not be JSON.
    let document = session.fetch_document(METADATA_PATH, &[("Metadata", "true")]).ok()??;
    let text = |path: &str| {
        let value = document.pointer(path)?.as_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let instance_id = text("/compute/vmId")?;
    let address = "/network/interface/0/ipv4/ipAddress/0";
    Some(CloudMetadata {
        instance_id: Some(instance_id),
        hostname: text("/compute/osProfile/computerName").or_else(|| text("/compute/name")),
        region: text("/compute/location"),
        zone: text("/compute/zone"),
        kind: text("/compute/vmSize"),
        image: image_name(&document),
        account: text("/compute/subscriptionId"),
        local_ip: text(&format!("{address}/privateIpAddress")),
        public_ip: text(&format!("{address}/publicIpAddress")),
        tags: read_tags(&document),
        ..CloudMetadata::default()
    })
}

/// The gallery's image name, or publisher, offer, sku and version.
fn image_name(document: &Value) -> Option<String> {
    let reference = document.pointer("/compute/storageProfile/imageReference")?;
    let text = |name: &str| reference.get(name)?.as_str().filter(|text| !text.is_empty());
    if let Some(id) = text("id") {
        return Some(id.to_owned());
    }
    let parts: Vec<&str> =
        ["publisher", "offer", "sku", "version"].into_iter().filter_map(text).collect();
    (!parts.is_empty()).then(|| parts.join(":"))
}

fn read_tags(document: &Value) -> Vec<(String, String)> {
    let tags = document.pointer("/compute/tagsList").and_then(Value::as_array);
    let pair = |tag: &Value| {
        let text = |name: &str| Some(tag.get(name)?.as_str()?.to_owned());
        Some((text("name")?, text("value")?))
    };
    tags.into_iter().flatten().filter_map(pair).collect()
}
