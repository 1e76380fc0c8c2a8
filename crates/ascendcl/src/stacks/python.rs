//! The frames of Python of the calling thread.
//!
//! They are read from the interpreter's own structures, as a debugger reads them, because most calls come while the thread has
//! released the interpreter's lock: PyTorch does that for every operator. The frames of a thread change only when the thread itself
//! runs Python, so they stand still while it is here, and so does the code that they refer to. Nothing is called but the
//! question for the thread's state; no count of references changes, no lock is taken and no code of Python runs. Where the
//! structures are not what the version says, or the interpreter ends meanwhile, reads fail or types differ, and no frames are taken.

use super::native;
use super::python_layout::{self as layout, Instruction, Layout};
use super::safe_read::{Pages, read, read_parts, word_of};
use cairn_record::Name;
use cairn_record::entry::Frame;
use cairn_runtime::record::stack::Words;
use smallvec::SmallVec;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Words of a frame: the code, its instruction, and what tells the code from another that had its address before.
pub(super) const WORDS: usize = 3;

/// How many frames are looked at.
const MAX_FRAMES: usize = 64;

/// How many bytes of a text or a table of lines are read.
const MAX_BYTES: usize = 64 << 10;

/// The interpreter of this process.
struct Interpreter {
    layout: &'static Layout,
    thread_state: unsafe extern "C" fn() -> *mut c_void,
    /// The types of code, texts and bytes, by address.
    types: [usize; 3],
    /// Where the file that it is in was loaded.
    module: Option<usize>,
}

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

/// The interpreter. It may be loaded after this library, so it is looked for again, ever more rarely.
fn interpreter() -> Option<&'static Interpreter> {
    static ATTEMPTS: AtomicU32 = AtomicU32::new(1);
    if let Some(found) = INTERPRETER.get() {
        return Some(found);
    }
    if !ATTEMPTS.fetch_add(1, Ordering::Relaxed).is_power_of_two() {
        return None;
    }
    let found = Interpreter::find()?;
    Some(INTERPRETER.get_or_init(|| found))
}

