//! Text forms of types: what serde, the command line and formatting need, from one function that parses.

/// Implements `FromStr` and the conversions of `serde(try_from = "String", into = "String")`, by `parse` and `Display`.
#[macro_export]
macro_rules! impl_text_form {
    ($type:ident, $error:ty) => {
        $crate::impl_text_form!($type, $error, |value| value.to_string());
    };
    ($type:ident, $error:ty, |$value:ident| $into_text:expr) => {
        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                Self::parse(&text)
            }
        }

        impl From<$type> for String {
            fn from($value: $type) -> Self {
                $into_text
            }
        }
    };
}

/// Implements the text form of a wrapper of a `String`, which is taken out without a copy.
macro_rules! impl_text_newtype {
    ($type:ident, $error:ty) => {
        impl_text_form!($type, $error, |value| value.0);

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}
