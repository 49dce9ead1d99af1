//! Source files as tokens: enough of Rust's syntax to find the paths in a file.

use std::{fs, path::Path};

/// A file under `src`, without its comments, its literals and its test code.
pub(crate) struct Source {
    /// Relative to `src`, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

/// A word or a sign, and the line it is on.
#[derive(Clone, Debug)]
pub(crate) struct Token(String, usize);

impl Token {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Every file under `src` that is compiled outside of tests.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut paths) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    let relative = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let relative = relative.map(|path| {
        path.strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/")
    });
    let all: Vec<_> = relative.map(|path| Source::read(&path)).collect();
    let of_tests: Vec<_> = all.iter().flat_map(Source::files_of_tests).collect();
    let mut sources = all;
    sources.retain(|source| !of_tests.contains(&source.path));
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        sources.len() > 40,
        "only {} files were found",
        sources.len()
    );
    sources
}

impl Source {
    pub(crate) fn read(path: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
        Self::new(path, &fs::read_to_string(file).unwrap())
    }

    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens: without_tests(tokens(text)),
        }
    }

    /// The top-level module that the file belongs to.
    pub(crate) fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tokens.iter().map(|Token(text, line)| (&**text, *line))
    }

    /// The files of each `mod name;` that is only for tests.
    fn files_of_tests(&self) -> Vec<String> {
        let folder = ["mod.rs", "lib.rs", ".rs"]
            .iter()
            .find_map(|end| self.path.strip_suffix(end));
        let folder = folder.unwrap_or_default().trim_end_matches('/');
        let slash = if folder.is_empty() { "" } else { "/" };
        let mut files = Vec::new();
        let tokens = tokens(&self.text);
        for index in 0..tokens.len() {
            let Some(len) = mark_of_tests(&tokens[index..]) else {
                continue;
            };
            let after = tokens[index + len..].iter().map(Token::text);
            if let ["mod", name, ";"] = after.take(3).collect::<Vec<_>>()[..] {
                files.push(format!("{folder}{slash}{name}.rs"));
            }
        }
        files
    }

    /// What comes after `crate::`, in a path or in a group.
    pub(crate) fn modules_named(&self) -> Vec<(String, usize)> {
        let mut named = Vec::new();
        for (index, Token(text, line)) in self.tokens.iter().enumerate() {
            if text != "crate" || self.at(index + 1) != "::" {
                continue;
            }
            if self.at(index + 2) != "{" {
                named.push((self.at(index + 2).to_owned(), *line));
                continue;
            }
            let mut depth = 0;
            for (index, Token(text, line)) in self.tokens.iter().enumerate().skip(index + 2) {
                match &**text {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    _ if depth == 1 && ["{", ","].contains(&self.at(index - 1)) => {
                        named.push((text.clone(), *line))
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
        named
    }

    /// Every path in the file, with groups written out: `use super::{a, b::{C, D as E}}` is
    /// `super::a`, `super::b::C` and `super::b::D::as::E`. A `super` of a module in the file counts
    /// from the file.
    pub(crate) fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let (mut paths, mut is_module) = (Vec::new(), Vec::new());
        let mut index = 0;
        while let Some(Token(text, line)) = self.tokens.get(index) {
            match &**text {
                "{" => is_module.push(index >= 2 && self.at(index - 2) == "mod"),
                "}" => drop(is_module.pop()),
                _ if self.at(index + 1) == "::" && is_word(text) => {
                    let mut written = Vec::new();
                    index = self.write_out(index, &[], &mut written);
                    let inside = is_module.iter().filter(|is_module| **is_module).count();
                    for mut path in written {
                        let supers = path.iter().take_while(|name| *name == "super").count();
                        let stays = supers.min(inside);
                        if stays > 0 {
                            path.drain(..stays);
                            // What is left is a path from the file, or from a module in it.
                            path.insert(0, "self".to_owned());
                            if path.get(1).is_some_and(|name| name == "super") {
                                path.remove(0);
                            }
                        }
                        paths.push((path, *line));
                    }
                    continue;
                }
                _ => {}
            }
            index += 1;
        }
        paths
    }

    /// Writes out the path that begins here, each of a group by itself, and tells where it ends.
    fn write_out(
        &self,
        mut index: usize,
        before: &[String],
        written: &mut Vec<Vec<String>>,
    ) -> usize {
        let mut path = before.to_vec();
        while is_word(self.at(index)) {
            path.push(self.at(index).to_owned());
            index += 1;
            if self.at(index) == "as" {
                path.extend(["as".to_owned(), self.at(index + 1).to_owned()]);
                index += 2;
                break;
            }
            if self.at(index) != "::" {
                break;
            }
            index += 1;
            if self.at(index) == "{" {
                index += 1;
                while !["}", ""].contains(&self.at(index)) {
                    let end = self.write_out(index, &path, written);
                    index = end + usize::from(end == index || self.at(end) == ",");
                }
                return index + 1;
            }
        }
        if before.len() < path.len() && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        written.push(path);
        index
    }

    /// The lines on which so many `super` follow each other that they lead to the crate's root.
    pub(crate) fn supers_that_leave_the_module(&self) -> Vec<usize> {
        let of_file = self.path.split('/').count() - usize::from(self.path.ends_with("/mod.rs"));
        let (mut lines, mut is_module) = (Vec::new(), Vec::new());
        for (index, Token(text, line)) in self.tokens.iter().enumerate() {
            match &**text {
                "{" => is_module.push(index >= 2 && self.at(index - 2) == "mod"),
                "}" => drop(is_module.pop()),
                "super" if index == 0 || self.at(index - 1) != "::" => {
                    let supers = (0..)
                        .take_while(|number| self.at(index + 2 * number) == "super")
                        .count();
                    let depth = of_file + is_module.iter().filter(|is_module| **is_module).count();
                    // `pub(super)` names nothing.
                    if supers >= depth && self.at(index + 1) == "::" {
                        lines.push(*line);
                    }
                }
                _ => {}
            }
        }
        lines
    }

    /// The lines on which a path or a `use` begins with this crate.
    pub(crate) fn lines_that_name_crate(&self, name: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        for (index, Token(text, line)) in self.tokens.iter().enumerate() {
            let before = |back: usize| index.checked_sub(back).map_or("", |index| self.at(index));
            let is_inner = before(1) == "::" && is_word(before(2)) && before(2) != "use";
            let begins = self.at(index + 1) == "::"
                || (before(1) == "use" && ["as", ";"].contains(&self.at(index + 1)));
            if text == name && begins && !is_inner {
                lines.push(*line);
            }
        }
        lines
    }

    fn at(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", Token::text)
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

/// Words and signs; `::` is one sign. Comments and literals are left out.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut index, mut line) = (Vec::new(), 0, 1);
    while index < chars.len() {
        let start = index;
        let raw_string = raw_string_hashes(&chars[index..]);
        if at(index) == '/' && at(index + 1) == '/' {
            index += chars[index..].iter().take_while(|c| **c != '\n').count();
        } else if at(index) == '/' && at(index + 1) == '*' {
            let length = chars[index..]
                .windows(2)
                .skip(2)
                .position(|pair| pair == ['*', '/']);
            index = length.map_or(chars.len(), |length| index + length + 4);
        } else if let Some((opening, hashes)) = raw_string {
            index += opening;
            let closes = |index: usize| {
                at(index) == '"' && (1..=hashes).all(|number| at(index + number) == '#')
            };
            while index < chars.len() && !closes(index) {
                index += 1;
            }
            index += 1 + hashes;
        } else if at(index) == '"'
            || (at(index) == '\'' && (at(index + 1) == '\\' || at(index + 2) == '\''))
        {
            let quote = at(index);
            index += 1;
            while index < chars.len() && at(index) != quote {
                index += 1 + usize::from(at(index) == '\\');
            }
            index += 1;
        } else if is_of_word(at(index)) {
            let word: String = chars[index..]
                .iter()
                .take_while(|c| is_of_word(**c))
                .collect();
            index += word.chars().count();
            tokens.push(Token(word, line));
        } else if at(index) == ':' && at(index + 1) == ':' {
            index += 2;
            tokens.push(Token("::".to_owned(), line));
        } else {
            if !at(index).is_whitespace() {
                tokens.push(Token(at(index).to_string(), line));
            }
            index += 1;
        }
        let end = index.min(chars.len());
        line += chars[start..end].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// The length of what opens a raw string here (`r#"`, `br"`), and how many `#` close it.
fn raw_string_hashes(chars: &[char]) -> Option<(usize, usize)> {
    let prefix = match chars {
        ['r', ..] => 1,
        ['b', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = chars[prefix..].iter().take_while(|c| **c == '#').count();
    (chars.get(prefix + hashes) == Some(&'"')).then_some((prefix + hashes + 1, hashes))
}

/// Leaves out each item that is only for tests.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let (mut kept, mut rest) = (Vec::new(), &tokens[..]);
    while let [first, after @ ..] = rest {
        let Some(len) = mark_of_tests(rest) else {
            kept.push(first.clone());
            rest = after;
            continue;
        };
        rest = &rest[len..];
        while rest.first().is_some_and(|token| token.text() == "#") {
            rest = &rest[1 + group(&rest[1..])..];
        }
        let is_use = rest.first().is_some_and(|token| token.text() == "use");
        let end = rest
            .iter()
            .position(|token| token.text() == ";" || (token.text() == "{" && !is_use));
        let end = end.unwrap_or(rest.len());
        let is_group = rest.get(end).is_some_and(|token| token.text() == "{");
        rest = &rest[(end + if is_group { group(&rest[end..]) } else { 1 }).min(rest.len())..];
    }
    kept
}

/// How many tokens `#[cfg(test)]` or `#[cfg(all(test, ..))]` is, if one of them stands here.
fn mark_of_tests(tokens: &[Token]) -> Option<usize> {
    const MARKS: [&[&str]; 2] = [
        &["#", "[", "cfg", "(", "test", ")", "]"],
        &["#", "[", "cfg", "(", "all", "(", "test", ","],
    ];
    let texts = |len: usize| tokens.iter().take(len).map(Token::text);
    let is_here = |mark: &&[&str]| texts(mark.len()).eq(mark.iter().copied());
    (MARKS.iter().any(is_here)).then(|| 1 + group(&tokens[1..]))
}

/// How many tokens there are from the bracket that opens to the one that closes it.
fn group(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}
