//! What tells this machine from others.

use std::sync::OnceLock;

/// An identifier of a device that all processes of the machine agree on, and that no other machine has: that of the machine, or of its
/// last start where it has none, with the number of the device in the last byte.
pub fn device_uuid(device: usize) -> [u8; 16] {
    static MACHINE: OnceLock<[u8; 16]> = OnceLock::new();
    let mut uuid = *MACHINE.get_or_init(|| {
        let files = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];
        let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        texts.into_iter().find_map(|text| parse(&text)).unwrap_or(*b"a Cairn machine ")
    });
    uuid[15] ^= device as u8;
    uuid
}

/// 32 hexadecimal digits, whatever is between them.
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_and_devices_differ() {
        let dense = parse("00112233445566778899aabbccddeeff\n").unwrap();
        assert_eq!(parse("00112233-4455-6677-8899-aabbccddeeff"), Some(dense));
        assert_eq!((dense[0], dense[15]), (0, 0xff));
        assert_eq!((parse(""), parse("0011"), parse("uninitialized")), (None, None, None));
        assert_eq!(device_uuid(1), device_uuid(1));
        assert_ne!(device_uuid(0), device_uuid(1));
    }
}
