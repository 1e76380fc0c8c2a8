//! A bar on the terminal while children run.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How many of some steps are done, and what is done now; shows nothing where stderr is no terminal.
pub struct StepBar(ProgressBar);

impl StepBar {
    /// For this many steps.
    pub fn new(steps: usize) -> StepBar {
        let bar = ProgressBar::new(steps as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        StepBar(bar)
    }

    /// The next step begins.
    pub fn begin(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// It is done.
    pub fn end(&self) {
        self.0.inc(1);
    }
}

impl Drop for StepBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
