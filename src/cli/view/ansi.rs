//! Output of a command as text that cannot steer the terminal: its colours are kept, all else is taken out.

use std::iter::Peekable;
use std::str::Chars;

use anstyle::{Ansi256Color, AnsiColor, Color, Effects, RgbColor, Style};

use super::line::{Line, PLAIN};

/// Returns one printed line. Text that a carriage return wrote over is left out.
pub fn line(printed: &str) -> Line {
    let printed = printed.trim_end_matches('\r');
    let printed = printed.rsplit('\r').find(|text| !text.is_empty()).unwrap_or_default();
    let mut line = Line::default();
    let (mut style, mut text) = (PLAIN, String::new());
    let mut chars = printed.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x08' => _ = text.pop(),
            '\x07' => {}
            '\x1b' => {
                if let Some(codes) = sequence(&mut chars) {
                    line.push(&text, style);
                    text.clear();
                    style = changed(style, &codes);
                }
            }
            char => text.push(char),
        }
    }
    line.push(&text, style);
    line
}

/// Skips an escape sequence; the codes of one that changes the style.
fn sequence(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    match chars.next()? {
        '[' => {
            let mut codes = String::new();
            while let Some(char) = chars.next_if(|char| matches!(char, ' '..='?')) {
                codes.push(char);
            }
            let is_style = chars.next_if(|char| matches!(char, '@'..='~')) == Some('m');
            (is_style && codes.chars().all(|char| matches!(char, '0'..='9' | ';' | ':'))).then_some(codes)
        }
        // A text for the terminal: a title, a link.
        ']' | 'P' | '^' | '_' | 'X' => {
            while let Some(char) = chars.next() {
                if char == '\x07' || char == '\x1b' && chars.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
            None
        }
        ' '..='/' => {
            chars.next();
            None
        }
        _other => None,
    }
}

/// Returns the style after these codes (ECMA-48, "select graphic rendition").
fn changed(mut style: Style, codes: &str) -> Style {
    let mut codes = codes.split([';', ':']).map(|code| code.parse::<u8>().unwrap_or_default());
    while let Some(code) = codes.next() {
        let effects = style.get_effects();
        style = match code {
            0 => PLAIN,
            1 => style.bold(),
            2 => style.dimmed(),
            3 => style.italic(),
            4 => style.underline(),
            7 => style.invert(),
            9 => style.strikethrough(),
            22 => style.effects(effects.remove(Effects::BOLD | Effects::DIMMED)),
            23 => style.effects(effects.remove(Effects::ITALIC)),
            24 => style.effects(effects.remove(Effects::UNDERLINE)),
            27 => style.effects(effects.remove(Effects::INVERT)),
            29 => style.effects(effects.remove(Effects::STRIKETHROUGH)),
            30..=37 | 90..=97 => style.fg_color(basic(code)),
            39 => style.fg_color(None),
            40..=47 | 100..=107 => style.bg_color(basic(code - 10)),
            49 => style.bg_color(None),
            38 => style.fg_color(extended(&mut codes)),
            48 => style.bg_color(extended(&mut codes)),
            _other => style,
        };
    }
    style
}

fn basic(code: u8) -> Option<Color> {
    let index = if code < 90 { code.checked_sub(30)? } else { code - 90 + 8 };
    Ansi256Color(index).into_ansi().map(|color: AnsiColor| Color::Ansi(color))
}

fn extended(codes: &mut impl Iterator<Item = u8>) -> Option<Color> {
    match codes.next()? {
        5 => Some(Color::Ansi256(Ansi256Color(codes.next()?))),
        2 => Some(Color::Rgb(RgbColor(codes.next()?, codes.next()?, codes.next()?))),
        _other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::cli::view::line::{GREEN, PLAIN};

    #[test]
    fn colours_stay_and_nothing_else_does() {
        let printed = "a \x1b[32mok\x1b[0m\x1b[2J\x1b]0;title\x07 \x1b[1;31mno\x1b[m \x1b(Bz\x07";
        let line = line(printed);
        assert_eq!(line.text(), "a ok no z");
        assert_eq!(line.spans[1].style, GREEN);
        assert_eq!(line.spans.last().unwrap().style, PLAIN);
    }

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        assert_eq!(line("10%\r20%\r100%\r").text(), "100%");
        assert_eq!(line("ab\x08c").text(), "ac");
        assert_eq!(line("cut \x1b[3").text(), "cut ");
        assert_eq!(line("cut \x1b]8;;x").text(), "cut ");
    }
}
