//! `kiln graph`: the jobs of a workflow as a drawing.

use std::fs;

use anyhow::{Context as _, Result};

use super::compiled;
use crate::Outcome;
use crate::cli::{GraphArgs, GraphFormat};
use crate::graph::{Graph, dot, mermaid, svg, text};
use crate::output::Console;

pub(crate) fn run(args: &GraphArgs, console: &mut Console) -> Result<Outcome> {
    let Some(compiled) = compiled::compile(&args.workflow, console)? else {
        return Ok(Outcome::Errors);
    };
    let graph = Graph::of(&compiled.plan);
    let drawing = match args.format {
        GraphFormat::Text => text::draw(&graph),
        GraphFormat::Mermaid => mermaid::draw(&graph),
        GraphFormat::Dot => dot::draw(&graph),
        GraphFormat::Svg => svg::draw(&graph),
    };
    match &args.output {
        Some(path) => fs::write(path, drawing)
            .with_context(|| format!("cannot write `{}`", path.display()))?,
        None => console.print_raw(&drawing)?,
    }
    Ok(Outcome::Clean)
}
