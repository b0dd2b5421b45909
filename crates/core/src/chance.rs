//! Numbers that look random and are not: the same input, the same number.

/// The finisher of SplitMix64: every bit of the input counts in every bit of the output.
pub(crate) const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number below `bound`, or 0, each as likely as the others.
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    let scaled = (u128::from(random) * u128::from(bound)) >> 64;
    u64::try_from(scaled).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_number_below_a_bound_is_below_it() {
        assert_eq!(below(u64::MAX, 3), 2);
        assert_eq!(below(0, 3), 0);
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
