//! Hello, subscriptions, RPC, confirms and the rest that needs one connection.

use std::{error::Error, fmt::Debug, time::SystemTime};

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ErrorKind,
    ExchangeKind,
    message::Delivery,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions,
        BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::Outcome;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";

pub async fn connect() -> Result<(Connection, Channel), Box<dyn Error>> {
    let connection = Connection::connect(
        &std::env::var("BROKER_URL")?,
        ConnectionProperties::default(),
    )
    .await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// A name that nobody else uses.
pub fn unique_name() -> Result<ShortString, Box<dyn Error>> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(format!(
        "conformance-{}-{}",
        std::process::id(),
        since_1970.as_nanos()
    )
    .into())
}

pub fn expect<T: PartialEq<U> + Debug, U: Debug>(what: &str, got: T, wanted: U) -> Outcome {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, wanted {wanted:?}").into())
    }
}

pub fn exclusive() -> QueueDeclareOptions {
    QueueDeclareOptions {
        exclusive: true,
        ..QueueDeclareOptions::default()
    }
}

pub fn no_ack() -> BasicConsumeOptions {
    BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    }
}

pub async fn next(consumer: &mut Consumer) -> Result<Delivery, Box<dyn Error>> {
    Ok(consumer.next().await.ok_or("the consumer has ended")??)
}

pub async fn publish(
    channel: &Channel,
    exchange: &ShortString,
    key: &str,
    body: &[u8],
    properties: BasicProperties,
) -> Result<Confirmation, lapin::Error> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    channel
        .basic_publish(exchange.clone(), key.into(), options, body, properties)
        .await?
        .await
}

pub async fn declare_exchange(
    channel: &Channel,
    kind: ExchangeKind,
) -> Result<ShortString, Box<dyn Error>> {
    let name = unique_name()?;
    let options = ExchangeDeclareOptions {
        auto_delete: true,
        ..ExchangeDeclareOptions::default()
    };
    channel
        .exchange_declare(name.clone(), kind, options, FieldTable::default())
        .await?;
    Ok(name)
}

/// Consumes a server-named exclusive queue bound by these keys.
pub async fn subscribe(
    channel: &Channel,
    exchange: &ShortString,
    keys: &[&str],
) -> Result<Consumer, Box<dyn Error>> {
    let queue = channel
        .queue_declare("".into(), exclusive(), FieldTable::default())
        .await?;
    for key in keys {
        let (queue, exchange) = (queue.name().clone(), exchange.clone());
        let options = QueueBindOptions::default();
        channel
            .queue_bind(
                queue,
                exchange,
                (*key).into(),
                options,
                FieldTable::default(),
            )
            .await?;
    }
    Ok(channel
        .basic_consume(
            queue.name().clone(),
            "".into(),
            no_ack(),
            FieldTable::default(),
        )
        .await?)
}

pub async fn expect_keys(consumer: &mut Consumer, wanted: &[&str]) -> Outcome {
    let mut keys = Vec::new();
    for _ in wanted {
        keys.push(next(consumer).await?.routing_key.to_string());
    }
    expect("routing keys", keys, wanted)
}

