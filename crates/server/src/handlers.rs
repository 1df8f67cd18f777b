//! The messages of PostgreSQL's protocol, as pgwire hands them over. Answers are fed, and flushed once a batch of messages.

use crate::client::{Client, Outcome, format_at};
use crate::pool::Pool;
use crate::wire::{Format, described};
use async_trait::async_trait;
use bytes::BytesMut;
use futures::sink::{Sink, SinkExt};
use pgwire::api::auth::StartupHandler;
use pgwire::api::auth::noop::NoopStartupHandler;
use pgwire::api::portal::Portal;
use pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use pgwire::api::results::Response;
use pgwire::api::stmt::NoopQueryParser;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, PgWireConnectionState, PgWireServerHandlers};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{DataRow, FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    Sync as PgSync,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::simplequery::Query;
use reprise::rooms::procedure::SqlError;
use reprise::rooms::procedure::query::OutputColumn;
use reprise::{Error, TransactionState};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles the messages of one connection.
pub(crate) struct Handler {
    client: Mutex<Client>,
}

/// What pgwire asks for a connection's handlers.
pub(crate) struct Connection(Arc<Handler>);

impl Connection {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self(Arc::new(Handler { client: Mutex::new(Client::new(pool)) }))
    }
}

impl PgWireServerHandlers for Connection {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        Arc::clone(&self.0)
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        Arc::clone(&self.0)
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        Arc::clone(&self.0)
    }
}

impl NoopStartupHandler for Handler {}

fn error_info(severity: &str, error: &SqlError) -> ErrorInfo {
    let mut info = ErrorInfo::new(severity.into(), error.sqlstate.clone(), error.message.clone());
    info.detail.clone_from(&error.detail);
    info.hint.clone_from(&error.hint);
    info.severity_nonlocalized = Some(severity.into());
    info
}

/// An error as the client sees it; `text` is what it sent.
fn refused(error: &Error, text: &str) -> PgWireError {
    let info = match error {
        Error::Sql(error) => error_info("ERROR", error),
        Error::Statement(error) => {
            let mut info = error_info("ERROR", &error.error);
            let before = text.split_inclusive('\n').take(error.line.saturating_sub(1) as usize);
            let position = before.map(|line| line.chars().count()).sum::<usize>() + error.column as usize;
            info.position = Some(position.to_string());
            info
        }
        other => error_info("ERROR", &SqlError::new(other.sqlstate(), other.to_string())),
    };
    PgWireError::UserError(Box::new(info))
}

fn row_description(columns: &[OutputColumn], formats: &[Format]) -> RowDescription {
    let field = |(place, column): (usize, &OutputColumn)| {
        let (oid, size, modifier) = described(column.ty);
        let format = format_at(formats, place).code();
        FieldDescription::new(column.name.clone(), 0, 0, oid, size, modifier, format)
    };
    RowDescription::new(columns.iter().enumerate().map(field).collect())
}

fn status_of(state: TransactionState) -> TransactionStatus {
    match state {
        TransactionState::None => TransactionStatus::Idle,
        TransactionState::Open => TransactionStatus::Transaction,
        TransactionState::Failed => TransactionStatus::Error,
    }
}

impl Handler {
    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something that may take long without keeping others from the thread.
    fn run<T>(&self, act: impl FnOnce(&mut Client) -> T) -> T {
        tokio::task::block_in_place(|| act(&mut self.client()))
    }

    /// Tells what a statement came to.
    async fn tell<C>(&self, client: &mut C, outcome: Outcome, describes: bool) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        for notice in &outcome.notices {
            let info = error_info("NOTICE", notice);
            client.feed(PgWireBackendMessage::NoticeResponse(info.into())).await?;
        }
        let Some(tag) = outcome.tag else {
            client.feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
            return Ok(());
        };
        if describes && !outcome.columns.is_empty() {
            let description = row_description(&outcome.columns, &[]);
            client.feed(PgWireBackendMessage::RowDescription(description)).await?;
        }
        let width = i16::try_from(outcome.columns.len()).unwrap_or(i16::MAX);
        for row in outcome.rows {
            let row: BytesMut = row;
            client.feed(PgWireBackendMessage::DataRow(DataRow::new(row, width))).await?;
        }
        let end = if outcome.suspended {
            PgWireBackendMessage::PortalSuspended(PortalSuspended::new())
        } else {
            PgWireBackendMessage::CommandComplete(CommandComplete::new(tag))
        };
        client.feed(end).await?;
        Ok(())
    }

    fn report<C: ClientInfo>(&self, client: &mut C) -> TransactionStatus {
        let status = status_of(self.client().transaction_state());
        client.set_transaction_status(status);
        status
    }

    /// An error of an extended query, after which messages are passed over until SYNC.
    fn failed<C: ClientInfo>(&self, client: &mut C, error: &Error, text: &str) -> PgWireError {
        self.client().fail();
        self.report(client);
        refused(error, text)
    }
}

