//! Which message is which: the id inside a line, found without building the document.
//!
//! A line is JSON (RFC 8259, UTF-8) or it is unreadable; all of it is checked. An id is a string or a number. Strings are
//! compared decoded, so `"\u0061"` is `"a"`; numbers by their exact text, so `1` is not `1.0`, and neither is `"1"`.
//! A member that occurs twice on the way to an id makes the line ambiguous: readers differ in which one they take.
//!
//! Several ids are put together with a kind and a length before each, so that `("ab", "c")` is not `("a", "bc")`.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most keys that make up one id.
pub const MOST_KEYS: usize = 8;
/// All keys, and the time.
const MOST_PATHS: usize = MOST_KEYS + 1;

/// The way to a value in a document: names of members, from the outermost object inwards.
///
/// Written `user.click.id`, or as a JSON Pointer (RFC 6901), `/user/click/id`, for names that contain dots. It leads
/// through objects alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyPathError {
    /// A name between two dots, or all of it, is empty.
    #[error("a name in it is empty; write /a//b for members whose name is empty")]
    Empty,
    /// A tilde that RFC 6901 gives no meaning.
    #[error("after ~ in a JSON Pointer comes 0 (for ~) or 1 (for /)")]
    Tilde,
}

impl FromStr for KeyPath {
    type Err = KeyPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(pointer) = text.strip_prefix('/') {
            let names = pointer.split('/').map(unescaped);
            return names.collect::<Result<_, _>>().map(Self);
        }
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(KeyPathError::Empty);
        }
        Ok(Self(names))
    }
}

fn unescaped(name: &str) -> Result<String, KeyPathError> {
    let mut parts = name.split('~');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            _ => return Err(KeyPathError::Tilde),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Ok(plain)
}

/// As a JSON Pointer, which is one for every path.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

/// Why a line has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not UTF-8, or not one JSON document.
    #[error("it is not JSON")]
    NotJson,
    /// A key leads nowhere.
    #[error("it has no such key")]
    NoKey,
    /// A key leads to true, false, null, an object or an array.
    #[error("its key is neither a string nor a number")]
    NotAnId,
    /// A member on the way occurs twice.
    #[error("its key occurs twice")]
    Ambiguous,
    /// Longer than a line may be.
    #[error("it is too long")]
    TooLong,
}

/// What makes two messages the same.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Different ones, none of which leads through another's value; empty: the whole line.
    paths: Vec<Vec<String>>,
    /// Which paths are parts of the id, in order.
    keys: Vec<usize>,
    /// Which path leads to the message's time.
    time: Option<usize>,
    text: String,
}

/// Why keys do not make an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Too many.
    #[error("{found} keys are too many, {MOST_KEYS} are the most")]
    TooMany {
        /// How many were given.
        found: usize,
    },
    /// The same key twice.
    #[error("the key {0} is given twice")]
    Twice(KeyPath),
    /// One value would have to be an id and an object.
    #[error("{outer} leads through {inner}'s value: no message can have both")]
    Through {
        /// The shorter path.
        inner: KeyPath,
        /// The longer path.
        outer: KeyPath,
    },
}

impl Identity {
    /// Messages are the same when their lines are. A line's end (LF or CRLF) is no part of it.
    #[must_use]
    pub fn whole_line() -> Self {
        Self {
            paths: Vec::new(),
            keys: Vec::new(),
            time: None,
            text: "whole line".to_owned(),
        }
    }

