//! Parts of the shell scripts that are run on machines. Pure.

use std::fmt::Write as _;

use crate::machines::file::MachineFile;

/// Defines `put PATH MODE`, which writes its standard input. A file is complete, and has its mode, before it has its name.
pub(crate) const PUT_FUNCTION: &str = "\
    put() {\n\
    \x20 mkdir -p \"${1%/*}\"\n\
    \x20 rm -f \"$1.new\"\n\
    \x20 (umask 077 && cat >\"$1.new\")\n\
    \x20 chmod \"$2\" \"$1.new\"\n\
    \x20 mv \"$1.new\" \"$1\"\n\
    }\n";

/// Appends the command that writes a file with `put`. `printf` is part of the shell: its arguments are visible in no process.
pub(crate) fn write_file(script: &mut String, file: &MachineFile) {
    let (content, path) = (quote(&file.content), quote(&file.path));
    // Writing to a string cannot fail.
    let _ = writeln!(script, "printf '%s' {content} | put {path} {:04o}", file.mode);
}

/// A word for the shell that stands for this text, whatever it contains.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