#[async_trait]
impl SimpleQueryHandler for Handler {
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (outcomes, error) = self.run(|own| own.simple(&query.query));
        for outcome in outcomes {
            self.tell(client, outcome, true).await?;
        }
        if let Some(error) = error {
            return Err(self.failed(client, &error, &query.query));
        }
        let status = self.report(client);
        client.set_state(PgWireConnectionState::ReadyForQuery);
        client.send(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status))).await?;
        Ok(())
    }

    async fn do_query<C>(&self, _client: &mut C, _query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        unreachable!("on_query answers itself")
    }
}

#[async_trait]
impl ExtendedQueryHandler for Handler {
    type Statement = String;
    type QueryParser = NoopQueryParser;

    fn query_parser(&self) -> Arc<NoopQueryParser> {
        Arc::new(NoopQueryParser)
    }

    async fn on_parse<C>(&self, client: &mut C, message: Parse) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or_default();
        let parsed = self.client().parse(name, &message.query, &message.type_oids);
        parsed.map_err(|error| self.failed(client, &error, &message.query))?;
        client.feed(PgWireBackendMessage::ParseComplete(ParseComplete::new())).await?;
        Ok(())
    }

    async fn on_bind<C>(&self, client: &mut C, message: Bind) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let portal = message.portal_name.as_deref().unwrap_or_default();
        let statement = message.statement_name.as_deref().unwrap_or_default();
        let parameters = (&*message.parameters, &*message.parameter_format_codes);
        let bound = self.client().bind((portal, statement), parameters, &message.result_column_format_codes);
        bound.map_err(|error| self.failed(client, &error, ""))?;
        client.feed(PgWireBackendMessage::BindComplete(BindComplete::new())).await?;
        Ok(())
    }

    async fn on_describe<C>(&self, client: &mut C, message: Describe) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or_default();
        let (columns, formats) = if message.target_type == b'S' {
            let described = self.client().describe_statement(name);
            let (types, columns) = described.map_err(|error| self.failed(client, &error, ""))?;
            let oids = types.into_iter().map(described_oid).collect();
            let parameters = ParameterDescription::new(oids);
            client.feed(PgWireBackendMessage::ParameterDescription(parameters)).await?;
            (columns, Vec::new())
        } else {
            let described = self.client().describe_portal(name);
            described.map_err(|error| self.failed(client, &error, ""))?
        };
        let answer = if columns.is_empty() {
            PgWireBackendMessage::NoData(NoData::new())
        } else {
            PgWireBackendMessage::RowDescription(row_description(&columns, &formats))
        };
        client.feed(answer).await?;
        Ok(())
    }

    async fn on_execute<C>(&self, client: &mut C, message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or_default();
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        let ran = self.run(|own| own.execute(name, most));
        let outcome = ran.map_err(|error| self.failed(client, &error, ""))?;
        self.report(client);
        self.tell(client, outcome, false).await
    }

    async fn on_sync<C>(&self, client: &mut C, _message: PgSync) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.client().synchronize();
        let status = self.report(client);
        client.send(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status))).await?;
        Ok(())
    }

    async fn on_close<C>(&self, client: &mut C, message: Close) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or_default();
        if message.target_type == b'S' {
            self.client().close_statement(name);
        } else {
            self.client().close_portal(name);
        }
        client.feed(PgWireBackendMessage::CloseComplete(CloseComplete::new())).await?;
        Ok(())
    }

    async fn do_query<C>(
        &self,
        _client: &mut C,
        _portal: &Portal<String>,
        _max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = String>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        unreachable!("on_execute answers itself")
    }
}

fn described_oid(ty: reprise::rooms::catalog::Type) -> u32 {
    described(ty).0
}
