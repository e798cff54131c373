//! Percent-decoding of one piece of a query string, exactly once.
//!
//! Unlike the usual form decoder this one never guesses: a stray `%` is an error instead of a literal
//! percent sign, and bytes that are not UTF-8 are an error instead of U+FFFD, which would turn two
//! different bad inputs into one name. It does not split the query and knows no parameter.

/// Why a piece cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PercentError {
    /// A `%` without two hexadecimal digits after it.
    Escape,
    /// The decoded bytes are not UTF-8.
    Utf8,
}

/// Decodes `%XX` once, and `+` as a space.
pub(super) fn decode(piece: &str) -> Result<String, PercentError> {
    let mut decoded = Vec::with_capacity(piece.len());
    let mut bytes = piece.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = hex_digit(bytes.next())?;
                let low = hex_digit(bytes.next())?;
                high << 4 | low
            }
            b'+' => b' ',
            literal => literal,
        });
    }
    String::from_utf8(decoded).map_err(|_| PercentError::Utf8)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, PercentError> {
    match byte {
        Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
        Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
        Some(digit @ b'A'..=b'F') => Ok(digit - b'A' + 10),
        _ => Err(PercentError::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_only_once() {
        assert_eq!(decode("a%2Bb").as_deref(), Ok("a+b"));
        assert_eq!(decode("a%252Bb").as_deref(), Ok("a%2Bb"));
        assert_eq!(decode("%25").as_deref(), Ok("%"));
        assert_eq!(decode("a+b").as_deref(), Ok("a b"));
    }

    #[test]
    fn both_cases_of_hexadecimal_digits_are_read() {
        assert_eq!(decode("%c3%A9").as_deref(), Ok("é"));
    }

    #[test]
    fn a_stray_percent_sign_is_never_taken_literally() {
        for bad in [
            "%", "a%", "%4", "%zz", "%4g", "%g4", "% 41", "%+1", "%%41", "%é", "%u0041", "%-1",
        ] {
            assert_eq!(decode(bad), Err(PercentError::Escape), "{bad}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        // Latin-1, a lone continuation, an overlong slash, a surrogate, past the last scalar, a cut-off sequence.
        for bad in [
            "Andr%E9",
            "%80",
            "%C0%AF",
            "%ED%A0%80",
            "%F4%90%80%80",
            "%E3%81",
            "%FF",
        ] {
            assert_eq!(decode(bad), Err(PercentError::Utf8), "{bad}");
        }
    }
}
