use super::{
    frame::{Frame, Process},
    screen::{Action, Screen},
    view::{Earlier, Order},
    *,
};
use cairn_runtime::live::{
    Claim, DeviceFigures, Snapshot,
    details::{AllocatorFigures, CommunicatorFigures, Details, PoolFigures, StreamFigures},
};
use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyCode};

const MIB: u64 = 1 << 20;

fn process(pid: i32, name: &str, used: u64, details: Option<Details>) -> Process {
    let active =
        DeviceFigures { capacity: 1024 * MIB, used, waiting: MIB, streams: 2, active: true };
    let devices = vec![DeviceFigures::default(), active];
    let snapshot =
        Snapshot { pid, name: name.into(), devices, claim: Claim::default(), communicators: 1 };
    Process { snapshot, details }
}

/// A process with a stream that is behind, one that is idle, a pool and an allocator; and one that does not answer.
fn frame(finished: u64) -> Frame {
    let stream =
        |stream, submitted, finished| StreamFigures { device: 1, stream, submitted, finished };
    let details = Details {
        time_ns: 1,
        streams: vec![stream(1, 7, 7), stream(2, finished + 10, finished)],
        pools: vec![PoolFigures {
            device: 1,
            number: 1,
            built_in: true,
            reserved: 32 * MIB,
            live: 20 * MIB,
            peak: 24 * MIB,
            waiting: 512,
            blocks: 3,
        }],
        allocators: vec![AllocatorFigures {
            object: 0xbeef,
            device: 1,
            live: 1000,
            peak: 2000,
            blocks: 1,
            taken: 12,
            freed: 11,
        }],
        communicators: vec![CommunicatorFigures {
            name: "group_name_0".into(),
            rank: 1,
            size: 2,
            device: 1,
            submitted: 40,
            finished: 38,
        }],
        counts: [2, 1, 1, 1],
    };
    let processes =
        vec![process(7, "train.py", 64 * MIB, Some(details)), process(9, "serve", 128 * MIB, None)];
    Frame { processes }
}

#[test]
fn a_frame() {
    let text = plain(&frame(90), &View::default());
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn frame_as_json() {
    let text = json::render(&frame(90));
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn nothing_runs() {
    let text = plain(&Frame::default(), &View::default());
    assert!(text.starts_with("Devices: none\n") && text.contains("Processes: none"), "{text}");
}

#[test]
fn a_process_that_uses_no_device_is_named() {
    let arguments = Arguments { once: true, json: false, pid: Some(-7), interval: 1.0 };
    assert_eq!(run(&arguments).unwrap_err().to_string(), "no process -7 uses a device");
    assert_eq!(frame(90).of_process(Some(9)).processes.len(), 1);
}

#[test]
fn orders_and_rates() {
    let (before, now) = (frame(90), frame(390));
    let earlier = Earlier { frame: &before, seconds: 2.0 };
    let first = |order, section: usize| {
        let sections = View { order, ..View::default() }.sections(&now, Some(&earlier));
        sections[section].rows[0].clone()
    };
    assert_eq!(first(Order::Size, 1)[0], "serve");
    assert_eq!(first(Order::Activity, 1), ["train.py", "7", "64.00 MiB", "2", "10", "150"]);
    assert_eq!(first(Order::Number, 1)[1], "7");
    assert_eq!(first(Order::Size, 2)[0], "2 of device 1");
    assert_eq!(first(Order::Number, 2)[0], "1 of device 1");
    let one = View { pid: Some(9), ..View::default() }.sections(&now, None);
    assert_eq!((one[1].rows.len(), one[2].rows.len()), (2, 0));
}

#[test]
fn keys_choose_what_is_shown() {
    let mut screen = Screen::new(View::default());
    screen.update(&frame(90), None);
    assert_eq!(screen.press(KeyCode::Char('x')), Action::Nothing);
    assert_eq!(screen.press(KeyCode::Down), Action::Redraw);
    assert_eq!(screen.press(KeyCode::Down), Action::Redraw);
    assert_eq!(screen.cursor, 1);
    screen.press(KeyCode::Enter);
    assert_eq!(screen.view.pid, Some(7));
    screen.press(KeyCode::Enter);
    assert_eq!(screen.view.pid, None);
    screen.press(KeyCode::Up);
    screen.press(KeyCode::Enter);
    assert_eq!(screen.view.pid, Some(9));
    screen.press(KeyCode::Char('a'));
    screen.press(KeyCode::Char('s'));
    assert_eq!((screen.view.pid, screen.view.order), (None, Order::Activity));
    assert_eq!(screen.press(KeyCode::Char('q')), Action::Quit);
    screen.update(&Frame::default(), None);
    assert_eq!((screen.cursor, screen.press(KeyCode::Enter)), (0, Action::Redraw));
}

#[test]
fn the_screen_has_every_table_as_far_as_there_is_room() {
    let mut screen = Screen::new(View::default());
    screen.update(&frame(90), None);
    let draw = |width, height| {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|target| screen.draw(target)).unwrap();
        terminal.backend().to_string()
    };
    let text = draw(110, 40);
    for part in
        ["cairn top", "train.py", "0xbeef on device 1", "1 of device 1, built in", "no answer"]
    {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(draw(110, 9).contains("Devices"));
    draw(5, 2);
}

#[test]
fn intervals() {
    assert_eq!(parse_interval("0.5"), Ok(0.5));
    for text in ["0", "-1", "nan", "soon", "1e9"] {
        assert!(parse_interval(text).unwrap_err().starts_with(&format!("`{text}` is no number")));
    }
}