    /// Messages are the same when all values under `keys` are. `time` leads to the message's time.
    ///
    /// # Errors
    /// [`IdentityError`] when the keys cannot all be in one message.
    pub fn of_keys(keys: &[KeyPath], time: Option<&KeyPath>) -> Result<Self, IdentityError> {
        if keys.len() > MOST_KEYS {
            return Err(IdentityError::TooMany { found: keys.len() });
        }
        let mut paths: Vec<Vec<String>> = Vec::new();
        for key in keys {
            if paths.contains(&key.0) {
                return Err(IdentityError::Twice(key.clone()));
            }
            paths.push(key.0.clone());
        }
        let mut parts: Vec<String> = keys.iter().map(|key| format!("key {key}")).collect();
        let mut time_index = None;
        if let Some(time) = time {
            parts.push(format!("time {time}"));
            time_index = paths.iter().position(|path| *path == time.0).or_else(|| {
                paths.push(time.0.clone());
                Some(paths.len() - 1)
            });
        }
        for inner in &paths {
            let is_through =
                |outer: &&Vec<String>| outer.len() > inner.len() && outer.starts_with(inner);
            if let Some(outer) = paths.iter().find(is_through) {
                return Err(IdentityError::Through {
                    inner: KeyPath(inner.clone()),
                    outer: KeyPath(outer.clone()),
                });
            }
        }
        Ok(Self {
            paths,
            keys: (0..keys.len()).collect(),
            time: time_index,
            text: parts.join(", "),
        })
    }

    /// Whether messages say when they happened.
    #[must_use]
    pub const fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Finds the id in a line without its end, and puts its bytes into `id`. Returns the text of the time, as JSON, when
    /// messages have one and this one does.
    ///
    /// # Errors
    /// [`Unreadable`] when there is no id; `id` is worthless then.
    pub fn read<'line>(
        &self,
        line: &'line [u8],
        id: &mut Vec<u8>,
    ) -> Result<Option<&'line str>, Unreadable> {
        id.clear();
        if self.paths.is_empty() {
            id.extend_from_slice(line);
            return Ok(None);
        }
        let line = std::str::from_utf8(line).map_err(|_| Unreadable::NotJson)?;
        let mut found = Found::default();
        let search = Search {
            paths: &self.paths,
            active: (1 << self.paths.len()) - 1,
            depth: 0,
            found: &mut found,
        };
        let mut document = serde_json::Deserializer::from_str(line);
        search
            .deserialize(&mut document)
            .and_then(|()| document.end())
            .map_err(|_| Unreadable::NotJson)?;
        if found.is_ambiguous {
            return Err(Unreadable::Ambiguous);
        }
        for &key in &self.keys {
            append(found.values[key].ok_or(Unreadable::NoKey)?, id)?;
        }
        Ok(self
            .time
            .and_then(|time| found.values[time])
            .map(RawValue::get))
    }
}

/// For people, and for telling one state directory from another.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Adds one value to an id: its kind, its length, its bytes.
fn append(value: &RawValue, id: &mut Vec<u8>) -> Result<(), Unreadable> {
    let text = value.get();
    match text.as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => append_bytes(b's', inner, id),
        [b'"', ..] => {
            let decoded: String = serde_json::from_str(text).map_err(|_| Unreadable::NotJson)?;
            append_bytes(b's', decoded.as_bytes(), id);
        }
        [b'-' | b'0'..=b'9', ..] => append_bytes(b'n', text.as_bytes(), id),
        _ => return Err(Unreadable::NotAnId),
    }
    Ok(())
}

fn append_bytes(kind: u8, bytes: &[u8], id: &mut Vec<u8>) {
    id.push(kind);
    id.extend_from_slice(&(bytes.len() as u64).to_le_bytes()[..5]); // lines are far shorter than 2^40 bytes
    id.extend_from_slice(bytes);
}

/// What a search came by.
#[derive(Default)]
struct Found<'line> {
    values: [Option<&'line RawValue>; MOST_PATHS],
    is_ambiguous: bool,
}

/// Looks into one value for the paths that lead here.
struct Search<'a, 'line> {
    paths: &'a [Vec<String>],
    /// One bit for each path whose first `depth` names lead here.
    active: u16,
    depth: usize,
    found: &'a mut Found<'line>,
}

