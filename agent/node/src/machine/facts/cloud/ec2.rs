//! Amazon's instance metadata service, version 2: first a session token, then plain text paths.
//!
//! Version 1, without a token, is used only if the configuration allows it: an attacker who can make the machine fetch a URL can use it too.

use super::http::{CloudError, MetadataSession};
use super::metadata::{CloudMetadata, MAX_TAG_NAME_CHARS, region_of_zone};

const TOKEN_TTL_SECONDS: &str = "60";
const MAX_TOKEN_BYTES: usize = 1024;
/// The requested paths below `/latest/meta-data/`. Each becomes a separate fact too: `ec2_placement_availability_zone`.
const METADATA_PATHS: [&str; 17] = [
    "instance-id",
    "instance-type",
    "ami-id",
    "ami-launch-index",
    "instance-life-cycle",
    "hostname",
    "local-hostname",
    "local-ipv4",
    "mac",
    "placement/availability-zone",
    "placement/availability-zone-id",
    "placement/region",
    "profile",
    "public-hostname",
    "public-ipv4",
    "reservation-id",
    "security-groups",
];
/// Maximum number of requested tags; each costs one request.
const MAX_TAGS: usize = 32;

/// Fetches the metadata; `None` if the responder is another service.
pub(super) fn fetch_metadata(
    session: &MetadataSession<'_>,
    imds_v1: bool,
) -> Result<Option<CloudMetadata>, CloudError> {
    let ttl = [("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_TTL_SECONDS)];
    let token = match session.send_put("/latest/api/token", &ttl) {
        Ok(token) => token.filter(|token| is_session_token(token)),
        Err(_) if imds_v1 => None,
        Err(problem) => return Err(problem),
    };
    if token.is_none() && !imds_v1 {
        return Ok(None);
    }
    let headers: Vec<_> =
        token.iter().map(|token| ("X-aws-ec2-metadata-token", token.as_str())).collect();
    let get = |path: &str| session.fetch_value(&format!("/latest/meta-data/{path}"), &headers);
    if !get("instance-id")?.is_some_and(|id| is_instance_id(id.trim())) {
        return Ok(None);
    }
    let mut metadata = CloudMetadata::default();
    for path in METADATA_PATHS {
        if let Some(value) = get(path)? {
            add_value(&mut metadata, path, value.trim());
        }
    }
    if metadata.region.is_none() {
        metadata.region = metadata.zone.as_deref().and_then(region_of_zone);
        let flat = metadata.region.clone();
        metadata.flat.extend(flat.map(|region| ("ec2_placement_region".to_owned(), region)));
    }
    // Available only if the instance's metadata options allow it.
    if let Some(names) = get("tags/instance/")? {
        for name in names.lines().filter(|name| is_tag_name(name)).take(MAX_TAGS) {
            if let Some(value) = get(&format!("tags/instance/{name}"))? {
                metadata.tags.push((name.to_owned(), value));
            }
        }
    }
    Ok(Some(metadata))
}

fn add_value(metadata: &mut CloudMetadata, path: &str, value: &str) {
    let field = match path {
        "instance-id" => Some(&mut metadata.instance_id),
        "instance-type" => Some(&mut metadata.kind),
        "ami-id" => Some(&mut metadata.image),
        // Prefer `hostname`, which the operator may have chosen; `local-hostname` is derived from the address.
        "hostname" => Some(&mut metadata.hostname),
        "local-hostname" if metadata.hostname.is_none() => Some(&mut metadata.hostname),
        "local-ipv4" => Some(&mut metadata.local_ip),
        "public-ipv4" => Some(&mut metadata.public_ip),
        "placement/availability-zone" => Some(&mut metadata.zone),
        "placement/region" => Some(&mut metadata.region),
        _ => None,
    };
    if let Some(field) = field {
        *field = Some(value.to_owned());
    }
    let name = format!("ec2_{}", path.replace(['/', '-'], "_"));
    metadata.flat.push((name, value.to_owned()));
}

/// Whether the text is safe to send back in a header.
fn is_session_token(text: &str) -> bool {
    let text = text.trim_end();
    (1..=MAX_TOKEN_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether this has the form of an EC2 instance id; rejects services that respond to every path.
fn is_instance_id(id: &str) -> bool {
    let hexadecimal = |rest: &str| {
        (8..=17).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    id.strip_prefix("i-").is_some_and(hexadecimal)
}

/// Whether a tag name can be part of a path.
fn is_tag_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:=+@-".contains(c);
    !name.is_empty() && name.len() <= MAX_TAG_NAME_CHARS && name.chars().all(is_allowed)
}
