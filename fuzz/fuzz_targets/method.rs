#![no_main]

use leveret_fuzz::wire;

libfuzzer_sys::fuzz_target!(|input: &[u8]| wire::method(input));