impl Search<'_, '_> {
    /// The path that ends here, if one does: then it is the only one, as none leads through another's value.
    fn ending_here(&self) -> Option<usize> {
        let path = self.active.trailing_zeros() as usize;
        (self.paths[path].len() == self.depth).then_some(path)
    }
}

impl<'line> DeserializeSeed<'line> for Search<'_, 'line> {
    type Value = ();

    fn deserialize<D: Deserializer<'line>>(self, value: D) -> Result<(), D::Error> {
        let Some(path) = self.ending_here() else {
            return value.deserialize_any(self);
        };
        self.found.values[path] = Some(serde::Deserialize::deserialize(value)?);
        Ok(())
    }
}

impl<'line> Visitor<'line> for Search<'_, 'line> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'line>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = 0;
        while let Some(matching) = members.next_key_seed(Name {
            paths: self.paths,
            active: self.active,
            depth: self.depth,
        })? {
            if matching == 0 {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            self.found.is_ambiguous |= seen & matching != 0;
            seen |= matching;
            members.next_value_seed(Search {
                paths: self.paths,
                active: matching,
                depth: self.depth + 1,
                found: &mut *self.found,
            })?;
        }
        Ok(())
    }

    // Anything else has no members: its paths stay without a value.

    fn visit_seq<A: SeqAccess<'line>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a member's name, and tells which of the active paths go on with it.
struct Name<'a> {
    paths: &'a [Vec<String>],
    active: u16,
    depth: usize,
}

