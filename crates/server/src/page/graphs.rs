//! Drawings of the dependency graphs of procedures, made on request.

use drawing::Graph;
use procedure::Procedure;
use procedure::analysis::Analysis;
use std::sync::Arc;

/// A graph with more boxes is not drawn: its layout takes seconds, and its drawing cannot be read.
const MOST_NODES: usize = 200;

/// The graphs of the definitions that were drawn last.
#[derive(Default)]
pub(crate) struct Graphs(Option<(u64, Arc<Vec<Graph>>)>);

impl Graphs {
    /// Returns the graphs of definitions with this number, if they were kept.
    pub(crate) fn kept(&self, definitions: u64) -> Option<Arc<Vec<Graph>>> {
        self.0.as_ref().filter(|(number, _)| *number == definitions).map(|(_, graphs)| Arc::clone(graphs))
    }

    pub(crate) fn keep(&mut self, definitions: u64, graphs: &Arc<Vec<Graph>>) {
        self.0 = Some((definitions, Arc::clone(graphs)));
    }
}

/// Returns all graphs of procedures.
pub(crate) fn graphs_of(procedures: &[Arc<Procedure>]) -> Arc<Vec<Graph>> {
    let mut ordered: Vec<_> = procedures.iter().collect();
    ordered.sort_by_key(|procedure| procedure.id);
    Arc::new(drawing::graphs(&Analysis::of(ordered.into_iter().map(|procedure| &**procedure))))
}

/// Draws the local graph of a procedure, or the global graph.
///
/// # Errors
/// The reason why there is no drawing.
pub(crate) fn draw(graphs: &[Graph], procedure: Option<u32>) -> Result<String, &'static str> {
    let is_wanted = |graph: &&Graph| graph.procedure.map(|id| id.0) == procedure && !graph.nodes.is_empty();
    let graph = graphs.iter().find(is_wanted).ok_or("there is no such graph\n")?;
    if graph.nodes.len() > MOST_NODES {
        return Err("the graph is too large to be drawn\n");
    }
    Ok(drawing::svg(graph))
}
