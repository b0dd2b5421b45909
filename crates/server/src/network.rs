//! Addresses that belong together: one, or all that begin with the same bits.

use std::{fmt, net::IpAddr, str::FromStr};

/// Bits of an address, all written as IPv6.
const BITS: u8 = 128;

/// Bits before an IPv4 address that is written as IPv6.
const MAPPED_BITS: u8 = 96;

/// One address, or a network such as `10.0.0.0/8`. IPv4 addresses in IPv6 clothes count as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits count, of the address as IPv6.
    bits: u8,
}

/// What is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither an address nor a network such as 10.0.0.0/8")]
pub struct NoNetwork;

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = number(self.address) ^ number(address);
        // All bits, when none counts.
        differ.leading_zeros() >= u32::from(self.bits)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .to_bits()
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let before = match address {
            IpAddr::V4(_) => MAPPED_BITS,
            IpAddr::V6(_) => 0,
        };
        let bits: u8 = match bits {
            None => BITS - before,
            Some(bits) => bits.parse().map_err(|_| NoNetwork)?,
        };
        let bits = bits
            .checked_add(before)
            .filter(|bits| *bits <= BITS)
            .ok_or(NoNetwork)?;
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = match self.address {
            IpAddr::V4(_) => MAPPED_BITS,
            IpAddr::V6(_) => 0,
        };
        write!(f, "{}/{}", self.address, self.bits - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(network: &str, address: &str) -> bool {
        let network: Network = network.parse().expect("a network");
        network.contains(address.parse().expect("an address"))
    }

    #[test]
    fn an_address_is_a_network_of_one() {
        assert!(has("192.0.2.1", "192.0.2.1"));
        assert!(has("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!has("192.0.2.1", "192.0.2.2"));
        assert!(has("::1", "::1"));
        assert!(!has("::1", "127.0.0.1"));
    }

    #[test]
    fn a_network_is_all_that_begins_like_it() {
        assert!(has("10.0.0.0/8", "10.255.0.1"));
        assert!(!has("10.0.0.0/8", "11.0.0.1"));
        assert!(!has("10.0.0.0/8", "a00::1"));
        assert!(has("192.0.2.128/25", "192.0.2.200"));
        assert!(!has("192.0.2.128/25", "192.0.2.1"));
        assert!(has("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(has("0.0.0.0/0", "203.0.113.9"));
        assert!(!has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("::/0", "203.0.113.9"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/255",
            "a/8",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NoNetwork), "{text}");
        }
        let network: Network = "10.0.0.0/8".parse().expect("a network");
        assert_eq!(network.to_string(), "10.0.0.0/8");
    }
}
