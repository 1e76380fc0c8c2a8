//! Memory that the calling thread reads for a call is reported when it was read, and not when that was refused.

mod support;

use cairn_runtime::error::Code;
use cairn_runtime::record::{Access, Event, Kind, Mode, Sink, Stamp, site};
use std::sync::{Arc, Mutex};
use support::*;

#[derive(Default)]
struct Touches(Mutex<Vec<(&'static str, Vec<Access>)>>);

impl Sink for Touches {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        if let Event::Touch { name, accesses } = *event {
            self.0.lock().unwrap().push((name, accesses.to_vec()));
        }
    }
}

#[test]
fn host_bytes_are_copied_and_then_reported() {
    let runtime = start_runtime(1, |_| ());
    let touches = Arc::new(Touches::default());
    runtime.shared.spine.subscribe(touches.clone(), &[Kind::Touch]).unwrap();
    let bytes = [3u8, 1, 4, 1, 5];
    let address = bytes.as_ptr() as usize;
    let copy = site::enter("aCall", || runtime.copy_from_host("an input", address, bytes.len()));
    assert_eq!(copy.unwrap(), bytes);
    let expected = [("aCall", vec![Access::range(address, 5, Mode::Read)])];
    assert_eq!(*touches.0.lock().unwrap(), expected);

    let refused = runtime.copy_from_host("an input", 8, 64).unwrap_err();
    assert_eq!(refused.code, Code::InvalidParam);
    assert!(refused.text.contains("an input: no 64 bytes can be read at 0x8"), "{}", refused.text);
    assert_eq!(*touches.0.lock().unwrap(), expected, "nothing was read");
}
