//! Names of directory entries as text. The kernel's names are bytes, and names of resources are texts; so bytes that are not UTF-8 become private
//! characters, and become bytes again when a path is used.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The private character of byte 0. Only those of the bytes 0x80 to 0xff are used.
const BYTE_CHARACTERS: u32 = 0x10_f700;
/// The first byte of each of these characters in UTF-8; few other texts contain it.
const FIRST_BYTE: u8 = 0xf4;

/// The name as text. Each text belongs to one name.
pub(crate) fn name_text(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if represented_byte(letter).is_some() {
                let mut bytes = [0; 4];
                text.extend(letter.encode_utf8(&mut bytes).bytes().filter_map(byte_character));
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().copied().filter_map(byte_character));
    }
    text
}

/// The path with the bytes that its characters represent.
pub(crate) fn path_of_text(path: &Path) -> Cow<'_, Path> {
    let text = path.to_str().filter(|text| text.as_bytes().contains(&FIRST_BYTE));
    let Some(text) = text.filter(|text| text.chars().any(|c| represented_byte(c).is_some())) else {
        return Cow::Borrowed(path);
    };
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match represented_byte(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(PathBuf::from(OsString::from_vec(bytes)))
}

fn byte_character(byte: u8) -> Option<char> {
    char::from_u32(BYTE_CHARACTERS + u32::from(byte))
}

fn represented_byte(letter: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(letter).checked_sub(BYTE_CHARACTERS)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use proptest::prelude::*;

    use super::{name_text, path_of_text};

    proptest! {
        #[test]
        fn every_name_survives_as_text(
            name in prop_oneof![any::<Vec<u8>>(), "[a-z\u{10f780}-\u{10f7ff}é]{0,6}".prop_map(String::into_bytes)],
        ) {
            let name = OsStr::from_bytes(&name);
            let text = name_text(name);
            let path = path_of_text(Path::new(&text));
            prop_assert_eq!(path.as_os_str(), name);
        }

        #[test]
        fn usual_names_are_unchanged(name in "[ -~é€]{0,12}") {
            prop_assert_eq!(name_text(OsStr::new(&name)), name.clone());
            let path = path_of_text(Path::new(&name));
            prop_assert_eq!(path.as_os_str(), OsStr::new(&name));
        }
    }
}
