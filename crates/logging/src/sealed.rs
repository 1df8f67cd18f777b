//! Text files whose last line is the CRC-32C of the preceding text: `checksum` and eight hexadecimal digits.

use crate::CorruptionKind;

/// Offset and kind of a corruption of such a file.
pub(crate) type Malformed = (u64, CorruptionKind);

/// Returns the error of a file that does not have the form that its reader expects.
pub(crate) fn malformed(what: &'static str) -> Malformed {
    (0, CorruptionKind::Malformed(what))
}

/// Adds the last line.
pub(crate) fn seal(text: &mut String) {
    let checksum = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("checksum {checksum:08x}\n"));
}

/// Returns the text before the last line.
///
/// # Errors
/// The line is missing, or the checksum does not match.
pub(crate) fn unseal(bytes: &[u8]) -> Result<&str, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("this is no text"))?;
    let (contents, checksum) =
        text.rsplit_once("checksum ").ok_or(malformed("the checksum line is missing"))?;
    if checksum.trim_end() != format!("{:08x}", crc32c::crc32c(contents.as_bytes())) {
        return Err((contents.len() as u64, CorruptionKind::Checksum));
    }
    Ok(contents)
}
