//! The report as text for a terminal. Whatever comes from a log is made printable.

use std::fmt::{self, Display, Formatter};

use playground::span;

use super::{LimitReport, Number, Quantiles, Report, TimeLine, WhatIf, WorstSpan};
use crate::{
    shown::{counted, percent, printable},
    tally::over_time::Bin,
};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let logs = self.logs.iter().map(|log| printable(&log.name));
        writeln!(
            f,
            "{} on {}",
            printable(&self.rules),
            logs.collect::<Vec<_>>().join(", ")
        )?;
        self.write_lines(f)?;
        for note in &self.notes {
            writeln!(f, "note: {}", printable(note))?;
        }
        let (Some(from), Some(until)) = (self.from, self.until) else {
            return writeln!(f, "\nThe logs have no requests.");
        };
        let requests = counted(self.requests.total, "request");
        writeln!(f, "\n{requests} from {from} until {until}")?;
        self.write_requests(f)?;
        self.over_time.write(f)?;
        for limit in &self.limits {
            limit.write(f)?;
        }
        if let Some(rows) = &self.what_if {
            write_what_if(rows, f)?;
        }
        if self.keys.decided_in_shared_bucket > 0 {
            let max = counted(self.keys.max, "key");
            let shared = counted(self.keys.decided_in_shared_bucket, "decision");
            writeln!(
                f,
                "\nMore than {max} had a bucket at once: {shared} were made by the overflow bucket, \
                 which the other keys share. Raise the maximum with --max-keys."
            )?;
        }
        Ok(())
    }
}

impl Report {
    fn write_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for log in &self.logs {
            let name = printable(&log.name);
            if log.unreadable > 0 {
                let lines = counted(log.unreadable, "line");
                writeln!(f, "{name}: {lines} could not be read:")?;
                for line in &log.first_unreadable {
                    let (text, why) = (printable(&line.text), printable(&line.why));
                    writeln!(f, "  line {}: {why}: {text}", line.line)?;
                }
            }
            if log.out_of_order > 0 {
                let requests = counted(log.out_of_order, "request");
                writeln!(
                    f,
                    "{name}: {requests} too far behind later ones to be sorted"
                )?;
            }
            if log.ahead > 0 {
                let requests = counted(log.ahead, "request");
                writeln!(
                    f,
                    "{name}: {requests} dated more than a minute ahead of the lines around: \
                     replayed at the time of those"
                )?;
            }
        }
        Ok(())
    }

    fn write_requests(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let it = &self.requests;
        let mut row = |name: &str, number: u64, always: bool| match number {
            0 if !always => Ok(()),
            _ => {
                let share = percent(number, it.total);
                writeln!(f, "  {name:<32}{number:>12}  {share:>8}")
            }
        };
        row("admitted", it.admitted, true)?;
        row("refused", it.refused, true)?;
        row("would be refused (shadow)", it.would_be_refused, false)?;
        row("no rule matches them", it.without_rule, false)?;
        row("rejected", it.rejected, false)?;
        for rejection in &it.rejections {
            let why = printable(&rejection.why);
            writeln!(
                f,
                "    {} × {}: {why}",
                rejection.requests, rejection.status
            )?;
        }
        writeln!(
            f,
            "  {:<32}{:>12}",
            "callers refused",
            it.callers_refused.to_string()
        )
    }
}

impl LimitReport {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\nlimit `{}`", printable(&self.name))?;
        if self.rule != self.name {
            write!(f, " of rule `{}`", printable(&self.rule))?;
        }
        if self.shadow {
            write!(f, ", in shadow")?;
        }
        writeln!(f, ": {}", self.numbers.join(", or by plan "))?;
        let mut parts = vec![counted(self.requests, "request")];
        match self.shadow {
            true => parts.push(self.share("would be refused", self.would_be_refused)),
            false => parts.push(self.share("refused", self.refused)),
        }
        for (name, number) in [
            ("refused by other limits", self.refused_by_others),
            ("delayed", self.delayed),
            ("cost more than can ever fit", self.never_fit),
        ] {
            if number > 0 {
                parts.push(self.share(name, number));
            }
        }
        writeln!(f, "  {}", parts.join(", "))?;
        for (name, quantiles) in [("wait", &self.wait), ("delay", &self.delay)] {
            if let Some(quantiles) = quantiles {
                quantiles.write(name, f)?;
            }
        }
        if let Some(worst) = &self.worst_span {
            worst.write(f)?;
        }
        if !self.most_refused.is_empty() {
            self.write_most_refused(f)?;
        }
        Ok(())
    }

    fn share(&self, name: &str, number: u64) -> String {
        format!("{number} {name} ({})", percent(number, self.requests))
    }

    fn write_most_refused(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let exactness = match self.most_refused_is_exact {
            true => "",
            false => ", approximately, as there are too many keys to count each",
        };
        let callers = self.callers_refused;
        writeln!(f, "  callers refused: {callers}; most often{exactness}:")?;
        for top in &self.most_refused {
            let key = printable(&top.key);
            match top.at_least == top.refused {
                true => writeln!(f, "    {:>10} × {key}", top.refused)?,
                false => writeln!(f, "    {} to {} × {key}", top.at_least, top.refused)?,
            }
        }
        Ok(())
    }
}

