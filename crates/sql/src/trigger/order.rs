//! Orders routines and trigger functions for compilation: callees before their callers.

use crate::schema::{Member, Schema, TriggerName};
use procedure::Procedure;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Member {
    fn name(&self) -> String {
        match self {
            Self::Routine(routine) | Self::Circular(routine) => routine.name.clone(),
            Self::Trigger(table, trigger) => format!("trigger {} of {}", trigger.name, table.name),
        }
    }

    /// Returns the compiled routine, or the compiled functions of a trigger.
    fn compiled<'s>(&'s self, schema: &'s Schema) -> Vec<&'s Arc<Procedure>> {
        match self {
            Self::Routine(routine) | Self::Circular(routine) => vec![routine],
            Self::Trigger(table, trigger) => {
                let compiled = schema.triggers.get(&(table.name.clone(), trigger.name.clone()));
                compiled.into_iter().flatten().map(|(_, procedure)| procedure).collect()
            }
        }
    }
}

/// The members that the order already has.
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
            Member::Trigger(table, trigger) => {
                self.triggers.insert((table.name.clone(), trigger.name.clone()));
            }
        }
    }

    /// Returns whether the order has all callees of a member.
    fn includes_callees_of(&self, member: &Member, schema: &Schema) -> bool {
        let is_done = |name: &String| {
            let is_itself = matches!(member, Member::Routine(routine) if routine.name == *name);
            is_itself || self.routines.contains(name) || !schema.procedures.contains_key(name)
        };
        let function = match member {
            Member::Routine(_) | Member::Circular(_) => None,
            Member::Trigger(_, own) => Some(&own.function),
        };
        function.is_none_or(is_done)
            && member.compiled(schema).into_iter().all(|compiled| {
                let mut fired = schema.fired_by(compiled);
                compiled.callees.iter().all(is_done)
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
    /// The names of the members that no order can have, because some of them call each other in a cycle.
    pub(crate) fn callees_first(&self) -> Result<Vec<Member>, Vec<String>> {
        let routines = self.procedures.values().map(|routine| Member::Routine(Arc::clone(routine)));
        let triggers = self.catalog().tables().flat_map(|table| {
            table.triggers.iter().map(|trigger| Member::Trigger(Arc::clone(table), trigger.clone()))
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
