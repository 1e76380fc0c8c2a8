//! Records that exist: each by itself, and those of several ranks against each other.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use cairn_record::{ReadError, Reader};

use super::{
    across::{self, RankCheck},
    live::Printer,
    process::{CheckedProcess, ProcessCheck, Rules},
};
use crate::progress::{Progress, Watched};

/// How many entries of a record are read before those of the next: ranks are compared while little of them is kept.
const ENTRIES: usize = 20_000;

struct RecordCheck<'a> {
    reader: Reader<Watched>,
    check: ProcessCheck<'a>,
    entries: u64,
    has_ended: bool,
}

/// Checks records, and prints what is found.
pub fn check(paths: &[PathBuf], rules: &Rules) -> Result<Vec<CheckedProcess>> {
    let progress = Progress::of_files(paths);
    let mut across = RankCheck::new(rules);
    let mut records: Vec<RecordCheck<'_>> = (paths.iter())
        .map(|path| {
            let reader = progress.try_open(path).map_err(|error| match error {
                ReadError::Foreign => {
                    let path = path.display();
                    anyhow!("{path} is not a record; to check a program: cairn check -- {path}")
                }
                other => anyhow!("{} {other}", path.display()),
            })?;
            across.add_process(reader.header(), None);
            let check = ProcessCheck::new(reader.header(), rules, None);
            Ok(RecordCheck { reader, check, entries: 0, has_ended: false })
        })
        .collect::<Result<_>>()?;
    while records.iter().any(|record| !record.has_ended) {
        for (number, record) in records.iter_mut().enumerate() {
            record.read_some(number, &mut across);
        }
    }
    for (number, record) in records.iter_mut().enumerate() {
        record.check.end();
        if !record.reader.damage().is_empty() || record.reader.is_cut_short() {
            across.set_incomplete(number);
        }
    }
    let (checks, others): (Vec<_>, Vec<_>) =
        records.into_iter().map(|it| (it.check, (it.reader, it.entries))).unzip();
    let found_across = across.finish(&checks);
    let finish = |(check, (reader, entries)): (ProcessCheck<'_>, (Reader<Watched>, u64))| {
        let (mut process, text) = check.finish(reader.damage(), reader.is_cut_short());
        if entries == 0 {
            process.warnings.push("the record has no entries: nothing was checked".into());
            process.is_incomplete = true;
        }
        (process, text)
    };
    let checked: Vec<(CheckedProcess, String)> =
        checks.into_iter().zip(others).map(finish).collect();
    drop(progress);
    let mut printer = Printer::new(paths.len());
    let print = |(process, text): (CheckedProcess, String)| {
        printer.print(&process.title, &text);
        process
    };
    let mut checked: Vec<CheckedProcess> = checked.into_iter().map(print).collect();
    printer.print(across::TITLE, &found_across);
    across.close(&mut checked);
    Ok(checked)
}

impl RecordCheck<'_> {
    fn read_some(&mut self, number: usize, across: &mut RankCheck<'_>) {
        for _ in 0..ENTRIES {
            let Some(entry) = self.reader.next() else {
                self.has_ended = true;
                return;
            };
            self.entries += 1;
            self.check.entry(&entry);
            across.entry(number, &entry);
        }
    }
}
