//! Records that are read, with a bar on the terminal.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use cairn_record::{ReadError, Reader, reader::Source};
use indicatif::{ProgressBar, ProgressStyle};

/// How much of some files was read; shows nothing where stderr is no terminal, and nothing any more when it ends.
pub struct Progress(ProgressBar);

/// A file whose reading is shown.
pub struct Watched {
    file: File,
    bar: ProgressBar,
}

impl Progress {
    /// For these files, each as often as it is read; they count by their bytes.
    pub fn of_files(files: &[PathBuf]) -> Progress {
        let bytes = files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|m| m.len());
        let bar = ProgressBar::new(bytes.sum());
        if let Ok(style) = ProgressStyle::with_template("reading {wide_bar} {bytes}/{total_bytes}")
        {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Opens a record; an error names the file.
    pub fn open(&self, path: &Path) -> Result<Reader<Watched>> {
        self.try_open(path).map_err(|error| anyhow!("{} {error}", path.display()))
    }

    /// Opens a record.
    pub fn try_open(&self, path: &Path) -> Result<Reader<Watched>, ReadError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(ReadError::Foreign);
        }
        Reader::new(Watched { file, bar: self.0.clone() })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
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
