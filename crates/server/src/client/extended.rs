//! The messages of extended queries: named statements and portals.

use super::kept_rows::KeptRows;
use super::rows::{format_at, refuse_binary_rows, row_description};
use super::{Client, NamedStatement, Outcome, Portal, Protocol};
use crate::hold;
use crate::wire::{Format, datum_of, parameter_oid, type_of};
use bytes::{Bytes, BytesMut};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use reprise::{Column, Datum, Error, Parameters, SqlError, Statement, Type};
use sql::{Declared, Kind, Movement};
use std::io;
use std::sync::{Arc, Mutex};

/// Estimated bytes of a plan for each byte of its text.
const PLANNED: usize = 8;
/// Parameters of an unnamed portal up to this many bytes need no check of memory.
const SMALL: usize = 64 << 10;

/// Returns the bytes that a parameter takes until its statement has run: in the message, as a value, and in
/// the statement. An element of an array has at least two bytes as text, or eight in binary.
fn room_for(bytes: Option<&Bytes>, ty: Type, format: Format) -> usize {
    let for_each = match (ty, format) {
        (Type::Array(_), Format::Text) => 120,
        (Type::Array(_), Format::Binary) => 20,
        _ => 4,
    };
    bytes.map_or(0, |bytes| bytes.len() * for_each)
}

