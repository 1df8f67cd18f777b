//! Extended queries: statements and portals by name.

use super::rows::{format_at, row_description, whole_rows};
use super::{Asked, Client, NamedStatement, Portal, Ran};
use crate::hold;
use crate::wire::{Format, datum_of, described, type_of};
use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use reprise::rooms::catalog::{Datum, Type};
use reprise::rooms::procedure::SqlError;
use reprise::rooms::sql::Kind;
use reprise::{Column, Error, Parameters, Statement};
use std::io;
use std::sync::{Arc, Mutex};

/// Bytes that a plan keeps for each byte of its text.
const PLANNED: usize = 8;
/// Parameters of an unnamed portal take this many bytes without asking.
const SMALL: usize = 64 << 10;

/// Bytes that a parameter takes until its statement has run: as it was sent, as a value, and as the statement
/// has it. An element of an array may be sent as two bytes of text, or eight in binary.
fn room_for(bytes: Option<&Bytes>, ty: Type, format: Format) -> usize {
    let for_each = match (ty, format) {
        (Type::Array(_), Format::Text) => 120,
        (Type::Array(_), Format::Binary) => 20,
        _ => 4,
    };
    bytes.map_or(0, |bytes| bytes.len() * for_each)
}

impl Client {
    /// What a message of an extended query came to; whether it went well.
    pub(super) fn told(&mut self, done: Result<Message, Error>, text: &str) -> bool {
        match done {
            Ok(message) => {
                self.output.put(message);
                true
            }
            Err(error) => {
                self.fail(&error, text);
                false
            }
        }
    }

    /// A message that is refused. Whether it went well.
    pub(crate) fn refuse_parse(&mut self, error: SqlError) -> bool {
        self.fail(&error.into(), "");
        false
    }

    pub(crate) fn parse(&mut self, message: Parse) -> bool {
        let name = message.name.unwrap_or_default();
        self.begin_message();
        let parsed = self.prepare(name, &message.query, &message.type_oids);
        self.told(parsed.map(|()| Message::ParseComplete(ParseComplete::new())), &message.query)
    }

