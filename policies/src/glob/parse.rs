//! Reads one glob into the sequences of tokens that it stands for. Bounded in length, depth and expansion.

use std::fmt::Write as _;

use super::Malformed;

/// Bytes of a glob.
const MAX_TEXT: usize = 1024;
/// Braces within braces.
const MAX_DEPTH: usize = 4;
/// Alternatives that the braces expand to.
const MAX_ALTERNATIVES: usize = 256;
/// Tokens of all alternatives together.
const MAX_TOKENS: usize = 8192;

/// What a position of a glob stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any run of characters.
    Run,
}

impl Token {
    /// Adds the regular expression of the token.
    pub(super) fn push_regex(self, out: &mut String) {
        match self {
            Token::Run => out.push_str("(?s-u:.)*"),
            Token::One => out.push_str("(?s:.)"),
            Token::Char(c) if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            Token::Char(c) => {
                // Writing to a string can't fail.
                let _ = write!(out, r"\x{{{:X}}}", u32::from(c));
            }
        }
    }
}

/// The alternatives of a glob.
pub(super) fn alternatives(text: &str) -> Result<Vec<Vec<Token>>, Malformed> {
    let fail = |offset, what| Err(Malformed { offset, what });
    match text.len() {
        0 => return fail(0, "an empty pattern matches nothing"),
        n if n > MAX_TEXT => return fail(MAX_TEXT, "the pattern is longer than 1024 bytes"),
        _ => {}
    }
    let mut reader = Reader { text, at: 0 };
    let all = reader.sequence(0)?;
    match reader.peek() {
        None => Ok(all),
        Some(_) => fail(reader.at, "'}' closes nothing; write '\\}' for the character"),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..).and_then(|rest| rest.chars().next())
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Up to the end, or to a `}` (and inside braces a `,`), which is left unread.
    fn sequence(&mut self, depth: usize) -> Result<Vec<Vec<Token>>, Malformed> {
        let mut all: Vec<Vec<Token>> = vec![Vec::new()];
        while let Some(next) = self.peek() {
            let from = self.at;
            let token = match next {
                '}' => return Ok(all),
                ',' if depth > 0 => return Ok(all),
                '{' => {
                    let choices = self.braces(depth)?;
                    all = product(&all, &choices).ok_or(Malformed {
                        offset: from,
                        what: "the braces stand for too many alternatives",
                    })?;
                    continue;
                }
                '*' => Token::Run,
                '?' => Token::One,
                '\\' => {
                    self.next();
                    match self.peek() {
                        Some(c @ ('*' | '?' | '{' | '}' | ',' | '\\')) => Token::Char(c),
                        _ => {
                            return Err(Malformed {
                                offset: from,
                                what: "'\\' stands before no special character",
                            });
                        }
                    }
                }
                c => Token::Char(c),
            };
            self.next();
            for one in &mut all {
                // Stars in a row are one.
                if token != Token::Run || one.last() != Some(&Token::Run) {
                    one.push(token);
                }
            }
        }
        Ok(all)
    }

    fn braces(&mut self, depth: usize) -> Result<Vec<Vec<Token>>, Malformed> {
        let open = self.at;
        self.next();
        if depth >= MAX_DEPTH {
            return Err(Malformed { offset: open, what: "braces are nested more than four deep" });
        }
        let mut choices = Vec::new();
        loop {
            choices.append(&mut self.sequence(depth + 1)?);
            if choices.len() > MAX_ALTERNATIVES {
                return Err(Malformed { offset: open, what: "the braces stand for too many alternatives" });
            }
            match self.next() {
                Some(',') => {}
                Some(_) => return Ok(choices),
                None => {
                    return Err(Malformed {
                        offset: open,
                        what: "'{' is not closed; write '\\{' for the character",
                    });
                }
            }
        }
    }
}

/// Every left one followed by every right one; none when that is too much.
fn product(left: &[Vec<Token>], right: &[Vec<Token>]) -> Option<Vec<Vec<Token>>> {
    if left.len().saturating_mul(right.len()) > MAX_ALTERNATIVES {
        return None;
    }
    let mut all = Vec::with_capacity(left.len() * right.len());
    let mut tokens = 0;
    for a in left {
        for b in right {
            tokens += a.len() + b.len();
            if tokens > MAX_TOKENS {
                return None;
            }
            let skip = usize::from(a.last() == Some(&Token::Run) && b.first() == Some(&Token::Run));
            all.push(a.iter().chain(b.iter().skip(skip)).copied().collect());
        }
    }
    Some(all)
}
