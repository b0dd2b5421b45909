//! Six tasks and three workers with one each, of which one is killed at its task.

use std::{error::Error, process::Stdio};

use lapin::{
    BasicProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::FieldTable,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

use crate::{
    Outcome,
    scenarios::{connect, expect, next, publish, unique_name},
};

/// A worker: one task at a time, done when a line comes on the standard input.
pub async fn work(queue: &str) -> Outcome {
    let (_connection, channel) = connect().await?;
    channel
        .queue_declare(
            queue.into(),
            QueueDeclareOptions::durable(),
            FieldTable::default(),
        )
        .await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let mut tasks = channel
        .basic_consume(
            queue.into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    println!("ready");
    let mut input = BufReader::new(stdin()).lines();
    loop {
        let task = next(&mut tasks).await?;
        let name = String::from_utf8_lossy(&task.data);
        println!(
            "received {name} {}",
            if task.redelivered { "again" } else { "first" }
        );
        input.next_line().await?;
        task.ack(BasicAckOptions::default()).await?;
        println!("done {name}");
    }
}

/// A worker as a process. What it prints goes to a channel, with its number.
struct Worker {
    process: Child,
    input: ChildStdin,
}

impl Worker {
    fn start(
        number: usize,
        queue: &str,
        lines: mpsc::UnboundedSender<(usize, String)>,
    ) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["worker", queue])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if lines.send((number, line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, input })
    }

    async fn go_on(&mut self) -> Outcome {
        Ok(self.input.write_all(b"\n").await?)
    }
}

pub async fn play() -> Outcome {
    let (connection, channel) = connect().await?;
    let queue = unique_name()?;
    channel
        .queue_declare(
            queue.clone(),
            QueueDeclareOptions::durable(),
            FieldTable::default(),
        )
        .await?;
    let outcome = share_six_tasks(&channel, queue.as_str()).await;
    channel
        .queue_delete(queue, QueueDeleteOptions::default())
        .await?;
    connection.close(200, "".into()).await?;
    outcome
}

async fn share_six_tasks(channel: &lapin::Channel, queue: &str) -> Outcome {
    let (sender, mut lines) = mpsc::unbounded_channel();
    let mut workers = Vec::new();
    for number in 0..3 {
        workers.push(Worker::start(number, queue, sender.clone())?);
    }
    for _ in 0..3 {
        let (_, line) = lines.recv().await.ok_or("the workers have ended")?;
        expect("a worker's first word", line.as_str(), "ready")?;
    }
    for number in 1..=6 {
        let persistent = BasicProperties::default().with_delivery_mode(2);
        publish(
            channel,
            &"".into(),
            queue,
            format!("task-{number}").as_bytes(),
            persistent,
        )
        .await?;
    }
    let mut held = vec![String::new(); 3];
    for _ in 0..3 {
        let (number, line) = lines.recv().await.ok_or("the workers have ended")?;
        held[number] = line;
    }
    let mut first = held.clone();
    first.sort();
    expect(
        "the first three",
        first,
        [
            "received task-1 first",
            "received task-2 first",
            "received task-3 first",
        ],
    )?;

    workers[0].process.kill().await?;

    let mut received = held[1..].to_vec();
    workers[1].go_on().await?;
    workers[2].go_on().await?;
    let mut done = 0;
    while done < 6 {
        let (number, line) = lines.recv().await.ok_or("the workers have ended")?;
        if line.starts_with("done") {
            done += 1;
        } else {
            received.push(line);
            workers[number].go_on().await?;
        }
    }
    received.sort();
    let wanted = (1..=6).map(|number| format!("received task-{number} first"));
    let wanted: Vec<_> = wanted
        .map(|line| {
            if line == held[0] {
                line.replace("first", "again")
            } else {
                line
            }
        })
        .collect();
    expect("all tasks of the two that were left", received, wanted)
}
