//! Text files whose last line is the CRC-32C of what stands before it: `checksum` and eight hexadecimal
//! digits.

use crate::CorruptionKind;

/// What can be wrong with such a file: at which byte, and what.
pub(crate) type Malformed = (u64, CorruptionKind);

/// Such a file has not the form that its reader knows.
pub(crate) fn malformed(what: &'static str) -> Malformed {
    (0, CorruptionKind::Malformed(what))
}

/// Adds the last line.
pub(crate) fn seal(text: &mut String) {
    let checksum = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("checksum {checksum:08x}\n"));
}

/// What stands before the last line.
///
/// # Errors
/// There is no such line; what stands before it is not what was written.
pub(crate) fn unseal(bytes: &[u8]) -> Result<&str, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("this is no text"))?;
    let (contents, checksum) =
        text.rsplit_once("checksum ").ok_or(malformed("the checksum line is missing"))?;
    if checksum.trim_end() != format!("{:08x}", crc32c::crc32c(contents.as_bytes())) {
        return Err((contents.len() as u64, CorruptionKind::Checksum));
    }
    Ok(contents)
}
