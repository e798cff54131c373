//! The one place where a name from the configuration becomes part of an SQL statement.

use std::fmt;
use std::str::FromStr;

/// A column, or the last part of a table's name, as SQL text. Quoted, always: whatever it holds, it is one identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identifier(String);

/// A table, perhaps with its schema: `users`, `app.Accounts`, `"odd.schema".users`.
///
/// Names are taken literally, as `psql`'s `\d` shows them: upper case stays upper case. Double quotes may stand around
/// a part that holds a dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName(Vec<Identifier>);

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentifierError {
    /// Nothing, or nothing between two dots.
    #[error("a part of the name is empty")]
    Empty,
    /// PostgreSQL cuts longer ones off.
    #[error("a part of the name is longer than 63 bytes")]
    TooLong,
    /// No identifier holds one.
    #[error("the name holds a NUL character")]
    Nul,
    /// A double quote is not closed, or text follows it.
    #[error("the double quotes do not match")]
    Quotes,
    /// More than a schema and a table.
    #[error("expected TABLE or SCHEMA.TABLE")]
    Parts,
}

impl Identifier {
    /// # Errors
    /// [`IdentifierError`] when no table or column can have this name.
    pub fn new(name: &str) -> Result<Self, IdentifierError> {
        match name {
            "" => Err(IdentifierError::Empty),
            name if name.len() > 63 => Err(IdentifierError::TooLong),
            name if name.contains('\0') => Err(IdentifierError::Nul),
            name => Ok(Self(name.to_owned())),
        }
    }

    /// The bare name, to be bound as a parameter; never to be put into a statement.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{part}")?;
        }
        Ok(())
    }
}

/// A text as an SQL literal, whatever it holds and whatever `standard_conforming_strings` says.
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

impl FromStr for Identifier {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = split(text)?;
        match (parts.pop(), parts.is_empty()) {
            (Some(part), true) => Ok(part),
            _ => Err(IdentifierError::Parts),
        }
    }
}

impl FromStr for TableName {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = split(text)?;
        if parts.len() > 2 {
            Err(IdentifierError::Parts)
        } else {
            Ok(Self(parts))
        }
    }
}

fn split(text: &str) -> Result<Vec<Identifier>, IdentifierError> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            unquote(quoted)?
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            if part.contains('"') {
                return Err(IdentifierError::Quotes);
            }
            (part.to_owned(), after)
        };
        parts.push(Identifier::new(&part)?);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(parts),
            None => return Err(IdentifierError::Quotes),
        }
    }
}

/// `after_quote`: what follows an opening double quote. Returns the text up to the closing one, and the rest.
fn unquote(after_quote: &str) -> Result<(String, &str), IdentifierError> {
    let mut part = String::new();
    let mut chars = after_quote.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            part.push(c);
        } else if chars.next_if(|(_, next)| *next == '"').is_some() {
            part.push('"');
        } else {
            return Ok((part, &after_quote[at + 1..]));
        }
    }
    Err(IdentifierError::Quotes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<String, IdentifierError> {
        text.parse::<TableName>().map(|name| name.to_string())
    }

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        assert_eq!(table("users"), Ok(r#""users""#.into()));
        assert_eq!(table("app.Accounts"), Ok(r#""app"."Accounts""#.into()));
        assert_eq!(
            table(r#""odd.schema"."say ""hi""""#),
            Ok(r#""odd.schema"."say ""hi""""#.into())
        );
        assert_eq!(
            table("users; drop table users --"),
            Ok(r#""users; drop table users --""#.into())
        );
    }

    #[test]
    fn a_literal_ends_where_it_should() {
        assert_eq!(quote_literal("users"), "'users'");
        assert_eq!(quote_literal(r#""it's""#), r#"'"it''s"'"#);
        assert_eq!(quote_literal(r"a\'b"), r"E'a\\''b'");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert_eq!(table(""), Err(IdentifierError::Empty));
        assert_eq!(table("app."), Err(IdentifierError::Empty));
        assert_eq!(table("a.b.c"), Err(IdentifierError::Parts));
        assert_eq!(table(r#"a"b"#), Err(IdentifierError::Quotes));
        assert_eq!(table(r#""open"#), Err(IdentifierError::Quotes));
        assert_eq!(table(r#""a"b"#), Err(IdentifierError::Quotes));
        assert_eq!(table(&"x".repeat(64)), Err(IdentifierError::TooLong));
        assert_eq!(table("a\0b"), Err(IdentifierError::Nul));
        assert_eq!(
            "app.handle".parse::<Identifier>(),
            Err(IdentifierError::Parts)
        );
    }
}
