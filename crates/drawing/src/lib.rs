//! Draws the dependency graphs of procedures as boxes of text and arrows, in DOT and in SVG, for
//! `reprise explain` and the server's page.

use catalog::ProcedureId;
use layout::backends::svg::SVGWriter;
use layout::core::base::Orientation;
use layout::core::color::Color;
use layout::core::format::{ClipHandle, RenderBackend};
use layout::core::geometry::Point;
use layout::core::style::StyleAttr;
use layout::std_shapes::render::get_shape_size;
use layout::std_shapes::shapes::{Arrow, Element, RecordDef, ShapeKind};
use layout::topo::layout::VisualGraph;
use procedure::analysis::{Analysis, PartitionValue, Pieces, Slice, describe};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// One graph.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The heading.
    pub title: String,
    /// The procedure of a local graph; `None` is the global graph.
    pub procedure: Option<ProcedureId>,
    /// For each node its compartments, each with lines of text; the first is the node's name.
    pub nodes: Vec<Vec<Vec<String>>>,
    /// Pairs of nodes: the first before the second.
    pub edges: BTreeSet<(usize, usize)>,
}

const FONT: usize = 13;
/// Width of a character relative to its height.
const CHARACTER_WIDTH: f64 = 0.6;
const MARGIN: f64 = 8.0;

/// Returns the local graph of every procedure, then the global graph with the slices of its blocks.
pub fn graphs(analysis: &Analysis) -> Vec<Graph> {
    let slice_lines = |slice: &Slice| -> Vec<String> {
        let operations = &analysis.programs[slice.program].operations;
        let line =
            |id: &procedure::OperationId| format!("{} {}", id.0 + 1, describe(&operations[id.0 as usize]));
        slice.operations.iter().map(line).collect()
    };
    let mut graphs = Vec::new();
    for (program, local) in analysis.programs.iter().zip(&analysis.local) {
        let nodes =
            local.slices.iter().map(|slice| vec![vec![analysis.slice_name(slice)], slice_lines(slice)]);
        let title = format!("procedure {}", program.name);
        let procedure = Some(program.procedure);
        graphs.push(Graph { title, procedure, nodes: nodes.collect(), edges: local.edges.clone() });
    }
    let pieces = Pieces::of(analysis);
    let block = |(index, block): (usize, &procedure::analysis::Block)| {
        let name = vec![format!("block {}", index + 1), granule(&pieces, index)];
        let slices = block.slices.iter().map(|slice| {
            let mut lines = vec![analysis.slice_name(slice)];
            lines.extend(slice_lines(slice));
            lines
        });
        std::iter::once(name).chain(slices).collect()
    };
    graphs.push(Graph {
        title: "global graph".into(),
        procedure: None,
        nodes: analysis.global.blocks.iter().enumerate().map(block).collect(),
        edges: analysis.global.edges.clone(),
    });
    graphs
}