    pub(super) fn prepare(&mut self, name: String, text: &str, oids: &[u32]) -> Result<(), Error> {
        let types = oids.iter().map(|oid| type_of(*oid)).collect::<Result<Vec<_>, _>>()?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message).into());
        }
        self.prepare_as(name, text, &types)
    }

    pub(super) fn prepare_as(
        &mut self,
        name: String,
        text: &str,
        types: &[Option<Type>],
    ) -> Result<(), Error> {
        if !name.is_empty() {
            self.check_kept(PLANNED * text.len())?;
        }
        let prepared = self.plan(text, |session| session.prepare_typed(text, types))?;
        let statement = NamedStatement { prepared, took: None };
        self.statements.insert(name, Arc::new(Mutex::new(statement)));
        Ok(())
    }

    pub(super) fn statement(&self, name: &str) -> Result<Arc<Mutex<NamedStatement>>, Error> {
        self.statements.get(name).cloned().ok_or_else(|| {
            SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")).into()
        })
    }

    pub(super) fn portal(&mut self, name: &str) -> Result<&mut Portal, Error> {
        let missing = || SqlError::new("34000", format!("portal \"{name}\" does not exist")).into();
        self.portals.get_mut(name).ok_or_else(missing)
    }

    pub(crate) fn bind(&mut self, message: Bind) -> bool {
        let bound = self.bind_portal(message);
        self.told(bound.map(|()| Message::BindComplete(BindComplete::new())), "")
    }

    pub(super) fn bind_portal(&mut self, message: Bind) -> Result<(), Error> {
        self.begin_message();
        let statement = self.statement(message.statement_name.as_deref().unwrap_or_default())?;
        let values = &message.parameters;
        let parameters = {
            let own = hold(&statement);
            let types = own.prepared.as_ref().map(Statement::parameters).unwrap_or_default();
            if types.len() != values.len() {
                let message = format!(
                    "bind message supplies {} parameters, but the prepared statement requires {}",
                    values.len(),
                    types.len()
                );
                return Err(SqlError::new("08P01", message).into());
            }
            let codes = message.parameter_format_codes.iter();
            let formats = codes.map(|code| Format::of(*code)).collect::<Result<Vec<_>, _>>()?;
            let room = values.iter().zip(types).enumerate();
            let room = room
                .map(|(place, (bytes, ty))| room_for(bytes.as_ref(), *ty, format_at(&formats, place)))
                .sum();
            if room > SMALL || message.portal_name.is_some() {
                self.check_kept(room)?;
            }
            let arena = &mut self.scratch;
            arena.clear();
            let mut parameters = own.prepared.as_ref().map(Parameters::new).unwrap_or_default();
            for (index, (bytes, ty)) in values.iter().zip(types).enumerate() {
                let value = match bytes {
                    None => Datum::Null,
                    Some(bytes) => datum_of(bytes, *ty, format_at(&formats, index), arena)
                        .map_err(|error| error.with_detail(format!("Parameter ${}.", index + 1)))?,
                };
                parameters.push(value, arena);
            }
            parameters
        };
        let codes = message.result_column_format_codes.iter();
        let formats = codes.map(|code| Format::of(*code)).collect::<Result<Vec<_>, _>>()?;
        let portal = Portal {
            statement,
            parameters,
            formats,
            left: None,
            is_cursor: false,
            holds: false,
            is_new: None,
        };
        self.portals.insert(message.portal_name.unwrap_or_default(), portal);
        Ok(())
    }

    pub(crate) fn describe(&mut self, message: Describe) -> bool {
        let name = message.name.unwrap_or_default();
        let done = if message.target_type == b'S' {
            self.describe_statement(&name)
        } else {
            self.describe_portal(&name)
        };
        self.told(done, "")
    }

    /// The types of a statement's parameters, and its columns.
    pub(super) fn describe_statement(&mut self, name: &str) -> Result<Message, Error> {
        let statement = self.statement(name)?;
        let own = hold(&statement);
        let types = own.prepared.as_ref().map(Statement::parameters).unwrap_or_default();
        let oids = types.iter().map(|ty| described(*ty).0).collect();
        self.output.put(Message::ParameterDescription(ParameterDescription::new(oids)));
        let columns = self.columns_of(own.prepared.as_ref());
        Ok(Self::description(&columns, &[]))
    }

    /// The columns of a statement's rows; those of FETCH are the cursor's.
    pub(super) fn columns_of(&self, prepared: Option<&Statement>) -> Vec<Column> {
        let Some(prepared) = prepared else { return Vec::new() };
        match &prepared.plan().kind {
            Kind::Fetch { name, moves: false, .. } => {
                let portal = self.portals.get(name).filter(|portal| portal.is_cursor);
                let columns = portal.map(|portal| {
                    let own = hold(&portal.statement);
                    own.prepared.as_ref().map(|own| own.columns().to_vec()).unwrap_or_default()
                });
                columns.unwrap_or_default()
            }
            _ => prepared.columns().to_vec(),
        }
    }

    pub(super) fn describe_portal(&mut self, name: &str) -> Result<Message, Error> {
        let portal = self.portal(name)?;
        let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
        let own = hold(&statement);
        let columns = self.columns_of(own.prepared.as_ref());
        Ok(Self::description(&columns, &formats))
    }

    pub(super) fn description(columns: &[Column], formats: &[Format]) -> Message {
        if columns.is_empty() { Message::NoData(NoData::new()) } else { row_description(columns, formats) }
    }

    pub(crate) fn execute(&mut self, message: Execute) -> bool {
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        self.delayed = Some((message.name.unwrap_or_default(), most));
        true
    }

    pub(crate) fn close(&mut self, message: &Close) -> bool {
        let name = message.name.as_deref().unwrap_or_default();
        if message.target_type == b'S' {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
        self.output.put(Message::CloseComplete(CloseComplete::new()));
        true
    }

    /// Runs the EXECUTE that was waiting for its next message, which is SYNC or not. Whether it went well.
    pub(crate) async fn run_delayed(&mut self, is_sync: bool) -> io::Result<bool> {
        let Some((name, most)) = self.delayed.take() else { return Ok(true) };
        if let Err(error) = self.run_portal(&name, most, is_sync).await {
            self.fail(&error, "");
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) async fn run_portal(&mut self, name: &str, most: usize, is_sync: bool) -> Result<(), Error> {
        if self.portal(name)?.left.is_some() {
            return self.go_on(name, most);
        }
        let statement = Arc::clone(&self.portal(name)?.statement);
        let mut own = hold(&statement).clone();
        let is_of_transaction = own.prepared.as_ref().is_some_and(|own| {
            use Kind::{Analyze, Call, Copy, Declare, Definition, Execute, Run};
            matches!(
                own.plan().kind,
                Run(_)
                    | Analyze(_)
                    | Call(..)
                    | Definition
                    | Copy(_)
                    | Execute { .. }
                    | Declare { holds: true, .. }
            )
        });
        if !is_sync && is_of_transaction {
            self.begin_implicit()?;
        }
        let portal = self.portal(name)?;
        let (parameters, formats) = (std::mem::take(&mut portal.parameters), portal.formats.clone());
        // Only what has rows, and is asked for some of them, keeps the others.
        let has_rows = own.prepared.as_ref().is_some_and(|own| !own.columns().is_empty());
        let kept = (most > 0 && has_rows).then(|| Arc::new(Mutex::new(BytesMut::new())));
        let ran = self.run(&mut own, &parameters, &formats, kept.clone(), Asked::Extended).await;
        *hold(&statement) = own;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.parameters = parameters;
        }
        match (ran?, kept) {
            (Ran::Complete(tag), Some(kept)) => {
                let rows = std::mem::take(&mut *hold(&kept));
                self.portal(name)?.left = Some((rows, tag));
                self.go_on(name, most)
            }
            (ran, _) => {
                self.complete(ran);
                Ok(())
            }
        }
    }

    /// Hands on rows that a portal has kept.
    pub(super) fn go_on(&mut self, name: &str, most: usize) -> Result<(), Error> {
        let output = self.output.clone();
        let portal = self.portal(name)?;
        let Some((rows, tag)) = &mut portal.left else { return Ok(()) };
        let most = if most == 0 { usize::MAX } else { most };
        let (end, count) = whole_rows(rows, most);
        output.lock().extend_from_slice(&rows[..end]);
        rows.advance(end);
        if !rows.is_empty() {
            output.put(Message::PortalSuspended(PortalSuspended::new()));
            return Ok(());
        }
        // The count is of what this EXECUTE has given.
        let verb = tag.rsplit_once(' ').map_or(tag.as_str(), |(verb, _)| verb);
        let tag = if verb == "SELECT" { format!("SELECT {count}") } else { tag.clone() };
        self.completed(tag);
        Ok(())
    }

    /// SYNC: what was implicit is committed; portals end with the transaction that they are of.
    pub(crate) async fn synchronize(&mut self) -> io::Result<()> {
        let went_well = self.run_delayed(true).await?;
        if self.copying.is_some() {
            // The client sends SYNC once more, when the copy is complete.
            return Ok(());
        }
        if went_well && let Err(error) = self.commit_implicit() {
            self.fail(&error, "");
        }
        self.close_portals();
        self.ready();
        Ok(())
    }
}
