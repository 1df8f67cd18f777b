//! Bytes that a client may send: every message that they hold, before and after it is known who it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::Decoder;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(bytes);
    let mut is_first = true;
    while let Ok(Some(_)) = decoder.next_message() {
        if std::mem::take(&mut is_first) {
            decoder.started(64 << 10);
        }
    }
});
