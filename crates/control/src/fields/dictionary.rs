//! The members of a dictionary (RFC 9651 §4.2), read where they stand.
//!
//! All types of values are read, also those that no field of ours has, since unknown members must
//! be passed over. Deviation: of a byte sequence or a display string only the characters are
//! checked and not what they stand for, because nobody here looks at it.

/// A value, as far as fields of ours have such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Integer(i64),
    Boolean(bool),
    /// The inside of a quoted string, in which a backslash hides the next character.
    String(&'a [u8]),
    Other,
}

/// Digits of the longest integer, and of a decimal before and behind its point.
const INTEGER_DIGITS: usize = 15;
const WHOLE_DIGITS: usize = 12;
const FRACTION_DIGITS: usize = 3;

/// Hands all members of one line of a header to `member`, in their order; `None` if the line is no
/// dictionary, which may show only after some members.
pub(super) fn read<'a>(line: &'a [u8], mut member: impl FnMut(&'a str, Value<'a>)) -> Option<()> {
    let mut rest = Cursor(line);
    rest.skip(b" ");
    while !rest.0.is_empty() {
        let key = rest.key()?;
        let value = if rest.take(b'=') { rest.value()? } else { Value::Boolean(true) };
        rest.parameters()?;
        member(key, value);
        rest.skip(b" \t");
        if rest.0.is_empty() {
            break;
        }
        rest.expect(b',')?;
        rest.skip(b" \t");
        if rest.0.is_empty() {
            return None; // a comma at the end
        }
    }
    Some(())
}

/// What is still to be read.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// §4.2.3.3.
    fn key(&mut self) -> Option<&'a str> {
        if !matches!(self.peek()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let key = self.while_any(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        );
        core::str::from_utf8(key).ok()
    }

    /// An item without its parameters, or an inner list without its own.
    fn value(&mut self) -> Option<Value<'a>> {
        if self.take(b'(') { self.inner_list() } else { self.bare_item() }
    }

    /// §4.2.1.2, behind its opening parenthesis.
    fn inner_list(&mut self) -> Option<Value<'a>> {
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// §4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// §4.2.3.1.
    fn bare_item(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => Some(self.token()),
            b':' => self.byte_sequence(),
            b'?' => self.boolean(),
            b'@' => {
                self.next()?;
                match self.number()? {
                    Value::Integer(_) => Some(Value::Other),
                    _ => None,
                }
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// §4.2.4: an integer, or a decimal.
    fn number(&mut self) -> Option<Value<'a>> {
        let is_negative = self.take(b'-');
        let whole = self.while_any(|byte| byte.is_ascii_digit());
        if whole.is_empty() {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.while_any(|byte| byte.is_ascii_digit());
            let fits = whole.len() <= WHOLE_DIGITS && fraction.len() <= FRACTION_DIGITS;
            return (fits && !fraction.is_empty()).then_some(Value::Other);
        }
        if whole.len() > INTEGER_DIGITS {
            return None;
        }
        let number = whole.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    /// §4.2.5.
    fn string(&mut self) -> Option<Value<'a>> {
        self.next()?;
        let inside = self.0;
        loop {
            match self.next()? {
                b'"' => return Some(Value::String(&inside[..inside.len() - self.0.len() - 1])),
                b'\\' if matches!(self.next()?, b'"' | b'\\') => {}
                b'\\' => return None,
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// §4.2.6, whose first character was looked at.
    fn token(&mut self) -> Value<'a> {
        self.while_any(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
        Value::Other
    }

    /// §4.2.7.
    fn byte_sequence(&mut self) -> Option<Value<'a>> {
        self.next()?;
        self.while_any(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.expect(b':')?;
        Some(Value::Other)
    }

    /// §4.2.8.
    fn boolean(&mut self) -> Option<Value<'a>> {
        self.next()?;
        match self.next()? {
            b'0' => Some(Value::Boolean(false)),
            b'1' => Some(Value::Boolean(true)),
            _ => None,
        }
    }

    /// §4.2.10.
    fn display_string(&mut self) -> Option<Value<'a>> {
        self.next()?;
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(Value::Other),
                b'%' => {
                    for _ in 0..2 {
                        if !matches!(self.next()?, b'0'..=b'9' | b'a'..=b'f') {
                            return None;
                        }
                    }
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn skip(&mut self, any_of: &[u8]) {
        self.while_any(|byte| any_of.contains(&byte));
    }

    /// Takes bytes as long as they are of a kind.
    fn while_any(&mut self, is_kind: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.0.iter().position(|byte| !is_kind(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn members(line: &str) -> Option<Vec<(&str, Value<'_>)>> {
        let mut members = Vec::new();
        read(line.as_bytes(), |key, value| members.push((key, value)))?;
        Some(members)
    }

    #[test]
    fn all_types_are_read_or_passed_over() {
        let line = concat!(
            r#"  a=1, b=-7;p;q="x, y",c=?0 ,"#,
            "\t",
            r#"d, e="a\"b", f=1.5, g=tok/en:*, h=:AQI=:, i=@12, j=%"caf%c3%a9","#,
            r#" k=(1 "two";x=3  three );y, l=();z=@1 "#
        );
        let (a, b) = (Value::Integer(1), Value::Integer(-7));
        let (c, d, e) = (Value::Boolean(false), Value::Boolean(true), Value::String(br#"a\"b"#));
        let mut expected = vec![("a", a), ("b", b), ("c", c), ("d", d), ("e", e)];
        expected.extend(["f", "g", "h", "i", "j", "k", "l"].map(|key| (key, Value::Other)));
        assert_eq!(members(line), Some(expected));
        assert_eq!(members("  "), Some(Vec::new()));
    }

    #[test]
    fn numbers_have_their_ranges() {
        let one = |value| Some(vec![("a", value)]);
        assert_eq!(members("a=999999999999999"), one(Value::Integer(super::super::INTEGER_MAX)));
        assert_eq!(members("a=-0"), one(Value::Integer(0)));
        assert_eq!(members("a=123456789012.125"), one(Value::Other));
        for bad in ["1000000000000000", "1234567890123.1", "1.1234", "1.", "-", "--1", "+1", ".5"] {
            assert_eq!(members(&alloc::format!("a={bad}")), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_dictionary_is_told() {
        let bad = [
            "A=1",
            "1=1",
            "a=1,",
            "a=1,,b=2",
            ",a",
            "a=",
            "a=1 b=2",
            "a==1",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"\u{e9}\"",
            "a=?2",
            "a=?",
            "a=:x",
            "a=:é:",
            "a=(1",
            "a=(1\"x\")",
            "a=(1\t2)",
            "a;",
            "a;=1",
            "a=@1.5",
            "a=%\"%C3\"",
            "a=%x",
            "a=1;b=(1)",
            "a={}",
            "a = 1",
            "\ta=1",
        ];
        for bad in bad {
            assert_eq!(members(bad), None, "{bad}");
        }
    }
}