impl Quantiles {
    fn write(&self, name: &str, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {name}: half at most {}, 90 % {}, 99 % {}, longest {}",
            span::told(self.p50_micros),
            span::told(self.p90_micros),
            span::told(self.p99_micros),
            span::told(self.longest_micros)
        )
    }
}

impl WorstSpan {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bound = self
            .bound
            .map_or("not known".to_owned(), |bound| bound.to_string());
        write!(f, "  worst {}: {} {}", self.span(), self.most, self.counts)?;
        if let (Some(key), Some(until)) = (&self.key, self.until) {
            write!(f, " of {} until {until}", printable(key))?;
        }
        writeln!(f, "; the bound is {bound}: {}", self.formula)?;
        if self.overlooked > 0 {
            let overlooked = counted(self.overlooked, "admission");
            writeln!(
                f,
                "    (not examined, because too many keys were active at once: {overlooked})"
            )?;
        }
        Ok(())
    }
}

impl TimeLine {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let width = span::told(self.bin_micros);
        let begin = self.begins(0);
        writeln!(f, "  over time, {width} each from {begin} on:")?;
        self.write_row("requests", |bin| bin.requests, f)?;
        self.write_row("refused", |bin| bin.refused, f)?;
        self.write_row("would be refused", |bin| bin.would_be_refused, f)
    }

    fn write_row(
        &self,
        name: &str,
        number: impl Fn(&Bin) -> u64,
        f: &mut Formatter<'_>,
    ) -> fmt::Result {
        const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let numbers: Vec<u64> = self.bins.iter().map(number).collect();
        let highest = numbers.iter().enumerate().max_by_key(|(place, number)| {
            // The first of several.
            (**number, usize::MAX - place)
        });
        let Some((place, most)) = highest.filter(|(_, most)| **most > 0) else {
            return Ok(());
        };
        let bars = numbers.iter().map(|number| match number {
            0 => ' ',
            number => {
                let height = (u128::from(*number) * 8).div_ceil(u128::from(*most));
                HEIGHTS[height as usize - 1]
            }
        });
        let bars: String = bars.collect();
        writeln!(
            f,
            "    {name:<17}|{bars}| most: {most} at {}",
            self.begins(place)
        )
    }
}

fn write_what_if(rows: &[WhatIf], f: &mut Formatter<'_>) -> fmt::Result {
    let has_shadows = rows.iter().any(|row| row.would_be_refused > 0);
    write!(f, "\nwhat if all quotas were   refused   callers refused")?;
    writeln!(
        f,
        "{}",
        if has_shadows {
            "   would be refused (shadow)"
        } else {
            ""
        }
    )?;
    let row = |name: &str, refused: u64, callers: Number| {
        format!("  {name:<23}{refused:>8}   {:>15}", callers.to_string())
    };
    for what_if in rows {
        if let Some(error) = &what_if.error {
            writeln!(f, "  {}: {}", what_if.quotas.name(), printable(error))?;
            continue;
        }
        write!(
            f,
            "{}",
            row(
                what_if.quotas.name(),
                what_if.refused,
                what_if.callers_refused
            )
        )?;
        match has_shadows {
            true => writeln!(f, "   {:>25}", what_if.would_be_refused)?,
            false => writeln!(f)?,
        }
        if what_if.limits.len() > 1 {
            for limit in &what_if.limits {
                let name = format!("  `{}`", printable(&limit.name));
                writeln!(f, "{}", row(&name, limit.refused, limit.callers_refused))?;
            }
        }
    }
    Ok(())
}