/// Describes the columns that partition a block's pieces.
pub fn granule(pieces: &Pieces, block: usize) -> String {
    let piece = pieces.pieces.iter().flatten().find(|piece| piece.block == block);
    let columns = |values: &[PartitionValue]| {
        let name = |value: &PartitionValue| value.table.columns[value.column].name.clone();
        values.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let Some(piece) = piece else { return "whole tables".into() };
    let whole = columns(&piece.partition);
    let in_rounds = columns(&piece.round_partition);
    let keys = piece.keys.first().map(|key| columns(key)).unwrap_or_default();
    match (whole.is_empty(), in_rounds.is_empty()) {
        (true, true) if !keys.is_empty() => format!("by {keys} of several rows"),
        (true, true) => "whole tables".into(),
        (false, true) => format!("by {whole}"),
        (true, false) => format!("by {in_rounds} of each round"),
        (false, false) => format!("by {whole}; by {in_rounds} of each round"),
    }
}

/// Returns graphs in Graphviz's DOT language.
pub fn dot(graphs: &[Graph]) -> String {
    let escape = |text: &String| -> String {
        text.chars().fold(String::new(), |mut escaped, c| {
            if "\\\"{}|<>".contains(c) {
                escaped.push('\\');
            }
            escaped.push(c);
            escaped
        })
    };
    let mut text = String::from("digraph reprise {\n  node [shape=record];\n");
    for (number, graph) in graphs.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label=\"{}\";", escape(&graph.title));
        for (index, compartments) in graph.nodes.iter().enumerate() {
            let lines =
                |lines: &Vec<String>| lines.iter().map(|line| escape(line) + "\\l").collect::<String>();
            let label: Vec<String> = compartments.iter().map(lines).collect();
            let _ = writeln!(text, "    n{number}_{index} [label=\"{{{}}}\"];", label.join("|"));
        }
        for (from, to) in &graph.edges {
            let _ = writeln!(text, "    n{number}_{from} -> n{number}_{to};");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

/// Returns a graph as SVG. A graph without nodes is an empty picture.
pub fn svg(graph: &Graph) -> String {
    if graph.nodes.is_empty() {
        // The layout panics.
        return "<svg width=\"0\" height=\"0\" xmlns=\"http://www.w3.org/2000/svg\"/>\n".into();
    }
    let mut picture = VisualGraph::new(Orientation::TopToBottom);
    let look = StyleAttr::new(Color::fast("black"), 1, Some(Color::fast("white")), 6, FONT);
    let nodes: Vec<_> = graph
        .nodes
        .iter()
        .map(|compartments| {
            let text = |lines: &Vec<String>| RecordDef::new_text(&lines.join("\n"));
            let shape = ShapeKind::new_record(&RecordDef::Array(compartments.iter().map(text).collect()));
            // Compartments lie one below the other.
            let wide = get_shape_size(Orientation::TopToBottom, &shape, FONT, false);
            let size = Point::new(wide.x * CHARACTER_WIDTH, wide.y);
            picture.add_node(Element::create(shape, look.clone(), Orientation::TopToBottom, size))
        })
        .collect();
    for (from, to) in &graph.edges {
        picture.add_edge(Arrow::simple(""), nodes[*from], nodes[*to]);
    }
    let mut page = Page { writer: SVGWriter::new(), extent: Point::zero() };
    picture.do_it(false, false, false, &mut page);
    page.finalize()
}

/// Writes SVG and measures the drawing, because the writer takes the length of a text for its height.
struct Page {
    writer: SVGWriter,
    extent: Point,
}

impl Page {
    fn grow(&mut self, to: Point) {
        self.extent = Point::new(self.extent.x.max(to.x + MARGIN), self.extent.y.max(to.y + MARGIN));
    }

    fn finalize(self) -> String {
        let svg = self.writer.finalize();
        let (Some(from), Some(to)) = (svg.find("<svg "), svg.find('\n')) else { return svg };
        let Point { x, y } = self.extent;
        let size = format!("width=\"{x}\" height=\"{y}\" viewBox=\"0 0 {x} {y}\"");
        format!("{}<svg {size} xmlns=\"http://www.w3.org/2000/svg\">{}", &svg[..from], &svg[to..])
    }
}

impl RenderBackend for Page {
    fn draw_rect(
        &mut self,
        xy: Point,
        size: Point,
        look: &StyleAttr,
        properties: Option<String>,
        clip: Option<ClipHandle>,
    ) {
        self.grow(xy.add(size));
        self.writer.draw_rect(xy, size, look, properties, clip);
    }

    fn draw_line(&mut self, start: Point, stop: Point, look: &StyleAttr, properties: Option<String>) {
        self.grow(start);
        self.grow(stop);
        self.writer.draw_line(start, stop, look, properties);
    }

    fn draw_circle(&mut self, xy: Point, size: Point, look: &StyleAttr, properties: Option<String>) {
        self.grow(xy.add(size));
        self.writer.draw_circle(xy, size, look, properties);
    }

    fn draw_text(&mut self, xy: Point, text: &str, look: &StyleAttr) {
        self.writer.draw_text(xy, text, look);
    }

    fn draw_arrow(
        &mut self,
        path: &[(Point, Point)],
        dashed: bool,
        head: (bool, bool),
        look: &StyleAttr,
        properties: Option<String>,
        text: &str,
    ) {
        path.iter().for_each(|(from, to)| {
            self.grow(*from);
            self.grow(*to);
        });
        self.writer.draw_arrow(path, dashed, head, look, properties, text);
    }

    fn create_clip(&mut self, xy: Point, size: Point, rounded_px: usize) -> ClipHandle {
        self.writer.create_clip(xy, size, rounded_px)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: Vec<Vec<Vec<String>>>) -> Graph {
        let edges = (1..nodes.len()).map(|node| (node - 1, node)).collect();
        Graph { title: "t".into(), procedure: None, nodes, edges }
    }

    #[test]
    fn names_are_no_markup() {
        let node = vec![vec!["<script>\"a\"&".to_owned()], vec!["1 <b>".to_owned()]];
        let drawn = svg(&graph(vec![node.clone(), node]));
        assert!(
            drawn.contains("&lt;script&gt;") && !drawn.contains("<script") && !drawn.contains("<b>"),
            "{drawn}"
        );
    }

    #[test]
    fn a_graph_without_nodes_is_an_empty_picture() {
        assert!(svg(&graph(Vec::new())).starts_with("<svg "));
    }
}
