//! The protobuf text format, as far as configurations use it: blocks of keys with one value each.

use super::AippError;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line it begins on, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// What it is set to.
    pub value: Value,
}

/// What a key is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A word or a number, as it was written.
    Word(String),
    /// A text, without quotes.
    Text(String),
    /// A block.
    Block(Vec<Entry>),
}

impl Entry {
    /// What is wrong with it.
    pub fn wrong(&self, reason: impl Into<String>) -> AippError {
        let value = match &self.value {
            Value::Word(value) | Value::Text(value) => value.clone(),
            Value::Block(_) => String::new(),
        };
        AippError { line: self.line, key: self.key.clone(), value, reason: reason.into() }
    }
}

/// Blocks inside of blocks up to this depth are read.
const MAX_DEPTH: usize = 8;

/// The entries of a text.
pub fn parse(text: &str) -> Result<Vec<Entry>, AippError> {
    let mut reader = Reader { rest: text, line: 1 };
    let entries = reader.entries(0)?;
    match reader.next()? {
        None => Ok(entries),
        Some(token) => Err(reader.wrong(format!("'{}' closes nothing", token.text()))),
    }
}

enum Token {
    Word(String),
    Quoted(String),
    Sign(char),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Word(text) | Token::Quoted(text) => text.clone(),
            Token::Sign(sign) => sign.to_string(),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn wrong(&self, reason: String) -> AippError {
        AippError { line: self.line, key: String::new(), value: String::new(), reason }
    }

    /// Goes to the next character that is neither space nor comment.
    fn skip(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.matches('\n').count();
            self.rest = trimmed;
            match self.rest.starts_with('#') {
                true => self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..],
                false => return,
            }
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.skip();
        self.rest.chars().next()
    }

    fn next(&mut self) -> Result<Option<Token>, AippError> {
        let Some(first) = self.peek() else { return Ok(None) };
        if first == '"' || first == '\'' {
            return self.quoted(first).map(Some);
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length.max(first.len_utf8()));
        self.rest = rest;
        Ok(Some(match length {
            0 => Token::Sign(first),
            _ => Token::Word(taken.to_owned()),
        }))
    }

    fn quoted(&mut self, quote: char) -> Result<Token, AippError> {
        let body = &self.rest[1..];
        let end = body.find(['\n', quote]).filter(|at| body[*at..].starts_with(quote));
        let Some(end) = end else {
            return Err(self.wrong("a text is not closed".to_owned()));
        };
        let text = &body[..end];
        if text.contains('\\') {
            return Err(self.wrong(format!("'{text}' has a backslash, which is not supported")));
        }
        self.rest = &body[end + 1..];
        Ok(Token::Quoted(text.to_owned()))
    }

    /// Entries up to the end of the text, or the brace that closes their block.
    fn entries(&mut self, depth: usize) -> Result<Vec<Entry>, AippError> {
        let mut entries = Vec::new();
        while self.peek().is_some_and(|next| next != '}') {
            let line = self.line;
            match self.next()? {
                Some(Token::Word(key)) => entries.push(self.entry(line, key, depth)?),
                Some(Token::Sign(',' | ';')) if !entries.is_empty() => {}
                token => {
                    let text = token.map_or_else(String::new, |token| token.text());
                    return Err(self.wrong(format!("expected a key, found '{text}'")));
                }
            }
        }
        Ok(entries)
    }

    fn entry(&mut self, line: usize, key: String, depth: usize) -> Result<Entry, AippError> {
        let at_key =
            |reason: String| AippError { line, key: key.clone(), value: String::new(), reason };
        let mut has_colon = false;
        if self.peek() == Some(':') {
            has_colon = true;
            self.next()?;
        }
        let value = match self.next()? {
            Some(Token::Sign('{')) if depth == MAX_DEPTH => {
                return Err(at_key(format!("blocks are more than {MAX_DEPTH} deep")));
            }
            Some(Token::Sign('{')) => {
                let block = self.entries(depth + 1)?;
                if self.next()?.is_none() {
                    return Err(at_key("its block is not closed".to_owned()));
                }
                Value::Block(block)
            }
            Some(Token::Word(word)) if has_colon => Value::Word(word),
            Some(Token::Quoted(text)) if has_colon => Value::Text(text),
            Some(_) if !has_colon => {
                return Err(at_key("expected ':' and a value, or a block in braces".to_owned()));
            }
            Some(token) => {
                return Err(at_key(format!("expected a value, found '{}'", token.text())));
            }
            None => return Err(at_key("its value is missing".to_owned())),
        };
        Ok(Entry { line, key, value })
    }
}
