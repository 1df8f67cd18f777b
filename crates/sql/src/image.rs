//! Images: all definitions as JSON, for checkpoints. The length of an image depends on the current
//! definitions, and not on the number of earlier changes.
//!
//! Procedures and views are kept as their statements and queries, and compiled again: callees first.
//! Invariant: a schema and its image define the same objects, with procedures compiled alike, and assign the
//! same next numbers.
//! Held by: an assertion wherever an image is made, `definitions::images_*` and checkpoints in the random
//! cases of `parallel_replay`.

use crate::circles::KeptRoutine;
use crate::partition::Partitions;
use crate::roles::rights::{Rights, RightsImage};
use crate::routine_changes::with_name;
use crate::schema::{Member, View};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::written_name;
use crate::{Schema, StatementError};
use catalog::{Catalog, ProcedureId};
use procedure::SqlError;
use serde::{Deserialize, Serialize};
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use thiserror::Error;

/// The reason why an image cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ImageError {
    /// The text is not a valid image.
    #[error("the definitions are malformed: {0}")]
    Damaged(String),
    /// The image of a schema defines other objects than the schema.
    #[error("the image does not reproduce the definitions")]
    Differs,
    /// A procedure that was accepted once is refused now.
    #[error("procedure \"{name}\", which was accepted when it was created, is refused now: {error}")]
    Refused {
        /// The procedure.
        name: String,
        /// The error of its statement.
        error: Box<StatementError>,
    },
}

/// The names of the fields are a format: a new field needs a default, and no field may be renamed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    catalog: Catalog,
    /// Callees before their callers.
    routines: Vec<RoutineImage>,
    /// The triggers in the order in which they are compiled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<TriggerImage>,
    views: BTreeMap<String, Arc<View>>,
    #[serde(default, skip_serializing_if = "Partitions::is_empty")]
    partitions: Partitions,
    namespaces: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    comments: Vec<(Subject, String)>,
    history: BTreeMap<String, (ProcedureId, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rights: Option<RightsImage>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutineImage {
    id: ProcedureId,
    version: u32,
    /// Its CREATE statement.
    source: Arc<str>,
    /// Whether it calls routines that are compiled later, because they call it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_circular: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unbound: Option<UnboundImage>,
}

/// The error of a routine whose body names a missing object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnboundImage {
    sqlstate: String,
    message: String,
    line: u32,
    column: u32,
}

/// A trigger, whose definition is a part of its table's.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggerImage {
    table: String,
    name: String,
    /// The number of routines that are compiled before it.
    follows: usize,
}

impl UnboundImage {
    fn of(error: &StatementError) -> Self {
        let SqlError { sqlstate, message, .. } = &error.error;
        let (sqlstate, message) = (sqlstate.clone(), message.clone());
        Self { sqlstate, message, line: error.line, column: error.column }
    }

    fn into_error(self) -> StatementError {
        let error = SqlError::new(&self.sqlstate, self.message);
        StatementError { line: self.line, column: self.column, error }
    }
}

/// Returns the CREATE statement of a routine under its name in the history. Earlier releases ignored the
/// schema in the statement.
fn named_as(source: &Arc<str>, name: &str) -> Result<Arc<str>, ImageError> {
    let refused = |error| ImageError::Refused { name: name.to_owned(), error: Box::new(error) };
    let parsed = Source::parse(source).map_err(refused)?;
    let path = parsed.file.syntax().descendants().find_map(ast::Path::cast);
    match path.is_none_or(|path| written_name(&path) == name) {
        true => Ok(Arc::clone(source)),
        false => Ok(with_name(source, name).map_err(refused)?.into()),
    }
}