impl Client {
    /// Sends the answer or the error of an extended query's message. Returns whether it succeeded.
    pub(super) fn answer(&mut self, done: Result<Message, Error>, text: &str) -> bool {
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

    /// Answers a PARSE that is refused. Returns false: it did not succeed.
    pub(crate) fn refuse_parse(&mut self, error: SqlError) -> bool {
        self.fail(&error.into(), "");
        false
    }

    pub(crate) fn parse(&mut self, message: Parse) -> bool {
        let name = message.name.unwrap_or_default();
        self.begin_message();
        self.notices(&sql::truncation_notices(&message.query));
        let parsed = self.prepare(name, &message.query, &message.type_oids);
        self.answer(parsed.map(|()| Message::ParseComplete(ParseComplete::new())), &message.query)
    }

    pub(super) fn prepare(&mut self, name: String, text: &str, oids: &[u32]) -> Result<(), Error> {
        let types = oids.iter().map(|oid| type_of(*oid)).collect::<Result<Vec<_>, _>>()?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message).into());
        }
        self.prepare_as(name, text, &types, oids)
    }

    /// Prepares a statement. `types` are the types that the client has given to its parameters, `oids` their
    /// OIDs; PREPARE gives no OIDs.
    pub(super) fn prepare_as(
        &mut self,
        name: String,
        text: &str,
        types: &[Option<Type>],
        oids: &[u32],
    ) -> Result<(), Error> {
        if !name.is_empty() {
            self.check_kept(PLANNED * text.len())?;
        }
        let prepared = self.plan(text, |session| session.prepare_typed(text, types))?;
        let statement = NamedStatement { given: oids.into(), ..NamedStatement::new(prepared) };
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
        self.answer(bound.map(|()| Message::BindComplete(BindComplete::new())), "")
    }

    pub(super) fn bind_portal(&mut self, message: Bind) -> Result<(), Error> {
        self.begin_message();
        let statement = self.statement(message.statement_name.as_deref().unwrap_or_default())?;
        let values = &message.parameters;
        let parameters = {
            let named = hold(&statement);
            let types = named.prepared.as_ref().map(Statement::parameters).unwrap_or_default();
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
                .map(|(index, (bytes, ty))| room_for(bytes.as_ref(), *ty, format_at(&formats, index)))
                .sum();
            if room > SMALL || message.portal_name.is_some() {
                self.check_kept(room)?;
            }
            let arena = &mut self.scratch;
            arena.set_zone(self.settings.zone().cloned());
            arena.clear();
            let mut parameters = named.prepared.as_ref().map(Parameters::new).unwrap_or_default();
            for (index, (bytes, ty)) in values.iter().zip(types).enumerate() {
                let value = match bytes {
                    None => Datum::Null,
                    Some(bytes) => datum_of(bytes, *ty, format_at(&formats, index), arena)
                        .map_err(|error| error.of_parameter(index + 1))?,
                };
                parameters.push(value, arena);
            }
            parameters
        };
        let codes = message.result_column_format_codes.iter();
        let formats = codes.map(|code| Format::of(*code)).collect::<Result<Vec<_>, _>>()?;
        {
            let named = hold(&statement);
            let columns = named.prepared.as_ref().map(Statement::columns).unwrap_or_default();
            refuse_binary_rows(columns, &formats)?;
        }
        let portal = Portal {
            statement,
            parameters,
            formats,
            described: None,
            kept: None,
            is_cursor: false,
            holds: false,
            declared_at: None,
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
        done.inspect_err(|error| self.fail(error, "")).is_ok()
    }

    /// Sends the types of a statement's parameters, and its columns.
    pub(super) fn describe_statement(&mut self, name: &str) -> Result<(), Error> {
        let statement = self.statement(name)?;
        let mut named = hold(&statement);
        let types = named.prepared.as_ref().map(Statement::parameters).unwrap_or_default();
        let oid = |(index, ty): (usize, &Type)| parameter_oid(named.given.get(index).copied(), *ty);
        let oids = types.iter().enumerate().map(oid).collect();
        self.output.put(Message::ParameterDescription(ParameterDescription::new(oids)));
        let columns = self.columns_of(named.prepared.as_ref());
        named.described = Some(self.output.place(Self::description(columns.as_deref(), &[])));
        Ok(())
    }

    /// Returns the columns of a statement's rows; `None` if it returns no rows. FETCH has the columns of its
    /// cursor.
    pub(super) fn columns_of(&self, prepared: Option<&Statement>) -> Option<Vec<Column>> {
        let prepared = prepared?;
        let columns = match &prepared.plan().kind {
            Kind::Fetch { name, moves: false, .. } => {
                let portal = self.portals.get(name).filter(|portal| portal.is_cursor);
                let columns = portal.map(|portal| {
                    let named = hold(&portal.statement);
                    named.prepared.as_ref().map(|known| known.columns().to_vec()).unwrap_or_default()
                });
                return columns;
            }
            // A query may have rows without columns.
            Kind::Run(_) if prepared.tag() == "SELECT" => return Some(prepared.columns().to_vec()),
            _ => prepared.columns().to_vec(),
        };
        Some(columns).filter(|columns| !columns.is_empty())
    }

    /// Returns the formats of a simple query's rows: binary for FETCH from a binary cursor.
    pub(super) fn formats_of(&self, prepared: Option<&Statement>) -> &'static [Format] {
        let plan = prepared.map(Statement::plan);
        let cursor = match plan.as_ref().map(|plan| &plan.kind) {
            Some(Kind::Fetch { name, moves: false, .. }) => self.portals.get(name),
            _ => None,
        };
        match cursor.is_some_and(|cursor| cursor.is_cursor && cursor.formats.contains(&Format::Binary)) {
            true => &[Format::Binary],
            false => &[],
        }
    }

    pub(super) fn describe_portal(&mut self, name: &str) -> Result<(), Error> {
        let portal = self.portal(name)?;
        let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
        let named = hold(&statement);
        let columns = self.columns_of(named.prepared.as_ref());
        let placed = self.output.place(Self::description(columns.as_deref(), &formats));
        self.portal(name)?.described = Some(placed);
        Ok(())
    }

    pub(super) fn description(columns: Option<&[Column]>, formats: &[Format]) -> Message {
        columns.map_or_else(|| Message::NoData(NoData::new()), |columns| row_description(columns, formats))
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

    /// Runs the EXECUTE that waited for the next message. `is_sync`: that message is SYNC. Returns whether it
    /// succeeded.
    pub(crate) async fn run_delayed(&mut self, is_sync: bool) -> io::Result<bool> {
        let Some((name, most)) = self.delayed.take() else { return Ok(true) };
        if let Err(error) = self.run_portal(&name, most, is_sync).await {
            self.fail(&error, "");
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) async fn run_portal(&mut self, name: &str, most: usize, is_sync: bool) -> Result<(), Error> {
        if self.portal(name)?.kept.is_some() {
            return self.send_kept_rows(name, most);
        }
        let statement = Arc::clone(&self.portal(name)?.statement);
        let mut named = hold(&statement).clone();
        let text = named.prepared.as_ref().map_or("", Statement::text);
        self.registered.attended.presence.begin_statement(text);
        let is_of_transaction = named.prepared.as_ref().is_some_and(|known| {
            use Kind::{Analyze, Call, Copy, Declare, Definition, Execute, Run};
            matches!(
                known.plan().kind,
                Run(_)
                    | Analyze(_)
                    | Call(..)
                    | Definition
                    | Copy(_)
                    | Execute { .. }
                    | Declare(Declared { holds: true, .. })
            )
        });
        if !is_sync && is_of_transaction {
            self.begin_implicit()?;
        }
        let portal = self.portal(name)?;
        let (parameters, formats) = (std::mem::take(&mut portal.parameters), portal.formats.clone());
        // Only a statement with rows, and with a limit of rows, keeps the remaining rows.
        let has_rows = named.prepared.as_ref().is_some_and(|known| !known.columns().is_empty());
        let kept = (most > 0 && has_rows).then(|| Arc::new(Mutex::new(BytesMut::new())));
        let ran = loop {
            match self.run(&mut named, &parameters, &formats, kept.clone(), Protocol::Extended).await {
                Err(Error::Outdated) if self.prepare_again(name, &mut named)? => {}
                ran => break ran,
            }
        };
        *hold(&statement) = named;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.parameters = parameters;
        }
        match (ran?, kept) {
            (Outcome::Complete(tag), Some(kept)) => {
                let rows = std::mem::take(&mut *hold(&kept));
                self.portal(name)?.kept = Some((KeptRows::new(rows, true), tag));
                self.send_kept_rows(name, most)
            }
            (ran, _) => {
                self.complete(ran);
                Ok(())
            }
        }
    }

    /// Prepares the statement of a portal again, because definitions have changed since, and replaces its
    /// description. Returns false for a statement with a name, and if the client may know its columns or
    /// parameters already.
    fn prepare_again(&mut self, portal: &str, named: &mut NamedStatement) -> Result<bool, Error> {
        let Portal { statement, described, formats, .. } = self.portal(portal)?;
        let (statement, of_portal, formats) = (Arc::clone(statement), *described, formats.clone());
        let is_unnamed = self.statements.get("").is_some_and(|known| Arc::ptr_eq(known, &statement));
        let Some(outdated) = named.prepared.as_ref().filter(|_| is_unnamed) else { return Ok(false) };
        let text = outdated.text().to_owned();
        let types = named.given.iter().map(|oid| type_of(*oid)).collect::<Result<Vec<_>, _>>()?;
        let prepared = self.plan(&text, |session| session.prepare_typed(&text, &types))?;
        let is_alike = prepared.as_ref().is_some_and(|known| known.parameters() == outdated.parameters());
        let columns = self.columns_of(prepared.as_ref());
        let columns = columns.as_deref();
        let is_told = match (named.described, of_portal) {
            _ if !is_alike => false,
            (None, None) => true,
            (Some(placed), None) => self.output.replace(placed, Self::description(columns, &[])),
            (None, Some(placed)) => self.output.replace(placed, Self::description(columns, &formats)),
            (Some(_), Some(_)) => false,
        };
        if is_told {
            named.prepared = prepared;
        }
        Ok(is_told)
    }

    /// Sends up to `most` of the rows that a portal has kept; 0 is no limit.
    pub(super) fn send_kept_rows(&mut self, name: &str, most: usize) -> Result<(), Error> {
        let portal = self.portal(name)?;
        // The rows of a cursor are kept as texts, those of a portal of the protocol in their formats.
        let formats = if portal.is_cursor { portal.formats.clone() } else { Vec::new() };
        let most = i64::try_from(most).ok().filter(|most| *most > 0).unwrap_or(i64::MAX);
        let count = self.take_rows(name, Movement::By(most), &formats)?;
        let Some((rows, tag)) = &self.portal(name)?.kept else { return Ok(()) };
        let (is_at_end, tag) = (rows.is_at_end(), tag.clone());
        if !is_at_end {
            self.output.put(Message::PortalSuspended(PortalSuspended::new()));
            return Ok(());
        }
        // The tag counts the rows of this EXECUTE.
        let verb = tag.rsplit_once(' ').map_or(tag.as_str(), |(verb, _)| verb);
        let tag = if verb == "SELECT" { format!("SELECT {count}") } else { tag.clone() };
        self.completed(tag);
        Ok(())
    }

    /// SYNC: commits an implicit transaction, and closes the portals of an ended one.
    pub(crate) async fn synchronize(&mut self) -> io::Result<()> {
        let succeeded = self.run_delayed(true).await?;
        if self.copying.is_some() {
            // The client sends SYNC once more, when the copy is complete.
            return Ok(());
        }
        if succeeded && let Err(error) = self.commit_implicit() {
            self.fail(&error, "");
        }
        self.close_portals();
        self.ready();
        Ok(())
    }
}
