//! Where ours differs from Puppet: on purpose, or not yet as it should be. Everything else fails the tests.

/// A difference on purpose. One that is not seen any more fails the tests too.
#[derive(Debug)]
pub(crate) struct Known {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// A part of the place of the difference.
    pub(crate) place: &'static str,
    /// Why ours is as it is.
    #[expect(dead_code, reason = "for whoever reads the table")]
    reason: &'static str,
}

const fn known(scenario: &'static str, place: &'static str, reason: &'static str) -> Known {
    Known { scenario, place, reason }
}

/// On purpose.
pub(crate) const KNOWN: &[Known] = &[
    known(
        "exec_guard_timeout",
        "",
        "a check that does not end is a failure: the machine is not known to be as desired",
    ),
    known(
        "file_absent",
        "",
        "a full directory is not removed without `force`, by neither: Puppet says that it was",
    ),
    known(
        "file_purge",
        "",
        "a full directory is not purged without `force`, by neither: Puppet says that it was",
    ),
    known(
        "file_binary",
        "",
        "content that is no text is refused with a word: values of ours are texts",
    ),
    known(
        "file_owner",
        "File[/parity-root/a]",
        "owners are shown by name where they have one, before and after",
    ),
    known(
        "file_owner",
        "File[/parity-root/e]",
        "a file whose owner does not exist is not left half made",
    ),
    known("file_owner", "tree/e", "a file whose owner does not exist is not left half made"),
    known(
        "file_through_link",
        "tree/",
        "with `links => follow` the content goes through the link, which stays",
    ),
    known(
        "filebucket",
        "tree/bucket",
        "a bucket holds what files were, secrets too: the group does not write it",
    ),
    known("host", "Host[old]/events/1", "lists are shown as lists"),
    known("ssh_authorized_key", "events", "lists are shown as lists"),
    known("notify", "Notify[number]", "messages are texts"),
    known("odd_titles", "", "a quote within quotes is shown as it is"),
    known(
        "provider_unsuitable",
        "",
        "a provider that the type does not have is refused before anything is touched",
    ),
    known("refresh_lost", "run ", "the refresh is owed, and made in the run that can"),
    known("refresh_failed", "run 2", "the refresh is owed, and made in the run that can"),
    known("refresh_noop_target", "run 2", "the refresh is owed while the target is noop"),
    known(
        "refresh_schedule",
        "run 2",
        "the refresh is owed while the target is outside its schedule",
    ),
    known("refresh_tags", "run 2", "the refresh is owed, and made in the run that can"),
    known("service_failing", "run 2", "the restart is owed, and tried again"),
    known("sshkey", "", "a resource keeps the title that it was given"),
    known("refresh_of_failed", "File[/parity-root/good]", "a file is changed as a whole, or not"),
    known("refresh_of_failed", "tree/good", "a file is changed as a whole, or not"),
];

/// Defects that are known: scenarios that are played, and whose differences are only told. To be emptied.
pub(crate) const DEFECTS: &[(&str, &str)] = &[];
