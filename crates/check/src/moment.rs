//! What rules look at: an entry, with what the state knows of it.

use cairn_record::entry::TaskKind;
use cairn_record::{Access, Clock, Entry, Epoch, Name, Site};
use std::rc::Rc;

/// A task that was submitted.
#[derive(Debug)]
pub struct Task {
    /// Where in its stream.
    pub epoch: Epoch,
    /// Its name.
    pub name: Name,
    /// The call that prepared it.
    pub site: Site,
    /// The thread that submitted it.
    pub thread: u64,
    /// When it was submitted.
    pub time_ns: u64,
    /// The graph that it runs, as the user calls it.
    pub graph: Option<Rc<str>>,
    /// Set where an earlier call decided what it touches.
    pub preparation: Option<Preparation>,
}

/// The call that prepared a task.
#[derive(Clone, Copy, Debug)]
pub struct Preparation {
    /// When it was.
    pub time_ns: u64,
    /// How many of the task's first accesses it decided.
    pub accesses: usize,
}

/// An access of a task.
#[derive(Clone, Debug)]
pub struct Touch {
    /// The task.
    pub task: Rc<Task>,
    /// What it touches.
    pub access: Access,
    /// The step of the graph that does, where the task runs one.
    pub step: Option<Rc<str>>,
}

/// A task at the moment of its submit.
#[derive(Debug)]
pub struct Submission {
    /// The task.
    pub task: Rc<Task>,
    /// What it touches, by step where it runs a graph.
    pub touches: Vec<Rc<Touch>>,
    /// What events and synchronization have ordered before it.
    pub ordered: Clock,
    /// What kind of work it is.
    pub kind: TaskKind,
}

/// What is happening.
pub enum Moment<'a> {
    /// A task is submitted.
    Submit(&'a Entry<'static>, Submission),
    /// Anything else.
    Other(&'a Entry<'static>),
    /// The record ends in order.
    End,
}
