//! `OpenStack`'s metadata service: one JSON document, plus the instance type from the EC2-compatible paths if present.
//!
//! The document can contain a root password; only the fields named here are read.

use serde_json::Value;

use super::http::MetadataSession;
use super::metadata::CloudMetadata;

/// Fetches the metadata; `None` if the responder is another service.
pub(super) fn fetch_metadata(session: &MetadataSession<'_>) -> Option<CloudMetadata> {
    // Another service's response may not be JSON.
    let path = "/openstack/latest/meta_data.json";
    let document = session.fetch_document(path, &[]).ok()??;
    let text = |name: &str| Some(document.get(name)?.as_str()?.to_owned());
    let instance_id = text("uuid")?;
    let ec2_value = |path: &str| {
        let value = session.fetch_value(&format!("/latest/meta-data/{path}"), &[]);
        value.ok().flatten().filter(|value| !value.trim().is_empty())
    };
    let tags = document.get("meta").and_then(Value::as_object);
    let tags = tags.into_iter().flatten();
    Some(CloudMetadata {
        instance_id: Some(instance_id),
        hostname: text("hostname").or_else(|| text("name")),
        zone: text("availability_zone"),
        kind: ec2_value("instance-type"),
        image: ec2_value("ami-id"),
        account: text("project_id"),
        local_ip: ec2_value("local-ipv4"),
        public_ip: ec2_value("public-ipv4"),
        tags: tags
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        ..CloudMetadata::default()
    })
}
