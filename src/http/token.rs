//! The operator's token: who has it may ask on the admin listener.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The fewest characters a token has.
pub const SHORTEST_TOKEN: usize = 16;

const SCHEME: &[u8] = b"Bearer ";

/// A token, kept as its hash.
///
/// Hashes are compared, in constant time: how long it takes tells neither how much of a guess is right nor how long
/// the token is.
pub struct AdminToken([u8; 32]);

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Fewer than [`SHORTEST_TOKEN`] characters.
    #[error("it has {found} characters, and a token has {SHORTEST_TOKEN} or more")]
    TooShort {
        /// How many there are.
        found: usize,
    },
    /// Something that could not be sent in a header.
    #[error("a token is one word of visible ASCII characters")]
    Charset,
}

impl AdminToken {
    /// Reads a token; white space around it, as a file has it at its end, is no part of it.
    ///
    /// # Errors
    /// [`TokenError`], which does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let token = text.trim();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Charset);
        }
        if token.len() < SHORTEST_TOKEN {
            return Err(TokenError::TooShort { found: token.len() });
        }
        Ok(Self(hash(token.as_bytes())))
    }

    /// Whether the headers of a request hold this token.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(first), None) = (given.next(), given.next()) else {
            return false;
        };
        let Some((scheme, token)) = first.as_bytes().split_at_checked(SCHEME.len()) else {
            return false;
        };
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return false;
        }
        hash(token.trim_ascii()).ct_eq(&self.0).into()
    }
}

/// Hides the hash: it is as good as the token to whoever can try out guesses.
impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken")
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_long_enough_and_can_be_sent() {
        assert!(AdminToken::parse(" 0123456789abcdef\r\n").is_ok());
        let refusal = |text: &str| AdminToken::parse(text).err();
        assert_eq!(refusal(""), Some(TokenError::TooShort { found: 0 }));
        assert_eq!(
            refusal("0123456789abcde"),
            Some(TokenError::TooShort { found: 15 })
        );
        assert_eq!(refusal("0123456789 abcdef"), Some(TokenError::Charset));
        assert_eq!(refusal("pässwörter-sind-lang"), Some(TokenError::Charset));
        assert!(!format!("{:?}", AdminToken::parse("0123456789abcdef")).contains("0123"));
    }

    #[test]
    fn only_the_whole_token_opens() {
        let token = AdminToken::parse("0123456789abcdef").expect("a token");
        let opens = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    AUTHORIZATION,
                    HeaderValue::from_str(value).expect("a value"),
                );
            }
            token.is_in(&headers)
        };
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(opens(&[right]), "{right}");
        }
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer",
            "Bearer ",
            "",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!opens(&[wrong]), "{wrong:?}");
        }
        assert!(!opens(&[]));
        let twice = ["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"];
        assert!(!opens(&twice), "which one is meant?");
    }
}
