//! The operator's token: who has it may ask on the admin listener.
//!
//! Programs send it as `Authorization: Bearer TOKEN`. A browser asks its user by itself when it is offered `Basic`, and
//! then sends the token as the password, so that the status page can be opened where everything else is closed too.

use base64::Engine;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The fewest characters a token has.
pub const SHORTEST_TOKEN: usize = 16;

const BEARER: &[u8] = b"Bearer";
const BASIC: &[u8] = b"Basic";

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
        let first = first.as_bytes();
        let Some(space) = first.iter().position(|byte| *byte == b' ') else {
            return false;
        };
        let (scheme, given) = first.split_at(space);
        let given = given.trim_ascii();
        if scheme.eq_ignore_ascii_case(BEARER) {
            return self.is(given);
        }
        scheme.eq_ignore_ascii_case(BASIC) && password(given).is_some_and(|given| self.is(&given))
    }

    fn is(&self, given: &[u8]) -> bool {
        hash(given).ct_eq(&self.0).into()
    }
}

/// The password of `Basic` credentials, whatever the user's name.
fn password(credentials: &[u8]) -> Option<Vec<u8>> {
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(credentials)
        .ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
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
        for right in [
            "Bearer 0123456789abcdef",
            "bearer  0123456789abcdef ",
            "Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY=", // ops:0123456789abcdef
            "basic OjAxMjM0NTY3ODlhYmNkZWY=",     // :0123456789abcdef
        ] {
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
            "Basic MDEyMzQ1Njc4OWFiY2RlZg==",     // no colon
            "Basic b3BzOjAxMjM0NTY3ODlhYmNkZQ==", // one letter short
            "Basic %%%",
            "0123456789abcdef",
        ] {
            assert!(!opens(&[wrong]), "{wrong:?}");
        }
        assert!(!opens(&[]));
        let twice = ["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"];
        assert!(!opens(&twice), "which one is meant?");
    }
}
