//! What the clouds' services have in common.

pub(super) const MAX_TAG_NAME_CHARS: usize = 128;

/// The metadata of a service, before conversion to facts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CloudMetadata {
    pub(super) instance_id: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) region: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) image: Option<String>,
    pub(super) account: Option<String>,
    pub(super) local_ip: Option<String>,
    pub(super) public_ip: Option<String>,
    pub(super) tags: Vec<(String, String)>,
    /// Facts under conventional names, besides `cloud`.
    pub(super) flat: Vec<(String, String)>,
}

/// The region of a zone: the zone without its final letter, as in EC2 and similar clouds.
pub(super) fn region_of_zone(zone: &str) -> Option<String> {
    let letter = |c: char| c.is_ascii_lowercase();
    let region = zone.strip_suffix(letter)?;
    region.ends_with(|c: char| c.is_ascii_digit()).then(|| region.to_owned())
}
