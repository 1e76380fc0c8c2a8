//! Bytes as what comes to a meeting point of ranks, or from one, and as a root info.

use cairn_comm::RootInfo;
use cairn_comm::meeting::wire::{MAX_HELLO, MAX_REPLY, MAX_REQUEST, Reply, Request, first_frame};

/// Reads the bytes as a stream of frames, of either side, and as a root info.
///
/// # Panics
/// When a frame is longer than it may be, or what is written and read again differs.
pub fn meeting(data: &[u8]) {
    each_frame(data, MAX_HELLO, &mut |frame| {
        if let Ok(request) = Request::decode(frame) {
            check(Request::decode, &request, &request.encode());
        }
    });
    each_frame(data, MAX_REQUEST, &mut |frame| drop(Request::decode(frame)));
    each_frame(data, MAX_REPLY, &mut |frame| {
        if let Ok(reply) = Reply::decode(frame) {
            check(Reply::decode, &reply, &reply.encode());
        }
    });
    if let Ok(info) = RootInfo::decode(data) {
        assert_eq!(RootInfo::decode(&info.encode()), Ok(info));
    }
}

/// Calls `read` with every whole frame up to the first that is none.
fn each_frame(mut data: &[u8], longest: usize, read: &mut dyn FnMut(&[u8])) {
    while let Ok(Some((frame, used))) = first_frame(data, longest) {
        assert!(frame.len() <= longest && used == frame.len() + 4 && used <= data.len());
        read(frame);
        data = &data[used..];
    }
}

/// Checks that `encoded` is one frame, which is read as `expected`.
fn check<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug + PartialEq>(
    decode: impl Fn(&[u8]) -> Result<T, E>,
    expected: &T,
    encoded: &[u8],
) {
    let (frame, used) = first_frame(encoded, MAX_REPLY).ok().flatten().expect("one frame");
    assert_eq!(used, encoded.len());
    assert_eq!(decode(frame).as_ref(), Ok(expected));
}
