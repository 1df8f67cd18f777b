//! The shapes of messages: whether a message has the bytes that its kind requires. The decoder of pgwire
//! relies on the shape, so it is checked first.
//! Source: PostgreSQL's documentation, "Message Formats".

use std::ffi::CStr;

/// The bytes of a message that are not checked yet.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn short(&mut self) -> Option<usize> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?).into())
    }

    /// Takes a text and the zero byte behind it.
    fn text(&mut self) -> Option<()> {
        let text = CStr::from_bytes_until_nul(self.0).ok()?;
        self.take(text.count_bytes() + 1).map(|_| ())
    }

    /// Takes a count, and as many numbers of `width` bytes.
    fn numbers(&mut self, width: usize) -> Option<()> {
        let count = self.short()?;
        self.take(count * width).map(|_| ())
    }

    /// Takes a count, and as many values with their lengths; the length of NULL is -1.
    fn values(&mut self) -> Option<()> {
        for _ in 0..self.short()? {
            let length = i32::from_be_bytes(self.take(4)?.try_into().ok()?);
            self.take(if length == -1 { 0 } else { usize::try_from(length).ok()? })?;
        }
        Some(())
    }
}

/// Returns whether a message has a known tag and the body of its kind.
pub(crate) fn is_message(tag: u8, body: &[u8]) -> bool {
    let mut body = Body(body);
    let shape = |body: &mut Body<'_>| -> Option<()> {
        match tag {
            b'P' => body.text().and_then(|()| body.text()).and_then(|()| body.numbers(4)),
            b'B' => {
                body.text()?;
                body.text()?;
                body.numbers(2)?;
                body.values()?;
                body.numbers(2)
            }
            b'D' | b'C' => {
                let target = body.take(1)?;
                matches!(target, b"S" | b"P").then_some(())?;
                body.text()
            }
            b'E' => body.text().and_then(|()| body.take(4)).map(|_| ()),
            b'Q' | b'f' => body.text(),
            b'S' | b'H' | b'X' | b'c' => Some(()),
            // The data of COPY and of authentication have any form.
            b'd' | b'p' => Some(()),
            _ => None,
        }
    };
    let has_shape = shape(&mut body).is_some();
    has_shape && (matches!(tag, b'd' | b'p') || body.0.is_empty())
}

/// Returns whether the first message of SASL is well-formed: the name of a mechanism, and data with their
/// length.
pub(crate) fn is_sasl_initial(body: &[u8]) -> bool {
    let mut body = Body(body);
    let length = body.text().and_then(|()| body.take(4)).and_then(|bytes| bytes.try_into().ok());
    let length = length.map(i32::from_be_bytes);
    length.is_some_and(|length| usize::try_from(length).unwrap_or(0) == body.0.len())
}

/// The codes of requests for encryption, by TLS and by GSSAPI, in place of a version of the protocol.
const ENCRYPTION: [u32; 2] = [80_877_103, 80_877_104];

/// Returns whether the first eight bytes of a connection are a request for encryption.
pub(crate) fn is_encryption_request(first: &[u8; 8]) -> bool {
    let code = |code: u32| [8u32.to_be_bytes(), code.to_be_bytes()].concat() == first;
    ENCRYPTION.into_iter().any(code)
}

/// Returns whether the first message of a connection is well-formed. `body` is the message without its
/// length.
pub(crate) fn is_startup(body: &[u8]) -> bool {
    let mut body = Body(body);
    let Some(code) = body.take(4) else { return false };
    match u32::from_be_bytes(code.try_into().unwrap_or_default()) {
        // A cancel request: a process and a key.
        80_877_102 => body.0.len() == 8,
        code if ENCRYPTION.contains(&code) => body.0.is_empty(),
        // A startup message: pairs of name and value, and a zero byte.
        _ => loop {
            match body.0 {
                [0] => break true,
                [] | [0, ..] => break false,
                _ => {}
            }
            if body.text().is_none() || body.text().is_none() {
                break false;
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_message;
    use crate::Decoder;
    use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

    fn decode_all(bytes: &[u8]) -> usize {
        let mut decoder = Decoder::new(bytes);
        let mut count = 0;
        while let Ok(Some(_)) = decoder.next_message() {
            if count == 0 {
                decoder.started(64 << 10);
            }
            count += 1;
        }
        count
    }

    /// Inputs that the fuzzer found, and random ones: each is decoded or refused, without a panic.
    #[test]
    fn bytes_of_any_kind_are_messages_or_refused() {
        let startup: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0x\0\0";
        assert_eq!(decode_all(&[startup, b"C\0\0\0\x04"].concat()), 1);
        assert_eq!(decode_all(&[startup, b"Q\0\0\0\x0dSELECT 1\0", b"S\0\0\0\x04"].concat()), 3);
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..200_000 {
            let mut bytes = if random.random_range(0..10) == 0 { Vec::new() } else { startup.to_vec() };
            for _ in 0..random.random_range(1..4) {
                let body: Vec<u8> = (0..random.random_range(0..24usize))
                    .map(|_| match random.random_range(0..4) {
                        0 => 0,
                        1 => random.random_range(0..4),
                        _ => random.random(),
                    })
                    .collect();
                bytes.push(*b"PBDCEQfSHXcdpF?".get(random.random_range(0..15)).unwrap_or(&0));
                bytes.extend((body.len() as u32 + 4).to_be_bytes());
                bytes.extend(body);
            }
            decode_all(&bytes);
        }
    }

    #[test]
    fn values_have_a_length_or_are_null() {
        let bind = |length: i32| [&[0; 4][..], &[0, 1], &length.to_be_bytes(), &[0; 2]].concat();
        assert!(is_message(b'B', &bind(-1)) && is_message(b'B', &bind(0)));
        assert!(!is_message(b'B', &bind(-2)) && !is_message(b'B', &bind(1)));
    }
}