impl<'line> DeserializeSeed<'line> for Name<'_> {
    type Value = u16;

    fn deserialize<D: Deserializer<'line>>(self, name: D) -> Result<u16, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = u16;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<u16, E> {
        let mut matching = 0;
        for (index, path) in self.paths.iter().enumerate() {
            let goes_on = self.active >> index & 1 == 1 && path[self.depth] == name;
            matching |= u16::from(goes_on) << index;
        }
        Ok(matching)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn path(text: &str) -> KeyPath {
        text.parse().expect("a path")
    }

    fn identity(keys: &[&str]) -> Identity {
        let keys: Vec<KeyPath> = keys.iter().map(|key| path(key)).collect();
        Identity::of_keys(&keys, None).expect("sound keys")
    }

    fn id(keys: &[&str], line: &str) -> Result<Vec<u8>, Unreadable> {
        let mut bytes = Vec::new();
        identity(keys).read(line.as_bytes(), &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_key_is_found_wherever_its_path_leads() {
        let line =
            r#" {"a":[{"id":1},"\"id\":2"],"user":{"x":{"id":3},"click":{"id":"x1"}},"id":4} "#;
        assert_eq!(id(&["user.click.id"], line), id(&["id"], r#"{"id":"x1"}"#));
        assert_eq!(id(&["/user/click/id"], line), id(&["user.click.id"], line));
        assert_eq!(id(&["id"], line), id(&["id"], r#"{"id":4}"#));
        assert_eq!(
            id(&["a.id"], line),
            Err(Unreadable::NoKey),
            "arrays have no members"
        );
        assert_eq!(id(&["user.click.id.x"], line), Err(Unreadable::NoKey));
        assert_eq!(
            id(&["/a.b/c~1d~0"], r#"{"a.b":{"c/d~":7}}"#),
            id(&["id"], r#"{"id":7}"#)
        );
        assert_eq!(id(&["/"], r#"{"":7}"#), id(&["id"], r#"{"id":7}"#));
    }

    #[test]
    fn strings_are_compared_decoded_and_numbers_by_their_text() {
        let same =
            |one: &str, two: &str| id(&["id"], one).expect("id") == id(&["id"], two).expect("id");
        assert!(same(r#"{"id":"a\u0062\/"}"#, r#"{"id" : "ab/"}"#));
        assert!(same(
            r#"{"\u0069d":"\ud83d\ude00"}"#,
            "{\"id\":\"\u{1f600}\"}"
        ));
        assert!(same(
            r#"{"id":18446744073709551616}"#,
            r#"{"id": 18446744073709551616 }"#
        ));
        assert!(!same(
            r#"{"id":18446744073709551616}"#,
            r#"{"id":18446744073709551617}"#
        ));
        assert!(!same(r#"{"id":1}"#, r#"{"id":1.0}"#));
        assert!(!same(r#"{"id":1}"#, r#"{"id":"1"}"#));
        assert!(!same(r#"{"id":""}"#, r#"{"id":"\u0000"}"#));
        assert!(!same(r#"{"id":"a"}"#, r#"{"id":"A"}"#));
    }

    #[test]
    fn what_is_no_id_is_unreadable_and_says_why() {
        use Unreadable::{Ambiguous, NoKey, NotAnId, NotJson};
        for (line, why) in [
            ("", NotJson),
            ("\r", NotJson),
            ("{", NotJson),
            (r#"{"id":1"#, NotJson),
            (r#"{"id":1} x"#, NotJson),
            (r#"{"id":1}{"id":1}"#, NotJson),
            (r#"{"id":01}"#, NotJson),
            (r#"{"id":"a"#, NotJson),
            (r#"{"id":"\ud800"}"#, NotJson),
            (r#"{"id":"\x"}"#, NotJson),
            ("{\"id\":\"a\0b\"}", NotJson),
            ("\u{feff}{\"id\":1}", NotJson),
            (r#"{"id":1,}"#, NotJson),
            (r"{'id':1}", NotJson),
            (r#"{"id":1,"b":[1,2}"#, NotJson),
            ("[1]", NoKey),
            ("1", NoKey),
            ("null", NoKey),
            ("\"id\"", NoKey),
            ("{}", NoKey),
            (r#"{"ID":1}"#, NoKey),
            (r#"{"id":null}"#, NotAnId),
            (r#"{"id":true}"#, NotAnId),
            (r#"{"id":false}"#, NotAnId),
            (r#"{"id":{}}"#, NotAnId),
            (r#"{"id":[1]}"#, NotAnId),
            (r#"{"id":1,"id":1}"#, Ambiguous),
            (r#"{"id":1,"\u0069d":2}"#, Ambiguous),
        ] {
            assert_eq!(id(&["id"], line), Err(why), "{line}");
        }
        assert_eq!(
            id(&["a.id"], r#"{"a":{"id":1},"a":{"x":1}}"#),
            Err(Ambiguous),
            "some readers would find no id"
        );
        assert!(
            id(&["id"], r#"{"id":1,"x":2,"x":3}"#).is_ok(),
            "elsewhere it does not matter"
        );
        let deep = format!(
            r#"{{"id":1,"x":{}{}}}"#,
            "[".repeat(1_000_000),
            "]".repeat(1_000_000)
        );
        assert!(id(&["id"], &deep).is_ok(), "no stack is spent on depth");
        assert_eq!(id(&["id"], &deep[..deep.len() - 1]), Err(NotJson));
        let mut bytes = Vec::new();
        assert_eq!(
            identity(&["id"]).read(b"{\"id\":1,\"x\":\"\xff\"}", &mut bytes),
            Err(NotJson)
        );
    }

    #[test]
    fn several_keys_are_told_apart_by_where_one_ends() {
        let keys = &["a", "b"];
        let of = |line: &str| id(keys, line).expect("both keys");
        assert_eq!(of(r#"{"a":"x","b":1}"#), of(r#"{"b":1,"a":"x"}"#));
        assert_ne!(of(r#"{"a":"ab","b":"c"}"#), of(r#"{"a":"a","b":"bc"}"#));
        assert_ne!(of(r#"{"a":"1","b":2}"#), of(r#"{"a":1,"b":"2"}"#));
        assert_ne!(of(r#"{"a":"x","b":"y"}"#), of(r#"{"a":"y","b":"x"}"#));
        assert_eq!(id(keys, r#"{"a":1}"#), Err(Unreadable::NoKey));
    }

    #[test]
    fn keys_that_cannot_be_in_one_message_are_refused() {
        let of = |keys: &[&str]| {
            let keys: Vec<KeyPath> = keys.iter().map(|key| path(key)).collect();
            Identity::of_keys(&keys, Some(&path("t.at")))
        };
        assert!(of(&["user", "users.id"]).is_ok());
        assert!(of(&["t.at"]).is_ok(), "the time may be part of the id");
        assert_eq!(
            of(&["a", "/a"]).expect_err("twice"),
            IdentityError::Twice(path("a"))
        );
        let refusal = of(&["user.id", "user"]).expect_err("an object is no id");
        assert_eq!(
            refusal.to_string(),
            "/user/id leads through /user's value: no message can have both"
        );
        assert!(matches!(of(&["t"]), Err(IdentityError::Through { .. })));
        assert!(matches!(
            of(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
            Err(IdentityError::TooMany { found: 9 })
        ));
        for wrong in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(
                wrong.parse::<KeyPath>(),
                Err(KeyPathError::Empty),
                "{wrong}"
            );
        }
        assert_eq!("/a~2".parse::<KeyPath>(), Err(KeyPathError::Tilde));
        assert_eq!(path("/a~1b/c.d/~0").to_string(), "/a~1b/c.d/~0");
    }

    #[test]
    fn the_time_is_found_in_the_same_pass() {
        let identity = Identity::of_keys(&[path("id")], Some(&path("meta.at"))).expect("sound");
        let mut id = Vec::new();
        let mut time = |line: &'static str| identity.read(line.as_bytes(), &mut id);
        assert_eq!(
            time(r#"{"meta":{"at": "2026" },"id":1}"#),
            Ok(Some("\"2026\""))
        );
        assert_eq!(time(r#"{"meta":{"at":5},"id":1}"#), Ok(Some("5")));
        assert_eq!(time(r#"{"meta":5,"id":1}"#), Ok(None));
        assert_eq!(time(r#"{"meta":{"at":5}}"#), Err(Unreadable::NoKey));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}|[\\x00-\\x20\"\\\\/]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("a|b|id|\\PC{0,3}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A whole parser, as a second opinion.
        #[test]
        fn a_search_agrees_with_a_parsed_document(document in any_json(), is_pretty in any::<bool>()) {
            let line = if is_pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let line = line.expect("JSON");
            for (key, pointer) in [("id", "/id"), ("a.id", "/a/id"), ("a.b", "/a/b")] {
                let want = match document.pointer(pointer).filter(|_| document.is_object() && (pointer == "/id" || document["a"].is_object())) {
                    None => Err(Unreadable::NoKey),
                    Some(value @ (Value::String(_) | Value::Number(_))) => id(&["id"], &json!({ "id": value }).to_string()),
                    Some(_) => Err(Unreadable::NotAnId),
                };
                prop_assert_eq!(id(&[key], &line), want);
            }
        }

        #[test]
        fn broken_lines_are_as_unreadable_as_a_parser_says(document in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut line = serde_json::to_vec(&json!({"id": 1, "x": document})).expect("JSON");
            let at = at.index(line.len());
            if cut { line.truncate(at) } else { line[at] = byte }
            let mut id = Vec::new();
            let found = identity(&["id"]).read(&line, &mut id);
            let parsed = std::str::from_utf8(&line).ok().and_then(|text| serde_json::from_str::<Value>(text).ok());
            if parsed.is_none() {
                // A parser also refuses what only matters to who wants the value: lone surrogates, huge numbers.
                let is_fussy = std::str::from_utf8(&line).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
                prop_assert!(is_fussy || found == Err(Unreadable::NotJson));
            } else {
                prop_assert_ne!(found, Err(Unreadable::NotJson));
            }
        }
    }
}
