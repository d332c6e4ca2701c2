//! Tells code, comments and literals of Rust source apart, as far as the rules need it.

/// One file, twice: what is code, and what is comment. Everything else is blank, line by line; the
/// inside of literals is blank in both.
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut scanner =
            Scanner { rest: text, source: Self { code: String::new(), comments: String::new() } };
        while scanner.step() {}
        scanner.source
    }
}

/// The words of a line, each with the byte at which it ends.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr() - line.as_ptr().addr() + word.len(), word))
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

struct Scanner<'a> {
    rest: &'a str,
    source: Source,
}

impl Scanner<'_> {
    /// Takes one token; false at the end.
    fn step(&mut self) -> bool {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else { return false };
        if rest.starts_with("//") {
            self.take(Part::Comment, rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.take(Part::Comment, block_comment(rest));
        } else if first == '"' {
            self.literal(1, quoted(&rest[1..], '"'));
        } else if first == '\'' {
            match character(&rest[1..]) {
                Some(inside) => self.literal(1, inside),
                None => self.take(Part::Code, 1), // of a lifetime
            }
        } else if is_word(first) {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let is_raw = matches!(&rest[..word], "r" | "br" | "cr");
            self.take(Part::Code, word);
            if let Some((opening, inside)) = is_raw.then(|| raw(self.rest)).flatten() {
                self.literal(opening, inside);
            }
        } else {
            self.take(Part::Code, first.len_utf8());
        }
        true
    }

    /// Takes a literal whose opening and closing delimiters have the same length.
    fn literal(&mut self, delimiter: usize, inside: usize) {
        self.take(Part::Code, delimiter);
        self.take(Part::Literal, inside);
        self.take(Part::Code, delimiter.min(self.rest.len()));
    }

    fn take(&mut self, part: Part, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for c in taken.chars() {
            let keep = |wanted| if c == '\n' || part == wanted { c } else { ' ' };
            self.source.code.push(keep(Part::Code));
            self.source.comments.push(keep(Part::Comment));
        }
    }
}

/// Length of the comment that `text` begins with. Comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Length of what stands before `quote`, which a backslash hides.
fn quoted(text: &str, quote: char) -> usize {
    let mut hidden = false;
    for (at, c) in text.char_indices() {
        if !hidden && c == quote {
            return at;
        }
        hidden = !hidden && c == '\\';
    }
    text.len()
}

/// Length of the character literal whose opening quote was just read, unless that was a lifetime.
fn character(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first == '\\' {
        return Some(quoted(text, '\''));
    }
    text[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8())
}

/// Lengths of the opening delimiter and the inside of the raw string that `text` begins with, after
/// its prefix. None for a raw identifier.
fn raw(text: &str) -> Option<(usize, usize)> {
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    let inside = text[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    Some((hashes + 1, inside.find(&closing).unwrap_or(inside.len())))
}

fn code_of(text: &str) -> String {
    Source::parse(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn comments_of(text: &str) -> String {
    Source::parse(text).comments.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn comments_are_apart_and_nest() {
    let text = "a(); // one µ\nb(/* two /* three */ four */ c); /// five";
    assert_eq!(code_of(text), "a(); b( c);");
    assert_eq!(comments_of(text), "// one µ /* two /* three */ four */ /// five");
}

#[test]
fn lines_stay_where_they_are() {
    let source = Source::parse("a\n/* b\nc */ \"d\ne\" f");
    assert_eq!(source.code.lines().count(), 4);
    assert_eq!(source.comments.lines().count(), 4);
    assert!(source.code.ends_with(" f"));
}

#[test]
fn the_inside_of_strings_is_neither() {
    for text in [
        r#"f("unsafe // \" unsafe", x)"#,
        r###"f(r#"unsafe " /* unsafe"#, x)"###,
        r#"f(br"unsafe \", x)"#,
        r#"f(b"unsafe", x)"#,
    ] {
        assert!(code_of(text).ends_with(", x)"), "{text}");
        assert!(!code_of(text).contains("unsafe"), "{text}");
        assert_eq!(comments_of(text), "", "{text}");
    }
}

#[test]
fn quotes_of_characters_open_no_string() {
    assert_eq!(code_of(r#"['"', '\'', b'\\', '\u{22}', 'µ', x]"#), "[' ', ' ', b' ', ' ', ' ', x]");
    assert_eq!(code_of("fn f<'a>(x: &'a str) // c"), "fn f<'a>(x: &'a str)");
    assert_eq!(code_of("r#type + r"), "r#type + r");
}

#[test]
fn unfinished_text_ends() {
    for text in ["\"a", "/* a", "'", "r#\"a", "r#", "'\\"] {
        Source::parse(text);
    }
}

#[test]
fn words_know_where_they_end() {
    let found: Vec<_> = words("#[ignore] a_b").collect();
    assert_eq!(found, [(8, "ignore"), (13, "a_b")]);
}
