//! Groups of calls, noted by a thread and made when its outermost group ends.

use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::operator::{BatchItem, Operator, OperatorKind};
use cairn_runtime::signals::with_blocked_signals;
use cairn_runtime::stream::Stream;
use cairn_sync::lock::{Mutex, Rank};
use std::cell::Cell;
use std::sync::Arc;
use std::thread::ThreadId;

type Creation = Box<dyn FnOnce() -> Result<()> + Send>;

/// An operator that waits for the end of its group.
struct Noted {
    communicator: Arc<Communicator>,
    stream: Arc<Stream>,
    operator: Operator,
}

/// What a thread has noted.
#[derive(Default)]
struct Group {
    creations: Vec<Creation>,
    operators: Vec<Noted>,
}

thread_local! {
    /// How many groups the thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The groups of all threads that are inside one. Thread-locals of ours have no destructors, so they lie here.
static GROUPS: Mutex<Vec<(ThreadId, Group)>> = Mutex::new(Rank::Communicators, Vec::new());

/// Changes the group of the calling thread.
fn with_group<R>(change: impl FnOnce(&mut Group) -> R) -> R {
    let thread = std::thread::current().id();
    let mut groups = GROUPS.lock();
    let at = groups.iter().position(|(owner, _)| *owner == thread).unwrap_or_else(|| {
        groups.push((thread, Group::default()));
        groups.len() - 1
    });
    change(&mut groups[at].1)
}

/// Begins a group on the calling thread; groups nest.
pub fn start() {
    DEPTH.set(DEPTH.get() + 1);
}

/// Whether the calling thread is inside a group.
pub fn is_active() -> bool {
    DEPTH.get() > 0
}

/// Ends the innermost group. The outermost makes all that was noted: creations in threads, one each, then operators in the
/// order of the calls, where the sends and receives of one communicator become one batch on the first stream used. Returns
/// the first failure; waits for creations, not for streams. Without a group: code 5.
pub fn end() -> Result<()> {
    match DEPTH.get() {
        0 => return Err(Error::unsupported("a group ends that was not started by this thread")),
        depth => DEPTH.set(depth - 1),
    }
    if is_active() {
        return Ok(());
    }
    let thread = std::thread::current().id();
    let group = {
        let mut groups = GROUPS.lock();
        let at = groups.iter().position(|(owner, _)| *owner == thread);
        at.map(|at| groups.swap_remove(at).1)
    };
    let Some(group) = group else { return Ok(()) };
    run_creations(group.creations)?;
    let mut first_failure = Ok(());
    for noted in join_messages(group.operators) {
        let submitted = noted.communicator.submit_now(&noted.stream, &noted.operator);
        if first_failure.is_ok() {
            first_failure = submitted;
        }
    }
    first_failure
}

/// Creates a communicator: at once, or when the thread's group ends, on a thread of its own. `creation` makes it and hands
/// it to the program. Code 5 in a group that has operators.
pub fn create(creation: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    if !is_active() {
        return creation();
    }
    with_group(|group| match group.operators.is_empty() {
        true => {
            group.creations.push(Box::new(creation));
            Ok(())
        }
        false => Err(mixed()),
    })
}

fn mixed() -> Error {
    Error::unsupported("a group has either communicators to create or operators, not both")
}

/// Checks an operator and keeps it until the group ends.
pub(crate) fn note(
    communicator: &Arc<Communicator>,
    stream: &Arc<Stream>,
    operator: Operator,
) -> Result<()> {
    communicator.check_stream(stream, operator.kind())?;
    match operator.kind() {
        OperatorKind::Batch => {
            return Err(Error::unsupported("HcclBatchSendRecv is not allowed inside a group"));
        }
        OperatorKind::Send | OperatorKind::Receive => {
            let item = item(&operator).expect("it is a single message");
            communicator.position().check_item(&item).map_err(|error| error.of(operator.name()))?;
        }
        _ => drop(communicator.position().plan(&operator)?),
    }
    let (communicator, stream) = (communicator.clone(), stream.clone());
    with_group(|group| match group.creations.is_empty() {
        true => {
            group.operators.push(Noted { communicator, stream, operator });
            Ok(())
        }
        false => Err(mixed()),
    })
}

/// A send or receive as a part of a batch.
fn item(operator: &Operator) -> Option<BatchItem> {
    match *operator {
        Operator::Send { buffer, count, data_type, peer } => {
            Some(BatchItem { receives: false, buffer, count, data_type, peer })
        }
        Operator::Receive { buffer, count, data_type, peer } => {
            Some(BatchItem { receives: true, buffer, count, data_type, peer })
        }
        _ => None,
    }
}

/// Makes one batch of the sends and receives of each communicator, in the place and on the stream of the first.
fn join_messages(operators: Vec<Noted>) -> Vec<Noted> {
    let mut joined: Vec<Noted> = Vec::with_capacity(operators.len());
    for noted in operators {
        let Some(item) = item(&noted.operator) else {
            joined.push(noted);
            continue;
        };
        let batch = joined.iter_mut().find_map(|other| match &mut other.operator {
            Operator::Batch { items } if other.communicator.id() == noted.communicator.id() => {
                Some(items)
            }
            _ => None,
        });
        match batch {
            Some(items) => items.push(item),
            None => {
                joined.push(Noted { operator: Operator::Batch { items: vec![item] }, ..noted });
            }
        }
    }
    joined
}

/// Makes communicators at the same time, each on a thread of its own; the first failure.
fn run_creations(creations: Vec<Creation>) -> Result<()> {
    let mut threads = Vec::with_capacity(creations.len());
    let mut first_failure = Ok(());
    for creation in creations {
        let thread = std::thread::Builder::new().name("cairn-join".into());
        let thread = with_blocked_signals(|| thread.spawn(creation));
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let text = format!("no thread for a communicator of a group: {error}");
                first_failure = Err(Error::new(crate::Code::SystemCall, text));
            }
        }
    }
    for thread in threads {
        let made = thread.join().unwrap_or_else(|panic| {
            let error = cairn_runtime::error::Error::internal(&*panic);
            Err(Error::new(crate::Code::Internal, error.text))
        });
        if first_failure.is_ok() {
            first_failure = made;
        }
    }
    first_failure
}
