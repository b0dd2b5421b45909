//! What must hold for any text that is given as configuration: rabbitmq.conf, TOML, or Erlang terms.

use super::{
    conf_file::{self, Item, Line, Malformed},
    erlang_terms, toml_file,
};

/// The first octet chooses the language.
pub fn configuration(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let variable = |name: &str| (!name.is_empty()).then(|| format!("<{name}>"));
    let lines = match kind % 4 {
        0 => settings(conf_file::read(&text, &variable)),
        1 => toml_file::read(&text),
        2 => erlang_terms::read(&text),
        _ => erlang_terms::read_arguments(&text)
            .into_iter()
            .map(Ok)
            .collect(),
    };
    let count = text.split('\n').count();
    for line in &lines {
        let (Ok(Line { number, .. }) | Err(Malformed { number, .. })) = line;
        assert!(*number <= count, "line {number} of {count}");
        if let Ok(line) = line {
            assert!(!line.key.is_empty(), "{line:?}");
        }
    }
    // Whoever reads it again reads the same.
    if kind % 4 == 0 {
        for line in lines.into_iter().flatten() {
            if line.value.contains(['\'', '\n', '\r']) || line.value.contains("$(") {
                continue;
            }
            let again = format!("{} = '{}'", line.key, line.value);
            let again = settings(conf_file::read(&again, &variable));
            let expected = Line { number: 1, ..line };
            assert_eq!(again, [Ok(expected)]);
        }
    }
}

/// Without the lines that let other files in.
fn settings(items: Vec<Result<Item, Malformed>>) -> Vec<Result<Line, Malformed>> {
    let settings = items.into_iter().filter_map(|item| match item {
        Ok(Item::Setting(line)) => Some(Ok(line)),
        Ok(Item::Include(_)) => None,
        Err(wrong) => Some(Err(wrong)),
    });
    settings.collect()
}
