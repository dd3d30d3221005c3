//! What a `file` accepts. Does not judge combinations; [`check`](super::check) does.

use crate::schema::{Attribute, Kind, Schema};

/// Why the names of `SELinux` are accepted and nothing is done about them.
const SELINUX: &str =
    "Accepted and left alone: contexts are not managed; `restorecon` in an `exec` sets them.";

/// By what contents are compared.
const CHECKSUMS: &[&str] = &[
    "sha256",
    "sha256lite",
    "md5",
    "md5lite",
    "sha1",
    "sha1lite",
    "sha512",
    "sha384",
    "sha224",
    "mtime",
    "ctime",
    "none",
];

/// The vocabulary.
pub(super) static SCHEMA: Schema = Schema {
    type_name: "file",
    doc: "A file, directory or symbolic link, or with `recurse` all that is in a directory.",
    namevar: "path",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::WordOr(&["present", "absent", "file", "directory", "link"]),
            "What is there; a path means a link to it.",
        ),
        Attribute::property(
            "checksum_value",
            Kind::Text,
            "The checksum, of the kind that `checksum` names, that `source` must have; nothing else is taken from there.",
        ),
        Attribute::property("content", Kind::Text, "What is in the file."),
        Attribute::property("target", Kind::Text, "Where the link points."),
        Attribute::property("owner", Kind::Text, "Whose it is, by name or number."),
        Attribute::property("group", Kind::Text, "Its group, by name or number."),
        Attribute::property(
            "mode",
            Kind::Mode,
            "Permission bits, octal or symbolic; with octal ones a directory gets `x` wherever it has `r`.",
        ),
        Attribute::parameter("path", Kind::Path, "Where it is."),
        Attribute::parameter("provider", Kind::Word(&["posix"]), "How it is done; there is one way.").or("posix"),
        Attribute::parameter(
            "source",
            Kind::List,
            "Paths of the same machine, or `puppet:` URLs; the first that exists is copied.",
        ),
        Attribute::parameter(
            "source_permissions",
            Kind::Word(&["ignore", "use", "use_when_creating"]),
            "Whether owner, group and mode that are not given are those of `source`.",
        )
        .or("ignore"),
        Attribute::parameter(
            "sourceselect",
            Kind::Word(&["first", "all"]),
            "Whether a directory has what is in the first `source`, or in all of them.",
        )
        .or("first"),
        Attribute::parameter(
            "links",
            Kind::Word(&["manage", "follow"]),
            "Whether a link is the link, or what it points to.",
        )
        .or("manage"),
        Attribute::parameter(
            "recurse",
            Kind::Word(&["true", "false", "remote"]),
            "Whether all that is in the directory is managed with it; `remote`: only what is in `source`.",
        )
        .or("false"),
        Attribute::parameter(
            "recurselimit",
            Kind::Int,
            "How many levels below the directory are managed; all, when it is not given.",
        ),
        Attribute::parameter(
            "max_files",
            Kind::Int,
            "More entries than these are refused; 0 only warns above 1000, -1 never.",
        )
        .or("0"),
        Attribute::parameter(
            "purge",
            Kind::Bool,
            "Whether what is in the directory, and neither in `source` nor in the catalog, is removed.",
        )
        .or("false"),
        Attribute::parameter(
            "ignore",
            Kind::List,
            "Patterns such as `*.swp`; names that match are left out.",
        ),
        Attribute::parameter(
            "force",
            Kind::Bool,
            "Whether directories may be removed with all that is in them.",
        )
        .or("false"),
        Attribute::parameter(
            "replace",
            Kind::Bool,
            "Whether what is there gets other content.",
        )
        .or("true"),
        Attribute::parameter(
            "backup",
            Kind::Text,
            "Suffix, such as `.bak`, of a copy of what is replaced, or the name of a `filebucket` that keeps it; `false`: neither.",
        )
        .or("false"),
        Attribute::parameter("checksum", Kind::Word(CHECKSUMS), "How content is compared.")
            .or("sha256"),
        Attribute::parameter(
            "show_diff",
            Kind::Bool,
            "Accepted for Puppet's sake; contents are never shown.",
        )
        .or("true"),
        Attribute::parameter(
            "staging_location",
            Kind::Path,
            "Where new content is put for `validate_cmd`; beside the file, when it is not given.",
        ),
        Attribute::parameter(
            "validate_cmd",
            Kind::Text,
            "A command that must accept the new content; `%` is its path.",
        ),
        Attribute::parameter(
            "validate_replacement",
            Kind::Text,
            "What stands for the path in `validate_cmd`.",
        )
        .or("%"),
        Attribute::parameter("seluser", Kind::Text, SELINUX),
        Attribute::parameter("selrole", Kind::Text, SELINUX),
        Attribute::parameter("seltype", Kind::Text, SELINUX),
        Attribute::parameter("selrange", Kind::Text, SELINUX),
        Attribute::parameter("selinux_ignore_defaults", Kind::Bool, SELINUX),
    ],
};
