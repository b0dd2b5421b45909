//! A connection that comes back with its channel, confirms and consumer.
//!
//! Exchange and queue are durable. lapin declares again what is not, but lets publishes through meanwhile, and names of
//! the server's making are declared again as they were, which every broker refuses.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
    options::{
        ConfirmSelectOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions,
        QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{FieldTable, ShortString},
};
use tokio::process::Command;

use crate::{
    Outcome,
    scenarios::{expect, expect_keys, no_ack, publish, unique_name},
};

pub fn control() -> String {
    std::env::var("BROKER_CONTROL").unwrap_or_default()
}

pub async fn play() -> Outcome {
    let properties = ConnectionProperties::default()
        .enable_auto_recover()
        .configure_backoff(|backoff| {
            backoff
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_millis(500))
                .with_max_times(200)
        });
    let connection = Connection::connect(&std::env::var("BROKER_URL")?, properties).await?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let name = unique_name()?;
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    channel
        .exchange_declare(
            name.clone(),
            ExchangeKind::Topic,
            durable,
            FieldTable::default(),
        )
        .await?;
    channel
        .queue_declare(
            name.clone(),
            QueueDeclareOptions::durable(),
            FieldTable::default(),
        )
        .await?;
    let bind = QueueBindOptions::default();
    channel
        .queue_bind(
            name.clone(),
            name.clone(),
            "news.#".into(),
            bind,
            FieldTable::default(),
        )
        .await?;
    let outcome = play_with(&channel, &name).await;
    channel
        .queue_delete(name.clone(), QueueDeleteOptions::default())
        .await?;
    channel
        .exchange_delete(name, ExchangeDeleteOptions::default())
        .await?;
    connection.close(200, "".into()).await?;
    outcome
}

async fn play_with(channel: &Channel, name: &ShortString) -> Outcome {
    let mut consumer = channel
        .basic_consume(name.clone(), "".into(), no_ack(), FieldTable::default())
        .await?;
    publish(
        channel,
        name,
        "news.before",
        b"",
        BasicProperties::default(),
    )
    .await?;
    expect_keys(&mut consumer, &["news.before"]).await?;

    let restart = tokio::spawn(
        Command::new("sh")
            .arg("-c")
            .arg(format!("{} restart", control()))
            .output(),
    );
    // A publisher that never stops meets the loss of the connection, and learns from it when all is back.
    let loss = loop {
        if let Err(loss) = publish(
            channel,
            name,
            "news.meanwhile",
            b"",
            BasicProperties::default(),
        )
        .await
        {
            break loss;
        }
    };
    channel.wait_for_recovery(loss).await?;
    expect("the restart", restart.await??.status.success(), true)?;

    let confirm = publish(channel, name, "news.after", b"", BasicProperties::default()).await?;
    expect(
        "confirm of what was published after",
        confirm,
        Confirmation::Ack(None),
    )?;
    loop {
        match consumer.next().await.ok_or("the consumer has ended")? {
            Ok(delivery) if delivery.routing_key.as_str() == "news.after" => break,
            Ok(meanwhile) => expect(
                "routing key",
                meanwhile.routing_key.as_str(),
                "news.meanwhile",
            )?,
            Err(loss) => channel.wait_for_recovery(loss).await?,
        }
    }
    Ok(())
}
