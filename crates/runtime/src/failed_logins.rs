//! How many logins failed lately from where: who tries on and on is not listened to for a while.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

/// Failures are counted for so long, from the first of them on.
const WINDOW: Duration = Duration::from_secs(60);

/// Places that are remembered. From more than this at once nobody is limited, so that those who flood the list keep
/// nobody else out.
const PLACES_MAX: usize = 10_000;

/// Failures by place.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    /// So many may fail within [`WINDOW`]; 0 for any number.
    max: u32,
    places: Mutex<HashMap<IpAddr, Failures, RandomState>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    since: Duration,
    count: u32,
}

impl FailedLogins {
    pub(crate) fn new(max: u32) -> Self {
        Self {
            max,
            places: Mutex::default(),
        }
    }

    /// Whether nobody from there is listened to now.
    pub(crate) fn is_over(&self, now: Duration, from: IpAddr) -> bool {
        if self.max == 0 {
            return false;
        }
        let places = self.places.lock();
        let known = places.get(&place(from));
        known.is_some_and(|known| known.is_current(now) && known.count >= self.max)
    }

    /// One more failed; true when that was the last one that may within this window.
    pub(crate) fn note(&self, now: Duration, from: IpAddr) -> bool {
        if self.max == 0 {
            return false;
        }
        let mut places = self.places.lock();
        let from = place(from);
        if places.len() >= PLACES_MAX && !places.contains_key(&from) {
            places.retain(|_, known| known.is_current(now));
            if places.len() >= PLACES_MAX {
                return false;
            }
        }
        let fresh = Failures {
            since: now,
            count: 0,
        };
        let known = places.entry(from).or_insert(fresh);
        if !known.is_current(now) {
            *known = fresh;
        }
        known.count += 1;
        known.count == self.max
    }
}

impl Failures {
    fn is_current(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < WINDOW
    }
}

/// An address, or of IPv6 the network that one customer of a provider has.
fn place(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn from(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn sc07_who_fails_too_often_is_not_listened_to_until_the_minute_is_over() {
        let failed = FailedLogins::new(3);
        let (here, there) = (from("192.0.2.1"), from("192.0.2.2"));
        assert_eq!(
            [false, false, true],
            [(); 3].map(|()| failed.note(START, here))
        );
        assert!(failed.is_over(START, here));
        assert!(failed.is_over(START, from("::ffff:192.0.2.1")));
        assert!(!failed.is_over(START, there));
        assert!(!failed.note(START, here));
        let later = START + WINDOW;
        assert!(!failed.is_over(later, here));
        assert!(!failed.note(later, here));
    }

    #[test]
    fn a_network_of_ipv6_is_one_place() {
        let failed = FailedLogins::new(1);
        assert!(failed.note(START, from("2001:db8::1")));
        assert!(failed.is_over(START, from("2001:db8::ffff")));
        assert!(!failed.is_over(START, from("2001:db8:0:1::1")));
    }

    #[test]
    fn without_a_bound_everybody_is_listened_to() {
        let failed = FailedLogins::new(0);
        let here = from("192.0.2.1");
        assert!((0..100).all(|_| !failed.note(START, here)));
        assert!(!failed.is_over(START, here));
    }

    #[test]
    fn places_have_a_bound_and_make_room_when_their_time_is_over() {
        let failed = FailedLogins::new(1);
        let nth = |n: usize| Ipv6Addr::from((n as u128 + 1) << 64).into();
        for n in 0..PLACES_MAX {
            assert!(failed.note(START, nth(n)));
        }
        assert!(!failed.note(START, nth(PLACES_MAX)));
        assert!(!failed.is_over(START, nth(PLACES_MAX)));
        assert!(failed.note(START + WINDOW, nth(PLACES_MAX)));
        assert_eq!(failed.places.lock().len(), 1);
    }
}