/// Where the file that the interpreter is in was loaded.
pub(super) fn module() -> Option<usize> {
    INTERPRETER.get()?.module
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Interpreter {
    fn find() -> Option<Interpreter> {
        let version = symbol(c"Py_GetVersion")?;
        let thread_state = symbol(c"PyGILState_GetThisThreadState")?;
        // SAFETY: the interpreter's own functions, with the signatures that all its versions have.
        let (version, thread_state) = unsafe {
            let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
            let thread_state: unsafe extern "C" fn() -> *mut c_void =
                std::mem::transmute(thread_state);
            (CStr::from_ptr(version()).to_string_lossy().into_owned(), thread_state)
        };
        let layout = layout::of_version(&version)?;
        let types = [c"PyCode_Type", c"PyUnicode_Type", c"PyBytes_Type"];
        let [code, text, bytes] = types.map(|name| symbol(name).map(|at| at as usize));
        let types = [code?, text?, bytes?];
        Some(Interpreter { layout, thread_state, types, module: native::module_base(types[0]) })
    }

    /// The innermost frame of the calling thread.
    fn innermost(&self, pages: &mut Pages) -> Option<usize> {
        // SAFETY: it looks up a value of the calling thread, in every state of the interpreter.
        let mut at = unsafe { (self.thread_state)() } as usize;
        if at == 0 {
            return None;
        }
        for offset in self.layout.innermost {
            at = pages.word(at.wrapping_add(*offset))?;
        }
        (at != 0).then_some(at)
    }

    /// The code and the instruction of each frame, innermost first.
    fn frames(&self) -> SmallVec<[(usize, usize); 32]> {
        let mut frames = SmallVec::new();
        let pages = &mut Pages::default();
        let mut next = self.innermost(pages);
        while let Some(frame) = next.filter(|_| frames.len() < MAX_FRAMES) {
            let Some(found) = self.frame(frame, pages) else { break };
            frames.push(found);
            next = pages.word(frame.wrapping_add(self.layout.previous)).filter(|at| *at != 0);
        }
        frames
    }

    fn frame(&self, frame: usize, pages: &mut Pages) -> Option<(usize, usize)> {
        let code = pages.word(frame.wrapping_add(self.layout.code))?;
        let instruction = match self.layout.instruction {
            Instruction::Number(offset) => pages.half_word(frame.wrapping_add(offset))? as usize,
            Instruction::Address(offset, begin) => {
                let address = pages.word(frame.wrapping_add(offset))?;
                address.wrapping_sub(code.wrapping_add(begin)) / 2
            }
        };
        Some((code, instruction))
    }

    /// How many bytes of a code object have what is read of it.
    fn code_bytes(&self) -> usize {
        let Layout { name, file, lines, .. } = self.layout;
        name.max(file).max(lines) + 8
    }

    /// What tells a code object from another: the addresses of its parts and its first line. `None` if it is no code object.
    fn identity(&self, code: &[u8]) -> Option<usize> {
        let Layout { name, file, lines, first_line, .. } = *self.layout;
        if word_of(code, layout::TYPE) != self.types[0] {
            return None;
        }
        let parts = [name, file, lines, first_line & !7].map(|offset| word_of(code, offset));
        Some(parts.iter().fold(0, |hash: usize, part| {
            (hash.rotate_left(5) ^ part).wrapping_mul(0x517c_c1b7_2722_0a95)
        }))
    }

    fn describe(&self, code: usize, instruction: usize, identity: usize) -> Option<Frame> {
        let mut bytes = vec![0; self.code_bytes()];
        if read(code, &mut bytes) != bytes.len() || self.identity(&bytes) != Some(identity) {
            return None;
        }
        let part = |offset: usize| word_of(&bytes, offset);
        let first_line =
            (part(self.layout.first_line & !7) >> (self.layout.first_line % 8 * 8)) as u32;
        let lines = self.bytes(part(self.layout.lines)).unwrap_or_default();
        let line = self.layout.line_table.line(&lines, first_line, instruction);
        let name = self.text(part(self.layout.name)).unwrap_or_else(|| "?".into());
        let file = self.text(part(self.layout.file)).unwrap_or_else(|| "?".into());
        Some(Frame::Python { function: Name::from(name), file: Name::from(file), line })
    }

    /// The head of an object of a type.
    fn head(&self, object: usize, its_type: usize) -> Option<[u8; 40]> {
        let mut head = [0; 40];
        let is_read = read(object, &mut head) == head.len();
        (is_read && word_of(&head, layout::TYPE) == its_type).then_some(head)
    }

    fn bytes(&self, object: usize) -> Option<Vec<u8>> {
        let head = self.head(object, self.types[2])?;
        read_vec(object.wrapping_add(layout::BYTES), word_of(&head, layout::BYTES_LENGTH))
    }

    fn text(&self, object: usize) -> Option<String> {
        const COMPACT: usize = 0x20;
        const ASCII: usize = 0x40;
        let head = self.head(object, self.types[1])?;
        let (length, state) =
            (word_of(&head, layout::TEXT_LENGTH), word_of(&head, layout::TEXT_STATE));
        if state & COMPACT == 0 {
            return None;
        }
        let (ascii, other) = self.layout.characters;
        let start = object.wrapping_add(if state & ASCII != 0 { ascii } else { other });
        let width = state >> 2 & 7;
        let bytes = read_vec(start, length.checked_mul(width)?)?;
        let character = |bytes: &[u8]| {
            let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        match width {
            1 | 2 | 4 => Some(bytes.chunks_exact(width).map(character).collect()),
            _ => None,
        }
    }
}

fn read_vec(address: usize, length: usize) -> Option<Vec<u8>> {
    if length > MAX_BYTES {
        return None;
    }
    let mut bytes = vec![0; length];
    (read(address, &mut bytes) == length).then_some(bytes)
}

/// Appends the words of the calling thread's frames, innermost first; the result is how many frames that are.
pub(super) fn walk(words: &mut Words) -> usize {
    let Some(interpreter) = interpreter() else { return 0 };
    let frames = interpreter.frames();
    if frames.is_empty() {
        return 0;
    }
    let length = interpreter.code_bytes();
    let parts: SmallVec<[_; 32]> = frames.iter().map(|(code, _)| (*code, length)).collect();
    let mut bytes = vec![0; length * frames.len()];
    let count = read_parts(&parts, &mut bytes) / length;
    let codes = bytes.chunks_exact(length).take(count);
    let mut taken = 0;
    // A frame of the interpreter itself has no code object, or none of this kind.
    for ((code, instruction), bytes) in frames.iter().zip(codes) {
        if let Some(identity) = interpreter.identity(bytes) {
            words.extend([*code, *instruction, identity]);
            taken += 1;
        }
    }
    taken
}

/// The frames that `walk` found, on the same thread and in the same call, without those of the interpreter itself.
pub(super) fn describe(words: &[usize]) -> Vec<Frame> {
    let Some(interpreter) = INTERPRETER.get() else { return Vec::new() };
    let is_own = |frame: &Frame| matches!(frame, Frame::Python { file, .. } if &**file == "<shim>");
    (words.chunks_exact(WORDS))
        .filter_map(|frame| interpreter.describe(frame[0], frame[1], frame[2]))
        .filter(|frame| !is_own(frame))
        .collect()
}
