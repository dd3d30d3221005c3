//! Known differences from Puppet: intended ones, and defects. Any other difference fails the tests.

/// An intended difference. The tests also fail if it no longer occurs.
#[derive(Debug)]
pub(crate) struct KnownDifference {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// A part of the place of the difference.
    pub(crate) location: &'static str,
    /// The reason of the difference.
    #[expect(dead_code, reason = "documents the table")]
    reason: &'static str,
}

const fn known(
    scenario: &'static str,
    location: &'static str,
    reason: &'static str,
) -> KnownDifference {
    KnownDifference { scenario, location, reason }
}

/// Intended differences.
pub(crate) const KNOWN_DIFFERENCES: &[KnownDifference] = &[
    known(
        "exec_guard_timeout",
        "",
        "a check that times out is a failure, because the state is unknown",
    ),
    known(
        "file_absent",
        "",
        "neither removes a non-empty directory without `force`, but Puppet reports that it did",
    ),
    known(
        "file_purge",
        "",
        "neither purges a non-empty directory without `force`, but Puppet reports that it did",
    ),
    known(
        "file_binary",
        "",
        "content that is not text is refused with an error, because values are texts",
    ),
    known(
        "file_owner",
        "File[/parity-root/a]",
        "owners are shown by name if they have one, before and after",
    ),
    known(
        "file_owner",
        "File[/parity-root/e]",
        "a file whose owner does not exist is not left incomplete",
    ),
    known("file_owner", "tree/e", "a file whose owner does not exist is not left incomplete"),
    known(
        "file_through_link",
        "tree/",
        "with `links => follow` the content is written through the link, which is kept",
    ),
    known(
        "filebucket",
        "tree/bucket",
        "a bucket contains earlier contents of files, including secrets, so the group may not write it",
    ),
    known("host", "Host[old]/events/1", "lists are shown as lists"),
    known("ssh_authorized_key", "events", "lists are shown as lists"),
    known("notify", "Notify[number]", "messages are texts"),
    known("odd_titles", "", "a quote within quotes is shown unchanged"),
    known(
        "provider_unsuitable",
        "",
        "a provider that the type does not have is refused before any change",
    ),
    known("refresh_lost", "run ", "the refresh stays pending until a run can make it"),
    known("refresh_failed", "run 2", "the refresh stays pending until a run can make it"),
    known("refresh_noop_target", "run 2", "the refresh stays pending while the target is noop"),
    known(
        "refresh_schedule",
        "run 2",
        "the refresh stays pending while the target is outside its schedule",
    ),
    known("refresh_tags", "run 2", "the refresh stays pending until a run can make it"),
    known("service_failing", "run 2", "the restart stays pending and is retried"),
    known("sshkey", "", "a resource keeps its title"),
    known(
        "refresh_of_failed",
        "File[/parity-root/good]",
        "a file is changed completely or not at all",
    ),
    known("refresh_of_failed", "tree/good", "a file is changed completely or not at all"),
];

/// Known defects: scenarios that run, but whose differences are only printed. The list should be empty.
pub(crate) const KNOWN_DEFECTS: &[(&str, &str)] = &[];
