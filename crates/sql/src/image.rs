//! Definitions as checkpoints keep them: JSON, so that an image is as long as what is defined, however often that has changed.
//!
//! Procedures and views are kept as the statements and queries that made them, and compiled anew: callees first.
//! Invariant: a schema and its image define the same objects, with procedures compiled alike, and assign the same next numbers.
//! Held by: an assertion wherever an image is made, `definitions::images_*` and checkpoints in the random cases of
//! `parallel_replay`.

use crate::nesting::with_stack;
use crate::routine::Routine;
use crate::schema::View;
use crate::source::Source;
use crate::{Schema, StatementError};
use catalog::{Catalog, ProcedureId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Why an image can't be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ImageError {
    /// The text is not a valid image.
    #[error("the definitions are malformed: {0}")]
    Damaged(String),
    /// The image of a schema defines something else.
    #[error("the image of the definitions defines something else")]
    Differs,
    /// A procedure that was accepted once is refused now.
    #[error("procedure {name}, which was accepted when it was made, is refused now: {error}")]
    Refused {
        /// The procedure.
        name: String,
        /// What is wrong with it.
        error: Box<StatementError>,
    },
}

/// The fields' names are a format: one that is added needs a default, and none is renamed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    catalog: Catalog,
    /// Callees before their callers.
    routines: Vec<RoutineImage>,
    views: BTreeMap<String, Arc<View>>,
    namespaces: BTreeSet<String>,
    history: BTreeMap<String, (ProcedureId, u32)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutineImage {
    id: ProcedureId,
    version: u32,
    /// The statement that made it.
    source: Arc<str>,
}

impl Schema {
    /// An image of all definitions.
    ///
    /// # Errors
    /// It cannot be read back: a defect of Reprise, which is better found before a checkpoint depends on the image.
    pub fn to_image(&self) -> Result<String, ImageError> {
        let (mut routines, mut done) = (Vec::new(), BTreeSet::new());
        while done.len() < self.procedures.len() {
            let before = done.len();
            for (name, procedure) in &self.procedures {
                let is_ready =
                    |callee: &String| done.contains(callee) || !self.procedures.contains_key(callee);
                if !done.contains(name) && procedure.callees.iter().all(is_ready) {
                    let (id, version, source) =
                        (procedure.id, procedure.version, Arc::clone(&procedure.source));
                    routines.push(RoutineImage { id, version, source });
                    done.insert(name.clone());
                }
            }
            if done.len() == before {
                return Err(ImageError::Differs);
            }
        }
        let image = Image {
            catalog: self.catalog.clone(),
            routines,
            views: self.views.clone(),
            namespaces: self.namespaces.clone(),
            history: self.history.clone(),
        };
        let text = serde_json::to_string(&image).map_err(|error| ImageError::Damaged(error.to_string()))?;
        let again = Self::from_image(&text)?;
        debug_assert_eq!(format!("{:#?}", again.procedures), format!("{:#?}", self.procedures));
        if again.defines_the_same_as(self) { Ok(text) } else { Err(ImageError::Differs) }
    }

    /// Reads an image.
    ///
    /// # Errors
    /// It is damaged; a procedure is refused.
    pub fn from_image(image: &str) -> Result<Self, ImageError> {
        let image: Image =
            serde_json::from_str(image).map_err(|error| ImageError::Damaged(error.to_string()))?;
        let Image { catalog, routines, views, namespaces, history } = image;
        let mut schema = Self { catalog, views, namespaces, history, ..Self::default() };
        for routine in &routines {
            with_stack(&routine.source, || schema.compile_again(routine))?;
        }
        Ok(schema)
    }

    fn compile_again(&mut self, image: &RoutineImage) -> Result<(), ImageError> {
        let id = |own: &&String| self.history[*own].0 == image.id;
        let name = || self.history.keys().find(id).cloned().unwrap_or_default();
        let refused = |error| ImageError::Refused { name: name(), error: Box::new(error) };
        let source = Source::parse(&image.source).map_err(refused)?;
        let routine = source.file.stmts().find_map(|statement| Routine::of(&statement));
        let Some(routine) = routine else {
            return Err(ImageError::Damaged(format!("the source of {} is no routine", name())));
        };
        let compiled = routine.compile(image.id, image.version, self, &source).map_err(refused)?;
        self.procedures.insert(routine.name, Arc::new(compiled));
        Ok(())
    }
}
