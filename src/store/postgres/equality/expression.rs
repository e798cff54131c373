//! What a unique index does to the column before it compares: read from PostgreSQL's own text of the index.
//!
//! Understood are the functions under which the fold is known to be coarser, alone or inside one another:
//!
//! ```text
//!   expression := "lower(" expression ")" | "upper(" expression ")" | "btrim(" expression ")"
//!               | "TRIM(BOTH FROM " expression ")"
//!               | "(" expression ")::text" | "(" expression " COLLATE " collation ")" | "(" expression ")"
//!               | column
//! ```
//!
//! The text must have been printed with `search_path = pg_catalog`: only then is an unqualified `lower` PostgreSQL's
//! own. Anything else is not understood, and then refused: another function might call texts equal in ways that no
//! trial brings to light.

use crate::store::postgres::ident::Identifier;

/// One thing done to the column's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A cast to `text`.
    ToText,
    /// Another collation, which the next function then works by: quoted, with its schema.
    Collate(String),
    Lower,
    Upper,
    /// Spaces at both ends cut off.
    Trim,
}

impl Step {
    /// The step applied to an SQL expression. Qualified throughout, so that nothing can shadow what the index uses.
    pub(super) fn apply(&self, to: &str) -> String {
        match self {
            Self::ToText => format!("({to})::pg_catalog.text"),
            Self::Collate(collation) => format!("({to} COLLATE {collation})"),
            Self::Lower => format!("pg_catalog.lower({to})"),
            Self::Upper => format!("pg_catalog.upper({to})"),
            Self::Trim => format!("pg_catalog.btrim({to})"),
        }
    }
}

/// The steps from `column` to what the index compares, in the order in which they are done. `None` when the expression
/// is not understood, or is about another column.
pub(super) fn read(expression: &str, column: &Identifier) -> Option<Vec<Step>> {
    const FUNCTIONS: [(&str, Step); 4] = [
        ("lower", Step::Lower),
        ("upper", Step::Upper),
        ("btrim", Step::Trim),
        ("TRIM", Step::Trim),
    ];
    for (name, step) in FUNCTIONS {
        if let Some(argument) = expression.strip_prefix(name).and_then(enclosed) {
            let argument = if name == "TRIM" {
                argument.strip_prefix("BOTH FROM ")?
            } else {
                argument
            };
            return read_and(argument, column, step);
        }
    }
    if let Some(inside) = enclosed(expression) {
        return match inside.rfind(" COLLATE ") {
            Some(at) => match collation(&inside[at + " COLLATE ".len()..]) {
                Some(collation) => read_and(&inside[..at], column, Step::Collate(collation)),
                None => read(inside, column),
            },
            None => read(inside, column),
        };
    }
    if let Some(cast) = expression.strip_suffix("::text").and_then(enclosed) {
        return read_and(cast, column, Step::ToText);
    }
    let is_column = expression == column.to_string() || expression == column.name();
    is_column.then(Vec::new)
}

fn read_and(inner: &str, column: &Identifier, last: Step) -> Option<Vec<Step>> {
    let mut steps = read(inner, column)?;
    steps.push(last);
    Some(steps)
}

/// What stands between an opening parenthesis and the closing one that belongs to it, which must be the last character.
fn enclosed(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let (mut depth, mut is_quoted) = (0_usize, false);
    for c in inside.chars() {
        match c {
            '"' => is_quoted = !is_quoted, // a doubled quote ends the name and begins it again
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0 && !is_quoted).then_some(inside)
}

/// The name of a collation, with its schema; `None` when the text is something else.
fn collation(text: &str) -> Option<String> {
    let (mut dots, mut is_quoted) = (0, false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '.' => dots += 1,
            c if c.is_alphanumeric() || c == '_' || c == '$' => {}
            _ => return None,
        }
    }
    match (dots, is_quoted) {
        (0, false) => Some(format!("pg_catalog.{text}")),
        (1, false) => Some(text.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(expression: &str, column: &str) -> Option<Vec<Step>> {
        read(expression, &Identifier::new(column).expect("a name"))
    }

    fn collate(name: &str) -> Step {
        Step::Collate(name.to_owned())
    }

    #[test]
    fn what_postgresql_prints_is_understood() {
        for (expression, expected) in [
            ("handle", vec![]),
            ("(handle)", vec![]),
            ("lower(handle)", vec![Step::Lower]),
            ("lower((handle)::text)", vec![Step::ToText, Step::Lower]),
            (
                "lower((handle COLLATE \"tr-x-icu\"))",
                vec![collate("pg_catalog.\"tr-x-icu\""), Step::Lower],
            ),
            (
                "upper(((handle)::text COLLATE app.\"odd.one\"))",
                vec![Step::ToText, collate("app.\"odd.one\""), Step::Upper],
            ),
            (
                "lower(TRIM(BOTH FROM handle))",
                vec![Step::Trim, Step::Lower],
            ),
            ("btrim(lower(handle))", vec![Step::Lower, Step::Trim]),
        ] {
            assert_eq!(steps(expression, "handle"), Some(expected), "{expression}");
        }
    }

    #[test]
    fn odd_names_are_read_as_names() {
        for column in ["a b", "a)(b", "say \"hi\"", "x COLLATE y", "lower(x)", "é"] {
            let quoted = Identifier::new(column).expect("a name").to_string();
            assert_eq!(
                steps(&format!("lower({quoted})"), column),
                Some(vec![Step::Lower]),
                "{column}"
            );
            assert_eq!(
                steps(&format!("lower(({quoted} COLLATE \"C\"))"), column),
                Some(vec![collate("pg_catalog.\"C\""), Step::Lower]),
                "{column}"
            );
        }
    }

    #[test]
    fn anything_else_is_not_understood() {
        for expression in [
            "",
            "email",
            "lower(email)",
            "app.lower(handle)",
            "md5(handle)",
            "\"left\"(handle, 3)",
            "((lower(handle) || 'x'::text))",
            "lower((handle)::character varying)",
            "lower(handle), upper(handle)",
            "lower(handle",
            "TRIM(LEADING FROM handle)",
            "btrim(handle, 'x'::text)",
            "(handle COLLATE \"a\".\"b\".\"c\")",
            "lower(COALESCE(handle, ''::text))",
        ] {
            assert_eq!(steps(expression, "handle"), None, "{expression}");
        }
    }
}
