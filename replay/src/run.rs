//! Runs the command line.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_replay::{
    extensions::ExtensionSources,
    input::Input,
    key_text::HeaderValues,
    logged::Logged,
    notes::notes,
    replay::replay,
    report::{Found, Report, WhatIf},
    rules_file::{RulesFile, Scale},
    scenario::{Scenario, Setting},
};

use crate::args::Args;

pub(crate) fn run(args: Args) -> Result<(), String> {
    if let Some(page) = &args.html {
        is_not_read(page, &args)?;
    }
    let file = RulesFile::read(&args.rules)?;
    let extensions = ExtensionSources::new(file.extension_names(), &args.extensions)?;
    let rules = file.rules(&extensions)?;
    let setting = Arc::new(Setting {
        limits: file.limits(),
        extensions,
        header_values: match args.show_headers {
            true => HeaderValues::Whole,
            false => HeaderValues::Cut,
        },
        max_keys: args.max_keys,
    });
    let notes = notes(&setting);
    for note in &notes {
        eprintln!("tollgate-replay: {note}");
    }
    let main = Scenario::new(&setting, rules, Scale::Same, true)
        .map_err(|error| format!("--max-keys: {error}"))?;
    let mut scenarios = vec![main];
    let mut wrong = Vec::new();
    if !args.no_what_if {
        for scale in [Scale::Half, Scale::Double] {
            match file.scaled(scale, &setting.extensions) {
                Ok(rules) => scenarios.push(Scenario::new(&setting, rules, scale, false)?),
                Err(error) => wrong.push(WhatIf::wrong(scale, error)),
            }
        }
    }
    let format = args.format.map(Into::into);
    let header_names = file.header_names(&setting.extensions);
    let (mut input, length) = Input::open(&args.logs, format, Some(&header_names))?;
    let progress = progress(length);
    let watched = Watched {
        input: &mut input,
        progress: &progress,
        requests: 0,
    };
    let scenarios = replay(watched, &setting.extensions, scenarios).map_err(|e| e.to_string())?;
    progress.finish_and_clear();
    let what_if = (!args.no_what_if).then(|| {
        let mut rows: Vec<_> = scenarios.iter().map(WhatIf::of).chain(wrong).collect();
        rows.sort_by_key(|row| row.quotas);
        rows
    });
    let report = Report::new(Found {
        rules: file.path().display().to_string(),
        logs: input.told(),
        main: &scenarios[0],
        what_if,
        notes,
        top: args.top.into(),
    });
    if let Some(file) = &args.html {
        fs::write(file, report.html()).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let printed = match args.json {
        true => report.json() + "\n",
        false => report.to_string(),
    };
    match io::stdout().lock().write_all(printed.as_bytes()) {
        // The reader, such as `head`, has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Checks that the page does not overwrite an input.
fn is_not_read(page: &Path, args: &Args) -> Result<(), String> {
    let place = |path: &Path| fs::canonicalize(path).ok();
    let read = args.logs.iter().chain([&args.rules]);
    match place(page).is_some_and(|page| read.into_iter().any(|it| place(it) == Some(page.clone())))
    {
        true => Err(format!(
            "--html {}: the replay reads that file",
            page.display()
        )),
        false => Ok(()),
    }
}

/// A bar on standard error, if that is a terminal.
fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{bar:30} {percent} %, {binary_bytes_per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {binary_bytes}, {binary_bytes_per_sec}",
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template(template);
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The input, which moves the bar on.
struct Watched<'a> {
    input: &'a mut Input,
    progress: &'a ProgressBar,
    requests: u64,
}

impl Iterator for Watched<'_> {
    type Item = io::Result<Box<Logged>>;

    fn next(&mut self) -> Option<io::Result<Box<Logged>>> {
        const EVERY: u64 = 8_192;

        self.requests += 1;
        if self.requests.is_multiple_of(EVERY) {
            self.progress.set_position(self.input.read_bytes());
        }
        self.input.next()
    }
}