impl Schema {
    /// Returns an image of all definitions.
    ///
    /// # Errors
    /// The image cannot be read back. That is a defect of Reprise; the check finds it before a checkpoint
    /// depends on the image.
    pub fn to_image(&self) -> Result<String, ImageError> {
        let ordered = self.callees_first().map_err(|_| ImageError::Differs)?;
        let (mut routines, mut triggers) = (Vec::new(), Vec::new());
        for member in ordered {
            let is_circular = matches!(member, Member::Circular(_));
            match member {
                Member::Routine(routine) | Member::Circular(routine) => {
                    let (id, version, source) = (routine.id, routine.version, Arc::clone(&routine.source));
                    let unbound = self.unbound.get(&routine.name).map(UnboundImage::of);
                    routines.push(RoutineImage { id, version, source, is_circular, unbound });
                }
                Member::Trigger(table, trigger) => {
                    let (table, follows) = (table.name.clone(), routines.len());
                    triggers.push(TriggerImage { table, name: trigger.name, follows });
                }
            }
        }
        let image = Image {
            catalog: self.catalog.clone(),
            routines,
            triggers,
            views: self.views.clone(),
            partitions: self.partitions.clone(),
            namespaces: self.namespaces.clone(),
            comments: self.comments.iter().map(|(subject, text)| (subject.clone(), text.clone())).collect(),
            history: self.history.clone(),
            rights: self.rights.image(),
        };
        let text = serde_json::to_string(&image).map_err(|error| ImageError::Damaged(error.to_string()))?;
        let again = Self::from_image(&text)?;
        debug_assert_eq!(format!("{:?}", again.procedures), format!("{:?}", self.procedures));
        debug_assert_eq!(format!("{:?}", again.triggers), format!("{:?}", self.triggers));
        if again.defines_the_same_as(self) { Ok(text) } else { Err(ImageError::Differs) }
    }

    /// Reads an image.
    ///
    /// # Errors
    /// The image is damaged. A procedure is refused.
    pub fn from_image(image: &str) -> Result<Self, ImageError> {
        let image: Image =
            serde_json::from_str(image).map_err(|error| ImageError::Damaged(error.to_string()))?;
        let Image { catalog, routines, triggers, views, partitions, namespaces, .. } = image;
        let Image { comments, history, rights, .. } = image;
        let comments = comments.into_iter().collect();
        let rights = Arc::new(Rights::of_image(rights));
        let mut schema =
            Self { catalog, views, partitions, namespaces, comments, history, rights, ..Self::default() };
        schema.renew_partitions();
        let mut triggers = triggers.into_iter().peekable();
        let kept = |image: &RoutineImage| KeptRoutine {
            id: image.id,
            version: image.version,
            source: Arc::clone(&image.source),
        };
        let mut later: VecDeque<KeptRoutine> = routines.iter().map(kept).collect();
        for (position, image) in routines.into_iter().enumerate() {
            let RoutineImage { id, version, source, is_circular, unbound } = image;
            later.pop_front();
            while let Some(trigger) = triggers.next_if(|image| image.follows <= position) {
                schema.restore_trigger(&trigger)?;
            }
            let named = schema.history.iter().find(|(_, (known, _))| *known == id);
            let name = named.map(|(name, _)| name.clone()).unwrap_or_default();
            let unbound = unbound.map(UnboundImage::into_error);
            let source = named_as(&source, &name)?;
            let compiled = if is_circular {
                let routine = KeptRoutine { id, version, source };
                schema.compile_circular(&routine, later.make_contiguous())
            } else {
                schema.compile_again((id, version), &source, unbound.as_ref())
            };
            if let Err(error) = compiled {
                return Err(ImageError::Refused { name, error: Box::new(error) });
            }
            schema.unbound.extend(unbound.map(|error| (name, error)));
        }
        for trigger in triggers {
            schema.restore_trigger(&trigger)?;
        }
        let refused = |error| ImageError::Refused { name: "a routine".into(), error: Box::new(error) };
        let nothing = Source::parse("").map_err(refused)?;
        schema.renew_catalog_readers(&nothing, nothing.file.syntax()).map_err(refused)?;
        Ok(schema)
    }

    fn restore_trigger(&mut self, image: &TriggerImage) -> Result<(), ImageError> {
        let TriggerImage { table, name, .. } = image;
        let damaged = || ImageError::Damaged(format!("there is no trigger \"{name}\" of \"{table}\""));
        let of = Arc::clone(self.catalog.table(table).map_err(|_| damaged())?);
        let trigger = of.triggers.iter().find(|candidate| candidate.name == *name).ok_or_else(damaged)?;
        let refused = |error| ImageError::Refused { name: trigger.function.clone(), error: Box::new(error) };
        let nothing = Source::parse("").map_err(refused)?;
        let compiled = self.compile_trigger_again(&of, trigger, &nothing, nothing.file.syntax());
        self.triggers.insert((table.clone(), name.clone()), compiled.map_err(refused)?);
        Ok(())
    }
}
