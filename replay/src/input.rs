//! The logs of one replay: several files are merged by time.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use http::HeaderName;

use crate::{
    log::{Format, Options, Reader},
    logged::Logged,
    report::{Log, Unreadable},
};

/// How much is read from a file at once.
const BUFFER: usize = 256 * 1024;

/// Several logs, each sorted by itself.
pub struct Input {
    logs: Vec<One>,
}

struct One {
    name: String,
    reader: Reader<Box<dyn BufRead + Send>>,
    next: Option<Box<Logged>>,
}

/// Opens a log, and tells how long it is if that is known; `-` is standard input.
fn open(path: &Path) -> io::Result<(Box<dyn BufRead + Send>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((
            Box::new(BufReader::with_capacity(BUFFER, io::stdin())),
            None,
        ));
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        let why = "it is a directory: name the files in it";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
    }
    let length = about.is_file().then_some(about.len());
    Ok((Box::new(BufReader::with_capacity(BUFFER, file)), length))
}

impl Input {
    /// Opens these logs, in this format or in the one that is detected for each. Returns their
    /// total length, if it is known. Reads the header fields with these names, or all of them.
    ///
    /// # Errors
    ///
    /// One of them cannot be read, or its format is not known. The message has its name.
    pub fn open(
        paths: &[PathBuf],
        format: Option<Format>,
        header_names: Option<&[HeaderName]>,
    ) -> Result<(Self, Option<u64>), String> {
        let options = Options {
            header_names: header_names.map(<[_]>::to_vec),
            ..Options::default()
        };
        let (mut logs, mut places) = (Vec::new(), Vec::new());
        let mut total = Some(0);
        for path in paths {
            let name = path.display().to_string();
            // A pipe has no other name; and standard input is no file.
            let place = match fs::canonicalize(path) {
                Ok(place) if path != Path::new("-") => place,
                _ => path.clone(),
            };
            if places.contains(&place) {
                return Err(format!("{name} is given twice"));
            }
            places.push(place);
            let reader = open(path).and_then(|(input, length)| {
                total = total.zip(length).map(|(total, length)| total + length);
                Reader::new(input, format, options.clone())
            });
            let reader = reader.map_err(|error| format!("{name}: {error}"))?;
            let next = None;
            logs.push(One { name, reader, next });
        }
        let mut input = Self { logs };
        for log in &mut input.logs {
            log.read_next().map_err(|error| error.to_string())?;
        }
        Ok((input, total))
    }

    /// How many bytes are read.
    pub fn read_bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.reader.read_bytes()).sum()
    }

    /// What was read.
    pub fn told(&self) -> Vec<Log> {
        self.logs.iter().map(One::log).collect()
    }
}

impl Iterator for Input {
    type Item = io::Result<Box<Logged>>;

    /// The next request of all logs.
    fn next(&mut self) -> Option<io::Result<Box<Logged>>> {
        let earliest = match &mut *self.logs {
            [one] => one,
            several => {
                let waiting = several.iter_mut().filter(|log| log.next.is_some());
                let start = |log: &&mut One| log.next.as_ref().map(|next| next.started_micros);
                waiting.min_by_key(start)?
            }
        };
        let next = earliest.next.take()?;
        Some(earliest.read_next().map(|()| next))
    }
}

impl One {
    fn read_next(&mut self) -> io::Result<()> {
        let next = self.reader.next().transpose();
        let next =
            next.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))?;
        self.next = next;
        Ok(())
    }

    fn log(&self) -> Log {
        let unreadable = self.reader.unreadable();
        let first = unreadable.first().iter().map(|line| Unreadable {
            line: line.number,
            text: line.text.clone(),
            why: line.why.to_string(),
        });
        Log {
            name: self.name.clone(),
            bytes: self.reader.read_bytes(),
            other_lines: self.reader.other(),
            unreadable: unreadable.count(),
            first_unreadable: first.collect(),
            out_of_order: self.reader.out_of_order(),
            ahead: self.reader.ahead(),
        }
    }
}
