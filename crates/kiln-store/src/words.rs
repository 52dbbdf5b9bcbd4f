//! Choices that are kept as words.

/// Makes an enum whose variants are written as words, in columns and to people.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident: $expected:literal {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Refusal;

            fn from_str(word: &str) -> Result<Self, $crate::Refusal> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => {
                        let known = [$(concat!("`", $word, "`"),)*].join(", ");
                        let word: String = word.chars().take(40).collect();
                        Err($crate::Refusal::Invalid(format!(
                            concat!("`{}` is not ", $expected, "; expected one of {}"),
                            word, known
                        )))
                    }
                }
            }
        }

        impl From<$name> for $crate::Value {
            fn from(value: $name) -> Self {
                value.word().into()
            }
        }

        impl $crate::FromValue for $name {
            const EXPECTED: &'static str = $expected;

            fn from_value(value: &$crate::Value) -> Option<Self> {
                match value {
                    $crate::Value::Text(word) => word.parse().ok(),
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use words;
