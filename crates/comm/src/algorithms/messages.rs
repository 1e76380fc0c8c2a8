//! Single messages: sends and receives that do not wait for each other.

use super::Buffers;
use crate::links::{Failure, First, Links};
use crate::plan::Message;
use smallvec::SmallVec;

/// Copies what this rank sends to itself, in the order of the list.
pub(super) fn copy_own(messages: &[Message], rank: u32, buffers: &Buffers<'_>) {
    let own = |receives| {
        messages.iter().filter(move |message| message.peer == rank && message.receives == receives)
    };
    for (send, receive) in own(false).zip(own(true)) {
        buffers.copy(buffers.write(receive.place), buffers.read(send.place));
    }
}

/// Exchanges all messages at once.
pub(super) fn run(
    links: &Links<'_>,
    messages: &[Message],
    buffers: &Buffers<'_>,
) -> Result<(), Failure> {
    let (mut sends, mut receives) =
        (SmallVec::<[First<'_>; 8]>::new(), SmallVec::<[First<'_>; 8]>::new());
    for message in messages.iter().filter(|message| message.peer != links.rank) {
        let Message { peer, header, place, .. } = *message;
        match message.receives {
            true => receives.push(First { peer, header, bytes: buffers.write(place) }),
            false => sends.push(First { peer, header, bytes: buffers.read(place) }),
        }
    }
    copy_own(messages, links.rank, buffers);
    links.open(&sends, &receives)
}
