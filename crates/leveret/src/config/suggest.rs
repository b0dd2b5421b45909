//! What somebody may have meant by a name that does not exist.

/// A name must be that much like the given one, from 0 to 1.
const LIKENESS_MIN: f64 = 0.8;

/// The name most like the given one, if any is like it at all.
pub(crate) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (likeness(given, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// How much a name is like a pattern; what stands for any word is like any.
fn likeness(given: &str, pattern: &str) -> f64 {
    let Some((fixed, _)) = pattern.split_once('$') else {
        return strsim::normalized_damerau_levenshtein(given, pattern);
    };
    let words = fixed.matches('.').count();
    let end = given.match_indices('.').nth(words.saturating_sub(1));
    let Some((end, _)) = end else {
        return 0.0;
    };
    strsim::normalized_damerau_levenshtein(&given[..=end], fixed)
}

/// Letters that may be wrong in a name for it to be a slip. Variables of others may be like ours by chance.
const SLIPS_MAX: usize = 2;

/// The name that somebody has missed by a letter or two.
pub(crate) fn misspelt<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .filter(|(slips, _)| *slips <= SLIPS_MAX)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_found_and_a_strange_one_is_not() {
        let names = ["heartbeat", "default_user", "listeners.tcp.$name"];
        assert_eq!(nearest("heartbeet", names), Some("heartbeat"));
        assert_eq!(nearest("defualt_user", names), Some("default_user"));
        assert_eq!(
            nearest("listener.tcp.default", names),
            Some("listeners.tcp.$name")
        );
        assert_eq!(nearest("nosuch.key", names), None);
    }
}
