//! A bar on the terminal while records are read.

use std::{fs::File, io, path::PathBuf};

use cairn_record::reader::Source;
use indicatif::{ProgressBar, ProgressStyle};

/// How much of some files was read; shows nothing where stderr is no terminal.
pub struct Progress(ProgressBar);

/// A file whose reading is shown.
pub struct Watched {
    file: File,
    bar: ProgressBar,
}

impl Progress {
    /// For these files; they count by their bytes.
    pub fn of_files(files: &[PathBuf]) -> Progress {
        let bytes = files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|m| m.len());
        let bar = ProgressBar::new(bytes.sum());
        if let Ok(style) = ProgressStyle::with_template("reading {wide_bar} {bytes}/{total_bytes}")
        {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Shows how a file is read.
    pub fn watch(&self, file: File) -> Watched {
        Watched { file, bar: self.0.clone() }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Source for Watched {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = Source::read_at(&self.file, offset, buffer)?;
        self.bar.inc(count as u64);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}