pub async fn hello() -> Outcome {
    let (connection, channel) = connect().await?;
    let queue = unique_name()?;
    channel
        .queue_declare(queue.clone(), exclusive(), FieldTable::default())
        .await?;
    let mut headers = FieldTable::default();
    headers.insert("lang".into(), AMQPValue::LongString("en".into()));
    headers.insert("stars".into(), AMQPValue::LongInt(5));
    headers.insert("yes".into(), AMQPValue::Boolean(true));
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_message_id("m-1".into())
        .with_timestamp(1_700_000_000)
        .with_headers(headers);
    publish(
        &channel,
        &"".into(),
        queue.as_str(),
        b"Hello World!",
        properties.clone(),
    )
    .await?;

    let mut consumer = channel
        .basic_consume(
            queue.clone(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    let delivery = next(&mut consumer).await?;
    delivery.ack(BasicAckOptions::default()).await?;

    expect("body", &delivery.data[..], &b"Hello World!"[..])?;
    expect("properties", &delivery.properties, &properties)?;
    expect("redelivered", delivery.redelivered, false)?;
    expect("exchange", delivery.exchange.as_str(), "")?;
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn fan_out() -> Outcome {
    let (connection, channel) = connect().await?;
    let exchange = declare_exchange(&channel, ExchangeKind::Fanout).await?;
    let mut subscribers = Vec::new();
    for _ in 0..3 {
        subscribers.push(subscribe(&channel, &exchange, &[""]).await?);
    }
    publish(
        &channel,
        &exchange,
        "ignored",
        b"news",
        BasicProperties::default(),
    )
    .await?;
    for consumer in &mut subscribers {
        expect_keys(consumer, &["ignored"]).await?;
    }
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn routing() -> Outcome {
    let (connection, channel) = connect().await?;
    let exchange = declare_exchange(&channel, ExchangeKind::Direct).await?;
    let mut errors = subscribe(&channel, &exchange, &["error", "last"]).await?;
    let mut everything = subscribe(&channel, &exchange, &["info", "error", "last"]).await?;
    for severity in ["debug", "info", "error", "info", "last"] {
        publish(
            &channel,
            &exchange,
            severity,
            b"",
            BasicProperties::default(),
        )
        .await?;
    }
    expect_keys(&mut everything, &["info", "error", "info", "last"]).await?;
    expect_keys(&mut errors, &["error", "last"]).await?;
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn topics() -> Outcome {
    let (connection, channel) = connect().await?;
    let exchange = declare_exchange(&channel, ExchangeKind::Topic).await?;
    let mut critical = subscribe(&channel, &exchange, &["*.critical"]).await?;
    let mut kernel = subscribe(&channel, &exchange, &["kern.#", "kern.critical"]).await?;
    for key in [
        "cron.info",
        "cron.critical",
        "kern",
        "kern.critical",
        "kern.disk.full",
        "last.critical",
    ] {
        publish(&channel, &exchange, key, b"", BasicProperties::default()).await?;
    }
    expect_keys(
        &mut critical,
        &["cron.critical", "kern.critical", "last.critical"],
    )
    .await?;
    expect_keys(&mut kernel, &["kern", "kern.critical", "kern.disk.full"]).await?;
    connection.close(200, "".into()).await?;
    Ok(())
}

/// Answers requests in capitals until its connection ends.
async fn shout(channel: Channel, mut requests: Consumer) -> Result<(), lapin::Error> {
    while let Some(request) = requests.next().await {
        let request = request?;
        let reply_to = request
            .properties
            .reply_to()
            .as_ref()
            .map_or("", ShortString::as_str);
        let id = request
            .properties
            .correlation_id()
            .clone()
            .unwrap_or_default();
        let properties = BasicProperties::default().with_correlation_id(id);
        publish(
            &channel,
            &"".into(),
            reply_to,
            &request.data.to_ascii_uppercase(),
            properties,
        )
        .await?;
        request.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}

pub async fn rpc() -> Outcome {
    let (connection, channel) = connect().await?;
    let serving = connection.create_channel().await?;
    let queue = unique_name()?;
    serving
        .queue_declare(queue.clone(), exclusive(), FieldTable::default())
        .await?;
    serving.basic_qos(1, BasicQosOptions::default()).await?;
    let requests = serving
        .basic_consume(
            queue.clone(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    let server = tokio::spawn(shout(serving, requests));

    let mut replies = channel
        .basic_consume(REPLY_TO.into(), "".into(), no_ack(), FieldTable::default())
        .await?;
    for word in ["hello", "world"] {
        let properties = BasicProperties::default()
            .with_reply_to(REPLY_TO.into())
            .with_correlation_id(word.into());
        publish(
            &channel,
            &"".into(),
            queue.as_str(),
            word.as_bytes(),
            properties,
        )
        .await?;
    }
    for word in ["hello", "world"] {
        let reply = next(&mut replies).await?;
        let id = reply
            .properties
            .correlation_id()
            .clone()
            .unwrap_or_default();
        expect("correlation id", id.as_str(), word)?;
        expect("reply", &reply.data[..], word.to_uppercase().as_bytes())?;
    }
    server.abort();
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn confirms() -> Outcome {
    let (connection, channel) = connect().await?;
    let queue = unique_name()?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(2));
    arguments.insert(
        "x-overflow".into(),
        AMQPValue::LongString("reject-publish".into()),
    );
    channel
        .queue_declare(queue.clone(), exclusive(), arguments)
        .await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;

    let persistent = BasicProperties::default().with_delivery_mode(2);
    for number in 1..=2 {
        let confirm = publish(
            &channel,
            &"".into(),
            queue.as_str(),
            b"fits",
            persistent.clone(),
        )
        .await?;
        expect(
            &format!("confirm {number}"),
            confirm,
            Confirmation::Ack(None),
        )?;
    }
    let confirm = publish(
        &channel,
        &"".into(),
        queue.as_str(),
        b"too many",
        persistent.clone(),
    )
    .await?;
    expect("confirm of a full queue", confirm, Confirmation::Nack(None))?;

    let confirm = publish(
        &channel,
        &"amq.direct".into(),
        "nobody",
        b"lost",
        persistent,
    )
    .await?;
    expect("a returned one is confirmed", confirm.is_ack(), true)?;
    let returned = confirm.take_message().ok_or("nothing was returned")?;
    expect("reply code", returned.reply_code, 312)?;
    expect("reply text", returned.reply_text.as_str(), "NO_ROUTE")?;
    expect("returned body", &returned.delivery.data[..], &b"lost"[..])?;
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn transactions() -> Outcome {
    let (connection, channel) = connect().await?;
    let queue = unique_name()?;
    channel
        .queue_declare(queue.clone(), exclusive(), FieldTable::default())
        .await?;
    channel.tx_select().await?;
    publish(
        &channel,
        &"".into(),
        queue.as_str(),
        b"dropped",
        BasicProperties::default(),
    )
    .await?;
    channel.tx_rollback().await?;
    publish(
        &channel,
        &"".into(),
        queue.as_str(),
        b"kept",
        BasicProperties::default(),
    )
    .await?;
    channel.tx_commit().await?;
    let options = BasicGetOptions { no_ack: true };
    let message = channel
        .basic_get(queue.clone(), options)
        .await?
        .ok_or("the committed message is missing")?;
    expect("the message", &message.data[..], &b"kept"[..])?;
    expect(
        "what is left",
        channel.basic_get(queue, options).await?.is_none(),
        true,
    )?;
    connection.close(200, "".into()).await?;
    Ok(())
}

pub async fn channel_errors() -> Outcome {
    let (connection, channel) = connect().await?;
    let queue = unique_name()?;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let error = match channel
        .queue_declare(queue.clone(), passive, FieldTable::default())
        .await
    {
        Ok(_) => return Err("a queue that does not exist was found".into()),
        Err(error) => error,
    };
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return Err(error.into());
    };
    expect("code", error.get_id(), 404)?;
    let text = format!("NOT_FOUND - no queue '{queue}' in vhost '/'");
    expect("text", error.get_message().as_str(), text.as_str())?;
    let another = connection.create_channel().await?;
    another
        .queue_declare(queue, exclusive(), FieldTable::default())
        .await?;
    connection.close(200, "".into()).await?;
    Ok(())
}
