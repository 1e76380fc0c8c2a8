//! A trace as text: one line per stream, tasks as bars, waits as dots.
//!
//! ```text
//!                       0                   5                   10 ms
//! device 0  stream 1    A━━━━━━━━━B━━━━━
//! device 0  stream 2              w┄┄┄┄┄C━━━━━━━━━━━━
//! ```

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result};

/// One finished task: a line `start_ns end_ns device stream seq name reads writes` of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub stream: u64,
    pub name: String,
}

/// Reads a trace. A name may contain blanks: it is what stands between the first five fields and
/// the last two.
pub fn parse(trace: &str) -> Result<Vec<Task>> {
    let lines = trace.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse_line(line).with_context(|| format!("'{line}' is no line of a trace")))
        .collect()
}

fn parse_line(line: &str) -> Option<Task> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let [start, end, device, stream, _sequence, name @ .., _reads, _writes] = &fields[..] else {
        return None;
    };
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    let is_valid = !name.is_empty() && start <= end;
    let task = Task {
        start,
        end,
        device: device.parse().ok()?,
        stream: stream.parse().ok()?,
        name: name.join(" "),
    };
    is_valid.then_some(task)
}

/// How a task is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Work,
    Wait,
    Record,
}

impl Shape {
    fn of(name: &str) -> Shape {
        let name = name.to_ascii_lowercase();
        if name.contains("wait") {
            Shape::Wait
        } else if name.contains("record") {
            Shape::Record
        } else {
            Shape::Work
        }
    }

    fn fill(self) -> char {
        match self {
            Shape::Work => '━',
            Shape::Wait => '┄',
            Shape::Record => ' ',
        }
    }
}

/// Draws the tasks over `width` columns of time.
pub fn render(tasks: &[Task], width: usize) -> String {
    let Some(first) = tasks.iter().map(|task| task.start).min() else {
        return "(no task ran)\n".into();
    };
    let last = tasks.iter().map(|task| task.end).max().unwrap_or(first).max(first + 1);
    let scale = Scale { first, length: last - first, width: width.max(10) };
    let letters = letters(tasks);
    let mut streams = BTreeMap::<(u32, u64), Vec<&Task>>::new();
    for task in tasks {
        streams.entry((task.device, task.stream)).or_default().push(task);
    }
    let label = |(device, stream): &(u32, u64)| format!("device {device}  stream {stream}");
    let margin = streams.keys().map(|stream| label(stream).len()).max().unwrap_or(0) + 3;
    let mut out = format!("{:margin$}{}\n", "", scale.axis());
    for (stream, mut tasks) in streams {
        tasks.sort_by_key(|task| (task.start, task.end));
        let _ = writeln!(
            out,
            "{:margin$}{}",
            label(&stream),
            draw(&tasks, &scale, &letters).trim_end()
        );
    }
    out.push('\n');
    out.push_str(&legend(tasks, &letters));
    out
}

/// From time to columns.
struct Scale {
    first: u64,
    length: u64,
    width: usize,
}

impl Scale {
    fn column(&self, time: u64) -> usize {
        let column = u128::from(time - self.first) * self.width as u128 / u128::from(self.length);
        (column as usize).min(self.width - 1)
    }

    /// The last column of a task that ends at `time`: the end itself is not part of it.
    fn last(&self, time: u64) -> usize {
        self.column(time.max(self.first + 1) - 1)
    }

    /// Marks at round times: a step of 1, 2 or 5 times a power of ten that leaves room for the numbers.
    fn axis(&self) -> String {
        let milliseconds = self.length as f64 / 1e6;
        let max_marks = (self.width / 8).max(1) as f64;
        let min_step = milliseconds / max_marks;
        let power = 10f64.powf(min_step.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= min_step);
        let step = step.unwrap_or(10.0 * power);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let mut line: Vec<char> = vec![' '; self.width];
        for mark in 0.. {
            let time = mark as f64 * step;
            let column = (time / milliseconds * self.width as f64) as usize;
            let text = format!("{time:.digits$}");
            if column > self.width {
                break;
            }
            line.resize(line.len().max(column + text.len()), ' ');
            line[column..column + text.len()].copy_from_slice(&text.chars().collect::<Vec<_>>());
        }
        format!("{} ms", line.into_iter().collect::<String>().trim_end())
    }
}

