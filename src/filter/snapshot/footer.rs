//! The last bytes of a snapshot: proof that the end is the end of this very file.
//!
//! ```text
//!   0   8  magic "etagname"
//!   8   8  length of the whole file, bytes
//!  16   4  checksum of the header, repeated
//!  20   4  CRC-32C of bytes 0..20
//! ```

pub(super) const FOOTER_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"etagname";

/// The footer of a file of `file_bytes` bytes whose header has the checksum `header`. There is one
/// right footer, so reading it means comparing it.
pub(super) fn footer(file_bytes: u64, header: u32) -> [u8; FOOTER_BYTES] {
    let mut bytes = [0; FOOTER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&file_bytes.to_le_bytes());
    bytes[16..20].copy_from_slice(&header.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}
