//! Which certificates soon cease to be good.

use std::{net::SocketAddr, path::Path, sync::Arc};

use leveret_tls::{Tls, Validity};
use serde_json::{Value, json};

use crate::{server::Api, values::iso_time};

const DAY: f64 = 86_400.0;

/// Seconds of so many of a unit; `None` of one that RabbitMQ does not know.
pub(super) fn seconds(count: i64, unit: &str) -> Option<f64> {
    let one = match unit.to_ascii_lowercase().as_str() {
        "days" => DAY,
        "weeks" => 7.0 * DAY,
        "months" => 365.0 / 12.0 * DAY,
        "years" => 365.0 * DAY,
        _ => return None,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "no certificate is good for that long"
    )]
    Some(count as f64 * one)
}

/// Listeners with a certificate that is good for less than that from `now` on, or is not good yet. The files are read now.
pub(super) fn expiring(api: &Api, now: i64, within: f64) -> Vec<Value> {
    let listening = &api.listening;
    let amqps = listening.amqps.iter().filter_map(|address| {
        let tls = listening.amqp_tls.as_ref()?;
        Some(("amqp/ssl", *address, tls))
    });
    let http = listening.http.iter().map(|at| ("https", at));
    let metrics = listening.metrics.iter().map(|at| ("https/prometheus", at));
    let http = http.chain(metrics);
    let http = http.filter_map(|(protocol, at)| Some((protocol, at.address, at.tls.as_ref()?)));
    amqps
        .chain(http)
        .filter_map(|listener| shown_if_expiring(api, listener, now, within))
        .collect()
}

fn shown_if_expiring(
    api: &Api,
    (protocol, address, tls): (&str, SocketAddr, &Arc<Tls>),
    now: i64,
    within: f64,
) -> Option<Value> {
    let settings = tls.settings();
    let certificate = settings.own.certificate.as_path();
    let authorities = settings.authorities.as_deref();
    let own = ends_of(certificate, now, within);
    let of_authorities = authorities.map_or_else(Vec::new, |path| ends_of(path, now, within));
    if own.is_empty() && of_authorities.is_empty() {
        return None;
    }
    Some(json!({
        "node": api.broker.node().name,
        "protocol": protocol,
        "interface": address.ip().to_string(),
        "port": address.port(),
        "certfile": certificate.to_string_lossy(),
        "cacertfile": authorities.unwrap_or_else(|| Path::new("")).to_string_lossy(),
        "certfile_expires_on": own,
        "cacertfile_expires_on": of_authorities,
    }))
}

/// When those certificates of a file end that end too soon.
fn ends_of(path: &Path, now: i64, within: f64) -> Vec<String> {
    let Some(validities) = Validity::of_file(path) else {
        return vec!["The certificate file cannot be read".to_owned()];
    };
    validities
        .into_iter()
        .filter_map(|validity| end_of(validity, now, within))
        .collect()
}

fn end_of(Validity { from, until }: Validity, now: i64, within: f64) -> Option<String> {
    if from > now {
        return Some("Certificate is not yet valid".to_owned());
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 of our time")]
    let is_soon = ((until - now) as f64) < within;
    is_soon.then(|| moment(until))
}

/// `2026-11-30 9:05:00`, as RabbitMQ writes it here.
fn moment(seconds: i64) -> String {
    let millis = u64::try_from(seconds).unwrap_or(0).saturating_mul(1000);
    let iso = iso_time(millis);
    let (date, time) = iso.split_once('T').unwrap_or((&iso, ""));
    let time = time.split_once('.').map_or(time, |(time, _)| time);
    format!("{date} {}", time.strip_prefix('0').unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000;

    #[test]
    fn an_end_is_told_when_it_is_near_and_a_beginning_when_it_is_still_to_come() {
        let validity = Validity {
            from: NOW - 10,
            until: NOW + 3 * 86_400,
        };
        let month = seconds(1, "Months").unwrap();
        assert_eq!(end_of(validity, NOW, month).unwrap(), "2026-12-03 0:53:20");
        assert_eq!(end_of(validity, NOW, seconds(3, "days").unwrap()), None);
        let from = NOW + 1;
        let early = end_of(Validity { from, ..validity }, NOW, 0.0);
        assert_eq!(early.as_deref(), Some("Certificate is not yet valid"));
        assert_eq!(seconds(1, "fortnights"), None);
    }
}
