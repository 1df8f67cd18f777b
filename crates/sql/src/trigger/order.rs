//! The order in which routines and the functions of triggers are compiled: what is called comes first.

use crate::schema::{Member, Schema, TriggerName};
use procedure::Procedure;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Member {
    fn name(&self) -> String {
        match self {
            Self::Routine(own) | Self::Circular(own) => own.name.clone(),
            Self::Trigger(table, own) => format!("trigger {} of {}", own.name, table.name),
        }
    }

    /// Returns the compiled forms.
    fn compiled<'s>(&'s self, schema: &'s Schema) -> Vec<&'s Arc<Procedure>> {
        match self {
            Self::Routine(own) | Self::Circular(own) => vec![own],
            Self::Trigger(table, own) => {
                let compiled = schema.triggers.get(&(table.name.clone(), own.name.clone()));
                compiled.into_iter().flatten().map(|(_, procedure)| procedure).collect()
            }
        }
    }
}

/// The members that have found their place.
#[derive(Default)]
struct Done {
    routines: BTreeSet<String>,
    triggers: BTreeSet<TriggerName>,
}

impl Done {
    fn add(&mut self, member: &Member) {
        match member {
            Member::Routine(own) | Member::Circular(own) => {
                self.routines.insert(own.name.clone());
            }
            Member::Trigger(table, own) => {
                self.triggers.insert((table.name.clone(), own.name.clone()));
            }
        }
    }

    /// Returns whether all that a member calls has found its place.
    fn includes_callees_of(&self, member: &Member, schema: &Schema) -> bool {
        let is_done = |name: &String| {
            let is_itself = matches!(member, Member::Routine(own) if own.name == *name);
            is_itself || self.routines.contains(name) || !schema.procedures.contains_key(name)
        };
        let function = match member {
            Member::Routine(_) | Member::Circular(_) => None,
            Member::Trigger(_, own) => Some(&own.function),
        };
        function.is_none_or(is_done)
            && member.compiled(schema).into_iter().all(|own| {
                let mut fired = schema.fired_by(own);
                own.callees.iter().all(is_done)
                    && fired.all(|(table, trigger)| {
                        self.triggers.contains(&(table.name.clone(), trigger.name.clone()))
                    })
            })
    }
}

impl Schema {
    /// Returns whether a member is a routine that calls itself through other routines.
    fn is_in_circle(&self, member: &Member) -> bool {
        let Member::Routine(own) = member else { return false };
        let (mut seen, mut next) = (BTreeSet::new(), vec![own]);
        while let Some(routine) = next.pop() {
            for name in routine.callees.iter().filter(|name| routine.name != **name) {
                if *name == own.name {
                    return true;
                }
                let callee = self.procedures.get(name).filter(|_| seen.insert(name.clone()));
                next.extend(callee);
            }
        }
        false
    }

    /// Returns all routines and triggers, what is called before what calls it.
    ///
    /// # Errors
    /// The names of those that call each other in a circle.
    pub(crate) fn callees_first(&self) -> Result<Vec<Member>, Vec<String>> {
        let routines = self.procedures.values().map(|own| Member::Routine(Arc::clone(own)));
        let triggers = self.catalog().tables().flat_map(|table| {
            table.triggers.iter().map(|own| Member::Trigger(Arc::clone(table), own.clone()))
        });
        let mut pending: Vec<Member> = routines.chain(triggers).collect();
        let (mut ordered, mut done) = (Vec::new(), Done::default());
        while !pending.is_empty() {
            let before = pending.len();
            let mut left = Vec::new();
            for member in pending {
                if done.includes_callees_of(&member, self) {
                    done.add(&member);
                    ordered.push(member);
                } else {
                    left.push(member);
                }
            }
            if left.len() == before {
                let names: Vec<String> = left.iter().map(Member::name).collect();
                let first = left.iter().position(|member| self.is_in_circle(member));
                let Some(Member::Routine(own)) = first.map(|position| left.remove(position)) else {
                    return Err(names);
                };
                let circular = Member::Circular(own);
                done.add(&circular);
                ordered.push(circular);
            }
            pending = left;
        }
        Ok(ordered)
    }
}
