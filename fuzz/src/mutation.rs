//! Seeds and what a few random changes make of them, for `cargo test`: always the same inputs, in a count and not in a time.
//!
//! No replacement for a fuzzer, which knows what an input reached. It notices at once when something stops holding
//! near what is already known.

/// The first number of every run.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Inputs grow no further.
const INPUT_BYTES_MAX: usize = 4096;

/// Numbers at the ends of their ranges, and octets that begin or end something.
const ODD: [u8; 12] = [
    0, 1, 0x7F, 0x80, 0xFF, 0xCE, b'{', b'}', b'"', b'%', b'\n', b'=',
];

/// The bytes of every file below `fuzz/corpus/TARGET`.
pub fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} is empty");
    let read = |path| std::fs::read(path).expect("a file");
    paths.iter().map(read).collect()
}

/// Runs the seeds, then `rounds` changed ones. A failure shows its input.
pub fn run(seeds: &[Vec<u8>], rounds: u32, check: impl Fn(&[u8])) {
    let checked = |input: &[u8]| {
        let _shown = ShownByPanic(input);
        check(input);
    };
    seeds.iter().for_each(|seed| checked(seed));
    let mut numbers = Numbers(SEED);
    for _ in 0..rounds {
        let mut input = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..=numbers.below(4) {
            change(&mut input, seeds, &mut numbers);
        }
        input.truncate(INPUT_BYTES_MAX);
        checked(&input);
    }
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], numbers: &mut Numbers) {
    let at = numbers.below(input.len() + 1);
    let end = (at + numbers.below(16)).min(input.len());
    match numbers.below(6) {
        0 if at < input.len() => input[at] ^= 1 << numbers.below(8),
        1 if at < input.len() => input[at] = ODD[numbers.below(ODD.len())],
        2 => {
            input.drain(at..end);
        }
        3 => {
            let copy = input[at..end].to_vec();
            input.splice(at..at, copy);
        }
        4 => {
            let other = &seeds[numbers.below(seeds.len())];
            let from = numbers.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input.insert(at, ODD[numbers.below(ODD.len())]),
    }
}

/// Marsaglia's xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

struct ShownByPanic<'a>(&'a [u8]);

impl Drop for ShownByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input: {}", self.0.escape_ascii());
        }
    }
}
