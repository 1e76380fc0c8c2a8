//! Walks the stacks of calls for the recorder: the frames of Python first, if the thread has any, then those of C and C++.

mod line_table;
mod native;
mod python;
mod python_layout;
mod safe_read;

use cairn_record::entry::Frame;
use cairn_runtime::record::stack::{Unwinder, Words};

/// The stack of the calling thread.
pub struct ThreadStack;

impl Unwinder for ThreadStack {
    fn walk(&self, is_fault: bool, words: &mut Words) {
        words.push(0);
        let count = python::walk(words);
        words[0] = count;
        native::walk(is_fault, words);
    }

    fn describe(&self, words: &[usize]) -> Box<[Frame]> {
        let Some((&count, rest)) = words.split_first() else { return Box::default() };
        let (python, native) = rest.split_at((count * python::WORDS).min(rest.len()));
        let mut frames = python::describe(python);
        frames.extend(native::describe(native, !frames.is_empty()));
        frames.into()
    }
}
