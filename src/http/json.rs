//! JSON as it goes over the wire: what does not show in a text is written as an escape.
//!
//! An answer echoes what was asked, and is read on consoles and in logs of proxies too: there a character that turns the
//! writing direction would turn the rest of the line with it.

use std::io::{self, Write};

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::names::is_unseen;

/// `value` as JSON.
///
/// # Panics
/// When `value` is not plain data: a map whose keys are no strings.
pub(super) fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, Visible))
        .expect("answers and problems are plain data");
    bytes
}

/// A 200 with `value` in it.
pub(super) fn response(value: &impl Serialize) -> Response {
    let mut response = Response::new(Body::from(bytes(value)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

struct Visible;

impl Formatter for Visible {
    /// `fragment`: a part of a string in which nothing has to be escaped by the rules of JSON.
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut shown = 0;
        for (at, c) in fragment.char_indices() {
            if c != ' ' && is_unseen(c) {
                writer.write_all(&fragment.as_bytes()[shown..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
                shown = at + c.len_utf8();
            }
        }
        writer.write_all(&fragment.as_bytes()[shown..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> String {
        String::from_utf8(bytes(&value)).expect("JSON is UTF-8")
    }

    #[test]
    fn what_does_not_show_is_escaped_and_everything_else_is_itself() {
        assert_eq!(text("a\u{202e}vatsug"), r#""a\u202evatsug""#);
        assert_eq!(text("al\u{200b}ice\u{feff}"), r#""al\u200bice\ufeff""#);
        assert_eq!(text("\u{e0041}x\u{2028}"), r#""\udb40\udc41x\u2028""#);
        assert_eq!(text("a\"b\\c\n\u{85}"), r#""a\"b\\c\n\u0085""#);
        assert_eq!(
            text("max mustermann ふた é \u{1f600}"),
            "\"max mustermann ふた é \u{1f600}\""
        );
    }

    #[test]
    fn every_character_reads_back_as_itself() {
        for c in '\0'..=char::MAX {
            let text = format!("a{c}b");
            let read: String = serde_json::from_slice(&bytes(&text)).expect("JSON");
            assert_eq!(read, text);
        }
    }
}
