//! One connection: reads its messages, and calls the function of each message.
//!
//! Not here: the effects of messages (`client`).

use crate::Server;
use crate::client::{Client, drop_temporary};
use crate::link::{Link, LinkEvent};
use crate::startup::ClientConnection;
use pgwire::messages::PgWireFrontendMessage as Message;
use reprise::{SqlError, TransactionState};
use std::io;
use std::sync::Arc;

/// Serves an authenticated client until it disconnects or the server stops.
pub(crate) async fn run(established: ClientConnection, server: Arc<Server>) -> io::Result<()> {
    let ClientConnection { mut link, registered, user, role, settings, admitted: _admitted } = established;
    link.output.answers_of(&server);
    let attended = Arc::clone(&registered.attended);
    let mut client = Client::new(Arc::clone(&server), registered, link.output.clone(), &user, role, settings);
    let result = answer(&mut link, &mut client).await;
    if let Err(error) = &result
        && error.kind() == io::ErrorKind::InvalidData
    {
        link.output.send_last_error(&SqlError::new("08P01", format!("protocol violation: {error}"))).await;
    }
    if result.is_ok() && (server.is_stopping() || attended.is_ended()) {
        let message = "terminating connection due to administrator command";
        // `send_last_error` waits until the answers before it are durable.
        link.output.send_last_error(&SqlError::new("57P01", message)).await;
    }
    let temporary = client.temporary();
    drop(client);
    if temporary.number().is_some() {
        tokio::spawn(drop_temporary(server, temporary));
    }
    result
}

/// Reads the next message, and sends notifications while it waits. `None`: the client has
/// disconnected, left a transaction idle for too long, or the server stops.
async fn next(link: &mut Link, client: &mut Client) -> io::Result<Option<Message>> {
    let limit = client.idle_limit().filter(|_| client.transaction_state() != TransactionState::None);
    let Some(limit) = limit else {
        loop {
            match link.next_or(client.arrival()).await? {
                LinkEvent::Message(message) => return Ok(message),
                LinkEvent::Other => client.put_arrivals(),
            }
        }
    };
    if let Ok(message) = tokio::time::timeout(limit, link.next()).await {
        return message;
    }
    let message = "terminating connection due to idle-in-transaction timeout";
    // Before the error is sent: the client may not read it, and other transactions wait for this one.
    client.roll_back();
    link.output.send_last_error(&SqlError::new("25P03", message)).await;
    Ok(None)
}

async fn answer(link: &mut Link, client: &mut Client) -> io::Result<()> {
    // After an error of an extended query, messages are skipped until SYNC.
    let mut skips = false;
    while let Some(message) = next(link, client).await? {
        // A message that comes after another connection has ended this one is not answered.
        if client.is_ended() {
            return Ok(());
        }
        client.await_session().await;
        let refusal = link.take_refusal();
        if client.is_copying() {
            match message {
                Message::CopyData(_) if let Some(error) = refusal => skips = client.copy_refused(error),
                Message::CopyData(data) => skips = client.copy_data(&data.data).await,
                Message::CopyDone(_) => skips = client.copy_done().await,
                Message::CopyFail(reason) => skips = client.copy_failed(&reason.message),
                // Clients send them directly behind the EXECUTE that begins the copy.
                Message::Flush(_) | Message::Sync(_) => {}
                Message::Terminate(_) => return Ok(()),
                _ => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected message during COPY"));
                }
            }
            continue;
        }
        let succeeded = match message {
            Message::Terminate(_) => return Ok(()),
            Message::Sync(_) => {
                skips = false;
                client.synchronize().await?;
                true
            }
            _ if skips => true,
            Message::Query(query) => {
                // An EXECUTE before it without SYNC belongs to the same transaction.
                let ran = client.run_delayed(false).await?;
                if ran {
                    match refusal {
                        Some(error) => client.refuse_query(error),
                        None => client.query(&query.query).await?,
                    }
                }
                ran
            }
            Message::Flush(_) => {
                let ran = client.run_delayed(false).await?;
                link.output.flush().await?;
                ran
            }
            Message::Parse(parse) => {
                client.run_delayed(false).await?
                    && match refusal {
                        Some(error) => client.refuse_parse(error),
                        None => client.parse(parse),
                    }
            }
            Message::Bind(bind) => client.run_delayed(false).await? && client.bind(bind),
            Message::Describe(describe) => client.run_delayed(false).await? && client.describe(describe),
            Message::Execute(execute) => client.run_delayed(false).await? && client.execute(execute),
            Message::Close(close) => client.run_delayed(false).await? && client.close(&close),
            // Messages of a copy that has failed are skipped.
            Message::CopyData(_) | Message::CopyDone(_) | Message::CopyFail(_) => true,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected message")),
        };
        skips |= !succeeded;
    }
    Ok(())
}
