#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| leveret_fuzz::token::token(input));