/// A letter per name, in the order of first start: `w` for waits, `r` for records, capitals for work.
fn letters(tasks: &[Task]) -> BTreeMap<&str, char> {
    let mut letters = BTreeMap::new();
    let mut work_letters = ('A'..='Z').chain('a'..='q').chain('0'..='9');
    let mut ordered: Vec<_> = tasks.iter().collect();
    ordered.sort_by_key(|task| task.start);
    for task in ordered {
        letters.entry(task.name.as_str()).or_insert_with(|| match Shape::of(&task.name) {
            Shape::Work => work_letters.next().unwrap_or('?'),
            Shape::Wait => 'w',
            Shape::Record => 'r',
        });
    }
    letters
}

/// One line. Where several tasks begin in one column, the longest shows and the others leave a `+`
/// only when none of them has room.
fn draw(tasks: &[&Task], scale: &Scale, letters: &BTreeMap<&str, char>) -> String {
    let mut line = vec![' '; scale.width];
    for task in tasks {
        let from = scale.column(task.start);
        let to = scale.last(task.end).max(from);
        let fill = Shape::of(&task.name).fill();
        for cell in &mut line[from..=to] {
            if matches!(cell, ' ' | '┄') {
                *cell = fill;
            }
        }
        let letter = letters[task.name.as_str()];
        line[from] = match line[from] {
            ' ' | '━' | '┄' => letter,
            other if other == letter => letter,
            _ if to > from => letter,
            _ => '+',
        };
    }
    line.into_iter().collect()
}

fn legend(tasks: &[Task], letters: &BTreeMap<&str, char>) -> String {
    let mut rows: Vec<_> = letters.iter().map(|(name, letter)| (*letter, *name)).collect();
    rows.sort_by_key(|(letter, name)| (Shape::of(name) != Shape::Work, *letter, *name));
    let widest = rows.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (letter, name) in rows {
        let of_name = || tasks.iter().filter(|task| task.name == name);
        let (count, time) =
            (of_name().count(), of_name().map(|task| task.end - task.start).sum::<u64>());
        let _ =
            writeln!(out, "{letter}  {name:widest$}  {count:>5} x  {:>10.3} ms", time as f64 / 1e6);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
1000000 3000000 0 1 0 memcpy_h2d 0x10+64 0x20+64
3000000 3000000 0 1 1 record - -
1500000 3000000 0 2 0 wait_event - -
3000000 6000000 0 2 1 add one 0x20+64 0x30+64
2000000 11000000 1 9 0 host_func - -
";

    #[test]
    fn a_trace_has_one_line_per_stream() {
        let expected = "                     0       2       4       6       8       10 ms
device 0  stream 1   A━━━━━━━r
device 0  stream 2     w┄┄┄┄┄C━━━━━━━━━━━
device 1  stream 9       B━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━

A  memcpy_h2d      1 x       2.000 ms
B  host_func       1 x       9.000 ms
C  add one         1 x       3.000 ms
r  record          1 x       0.000 ms
w  wait_event      1 x       1.500 ms
";
        let drawn = render(&parse(TRACE).unwrap(), 40);
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn many_tasks_in_one_column_are_marked() {
        let trace = "0 10 0 1 0 a - -\n11 20 0 1 1 b - -\n0 100000000 0 2 0 c - -\n";
        let drawn = render(&parse(trace).unwrap(), 20);
        assert!(drawn.contains("stream 1   +\n"), "\n{drawn}");
    }

    #[test]
    fn bad_lines_are_shown() {
        assert_eq!(render(&parse("").unwrap(), 40), "(no task ran)\n");
        for bad in ["1 2 3", "5 4 0 1 0 backwards - -", "x 2 0 1 0 name - -"] {
            assert!(parse(bad).unwrap_err().to_string().contains(bad));
        }
    }
}
