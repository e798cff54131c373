//! HTML with holes, written `{{name}}`. Text can only get into a page escaped, and what is filled in is never taken for
//! a hole: names may hold anything.

use std::borrow::Cow;

/// A piece of HTML that is safe to put between tags or into a quoted attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Html(Cow<'static, str>);

impl Html {
    /// Our own markup.
    pub(super) const fn ours(markup: &'static str) -> Self {
        Self(Cow::Borrowed(markup))
    }

    /// Any text, escaped.
    pub(super) fn text(text: &str) -> Self {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\'' => escaped.push_str("&#39;"),
                // A NUL has no place in HTML, not even escaped.
                '\0' => escaped.push(char::REPLACEMENT_CHARACTER),
                plain => escaped.push(plain),
            }
        }
        Self(Cow::Owned(escaped))
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<I: IntoIterator<Item = Html>>(pieces: I) -> Self {
        Self(Cow::Owned(
            pieces.into_iter().map(|Html(piece)| piece).collect(),
        ))
    }
}

/// Fills every hole of `template` with what `fill` says for its name.
pub(super) fn fill(template: &str, fill: impl Fn(&str) -> Html) -> String {
    let mut page = String::with_capacity(template.len() + 512);
    let mut rest = template;
    while let Some((before, (name, after))) = rest
        .split_once("{{")
        .and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        page.push_str(before);
        page.push_str(&fill(name).0);
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let nasty = r#"<b>&"'{{other}}"#;
        let page = fill(r#"<p title="{{name}}">{{name}}</p>"#, |name| match name {
            "name" => Html::text(nasty),
            _ => Html::ours("a hole was found in what was filled in"),
        });
        let escaped = "&lt;b&gt;&amp;&quot;&#39;{{other}}";
        assert_eq!(page, format!(r#"<p title="{escaped}">{escaped}</p>"#));
    }

    #[test]
    fn a_template_without_holes_stays_as_it_is() {
        for template in ["", "plain", "{{ open", "{ {a} }"] {
            assert_eq!(fill(template, |_| Html::ours("x")), template);
        }
    }

    #[test]
    fn a_nul_becomes_a_visible_character() {
        assert_eq!(Html::text("a\0b"), Html::ours("a\u{fffd}b"));
    }
}
